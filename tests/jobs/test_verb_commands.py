"""The operator's verbs at a shell: the transitions of the console, with a reason and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.models import MaintenanceInhibit
from governance.core import audit, verbs
from governance.core.models import AuditEvent
from governance.money.models import Budget
from jobs.models import Job, LiveAuthorization, Source
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


class TestAct:
    """`manage.py act`: every verb, without a command of its own."""

    def run(self, *words: str) -> list[dict[str, Any]]:
        out = StringIO()
        call_command("act", *words, *DONE, stdout=out)
        return lines(out)

    @pytest.mark.parametrize("name", ["job.pause", "pause"])
    def test_does_a_verb_to_the_named_rows(self, make_job: Any, name: str) -> None:
        first, second = make_job(), make_job()

        done = self.run(name, first.task_id, second.task_id, first.task_id)

        assert [(row["task_id"], row["outcome"]) for row in done] == [
            (first.task_id, "paused"),
            (second.task_id, "paused"),
        ]
        event = AuditEvent.objects.filter(subject=first.audit_subject).latest("seq")
        assert (event.actor, event.reason) == ("command:anna", "as agreed")

    def test_a_refusal_says_which_field_it_is_about(self, make_job: Any) -> None:
        out = StringIO()
        asked = ["--scope", "agent", "--counted-for", "nobody", "--window", "day", "--cap", "1"]

        with pytest.raises(CommandError, match="1 of 1 refused"):
            call_command("act", "budget.make", *asked, *DONE, stdout=out)

        [refusal] = lines(out)
        assert "nobody" in refusal["detail"]

    def test_tells_each_refusal_and_does_the_rest(self, make_job: Any) -> None:
        job, out = make_job(), StringIO()

        with pytest.raises(CommandError, match="1 of 2 refused"):
            call_command("act", "stop", "nobody", job.task_id, *DONE, stdout=out)

        refusal, done = lines(out)
        assert (refusal["task_id"], refusal["reason"]) == ("nobody", "NOT_FOUND")
        assert done["outcome"] == "stopped"

    def test_says_in_words_what_became_of_it(self, make_job: Any) -> None:
        job, out = make_job(), StringIO()

        call_command("act", "extend", job.task_id, "--extra", "2", "--reason", "so", stdout=out)

        assert out.getvalue() == f"{job.task_id}: extended, now queued\n"

    def test_makes_a_row_without_a_key(self, world: None) -> None:
        assert self.run("source.make", "--name", "mail") == [{"source": "mail"}]
        assert Source.objects.get(name="mail").enabled

    def test_takes_amounts_spans_and_keys_that_are_numbers(self, world: None) -> None:
        [made] = self.run(
            "budget.make", "--scope", "global", "--window", "day", "--cap", "10.50",
        )  # fmt: skip
        self.run("set_caps", str(made["budget_id"]), "--cap", "20")
        [inhibit] = self.run("inhibit_all", "1", "--minutes", "30")

        assert Budget.objects.get().cap == 20
        row = MaintenanceInhibit.objects.get(pk=inhibit["inhibit_id"])
        assert row.ends_at is not None
        assert round((row.ends_at - row.starts_at).total_seconds()) == 1800
        with pytest.raises(CommandError, match="refused"):
            self.run("lift", "no-number")
        assert self.run("lift", str(row.pk))[0]["id"] == str(row.pk)

    def test_moves_the_admission_each_time_it_is_used(self, world: None) -> None:
        generations = [
            self.run(name, "hermes")[0]["generation"] for name in ("close", "open", "close")
        ]

        assert generations == [generations[0] + n for n in range(3)]

    @pytest.mark.parametrize(
        ("words", "fault"),
        [
            (["extend", "t"], "one of the arguments --extra --to is required"),
            (["extend", "t", "--extra", "1", "--to", "2"], "not allowed with"),
            (["extend", "t", "--extra", "0"], "1 to 1000"),
            (["resolve", "t", "--resolution", "forget"], "invalid choice"),
            (["reconcile", "xr", "--verdict", "happened"], "--evidence"),
            (
                ["reconcile", "xr", "--verdict", "happened", "--evidence", "e",
                 "--input-tokens", "1"],
                "or none",
            ),
            (["disable", "manual"], "invalid choice"),
            (["stop"], "TASK_ID"),
            (["stop", "t-1", "--actor", "x" * 161], "at most 160"),
            (["stop", "t-1", "--actor", "\udcff"], "UTF-8"),
            (["stop", "t-1", "--reason", "\udcff"], "UTF-8"),
            (["stop", "t-\udcff"], "UTF-8"),
            (["source.make", "--name", "\udcff"], "UTF-8"),
        ],
    )  # fmt: skip
    def test_refuses_what_the_verb_does_not_take(
        self, world: None, words: list[str], fault: str
    ) -> None:
        before = AuditEvent.objects.count()

        with pytest.raises(CommandError, match=fault):
            self.run(*words)

        assert AuditEvent.objects.count() == before

    @pytest.mark.parametrize("address", [verb.address for verb in verbs.every()])
    def test_explains_each_verb(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            call_command("act", address, "--help")

        assert "--reason" in capsys.readouterr().out


def test_live_execution_is_authorized_and_revoked_at_a_shell(world: None) -> None:
    out = StringIO()
    call_command("authorize_live", "hermes", "http", *DONE, stdout=out)
    [made] = lines(out)
    grant = LiveAuthorization.objects.get(pk=made["authorization_id"])
    assert (grant.ends_at - grant.granted_at).total_seconds() == 8 * 3600

    out = StringIO()
    call_command("revoke_live", str(grant.pk), *DONE, stdout=out)

    grant.refresh_from_db()
    assert lines(out) == [{"authorization_id": grant.pk, "revoked_at": str(grant.revoked_at)}]


@pytest.mark.parametrize(("flag", "seconds"), [("--hours", 5400), ("--valid-seconds", 90)])
def test_a_span_is_given_in_either_unit(world: None, flag: str, seconds: int) -> None:
    value = "1.5" if flag == "--hours" else "90"

    call_command("authorize_live", "hermes", "http", flag, value, *DONE, stdout=StringIO())

    grant = LiveAuthorization.objects.get()
    assert (grant.ends_at - grant.granted_at).total_seconds() == seconds


def test_who_acts_as_another_at_a_shell_is_recorded_beside_the_other(make_job: Any) -> None:
    claimed, plain = make_job(), make_job()
    call_command("pause_job", claimed.task_id, *DONE)
    call_command("pause_job", plain.task_id, "--reason", "not now")
    call_command("configure_agent", "hermes", "--fresh-seconds", "31", *DONE)

    def last(subject: str) -> tuple[str, str | None]:
        event = AuditEvent.objects.filter(subject=subject).latest("seq")
        return event.actor, json.loads(bytes(event.body))["details"].get("ran_by")

    account = audit.shell_actor()
    assert last(f"job:{claimed.job_id}") == ("command:anna", account)
    assert last(f"job:{plain.job_id}") == (account, None)
    assert last("agent:hermes") == ("command:anna", account)
    # What comes after the command in the same process is nobody's but its own.
    call_command("resume_job", claimed.task_id, "--reason", "now")
    assert last(f"job:{claimed.job_id}") == (account, None)
