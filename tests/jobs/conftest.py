"""The jobs at work that the tests of this folder start from."""

from tests.jobs.governed import governed  # noqa: F401
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
