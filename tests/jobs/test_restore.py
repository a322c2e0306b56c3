"""Rotating the epoch after a restore; contract section 4."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from agents.models import Fleet
from governance.core.errors import StaleFencingToken
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Attempt, Job, Lease
from jobs.transitions.restore import TOKEN_JUMP, restore

BY = {"actor": "user:anna", "reason": "restored from the backup of 04:00"}


def test_after_a_restore_no_old_token_is_worth_anything(hermes, entry_of, make_job):
    running, waiting = make_job(), make_job()
    claimed = transitions.claim(entry=entry_of(hermes), task_id=running.task_id, owner="")
    epoch = Fleet.objects.get().dispatcher_epoch

    done = restore(**BY)

    assert (done.leases_ended, done.tokens_raised) == (1, 2)
    assert Fleet.objects.get().dispatcher_epoch == done.dispatcher_epoch != epoch
    assert not Lease.objects.exists()
    assert Attempt.objects.get().outcome == "superseded"
    running.refresh_from_db()
    waiting.refresh_from_db()
    assert running.state == "queued"
    assert running.fencing_token == claimed.grant.attempt.fencing_token + 1 + TOKEN_JUMP
    assert waiting.fencing_token == TOKEN_JUMP
    [refusal] = transitions.complete(
        entry=entry_of(hermes),
        completions=[
            {
                "task_id": running.task_id,
                "attempt": 1,
                "fencing_token": claimed.grant.attempt.fencing_token,
                "result": {},
                "needs_review": False,
            }
        ],
    )
    assert isinstance(refusal, StaleFencingToken)
    event = AuditEvent.objects.get(action="epoch.rotated")
    assert json.loads(bytes(event.body))["details"]["tokens_raised"] == 2


def test_tokens_go_on_from_where_they_jumped_to(hermes, entry_of, make_job):
    job = make_job()
    restore(**BY)
    claimed = transitions.claim(entry=entry_of(hermes), task_id=job.task_id, owner="")
    assert claimed.grant.attempt.fencing_token == TOKEN_JUMP + 1


def test_a_job_that_is_over_for_good_keeps_its_token(hermes, make_job):
    job = make_job()
    transitions.stop(task_id=job.task_id, **BY)
    before = Job.objects.get(pk=job.pk)
    assert restore(**BY).tokens_raised == 0
    assert Job.objects.get(pk=job.pk).fencing_token == before.fencing_token


@pytest.mark.parametrize("flags", [[], ["--after-restore"]])
def test_the_command_tells_the_new_epoch(world, flags):
    out = io.StringIO()
    call_command("rotate_epoch", "--reason", "x", "--json", *flags, stdout=out)
    told = json.loads(out.getvalue())
    assert told["dispatcher_epoch"] == str(Fleet.objects.get().dispatcher_epoch)
