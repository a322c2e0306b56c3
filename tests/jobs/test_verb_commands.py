"""The operator's verbs at a shell: the transitions of the console, with a reason and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from governance.core.models import AuditEvent
from jobs.models import Job
from tests.evidence import untouched

DONE = ("--actor", "command:anna", "--reason", "as agreed", "--json")


def lines(out: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture
def job_in(make_job: Any, delivered: Any, escalated: Any, failed: Any) -> Callable[[str], Job]:
    def make(state: str) -> Job:
        if state == "approved":
            job = make_job(execution_approval_required=True)
            call_command("approve", job.task_id, "--actor", "command:bert", "--reason", "yes")
            return job
        if state == "paused":
            job = make_job()
            call_command("pause_job", job.task_id, "--reason", "not now")
            return job
        makers = {
            "held": lambda: make_job(execution_approval_required=True),
            "queued": make_job,
            "review_required": delivered,
            "escalated": escalated,
            "failed": lambda: failed(max_attempts=1),
        }
        return makers[state]()

    return make


@pytest.mark.parametrize(
    ("command", "extra", "state", "outcome", "after"),
    [
        ("approve", ["--valid-seconds", "600"], "held", "approved", "queued"),
        ("reject", [], "held", "rejected", "stopped"),
        ("withdraw_approval", [], "approved", "withdrawn", "held"),
        ("review", ["--verdict", "accepted"], "review_required", "accepted", "completed"),
        ("requeue", ["--extra", "1"], "failed", "needs_rework", "queued"),
        ("extend_retries", ["--to", "7"], "queued", "extended", "queued"),
        ("resolve_escalation", ["--resolution", "fail"], "escalated", "resolved", "failed"),
        ("pause_job", [], "queued", "paused", "queued"),
        ("resume_job", [], "paused", "resumed", "queued"),
        ("stop_job", [], "queued", "stopped", "stopped"),
    ],
)
def test_a_verb_does_what_the_console_does_and_says_so_in_json(
    job_in: Any, command: str, extra: list[str], state: str, outcome: str, after: str
) -> None:
    job, out = job_in(state), StringIO()

    call_command(command, job.task_id, *extra, *DONE, stdout=out)

    job.refresh_from_db()
    [told] = lines(out)
    assert (told["task_id"], told["outcome"], told["state"]) == (job.task_id, outcome, after)
    assert told["revision"] == job.revision
    event = AuditEvent.objects.filter(subject=job.audit_subject).latest("seq")
    assert (event.actor, event.reason) == ("command:anna", "as agreed")


@pytest.mark.parametrize("command", ["approve", "stop_job", "withdraw_approval"])
def test_a_verb_without_a_reason_does_nothing(make_job: Any, command: str) -> None:
    job = make_job()

    with untouched(job), pytest.raises(CommandError, match="--reason"):
        call_command(command, job.task_id)


def test_a_refusal_is_told_per_task_and_the_others_are_done(make_job: Any) -> None:
    first, second, out = make_job(), make_job(), StringIO()
    call_command("stop_job", first.task_id, "--reason", "over")

    with untouched(first), pytest.raises(CommandError, match="1 of 2 refused"):
        call_command("stop_job", first.task_id, second.task_id, *DONE, stdout=out)

    refusal, done = lines(out)
    assert (refusal["outcome"], refusal["reason"]) == ("refused", "INVALID_TRANSITION")
    assert done["outcome"] == "stopped"
