"""Of several refusals that apply, the first of the contract's order is answered (section 4):

principal, session, epoch, stored answer, recorded outcome, token, state, lease.  Each test breaks
a condition together with all that come after it.  A `mode` is how the worker calls: under an
activated session, or under the implicit one of its `worker_id`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from agents.entry import Entry
from agents.models import Agent, Session
from agents.transitions import epochs
from agents.transitions.sessions import Boot, activate
from governance.core.errors import (
    DispatcherEpochStale,
    DomainError,
    PermissionDenied,
    SessionNotApproved,
    SessionRequired,
    SessionSuperseded,
)
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Job, Lease
from tests.client import Api, refused

pytestmark = pytest.mark.django_db

BY = {"actor": "user:anna", "reason": "for the order"}
RESULT = {"result": {"n": 1}, "needs_review": False, "worker_id": "w"}


class Worker:
    """A caller that holds a claimed job, and whose request can be broken in every way."""

    def __init__(self, mode, principal, token, job):
        self.mode, self.principal, self.token, self.job = mode, principal, token, job
        self.headers = {}
        session = None
        if mode == "activated":
            told = self.activate("boot-1")
            session = UUID(told["session_id"])
            self.headers = {
                "Fencepost_Session": told["session_id"],
                "Fencepost_Epoch": told["dispatcher_epoch"],
            }
        self.entry = Entry(principal, "w", session)
        claimed = transitions.claim(entry=self.entry, task_id=job.task_id, owner="")
        self.body = RESULT | {"attempt": 1, "fencing_token": claimed.grant.attempt.fencing_token}

    def activate(self, boot_id):
        boot = Boot(cell_id="cell", boot_id=boot_id, protocol_version="1.0")
        return activate(
            principal=self.principal, agent="hermes", operation_id=f"op-{boot_id}", boot=boot
        )

    def complete(self, key=None, token=None, path="complete", **over):
        headers = self.headers | ({"Idempotency_Key": str(key)} if key else {})
        return Api(token or self.token).post(
            f"/v1/jobs/{self.job.task_id}/{path}", self.body | over, **headers
        )

    def refused(self, expected, **sent):
        """Send it, and see that it is refused and that nothing has changed."""
        before = (Job.objects.values().get(pk=self.job.pk), AuditEvent.objects.count())
        response = self.complete(**sent)
        assert refused(response) == expected
        assert (Job.objects.values().get(pk=self.job.pk), AuditEvent.objects.count()) == before
        return response


@pytest.fixture(params=["activated", "implicit"])
def worker(request, hermes, hermes_token, make_job):
    return Worker(request.param, hermes, hermes_token, make_job())


@pytest.fixture
def activated(hermes, hermes_token, make_job):
    return Worker("activated", hermes, hermes_token, make_job())


def test_the_scope_comes_first(activated, issue):
    reader = issue(agent="hermes", scopes=["read"])
    activated.activate("boot-2")
    epochs.rotate(**BY)
    activated.refused((403, "PERMISSION_DENIED"), token=reader, fencing_token=99)


def test_a_superseded_session_comes_before_a_stale_epoch(activated):
    activated.activate("boot-2")
    epochs.rotate(**BY)
    activated.refused((401, "SESSION_SUPERSEDED"), fencing_token=99)


def test_an_unknown_session_comes_before_a_stale_epoch(activated):
    activated.headers |= {"Fencepost_Session": str(uuid4()), "Fencepost_Epoch": str(uuid4())}
    activated.refused((401, "SESSION_REQUIRED"), fencing_token=99)


def test_a_stale_epoch_comes_before_the_stored_answer(worker):
    key = uuid7()
    assert worker.complete(key).status_code == 200
    worker.headers["Fencepost_Epoch"] = str(uuid4())
    response = worker.refused((409, "DISPATCHER_EPOCH_STALE"), key=key)
    assert response.json()["current"].keys() == {"dispatcher_epoch"}


def test_supersession_comes_before_the_stored_answer(activated):
    key = uuid7()
    assert activated.complete(key).status_code == 200
    activated.activate("boot-2")
    activated.refused((401, "SESSION_SUPERSEDED"), key=key)


def test_the_stored_answer_comes_before_the_recorded_outcome(worker):
    key = uuid7()
    first = worker.complete(key)
    again = worker.complete(key)
    assert again.json()["outcome"] == first.json()["outcome"] == "recorded"
    assert again["Idempotent-Replayed"] == "true"
    assert worker.complete(uuid7()).json()["outcome"] == "already_recorded"
    worker.refused((422, "IDEMPOTENCY_KEY_REUSED"), key=key, result={"n": 2})


def test_the_recorded_outcome_comes_before_the_token(worker):
    failure = {"error_message": "no", "error_code": "E", "retryable": True}
    worker.body = {k: worker.body[k] for k in ("attempt", "fencing_token", "worker_id")} | failure
    assert worker.complete(path="fail").json()["outcome"] == "recorded"
    again = worker.complete(path="fail")
    assert again.json()["outcome"] == "already_recorded"
    worker.refused((409, "OUTCOME_CONFLICT"), path="fail", error_message="other")


def test_the_token_comes_before_the_state(worker):
    transitions.stop(task_id=worker.job.task_id, **BY)
    worker.refused((409, "STALE_FENCING_TOKEN"), fencing_token=99)


def test_the_token_counts_also_when_the_lease_has_expired(worker):
    lease = Lease.objects.get(job=worker.job)
    Lease.objects.update(expires_at=lease.granted_at - timedelta(seconds=1))
    worker.refused((409, "STALE_FENCING_TOKEN"), fencing_token=99)
    assert worker.complete().json()["outcome"] == "recorded"


def test_the_state_of_a_job_comes_before_the_admission(hermes, hermes_token, make_job):
    job = make_job(risk_tier="low", execution_approval_required=True)
    Agent.objects.filter(name="hermes").update(admission="closed", admission_generation=2)
    response = Api(hermes_token).post(
        f"/v1/jobs/{job.task_id}/claim", {"worker_id": "w", "owner": "hermes"}
    )
    assert refused(response) == (409, "INVALID_TRANSITION")


def test_an_agent_of_approved_cells_does_nothing_without_a_session(hermes, hermes_token, make_job):
    worker = Worker("implicit", hermes, hermes_token, make_job())
    Agent.objects.filter(name="hermes").update(approve_cells=True)
    worker.refused((401, "SESSION_REQUIRED"))
    response = Api(hermes_token).post(
        "/v1/claims", {"worker_id": "w"}, Idempotency_Key=str(uuid7())
    )
    assert refused(response) == (401, "SESSION_REQUIRED")


def test_a_session_of_an_older_epoch_is_refused_also_where_it_names_no_epoch(activated):
    del activated.headers["Fencepost_Epoch"]
    epochs.rotate(**BY)
    activated.refused((409, "DISPATCHER_EPOCH_STALE"), fencing_token=99)


def fault_of(call):
    """Return what a caller is refused with: reason, text and what it should have had."""
    with pytest.raises(DomainError) as caught:
        call()
    return type(caught.value), caught.value.detail, caught.value.current


def superseded(worker):
    worker.activate("boot-2")


def disabled(worker):
    Agent.objects.filter(name="hermes").update(enabled=False)


def cells_to_be_approved(worker):
    Agent.objects.filter(name="hermes").update(approve_cells=True)


def not_approved(worker):
    Session.objects.filter(kind="activated").update(state="pending")


def epoch_rotated(worker):
    epochs.rotate(**BY)


def another_epoch_named(worker):
    worker.entry = replace(worker.entry, epoch=uuid4())


def another_session_named(worker):
    worker.entry = replace(worker.entry, session_id=uuid4())


@pytest.mark.parametrize(
    ("mode", "fault", "refusal"),
    [
        ("activated", disabled, PermissionDenied),
        ("activated", superseded, SessionSuperseded),
        ("activated", not_approved, SessionNotApproved),
        ("activated", another_session_named, SessionRequired),
        ("activated", epoch_rotated, DispatcherEpochStale),
        ("activated", another_epoch_named, DispatcherEpochStale),
        ("implicit", disabled, PermissionDenied),
        ("implicit", cells_to_be_approved, SessionRequired),
        ("implicit", another_epoch_named, DispatcherEpochStale),
    ],
)
def test_a_heartbeat_is_refused_exactly_as_a_completion_is(
    mode, fault, refusal, hermes, hermes_token, make_job
):
    worker = Worker(mode, hermes, hermes_token, make_job())
    before = Lease.objects.values().get()
    fault(worker)
    lease = {"task_id": worker.job.task_id} | worker.body

    beaten = fault_of(lambda: transitions.heartbeat(entry=worker.entry, beats=[lease]))
    completed = fault_of(lambda: transitions.complete(entry=worker.entry, completions=[lease]))

    assert beaten == completed
    assert beaten[0] is refusal
    assert Lease.objects.values().get() == before
    assert Job.objects.get(pk=worker.job.pk).state == "active"


@pytest.mark.parametrize("mode", ["activated", "implicit"])
def test_a_caller_that_may_act_is_renewed_and_completes(mode, hermes, hermes_token, make_job):
    worker = Worker(mode, hermes, hermes_token, make_job())
    lease = {"task_id": worker.job.task_id} | worker.body

    [beat] = transitions.heartbeat(entry=worker.entry, beats=[lease])
    [done] = transitions.complete(entry=worker.entry, completions=[lease])

    assert (beat.outcome, done.outcome) == ("renewed", "recorded")


def test_a_heartbeat_over_http_is_refused_as_a_completion_is(worker):
    worker.headers["Fencepost_Epoch"] = str(uuid4())
    lease = {"task_id": worker.job.task_id, "attempt": 1, "fencing_token": 1}

    beaten = Api(worker.token).post("/v1/leases/heartbeat", {"leases": [lease]}, **worker.headers)

    assert refused(beaten) == refused(worker.complete()) == (409, "DISPATCHER_EPOCH_STALE")


@pytest.mark.parametrize(
    ("path", "body", "gate"),
    [
        ("jobs/task-1/claim", {"worker_id": "w2"}, "pg_advisory_xact_lock_shared("),
        ("claims", {"worker_id": "w2"}, "pg_advisory_xact_lock_shared("),
        (
            "agents/hermes/activate",
            {
                "activation_operation_id": "op-9",
                "cell_id": "c",
                "boot_id": "b",
                "protocol_version": "1.0",
            },
            "pg_advisory_xact_lock(",
        ),
        (
            "agents/hermes/admission",
            {"state": "draining", "barrier_id": "b", "expected_generation": 1, "reason": "why"},
            "pg_advisory_xact_lock(",
        ),
    ],
)
def test_the_lock_of_the_agent_is_taken_before_that_of_the_key_and_both_before_the_job(
    hermes_token, make_job, path, body, gate
):
    make_job()
    with CaptureQueriesContext(connection) as captured:
        answer = Api(hermes_token).post(f"/v1/{path}", body, Idempotency_Key=str(uuid7()))

    assert answer.status_code == 200
    statements = "\n".join(query["sql"] for query in captured)
    places = [statements.index(text) for text in (gate, "pg_try_advisory_xact_lock(")]
    assert places == sorted(places)
    if "jobs_job" in statements:
        assert places[-1] < statements.index("jobs_job")
