"""The jobs at work that the tests of this folder start from."""

from tests.work import (  # noqa: F401
    claim,
    delivered,
    escalated,
    fail,
    failed,
    high_risk,
    job_type,
    other_worker,
    running,
    session_of,
    stranger,
    worker,
)
