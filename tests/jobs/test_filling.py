"""The database to measure on is one that could have come about."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from governance.core.models import AuditEvent, Fact
from jobs import filling
from jobs.models import Attempt, Job


def made(count: int) -> None:
    for _ in filling.fill(jobs=count):
        pass


def test_a_filled_database_has_whole_jobs_and_whole_chains(world: None) -> None:
    before = AuditEvent.objects.count()

    made(1500)
    made(500)

    assert Job.objects.count() == 2000
    assert Attempt.objects.count() == Job.objects.filter(attempt=1).count()
    assert AuditEvent.objects.count() - before == 2000 * filling.EVENTS_PER_JOB
    assert Fact.objects.filter(principal="system").count() == 2000
    call_command("verify_audit")


def test_somebodys_database_is_not_filled(make_job: Any) -> None:
    make_job()

    with pytest.raises(CommandError, match="somebody"):
        call_command("fill", "--jobs", "10")

    assert Job.objects.count() == 1
