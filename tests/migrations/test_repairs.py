"""What migrations do to the rows of before that a new rule refuses."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from django.db import connection, transaction

from jobs import transitions
from jobs.models import Job
from tests.work import ANNA


@pytest.mark.django_db
def test_a_job_that_ended_paused_is_paused_no_more(make_job: Any) -> None:
    over, waiting = make_job(), make_job()
    transitions.stop(task_id=over.task_id, **ANNA)
    transitions.pause(task_id=waiting.task_id, **ANNA)
    migration = importlib.import_module("jobs.migrations.0018_take_the_pause_of_finished_jobs")

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_job DROP CONSTRAINT job_finished_is_not_paused")
        Job.objects.filter(pk=over.pk).update(paused=True)
        before = Job.objects.get(pk=over.pk).revision
        cursor.execute(migration.REPAIR)

    over.refresh_from_db()
    assert (over.state, over.paused, over.revision) == ("stopped", False, before + 1)
    assert Job.objects.get(pk=waiting.pk).paused
