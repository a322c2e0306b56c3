"""Fixtures that every test may use."""

from tests.world import (  # noqa: F401
    agent_zero,
    agent_zero_token,
    entry_of,
    hermes,
    hermes_token,
    issue,
    make_job,
    openclaw,
    openclaw_token,
    submitter,
    submitter_token,
    world,
)
