"""Operations are the same whatever carries them: called without HTTP, and over it, once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

import agents.web.urls
import jobs.web.urls
from agents.operations import sessions
from agents.principals import Principal
from governance.core.errors import (
    DomainError,
    IdempotencyKeyInvalid,
    IdempotencyKeyRequired,
    InvalidArgument,
    PermissionDenied,
    Unauthenticated,
    WrongOwner,
)
from governance.core.idempotency import REFUSED, Answer
from governance.core.models import AuditEvent, IdempotencyRecord
from governance.operations.operation import (
    DONE,
    Call,
    Context,
    Operation,
    Request,
    operation,
)
from governance.operations.performing import perform
from governance.web.bindings import Binding
from jobs.models import Attempt, Job
from jobs.operations import claims, control, intake, outcomes, reads
from tests.client import Api, timeless

ROOT = Path(__file__).resolve().parent.parent
BINDINGS: tuple[Binding, ...] = agents.web.urls.BINDINGS + jobs.web.urls.BINDINGS

TASK: dict[str, Any] = {
    "task_id": "t-1",
    "source": "manual",
    "title": "A title",
    "goal": "A goal that is long enough",
    "task_type": "content_prep",
    "risk_tier": "low",
}
T1 = {"task_id": "t-1"}


def key() -> str:
    return str(uuid7())


def stored(response: Any, answer: Answer) -> None:
    """See that a response over HTTP is the answer that was given without it."""
    assert response["Idempotent-Replayed"] == "true"
    assert timeless(response.content) == timeless(answer.content)


# --- the seam ----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_three_operations_are_called_without_http_and_answered_again_over_it(
    submitter: Principal, hermes: Principal, submitter_token: str, hermes_token: str
) -> None:
    ops, worker = Api(submitter_token), Api(hermes_token)
    same = {name: key() for name in ("queue", "claim", "complete")}

    queued = perform(intake.queue_job, Context(submitter, key=same["queue"]), Request(TASK))
    claimed = perform(
        claims.claim_job,
        Context(hermes, key=same["claim"], if_match=1),
        Request({"worker_id": "w"}, identity=T1),
    )
    again = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w"}, Idempotency_Key=same["claim"])
    stored(again, claimed)
    delivery = {
        "worker_id": "w",
        "attempt": 1,
        "fencing_token": claimed.members["fencing_token"],
        "result": {"n": 1},
    }
    done = perform(
        outcomes.complete_job,
        Context(hermes, key=same["complete"], request_id="wire-1"),
        Request(delivery, identity=T1),
    )

    assert [queued.outcome, claimed.outcome, done.outcome] == ["queued", "claimed", "recorded"]
    assert AuditEvent.objects.get(action="job.completed").request_id == "wire-1"
    again = ops.post("/v1/jobs", TASK, Idempotency_Key=same["queue"])
    assert (again.status_code, again["ETag"]) == (201, '"r1"')
    stored(again, queued)
    path = "/v1/jobs/t-1"
    stored(worker.post(f"{path}/complete", delivery, Idempotency_Key=same["complete"]), done)
    assert (Job.objects.count(), Attempt.objects.count(), IdempotencyRecord.objects.count()) == (
        1, 1, 3,
    )  # fmt: skip


@pytest.mark.django_db
def test_what_was_answered_over_http_is_answered_again_without_it(
    submitter: Principal, hermes: Principal, submitter_token: str, hermes_token: str
) -> None:
    name = key()
    first = Api(submitter_token).post("/v1/jobs", TASK, Idempotency_Key=name)
    again = perform(intake.queue_job, Context(submitter, key=name), Request(dict(TASK)))

    assert (again.outcome, again.replayed, again.content) == ("queued", True, first.content)

    name = key()
    claim = {"worker_id": "w"}
    first = Api(hermes_token).post("/v1/jobs/t-1/claim", claim, Idempotency_Key=name)
    again = perform(claims.claim_job, Context(hermes, key=name), Request(claim, identity=T1))

    assert (again.outcome, again.replayed) == ("claimed", True)
    assert timeless(again.content) == timeless(first.content)
    assert Attempt.objects.count() == 1


@pytest.mark.django_db
def test_a_refusal_that_is_kept_is_the_same_answer_on_either_side(
    submitter: Principal, openclaw: Principal, openclaw_token: str
) -> None:
    perform(intake.queue_job, Context(submitter), Request(TASK))
    name, claim = key(), {"worker_id": "w"}

    refused = perform(claims.claim_job, Context(openclaw, key=name), Request(claim, identity=T1))
    over_http = Api(openclaw_token).post("/v1/jobs/t-1/claim", claim, Idempotency_Key=name)

    assert (refused.outcome, refused.status) == (REFUSED, WrongOwner.status)
    assert over_http.status_code == 403
    stored(over_http, refused)
    # Without a key there is nothing to keep, and the refusal is raised.
    with pytest.raises(WrongOwner):
        perform(claims.claim_job, Context(openclaw), Request(claim, identity=T1))


@pytest.mark.django_db
def test_a_record_of_the_first_release_is_answered_with_its_status(
    submitter: Principal, submitter_token: str
) -> None:
    ops, name = Api(submitter_token), key()
    first = ops.post("/v1/jobs", TASK, Idempotency_Key=name)
    IdempotencyRecord.objects.update(outcome="", status=201, headers={"ETag": '"r1"'})

    again = ops.post("/v1/jobs", TASK, Idempotency_Key=name)

    assert (again.status_code, again.content, again["ETag"]) == (201, first.content, '"r1"')
    assert again["Idempotent-Replayed"] == "true"


# --- what is judged before an operation is asked -------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("called", "change", "request_", "refusal"),
    [
        (intake.queue_job, {"principal": None}, Request(TASK), Unauthenticated),
        (claims.claim_job, {}, Request({"worker_id": "w"}, identity=T1), PermissionDenied),
        (intake.queue_job, {}, Request({**TASK, "colour": "red"}), InvalidArgument),
        (intake.queue_job, {}, Request(TASK, query={"colour": "red"}), InvalidArgument),
        (intake.queue_job, {"key": "no key"}, Request(TASK), IdempotencyKeyInvalid),
        (control.control_job, {}, Request(identity=T1), InvalidArgument),
        (
            control.control_job,
            {},
            Request({"action": "STOP", "expected_task_revision": 1, "reason": "r"}, identity=T1),
            IdempotencyKeyRequired,
        ),
        (reads.get_job, {}, Request(), InvalidArgument),
        (intake.queue_jobs, {}, Request({"others": []}), InvalidArgument),
    ],
)
def test_a_call_is_judged_without_http_as_it_is_over_it(
    submitter: Principal,
    called: Operation,
    change: dict[str, Any],
    request_: Request,
    refusal: type[DomainError],
) -> None:
    with pytest.raises(refusal) as caught:
        perform(called, replace(Context(submitter), **change), request_)

    assert caught.type is refusal
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_what_it_is_about_has_the_type_that_is_declared(hermes: Principal) -> None:
    wanted = jobs.web.urls.uploads.complete_upload
    body = {"task_id": "t", "attempt": 1, "fencing_token": 1, "sha256": "0" * 64, "size_bytes": 1}
    for identity in ({}, {"upload_id": "none"}, {"upload_id": None}):
        with pytest.raises(InvalidArgument) as caught:
            perform(wanted, Context(hermes, key=key()), Request(body, identity=identity))
        assert [fault.pointer for fault in caught.value.errors] == ["/upload_id"]


@pytest.mark.django_db
def test_an_operation_knows_of_the_terms_only_what_it_declares(submitter: Principal) -> None:
    known: list[Context] = []

    def look(call: Call) -> Answer:
        known.append(call.context)
        return Answer(DONE, {})

    terms = Context(submitter, uuid7(), uuid7(), key(), 7, "wire-1", if_none_match=frozenset({6}))
    bare = replace(reads.list_jobs, run=look)
    full = replace(bare, sessions=True, if_match=True, if_none_match=True)
    for called in (bare, full):
        perform(called, terms, Request())

    assert known == [
        Context(submitter, request_id="wire-1"),
        replace(terms, key=None),
    ]


@pytest.mark.django_db
def test_an_operation_that_passes_its_key_over_is_found_out(hermes: Principal) -> None:
    def careless(call: Call) -> Answer:
        return Answer(DONE, {})

    forgetful = replace(sessions.activate, run=careless, reads=None, outcomes=(DONE,))
    with pytest.raises(AssertionError, match="passes its key over"):
        perform(forgetful, Context(hermes, key=key()), Request(identity={"agent": "hermes"}))


def test_the_name_of_an_operation_is_that_of_its_function() -> None:
    @operation(scopes=(), answers=dict)
    def say_nothing(call: Call) -> Answer:
        """Say nothing. At all."""
        return Answer("something", {})

    assert (say_nothing.name, say_nothing.summary) == ("say_nothing", "Say nothing. At all")
    with pytest.raises(AssertionError, match="no outcome something"):
        perform(say_nothing, Context(None), Request())


# --- the tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.operation.name)
def test_a_binding_names_what_its_operation_has(binding: Binding) -> None:
    called = binding.operation
    assert re.findall(r"{(\w+)}", binding.path) == list(called.identity)
    assert set(called.identity.values()) <= {str, int, UUID}
    assert set(binding.statuses) <= set(called.outcomes)
    assert set(binding.statuses.values()) <= {201, 202, 304}
    assert called.scopes
    assert called.summary
    # What writes is a POST, and what is read changes nothing that a key could keep.
    assert (binding.method == "POST") == (called.reads is not None)
    assert binding.method == "POST" or not (called.key or called.if_match)


def test_no_two_bindings_are_at_one_place_and_no_operation_is_bound_twice() -> None:
    places = [(binding.method, binding.route) for binding in BINDINGS]
    assert len(set(places)) == len(places)
    names = [binding.operation.name for binding in BINDINGS]
    assert len(set(names)) == len(names)


# --- the modules -------------------------------------------------------------------------------

#: What a module of operations may use of frameworks: shapes of requests, filters, rows.
ALLOWED = re.compile(
    r"rest_framework(\.(serializers|settings)(\..*)?)?$|django_filters|django\.(db|conf|core)(\.|$)"
)
FRAMEWORKS = re.compile(r"(django|rest_framework|django_filters|drf_spectacular)(\.|$)")


def imports(*places: str) -> Iterator[tuple[str, str]]:
    """Yield path and imported name of the modules below the folders."""
    for place in places:
        paths = sorted((ROOT / place).rglob("*.py"))
        assert paths, place
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                else:
                    names = []
                yield from ((str(path.relative_to(ROOT)), name) for name in names)


def test_operations_use_nothing_of_a_transport() -> None:
    found = [
        f"{path}: {name}"
        for path, name in imports("governance/operations", "agents/operations", "jobs/operations")
        if FRAMEWORKS.match(name) and not ALLOWED.match(name)
    ]
    assert found == []


def test_the_faces_over_http_hold_no_sql_no_lock_and_no_wait() -> None:
    """What they know of the apps are operations; the far end of local grants is a store's."""
    known = re.compile(
        r"governance\.(web|operations|core\.(errors|idempotency|protocol))\."
        r"|(agents|jobs)\.operations\b|(agents|jobs)\.web\.|agents\.principals\.|jobs\.objects"
    )
    found = [
        f"{path}: {name}"
        for path, name in imports("agents/web", "jobs/web")
        if name.startswith(("governance", "agents", "jobs", "time", "django.db"))
        and not known.match(name)
        and name != "jobs.objects"
        and not (path == "jobs/web/received_objects.py" and name.startswith("jobs"))
    ]
    assert found == []
    views = [name for path, name in imports("governance/web") if path.endswith("web/views.py")]
    assert views and not [name for name in views if name.startswith(("django.db", "time"))]
