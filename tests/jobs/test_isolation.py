"""One bad row and its neighbours: claims, batches, lists, sweeps and pages go on without it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from uuid_utils.compat import uuid7

import agents.web.urls
import jobs.web.urls
from agents.principals import Principal
from governance.core import clock
from governance.core.errors import InvalidTransition, NotFound
from governance.core.models import AuditEvent, Fact
from governance.evidence import checkpoints
from governance.operations.operation import Operation
from governance.relay import pulse
from governance.relay.models import StreamHold
from jobs import transitions, waiting
from jobs.models import Job, Lease, SetAside, Skill
from jobs.transitions import aside
from tests.benchmarks.console import lists
from tests.client import Api, refused
from tests.console import confirm
from tests.governance.relay.test_relay import ScriptedSink, relay_to
from tests.jobs.test_intake import envelope
from tests.planted import PLANTED, plant, spoil
from tests.work import Running, expire_lease, pass_time

MakeJob = Callable[..., Job]
ANNA = {"actor": "user:anna", "reason": "because the test says so"}
BINDINGS = {
    binding.operation.name: binding for binding in agents.web.urls.BINDINGS + jobs.web.urls.BINDINGS
}


def key() -> dict[str, str]:
    return {"Idempotency_Key": str(uuid7())}


def next_jobs(api: Api, limit: int = 5) -> Any:
    return api.post("/v1/claims", {"worker_id": "w-1", "limit": limit}, **key())


def named(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [result["job"]["task_id"] for result in response.json()["results"]]


# --- Every list and batch ---------------------------------------------------------------------


def many(operation: Operation) -> bool:
    """Return whether an operation is about many things at once."""
    answer = operation.answers
    if operation.batch_max or operation.paged or get_origin(answer) is list:
        return True
    results = get_type_hints(answer).get("results")
    return get_origin(results) is list


class Calls:
    """The call of each such operation, on a bad job and a good one that comes after it."""

    def __init__(self, worker: Api, ops: Api, bad: Job, good: Job) -> None:
        self.worker, self.ops, self.bad, self.good = worker, ops, bad, good

    def __call__(self, name: str) -> list[Any]:
        response = getattr(self, name)()
        assert response.status_code == 200, response.content
        body = response.json()
        return body if isinstance(body, list) else body["results"]

    def _grant(self, job: Job) -> dict[str, Any]:
        return {"task_id": job.task_id, "worker_id": "w-1", "attempt": 1, "fencing_token": 1}

    def claim_jobs(self) -> Any:
        return next_jobs(self.worker)

    def complete_jobs(self) -> Any:
        items = [self._grant(job) | {"result": 1} for job in (self.bad, self.good)]
        return self.worker.post("/v1/jobs/complete/batch", {"completions": items}, **key())

    def heartbeat_leases(self) -> Any:
        leases = [
            {n: v for n, v in self._grant(job).items() if n != "worker_id"}
            for job in (self.bad, self.good)
        ]
        body = {"worker_id": "w-1", "leases": leases}
        return self.worker.post("/v1/leases/heartbeat", body)

    def queue_jobs(self) -> Any:
        tasks = [envelope(task_id=name) for name in (self.bad.task_id, "new-1")]
        return self.ops.post("/v1/jobs/batch", {"tasks": tasks}, **key())

    def list_jobs(self) -> Any:
        return self.ops.get("/v1/jobs")

    def list_job_attempts(self) -> Any:
        return self.ops.get(f"/v1/jobs/{self.good.task_id}/attempts")

    def list_job_events(self) -> Any:
        return self.ops.get(f"/v1/jobs/{self.good.task_id}/events")

    def get_spend(self) -> Any:
        return self.ops.get("/v1/spend")

    def list_skills(self) -> Any:
        return self.worker.get("/v1/hermes/skills")


MANY = sorted(name for name, binding in BINDINGS.items() if many(binding.operation))
#: Pages are many, and slow: one kind of each nature will do for them.
ON_PAGES = (
    "an instant without end",
    "a time of the task without end",
    "an envelope that is a number",
    "a state that nobody knows",
    "a priority that nobody knows",
    "a counter below zero",
)
#: These find the jobs at work; the others before.
AT_WORK = {"complete_jobs", "heartbeat_leases"}
#: These have nothing of the job in their answer.
WITHOUT = {"get_spend", "list_skills", "list_job_attempts", "list_job_events"}


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("name", MANY)
def test_no_list_and_no_batch_fails_for_one_bad_row(
    hermes_token: str, submitter_token: str, make_job: MakeJob, name: str, kind: str
) -> None:
    bad, good = make_job(), make_job()
    call = Calls(Api(hermes_token), Api(submitter_token), bad, good)
    if name in AT_WORK:
        assert len(named(next_jobs(call.worker))) == 2
    plant(bad, kind)

    results = call(name)

    shown = [r for r in results if "job" in r or r.get("task_id") == good.task_id]
    if name in AT_WORK or name == "queue_jobs":
        assert results[1]["status"] in (200, 201), results
        assert len(results) == 2
    elif name not in WITHOUT:
        assert good.task_id in [r.get("task_id", r.get("job", {}).get("task_id")) for r in shown]


def test_an_attempt_that_cannot_be_read_is_named_in_its_list(
    hermes_token: str, submitter_token: str, make_job: MakeJob
) -> None:
    job, worker = make_job(max_attempts=2), Api(hermes_token)
    for number in (1, 2):
        Job.objects.update(available_at=clock.now() - timedelta(seconds=1))
        next_jobs(worker)
        failure = {"worker_id": "w-1", "attempt": number, "fencing_token": number}
        worker.post(f"/v1/jobs/{job.task_id}/fail", failure | {"error_message": "no"})
    spoil("jobs_attempt", "claimed_at", "'infinity'", where=f"job_id = {job.pk} AND number = 1")

    for api in (worker, Api(submitter_token)):
        first, second = api.get(f"/v1/jobs/{job.task_id}/attempts").json()["results"]
        assert (first["attempt"], "unreadable" in first) == (1, True)
        assert (second["attempt"], second["outcome"]) == (2, "failed")


def test_a_job_that_cannot_be_read_is_named_in_its_list(
    submitter_token: str, make_job: MakeJob
) -> None:
    bad, good = make_job(), make_job()
    plant(bad, "an instant without end")

    first, second = Api(submitter_token).get("/v1/jobs").json()["results"]

    assert first["task_id"] == good.task_id
    assert first["title"]
    assert second.keys() == {"task_id", "unreadable"}
    assert second["task_id"] == bad.task_id


def test_events_and_skills_are_listed_past_what_cannot_be_read(
    hermes: Principal, hermes_token: str, submitter_token: str, make_job: MakeJob
) -> None:
    job = make_job()
    transitions.pause(task_id=job.task_id, **ANNA)
    first = AuditEvent.objects.get(subject=job.audit_subject, seq=1)
    spoil("governance_auditevent", "body", r"'\xff'", where=f"id = {first.pk}")
    now = clock.now()
    skills = [
        Skill.objects.create(
            agent_id=hermes.id, task_type="content_prep", context_type="c", pattern=pattern,
            pattern_sha256=pattern,
            tool_sequence=[], occurrences=3, confidence=1, created_at=now, updated_at=now,
        )
        for pattern in ("bad", "good")
    ]  # fmt: skip
    spoil("jobs_skill", "updated_at", "'infinity'", where=f"id = {skills[0].pk}")

    events = Api(submitter_token).get(f"/v1/jobs/{job.task_id}/events").json()["results"]
    found = Api(hermes_token).get("/v1/hermes/skills").json()

    assert events[0].keys() == {"subject", "seq", "unreadable"}
    assert (events[1]["seq"], events[1]["action"]) == (2, "job.paused")
    assert {skill["pattern"] for skill in found} == {"bad", "good"}


@pytest.mark.parametrize("kind", ON_PAGES)
def test_every_page_of_the_console_opens_with_a_bad_row_on_it(
    as_: Any, make_job: MakeJob, running: Callable[..., Running], kind: str
) -> None:
    held = make_job(execution_approval_required=True)
    bad, good = running().job, make_job()
    for job in (held, bad):
        plant(job, kind)
    client = as_("governor")

    for path in [*sorted(lists()), reverse("admin:index"), reverse("admin:console_inbox")]:
        page = client.get(path)
        assert page.status_code == 200, path
        if path == reverse("admin:jobs_job_changelist"):
            text = page.content.decode()
            assert good.task_id in text
            assert bad.task_id in text
    assert client.get(reverse("admin:jobs_job_change", args=(bad.pk,))).status_code == 200


# --- Claims -----------------------------------------------------------------------------------


def test_a_bad_first_job_of_a_queue_lets_the_others_be_claimed_by_the_same_call(
    hermes_token: str, make_job: MakeJob
) -> None:
    bad, *others = [make_job() for _ in range(4)]
    plant(bad, "an instant without end")

    assert named(next_jobs(Api(hermes_token), limit=1)) == [others[0].task_id]
    assert named(next_jobs(Api(hermes_token), limit=9)) == [job.task_id for job in others[1:]]


def test_after_three_transactions_the_job_is_set_aside_and_no_claim_meets_it(
    hermes_token: str, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = make_job()
    plant(bad, "an instant without end")
    worker = Api(hermes_token)

    for count in (1, 2):
        assert named(next_jobs(worker)) == []
        row = SetAside.objects.get()
        assert (row.job_id, row.count, row.set_at) == (bad.pk, count, None)
    assert not AuditEvent.objects.filter(subject=row.audit_subject).exists()
    next_jobs(worker)

    row.refresh_from_db()
    assert row.set_at is not None
    assert (row.kind, row.error_class) == ("claim_jobs", "DataError")
    [event] = AuditEvent.objects.filter(subject=row.audit_subject)
    assert event.action == "job.set_aside"
    assert waiting.count_waiting(up_to=5)["set_aside"] == 1
    assert Job.objects.filter(pk=bad.pk).values_list("state", flat=True).get() == "queued"
    # Left out by the first statement: nobody is asked by itself any more.
    monkeypatch.setattr(transitions, "claimable_keys", None)
    assert named(next_jobs(worker)) == []
    row.refresh_from_db()
    assert row.count == 3


def test_a_claim_of_a_bad_job_by_its_name_is_a_clear_refusal(
    hermes_token: str, openclaw_token: str, make_job: MakeJob
) -> None:
    bad = make_job()
    plant(bad, "an instant without end")
    path = f"/v1/jobs/{bad.task_id}/claim"

    response = Api(hermes_token).post(path, {"worker_id": "w-1"})

    assert refused(response) == (503, "JOB_UNREADABLE")
    assert response.json()["effect"] == "none"
    assert SetAside.objects.get().count == 1
    # Who may not know of it learns no more than of any other.
    assert refused(Api(openclaw_token).post(path, {"worker_id": "c-1"})) == (403, "WRONG_OWNER")
    assert SetAside.objects.get().count == 1


def test_a_result_for_a_bad_job_is_refused_for_a_time_and_kept_nowhere_under_its_key(
    hermes_token: str, make_job: MakeJob
) -> None:
    bad = make_job()
    worker, same = Api(hermes_token), key()
    next_jobs(worker)
    plant(bad, "an instant without end")
    said = {"worker_id": "w-1", "attempt": 1, "fencing_token": 1, "result": {"n": 1}}

    path = f"/v1/jobs/{bad.task_id}/complete"
    assert refused(worker.post(path, said, **same)) == (503, "JOB_UNREADABLE")

    spoil("jobs_job", "created_at", "now()", where=f"id = {bad.pk}")
    assert worker.post(path, said, **same).json()["outcome"] == "recorded"


def test_a_batch_past_a_bad_row_is_sent_again_under_the_same_key(
    hermes_token: str, make_job: MakeJob
) -> None:
    bad, good = make_job(), make_job()
    worker, same = Api(hermes_token), key()
    next_jobs(worker)
    plant(bad, "an instant without end")
    said = {"worker_id": "w-1", "attempt": 1, "fencing_token": 1, "result": {"n": 1}}
    body = {"completions": [said | {"task_id": job.task_id} for job in (bad, good)]}

    first, second = worker.post("/v1/jobs/complete/batch", body, **same).json()["results"]
    assert (first["status"], first["reason"]) == (503, "JOB_UNREADABLE")
    assert second["outcome"] == "recorded"

    spoil("jobs_job", "created_at", "now()", where=f"id = {bad.pk}")
    again = worker.post("/v1/jobs/complete/batch", body, **same)
    assert [one["outcome"] for one in again.json()["results"]] == ["recorded", "already_recorded"]


def test_what_a_request_says_is_not_held_against_the_row(
    hermes_token: str, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    worker = Api(hermes_token)
    next_jobs(worker)

    def broken(**_: Any) -> str:
        raise ValueError("a fault of the program")

    monkeypatch.setattr("jobs.transitions.outcomes.plain_content", broken)
    said = {"worker_id": "w-1", "attempt": 1, "fencing_token": 1, "result": 1}
    single = worker.post(f"/v1/jobs/{job.task_id}/complete", said)
    items = {"completions": [said | {"task_id": job.task_id}]}
    [item] = worker.post("/v1/jobs/complete/batch", items).json()["results"]

    assert refused(single) == (500, "INTERNAL")
    assert (item["status"], item["reason"]) == (500, "INTERNAL")
    assert not SetAside.objects.exists()


@pytest.mark.parametrize("error", [ImportError("gone"), OSError("full"), MemoryError()])
def test_what_is_no_fault_of_a_row_sets_nothing_aside(
    hermes_token: str, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    make_job()

    def broken(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("jobs.transitions.claims._grant", broken)

    assert refused(next_jobs(Api(hermes_token))) == (500, "INTERNAL")
    assert not SetAside.objects.exists()


# --- The marker -------------------------------------------------------------------------------


def fail_at(job: Job, times: int = 3) -> None:
    for _ in range(times):
        transitions.note_failure(task_id=job.task_id, kind="claim_jobs", error=ValueError("bad"))


def test_more_than_twenty_in_a_minute_stop_the_setting_aside_and_are_told(
    make_job: MakeJob,
) -> None:
    found = [make_job() for _ in range(aside.SET_A_MINUTE_MAX + 1)]
    for job in found[:-1]:
        fail_at(job)
    assert not waiting.setting_aside_stopped()

    fail_at(found[-1])

    assert SetAside.objects.filter(set_at__isnull=False).count() == aside.SET_A_MINUTE_MAX
    assert SetAside.objects.get(task_id=found[-1].task_id).set_at is None
    assert waiting.setting_aside_stopped()
    assert "set-aside" in pulse.degraded()


def test_failures_a_day_apart_are_not_of_one_fault(make_job: MakeJob) -> None:
    job = make_job()
    fail_at(job, 2)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_setaside SET last_seen_at = last_seen_at - interval '2 days'")

    fail_at(job, 1)

    assert (SetAside.objects.get().count, SetAside.objects.get().set_at) == (1, None)


def test_a_job_is_tried_again_by_an_operator_and_when_the_sweeper_starts(
    hermes_token: str, make_job: MakeJob
) -> None:
    job = make_job()
    fail_at(job)
    assert named(next_jobs(Api(hermes_token))) == []

    row = transitions.retry_set_aside(task_id=job.task_id, **ANNA)

    assert (row.set_at, row.count) == (None, 0)
    found = AuditEvent.objects.filter(subject=row.audit_subject).order_by("seq")
    assert [(e.action, e.actor) for e in found] == [
        ("job.set_aside", "system:isolation"),
        ("job.retried", "user:anna"),
    ]
    with pytest.raises(InvalidTransition):
        transitions.retry_set_aside(task_id=job.task_id, **ANNA)
    with pytest.raises(NotFound):
        transitions.retry_set_aside(task_id="nobody", **ANNA)
    fail_at(job)
    assert transitions.retry_all_set_aside(**ANNA) == 1
    assert named(next_jobs(Api(hermes_token))) == [job.task_id]


def test_the_inbox_names_what_is_set_aside_and_its_page_tries_it_again(
    as_: Any, make_job: MakeJob
) -> None:
    job = make_job()
    fail_at(job)
    client = as_("operator")

    assert "ValueError at claim_jobs" in client.get(reverse("admin:console_inbox")).content.decode()
    confirm(client, "jobs.setaside", "retry_set_aside", job.task_id)

    assert SetAside.objects.get().set_at is None


# --- What still ends it -----------------------------------------------------------------------


@pytest.mark.parametrize("by", ["api", "console", "command"])
@pytest.mark.parametrize(
    "kind",
    ["an instant without end", "an instant without beginning", "a year past Python's"],
)
def test_a_job_that_cannot_be_read_can_be_stopped(
    submitter_token: str, as_: Any, make_job: MakeJob, kind: str, by: str
) -> None:
    job = make_job()
    plant(job, kind)

    if by == "api":
        said = {"action": "STOP", "expected_task_revision": 1, "reason": "bad"}
        stopped = Api(submitter_token).post(f"/v1/jobs/{job.task_id}/control", said, **key())
        assert stopped.json()["job"]["state"] == "stopped"
    elif by == "console":
        confirm(as_("operator"), "jobs.job", "stop", job.task_id)
    else:
        call_command("stop_job", job.task_id, "--reason", "bad")

    assert Job.objects.filter(pk=job.pk).values_list("state", flat=True).get() == "stopped"
    assert AuditEvent.objects.filter(subject=job.audit_subject, action="job.stopped").exists()


def test_deadlines_and_leases_of_bad_jobs_end_and_the_sweep_goes_on(
    make_job: MakeJob, running: Callable[..., Running]
) -> None:
    late, lost, good = make_job(), running().job, running().job
    pass_time(late, "deadline_at")
    for job in (lost, good):
        expire_lease(job)
    for job in (late, lost):
        plant(job, "an instant without end")

    report = transitions.sweep()

    assert report.ended == {"deadline_exceeded": 1, "lease_expired": 2}
    assert not Lease.objects.exists()


def test_what_the_sweep_fails_at_three_times_is_set_aside_and_the_others_are_ended(
    running: Callable[..., Running],
) -> None:
    bad, good = running().job, running().job
    for job in (bad, good):
        expire_lease(job)
    spoil("jobs_job", "state", "'odd'", where=f"id = {bad.pk}")
    spoil("jobs_job", "deadline_at", "now() - interval '1 hour'", where=f"id = {bad.pk}")

    reports = [transitions.sweep() for _ in range(3)]

    assert reports[0].ended == {"lease_expired": 1}
    assert [list(report.failed) for report in reports] == [[bad.task_id]] * 3
    row = SetAside.objects.get()
    assert (row.kind, row.error_class) == ("sweep", "KeyError")
    assert row.set_at is not None


# --- What reads all of it ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLANTED)
def test_metrics_and_probes_tell_the_rest_with_a_bad_row_in_the_table(
    make_job: MakeJob, running: Callable[..., Running], kind: str
) -> None:
    for job in (make_job(), running().job):
        plant(job, kind)

    text = Client().get("/metrics").content.decode()

    for gauge in ("oldest_claimable_seconds", "live_leases", "jobs_set_aside", "fencepost_jobs{"):
        assert gauge in text
    assert Client().get("/readyz").status_code == 200


def test_the_verification_of_the_trail_goes_on_and_names_what_cannot_be_read(
    make_job: MakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, worse, edited = make_job(), make_job(), make_job()
    plant(bad, "an instant without end")
    event = AuditEvent.objects.get(subject=worse.audit_subject)
    spoil("governance_auditevent", "at", "'infinity'", where=f"id = {event.pk}")
    event = AuditEvent.objects.get(subject=edited.audit_subject)
    spoil("governance_auditevent", "reason", "'another'", where=f"id = {event.pk}")

    with pytest.raises(SystemExit) as ended:
        call_command("verify_audit")

    assert ended.value.code == 1
    told = capsys.readouterr().out
    assert f"unreadable: {bad.audit_subject}: created_at of its row is out of bounds" in told
    assert f"edited: {worse.audit_subject}#1: at differ from its bytes" in told
    assert f"edited: {edited.audit_subject}#1: reason differ from its bytes" in told


def test_the_trail_is_sealed_and_exported_past_what_cannot_be_read(
    make_job: MakeJob, tmp_path: Path
) -> None:
    first, second = make_job(), make_job()
    event = AuditEvent.objects.get(subject=first.audit_subject)
    spoil("governance_auditevent", "at", "'infinity'", where=f"id = {event.pk}")
    sealed = checkpoints.seal()
    assert sealed is not None
    spoil("governance_auditcheckpoint", "at", "'infinity'", where=f"id = {sealed.pk}")
    make_job()
    assert checkpoints.seal() is not None

    call_command("export_audit", str(tmp_path / "trail"))

    text = (tmp_path / "trail").read_text()
    assert first.audit_subject in text
    assert second.audit_subject in text


def test_the_relay_holds_back_the_stream_of_a_fact_that_cannot_be_read_and_no_other(
    make_job: MakeJob,
) -> None:
    bad, good = make_job(), make_job()
    fact = Fact.objects.get(stream=bad.audit_subject)
    spoil("governance_fact", "recorded_at", "'infinity'", where=f"id = {fact.pk}")
    sink = ScriptedSink()

    assert relay_to(sink).relay_pass() == 1

    assert sink.told == [(good.audit_subject, 1)]
    hold = StreamHold.objects.get()
    assert (hold.stream, hold.last_error) == (bad.audit_subject, "cannot be read: ValueError")


def test_a_list_is_exported_past_what_cannot_be_read(as_: Any, make_job: MakeJob) -> None:
    bad, good = make_job(), make_job()
    plant(bad, "an instant without end")

    export = as_("governor").get(reverse("admin:jobs_job_export", args=("jsonl",)))

    text = b"".join(export.streaming_content).decode()
    assert bad.task_id in text
    assert good.task_id in text
