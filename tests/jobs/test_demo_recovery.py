"""The recovery story as a person plays it: a command on a database of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(180)
def test_the_recovery_story_ends_with_the_same_job_completed() -> None:
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in {"DJANGO_SETTINGS_MODULE", "FENCEPOST_DSN", "FENCEPOST_DATA"}
    }
    told = subprocess.run(
        [sys.executable, "manage.py", "demo_recovery"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    # Six refused attempts of a worker process, each with a reservation that is over.
    assert told.stdout.count("failed PROGRAM_EXIT_1\n") == 6
    assert "needs_rework, attempt 6 of 6" in told.stdout
    assert "refused, as it must be: The ceiling" in told.stdout
    assert "completed, attempt 7 of 7" in told.stdout
    assert told.stdout.count("  failed\n") == 6
    assert told.stdout.count("  settled\n") == 1
    assert "UPDATE refused by the database" in told.stdout
    assert "The ledger agrees with its rows." in told.stdout
    assert "The audit trail is whole" in told.stdout
