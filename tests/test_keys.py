"""Keys of requests: which there are, what they are unique in, what is compared, what is kept.

Source: contract, section 3.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID, uuid1, uuid3, uuid4, uuid5

import pytest
from uuid_utils.compat import uuid6, uuid7

import agents.web.urls
import jobs.web.urls
from agents.principals import Principal
from governance.core import clock, errors, idempotency
from governance.core.digests import canonical
from governance.core.errors import (
    RETRY_RULES,
    DomainError,
    IdempotencyKeyExpired,
    IdempotencyKeyInvalid,
    IdempotencyKeyReused,
    InvalidArgument,
)
from governance.core.idempotency import Answer, Key, once, read_key, read_operation_id
from governance.core.models import IdempotencyRecord
from governance.operations.operation import Context, Operation, Request, operation
from governance.operations.performing import perform
from governance.relay import retention
from jobs.models import Job
from jobs.operations import claims, control, intake, outcomes
from tests.client import Api, refused

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
BOUND = [b.operation for b in agents.web.urls.BINDINGS + jobs.web.urls.BINDINGS]
KEYED = {bound.name: bound for bound in BOUND if bound.key}

TASK: dict[str, Any] = {
    "task_id": "t-1",
    "source": "manual",
    "title": "A title",
    "goal": "A goal that is long enough",
    "task_type": "content_prep",
    "risk_tier": "low",
}


def dated(made_ms: int) -> UUID:
    """Return a UUID of version 7 of that time."""
    return UUID(int=(made_ms << 80) | (7 << 76) | (2 << 62) | 1)


def custom() -> UUID:
    """Return a UUID of version 8, whose other bits are whatever who makes it likes."""
    return UUID(int=(1 << 80) | (8 << 76) | (2 << 62) | 3)


# --- which there are ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [uuid1(), uuid3(uuid4(), "n"), uuid4(), uuid5(uuid4(), "n"), uuid6(), custom()],
    ids=lambda key: f"version {key.version}",
)
def test_a_key_may_be_a_uuid_of_any_version(key: UUID) -> None:
    assert read_key(str(key), now_ms=NOW_MS) == UUID(str(key))


@pytest.mark.parametrize("key", [UUID(int=0), UUID(int=2**128 - 1)], ids=["nil", "max"])
def test_nil_and_max_name_nothing(key: UUID) -> None:
    with pytest.raises(IdempotencyKeyInvalid):
        read_key(str(key), now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("made_ms", "refusal"),
    [
        (NOW_MS + DAY_MS, None),
        (NOW_MS + DAY_MS + 1, IdempotencyKeyInvalid),
        (NOW_MS - 30 * DAY_MS, None),
        (NOW_MS - 30 * DAY_MS - 1, IdempotencyKeyExpired),
        (idempotency.CLOCK_SET_MS, IdempotencyKeyExpired),
        (idempotency.CLOCK_SET_MS - 1, IdempotencyKeyInvalid),
        (0, IdempotencyKeyInvalid),
        # Seconds in the place of milliseconds.
        (NOW_MS // 1000, IdempotencyKeyInvalid),
    ],
)
def test_a_key_that_says_its_time_is_judged_by_it(
    made_ms: int, refusal: type[DomainError] | None
) -> None:
    key = dated(made_ms)
    if refusal is None:
        assert read_key(str(key), now_ms=NOW_MS) == key
        return
    with pytest.raises(refusal) as caught:
        read_key(str(key), now_ms=NOW_MS)
    assert ("clock" in caught.value.detail) == (refusal is IdempotencyKeyInvalid)


def test_no_other_version_is_judged_by_its_time() -> None:
    """A key of version 1 of the year 1582, or 6: nobody relies on what it says."""
    for text in ("00000000-0000-1000-8000-000000000001", "00000000-0000-6000-8000-000000000001"):
        assert read_key(text, now_ms=NOW_MS) == UUID(text)


@pytest.mark.parametrize("text", ["a", "step 2 of 3", "x" * 120, "claim/1!~"])
def test_an_operation_id_is_short_and_printable(text: str) -> None:
    assert read_operation_id(text, operation="queue_job") == text


@pytest.mark.parametrize("text", ["", " a", "a ", "x" * 121, "a\tb", "a\x00", "é", "a\x7f"])
def test_another_operation_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_operation_id(text, operation="queue_job")
    assert [fault.pointer for fault in caught.value.errors] == ["/operation_id"]


# --- what they are unique in -------------------------------------------------------------------


@pytest.mark.django_db
def test_the_same_key_of_two_principals_is_two_keys(
    submitter_token: str, issue: Callable[..., str]
) -> None:
    ours, theirs, name = Api(submitter_token), Api(issue(submitter="other")), str(uuid7())

    first = ours.post("/v1/jobs", TASK, Idempotency_Key=name)
    other = theirs.post("/v1/jobs", TASK | {"task_id": "t-2"}, Idempotency_Key=name)
    same = theirs.post("/v1/jobs", TASK, Idempotency_Key=str(uuid7()))

    assert (first.status_code, other.status_code) == (201, 201)
    assert not other.has_header("Idempotent-Replayed")
    assert refused(same) == (409, "TASK_ID_TAKEN")
    assert Job.objects.count() == 2


@pytest.mark.django_db
def test_the_same_request_of_another_principal_gets_no_answer_of_ours(
    hermes_token: str, openclaw_token: str, make_job: Callable[..., Job]
) -> None:
    """A claim says nothing of its agent: principal alone tells the two keys apart."""
    make_job()
    name, claim = str(uuid7()), {"worker_id": "w"}
    granted = Api(hermes_token).post("/v1/claims", claim, Idempotency_Key=name)
    make_job(task_type="rewrite")

    other = Api(openclaw_token).post("/v1/claims", claim, Idempotency_Key=name)

    assert [item["job"]["task_id"] for item in granted.json()["results"]] == ["task-1"]
    assert [item["job"]["task_id"] for item in other.json()["results"]] == ["task-2"]
    assert not other.has_header("Idempotent-Replayed")


@pytest.mark.django_db
def test_an_operation_id_is_a_part_of_what_a_key_is_unique_in(submitter_token: str) -> None:
    ops, name = Api(submitter_token), str(uuid7())
    other = TASK | {"task_id": "t-2"}

    first = ops.post("/v1/jobs", TASK, Idempotency_Key=name)
    second = ops.post("/v1/jobs", other, Idempotency_Key=name, Operation_Id="step 2")

    assert (first.status_code, second.status_code) == (201, 201)
    again = ops.post("/v1/jobs", other, Idempotency_Key=name, Operation_Id=" step 2 ")
    assert (again["Idempotent-Replayed"], again.content) == ("true", second.content)
    # By default it is the operation's own name.
    again = ops.post("/v1/jobs", TASK, Idempotency_Key=name, Operation_Id="queue_job")
    assert (again["Idempotent-Replayed"], again.content) == ("true", first.content)
    reused = ops.post("/v1/jobs", TASK, Idempotency_Key=name, Operation_Id="step 2")
    assert refused(reused) == (422, "IDEMPOTENCY_KEY_REUSED")
    named = IdempotencyRecord.objects.values_list("operation", "operation_id").order_by("id")
    assert list(named) == [("queue_job", ""), ("queue_job", "step 2")]


@pytest.mark.django_db
def test_a_malformed_operation_id_is_a_fault_of_a_keyed_request_only(submitter_token: str) -> None:
    ops = Api(submitter_token)

    keyed = ops.post("/v1/jobs", TASK, Idempotency_Key=str(uuid7()), Operation_Id="x" * 121)

    assert refused(keyed) == (400, "INVALID_ARGUMENT")
    assert not Job.objects.exists()
    assert ops.get("/v1/jobs", Operation_Id="x" * 121).status_code == 200


# --- what is compared --------------------------------------------------------------------------


def test_the_names_of_operations_with_keys_never_change() -> None:
    names = {
        "activate",
        "claim_job",
        "claim_jobs",
        "complete_job",
        "complete_jobs",
        "complete_upload",
        "control_job",
        "decide_route",
        "defer_job",
        "escalate_job",
        "extract_skills",
        "fail_job",
        "grant_upload",
        "intake_task",
        "issue_permit",
        "queue_job",
        "queue_jobs",
        "rate_skill",
        "record_fact",
        "reflect",
        "reflect_on_job",
        "report_result",
        "resolve_reservation",
        "set_admission",
        "start_execution",
    }
    assert set(KEYED) == names, (
        "A name is in the digest and in the scope of every record: under another one, the request"
        " of a lost answer is executed once more. Add a new operation; rename none."
    )


def digest_of(
    called: Operation, principal: Principal, body: Any, identity: Any = None, **terms: Any
) -> bytes:
    """Return the digest that a call of an operation is compared by."""
    found: list[Key] = []

    def look(call: Any) -> Answer:
        found.append(call.key)
        call.key.used = True
        return Answer(called.outcomes[0], {}, recorded=False)

    context = Context(principal, key=str(uuid4()), **terms)
    perform(replace(called, run=look), context, Request(body, identity or {}))
    return found[0].digest


DUE = "2030-01-01T12:00:00Z"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("called", "one", "other"),
    [
        (intake.queue_job, TASK, dict(reversed(TASK.items()))),
        (intake.queue_job, TASK, TASK | {"deadline_at": None, "labels": {}}),
        (intake.queue_job, TASK, TASK | {"priority": "normal", "review_required": False}),
        (
            intake.queue_job,
            TASK | {"deadline_at": DUE},
            TASK | {"deadline_at": "2030-01-01T13:00:00.000+01:00"},
        ),
        (
            intake.queue_job,
            TASK | {"preferred_owner": "hermes"},
            TASK | {"owner_role": "hermes", "status": "pending"},
        ),
        (intake.queue_jobs, [TASK], {"items": [TASK | {"max_attempts": None}]}),
        (intake.queue_jobs, {"tasks": [TASK, {"no": "task"}]}, [TASK, {"no": "task"}]),
    ],
)
def test_the_same_request_has_one_digest_however_it_is_written(
    submitter: Principal, called: Operation, one: Any, other: Any
) -> None:
    assert digest_of(called, submitter, one) == digest_of(called, submitter, other)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("called", "one", "other"),
    [
        (intake.queue_job, TASK, TASK | {"title": "Another title"}),
        (intake.queue_job, TASK, TASK | {"review_required": True}),
        # A default is false, and this is not.
        (intake.queue_job, TASK, TASK | {"output_required": ""}),
        (intake.queue_job, TASK | {"inputs": {"n": None}}, TASK | {"inputs": {}}),
        (intake.queue_job, TASK | {"inputs": {"n": 1}}, TASK | {"inputs": {"n": "1"}}),
        (intake.queue_job, TASK | {"deadline_at": DUE}, TASK | {"available_at": DUE}),
        (intake.queue_jobs, [TASK, TASK | {"task_id": "t-2"}], [TASK]),
        (intake.queue_jobs, [{"no": "task"}], [{"no": "thing"}]),
    ],
)
def test_another_request_has_another_digest(
    submitter: Principal, called: Operation, one: Any, other: Any
) -> None:
    assert digest_of(called, submitter, one) != digest_of(called, submitter, other)


@pytest.mark.django_db
def test_what_a_call_is_about_and_its_operation_are_in_its_digest(hermes: Principal) -> None:
    failed = {"worker_id": "w", "error_message": "It broke."}
    escalated = {"worker_id": "w", "reason": "It broke."}
    digests = [
        digest_of(called, hermes, body, {"task_id": task})
        for called, body in ((outcomes.fail_job, failed), (outcomes.escalate_job, escalated))
        for task in ("t-1", "t-2")
    ]
    assert len(set(digests)) == 4


@pytest.mark.django_db
def test_the_session_and_the_operation_id_are_not_in_the_digest(hermes: Principal) -> None:
    claim = {"worker_id": "w"}
    bare = digest_of(claims.claim_jobs, hermes, claim)
    told = digest_of(
        claims.claim_jobs, hermes, claim, session_id=uuid4(), epoch=uuid4(), operation_id="two"
    )
    assert bare == told


def test_the_form_of_the_digest_is_the_published_one() -> None:
    """Other faces and releases make it as well: version, operation, identity, request, by JCS."""
    upload = uuid4()
    digest = idempotency.request_digest(
        operation="complete_upload", identity={"upload_id": upload}, request={"size_bytes": 1}
    )
    told = {
        "version": 2,
        "operation": "complete_upload",
        "identity": {"upload_id": str(upload)},
        "request": {"size_bytes": 1},
    }
    assert digest == hashlib.sha256(canonical(told)).digest()


@pytest.mark.django_db
def test_a_record_of_version_1_is_compared_by_version_1_until_it_expires(
    submitter_token: str,
) -> None:
    ops, name = Api(submitter_token), str(uuid7())
    first = ops.post("/v1/jobs", TASK, Idempotency_Key=name)
    old = idempotency.request_digest(operation="queue_job", identity={}, request=TASK, version=1)
    assert IdempotencyRecord.objects.update(digest=old, digest_version=1) == 1

    again = ops.post("/v1/jobs", TASK, Idempotency_Key=name)

    assert (again["Idempotent-Replayed"], again.content) == ("true", first.content)
    other = ops.post("/v1/jobs", TASK | {"title": "Another title"}, Idempotency_Key=name)
    assert refused(other) == (422, "IDEMPOTENCY_KEY_REUSED")
    # A digest of one version says nothing under the other.
    IdempotencyRecord.objects.update(digest_version=2)
    again = ops.post("/v1/jobs", TASK, Idempotency_Key=name)
    assert refused(again) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_the_digest_of_version_1_is_the_one_that_was_published() -> None:
    digest = idempotency.request_digest(
        operation="fail_job", identity={"task_id": "t"}, request={"b": 1, "a": "x"}, version=1
    )
    assert digest.hex() == V1_OF_THE_FIRST_RELEASE


#: Made by the first release of this very request.
V1_OF_THE_FIRST_RELEASE = "10c9b9e2f284c4ab038f29df494d678230edc12d96985ec5a2ca44af1f6b56df"


# --- what is kept ------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("rule", RETRY_RULES)
@pytest.mark.parametrize("raised", [True, False], ids=["raised", "recorded"])
def test_a_refusal_is_kept_where_repeating_can_never_help(rule: str, raised: bool) -> None:
    class Planted(DomainError):
        """A refusal of this rule."""

        reason, retry = "PLANTED", rule

    tries = []

    def run() -> Answer:
        tries.append(rule)
        if raised:
            raise Planted()
        return Answer.of_refusal(Planted())

    def ask() -> Answer | None:
        try:
            return once(run, key=Key("agent:a", "planted", name, b"d"))
        except Planted:
            return None

    name = uuid4()
    ask()
    again = ask()

    kept = rule in {"never", "stop", "read"}
    assert IdempotencyRecord.objects.exists() == kept
    assert len(tries) == (1 if kept else 2)
    assert bool(again and again.replayed) == kept


def test_every_shape_error_and_every_error_of_ours_leaves_the_key_free() -> None:
    def all_of(kind: type[DomainError]) -> Iterator[type[DomainError]]:
        yield kind
        for below in kind.__subclasses__():
            if below.__module__ == errors.__name__:
                yield from all_of(below)

    for refusal in all_of(DomainError):
        if refusal is DomainError:
            continue
        shape = refusal.code == "INVALID_ARGUMENT" and refusal is not errors.BindingMismatch
        ours = refusal.status >= 500 or refusal.reason.startswith("IDEMPOTENCY_")
        if shape or ours:
            assert not refusal().stored, refusal.reason


@pytest.mark.django_db
@pytest.mark.parametrize(("key", "days"), [(uuid7(), 30), (uuid4(), 90), (uuid1(), 90)])
def test_a_tombstone_stays_as_long_as_its_key_may_come_again(
    submitter: Principal, key: UUID, days: int
) -> None:
    key = UUID(str(key))
    perform(intake.queue_job, Context(submitter, key=str(key)), Request(TASK))

    record = IdempotencyRecord.objects.get()
    assert record.expires_at - record.created_at == timedelta(days=days)

    for past, left in ((days + 0.9, True), (days + 1.1, False)):
        made = clock.now() - timedelta(days=past)
        IdempotencyRecord.objects.update(
            created_at=made, expires_at=made + timedelta(days=days), body=None
        )
        retention.prune()
        assert IdempotencyRecord.objects.exists() == left


@pytest.mark.django_db
def test_a_late_repetition_of_a_key_without_a_time_is_refused_and_not_executed(
    submitter_token: str,
) -> None:
    ops, name = Api(submitter_token), str(uuid4())
    ops.post("/v1/jobs", TASK, Idempotency_Key=name)
    made = clock.now() - timedelta(days=80)
    IdempotencyRecord.objects.update(created_at=made, expires_at=made + timedelta(days=90))
    retention.prune()

    again = ops.post("/v1/jobs", TASK, Idempotency_Key=name)

    assert refused(again) == (422, "IDEMPOTENCY_KEY_EXPIRED")
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_batch_with_a_refusal_that_may_pass_uses_no_key_up(
    hermes_token: str, make_job: Callable[..., Job]
) -> None:
    """What was done is answered by its own identity, and the refused item is tried again."""
    worker = Api(hermes_token)
    token = {}
    for number in (1, 2):
        make_job()
        claim = worker.post(f"/v1/jobs/task-{number}/claim", {"worker_id": "w"})
        token[number] = claim.json()["fencing_token"]
    done = {"task_id": "task-1", "worker_id": "w", "attempt": 1, "fencing_token": token[1]}
    stale = done | {"task_id": "task-2", "fencing_token": token[2] + 1}
    gone = done | {"task_id": "task-3"}
    name = str(uuid7())

    first = worker.post("/v1/jobs/complete/batch", [done, stale], Idempotency_Key=name)
    again = worker.post("/v1/jobs/complete/batch", [done, stale], Idempotency_Key=name)

    told = [
        [result.get("outcome") or result["reason"] for result in answer.json()["results"]]
        for answer in (first, again)
    ]
    assert told == [
        ["recorded", "STALE_FENCING_TOKEN"],
        ["already_recorded", "STALE_FENCING_TOKEN"],
    ]
    assert not again.has_header("Idempotent-Replayed")
    # One that is refused for ever is an answer, as it is by itself.
    for replayed in (False, True):
        final = worker.post("/v1/jobs/complete/batch", [done, gone], Idempotency_Key=name)
        assert final.has_header("Idempotent-Replayed") == replayed
        assert final.json()["results"][1]["reason"] == "NOT_FOUND"


# --- facts, never time or authority ------------------------------------------------------------

#: Of each operation with a key what of its answer is time or authority: true as it is given, kept
#: nowhere, and made anew for a repetition.
MOMENTS: dict[str, set[str]] = {
    "claim_job": {"job", "fencing_token", "lease", "envelope"},
    "claim_jobs": {"results", "retry_after_seconds"},
    "decide_route": {"reservation", "begin_within_seconds"},
    "grant_upload": {"url", "headers"},
    "issue_permit": {"state", "deadline_seconds"},
    "set_admission": {"active_leases", "effects_until"},
    "start_execution": {"may_begin", "repeated", "deadline_seconds"},
}
#: Members that sound like time or authority and are neither, with the reason.
FACTS = {
    ("activate", "heartbeat_interval_seconds"): "a setting, not what is left of anything",
    ("activate", "expires_at"): "an instant",
    ("activate", "state"): "kept once it is current; a session that no longer is gets no answer",
    ("grant_upload", "expires_at"): "an instant",
    ("issue_permit", "fencing_token"): "the permit's binding, which the caller has sent",
    ("report_result", "state"): "what the result made of the execution",
    ("resolve_reservation", "state"): "how it ended, once",
    ("set_admission", "state"): "of the change; how the agent stands is a read",
    ("start_execution", "state"): "as the start left it; whether it may begin is told beside it",
}
SOUNDS_SO = re.compile(
    r".*_seconds|.*_until|expires.*|lease.*|url|headers|.*token|envelope|may_.*|repeated|state"
)
#: A job in an answer is as the move left it: its states and instants are facts of then.
WHOLE = {"job"}


def members_of(shape: Any) -> Iterator[str]:
    """Yield the names of an answer's members, also of those within."""
    if get_origin(shape) in (Annotated, NotRequired):
        yield from members_of(get_args(shape)[0])
    elif is_typeddict(shape):
        for name, inner in get_type_hints(shape, include_extras=True).items():
            yield name
            if name not in WHOLE:
                yield from members_of(inner)
    else:
        for inner in get_args(shape):
            yield from members_of(inner)


def test_every_operation_with_a_key_says_what_of_its_answer_is_time_or_authority() -> None:
    assert {name: set(bound.moment or ()) for name, bound in KEYED.items() if bound.moment} == (
        MOMENTS
    )
    for name, bound in KEYED.items():
        top = set(get_type_hints(bound.answers))
        assert set(bound.moment or ()) <= top, name


@pytest.mark.parametrize("name", KEYED)
def test_what_sounds_like_time_or_authority_is_said_to_be_or_has_its_reason(name: str) -> None:
    bound = KEYED[name]
    shape = get_type_hints(bound.answers, include_extras=True)
    kept = {top: inner for top, inner in shape.items() if top not in (bound.moment or ())}
    found = set(kept)
    for top, inner in kept.items():
        found |= set() if top in WHOLE else set(members_of(inner))

    suspect = {member for member in found if SOUNDS_SO.fullmatch(member)}
    assert suspect == {member for of, member in FACTS if of == name}


def test_an_operation_that_takes_a_key_has_to_say_it() -> None:
    with pytest.raises(AssertionError, match="true but for a moment"):
        operation(scopes=(), answers=dict, key="honoured")(lambda call: Answer("done", {}))
    with pytest.raises(AssertionError, match="true but for a moment"):
        operation(scopes=(), answers=dict, moment=())(lambda call: Answer("done", {}))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "fine"),
    [
        (Answer("done", {"fact": 1}, moment={"left": 5}), True),
        (Answer("done", {"fact": 1, "left": 5}), False),
        (Answer("done", {"fact": 1}, moment={"other": 5}), False),
        (Answer("done", {"left": 5}, kept_as={"row": 1}), True),
        (Answer("done", {"left": 5}, recorded=False), True),
    ],
)
def test_an_operation_that_keeps_what_it_said_is_of_the_moment_is_found_out(
    submitter: Principal, answer: Answer, fine: bool
) -> None:
    def run(call: Any) -> Answer:
        call.key.used = True
        return answer

    planted = replace(
        control.control_job, run=run, moment=("left",), outcomes=("done",), identity={}, reads=None
    )
    context = Context(submitter, key=str(uuid4()))
    if fine:
        assert perform(planted, context, Request()) is answer
        return
    with pytest.raises(AssertionError, match="keeps time or authority"):
        perform(planted, context, Request())


@pytest.mark.django_db
def test_a_reused_key_changes_nothing_that_is_kept(submitter: Principal) -> None:
    name = str(uuid4())
    perform(intake.queue_job, Context(submitter, key=name), Request(TASK))
    before = IdempotencyRecord.objects.values().get()

    with pytest.raises(IdempotencyKeyReused):
        perform(
            intake.queue_job, Context(submitter, key=name), Request(TASK | {"title": "Another one"})
        )

    assert IdempotencyRecord.objects.values().get() == before
