"""What migrations do to the rows of before that a new rule refuses."""

from __future__ import annotations

import importlib
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import connection, transaction

from agents.models import CellApproval, Credential, Session
from agents.principals import identify
from agents.transitions import credentials, sessions
from agents.transitions.sessions import Boot
from jobs import transitions
from jobs.bootstrap import install
from jobs.models import Job, JobType
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


@pytest.mark.django_db
def test_lineages_of_before_are_read_from_the_audit_of_rotations(issue: Any, hermes: Any) -> None:
    agent_zero = identify(token=issue(agent="agent_zero"))
    first = identify(token=issue(agent="hermes"))
    second = credentials.rotate(prefix=first.credential_prefix, **ANNA).credential
    third = credentials.rotate(prefix=second.prefix, **ANNA).credential
    boot = Boot(cell_id="cell", boot_id="boot", protocol_version="1.0")
    sessions.activate(principal=first, agent="hermes", operation_id="op", boot=boot)
    sessions.approve_cell(agent="hermes", cell_id="cell", **ANNA)
    migration = importlib.import_module("agents.migrations.0016_lineages")

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for row in Credential.objects.all():
            Credential.objects.filter(pk=row.pk).update(lineage=uuid4())
        Session.objects.update(lineage=None)
        CellApproval.objects.update(lineage=None)
        migration.fill(apps, None)
        cursor.execute("SET session_replication_role = origin")

    lineages = dict(Credential.objects.values_list("prefix", "lineage"))
    of_first = lineages[first.credential_prefix]
    assert lineages[second.prefix] == lineages[third.prefix] == of_first
    assert lineages[hermes.credential_prefix] != of_first
    assert lineages[agent_zero.credential_prefix] != of_first
    assert Session.objects.get().lineage == of_first
    assert CellApproval.objects.get().lineage == of_first


@pytest.mark.django_db
def test_a_type_that_used_a_model_must_call_one() -> None:
    install()
    migration = importlib.import_module("jobs.migrations.0030_model_use")

    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_jobtype SET uses_model = (name = 'rewrite')")
        cursor.execute(migration.FORWARD)

    uses = dict(JobType.objects.values_list("name", "model_use"))
    assert {name for name, use in uses.items() if use == "required"} == {"rewrite"}
    assert set(uses.values()) == {"required", "allowed"}
