"""Operations of claims: get leases, keep them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from agents.entry import Entry
from agents.operations.callers import entry_of, named_entry
from governance.core.digests import canonical
from governance.core.errors import DomainError
from governance.core.idempotency import Answer, Answered
from governance.core.isolation import apart
from governance.operations.operation import DONE, Call, operation
from jobs import metrics, transitions, wakeups
from jobs.operations import answers, shapes
from jobs.operations.answering import answer_each, answer_of
from jobs.operations.isolation import Culprits, past_culprits
from jobs.transitions import ClaimOutcome, repeated_claims
from jobs.transitions.aside import SET_A_MINUTE_MAX
from jobs.transitions.claims import CLAIM_LIMIT_MAX, CLAIMS_BYTES_MAX
from jobs.transitions.leases import HEARTBEATS_MAX, Beat

#: No further job is claimed apart where the answer has less room than the largest may take.
CLAIM_BYTES_ROOM = 3 * 1024 * 1024


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.ClaimIn,
    answers=answers.ClaimAnswerOut,
    outcomes=("claimed", "already_running", "already_completed"),
    key="honoured",
    moment=("job", "fencing_token", "lease", "envelope"),
    sessions=True,
    if_match=True,
)
def claim_job(call: Call) -> Answer:
    """Claim a task: its next attempt, a lease, and a new fencing token."""
    entry, body = named_entry(call, call.body.get("worker_id")), call.body
    rendered = partial(answers.claimed, inputs=_wants_inputs(call))

    def move() -> Answer:
        outcome = transitions.claim(
            entry=entry,
            task_id=call.identity["task_id"],
            owner=body.get("owner") or "",
            lease_seconds=body.get("lease_seconds"),
            runtime=body.get("runtime"),
        )
        if isinstance(outcome, DomainError):
            return answer_of(outcome, rendered)
        _count([outcome])
        kept_as = repeated_claims.as_kept([outcome])
        return replace(answer_of(outcome, rendered), kept_as=kept_as)

    def render(found: Answered) -> Answer:
        [outcome] = _again(found)
        return replace(found.answer, body=rendered(outcome))

    return call.once(move, render=render)


@operation(
    scopes=("work",),
    reads=shapes.ClaimsIn,
    answers=answers.ClaimsOut,
    key="required",
    moment=("results", "retry_after_seconds"),
    sessions=True,
)
def claim_jobs(call: Call) -> Answer:
    """Claim the next jobs, highest priority first; waits for one if asked to.

    The wait lies before the transaction. The answer is kept under the key only when a lease
    was granted.
    """
    entry, body = named_entry(call, call.body.get("worker_id")), call.body
    inputs = _wants_inputs(call)

    def move(culprits: Culprits | None) -> Answer:
        outcomes = _claim(call, entry) if culprits is None else _claim_past(call, entry, culprits)
        _count(outcomes)
        kept_as = repeated_claims.as_kept(outcomes)
        answer = answers.claims(outcomes, inputs=inputs)
        return Answer(DONE, answer, recorded=bool(outcomes), kept_as=kept_as)

    def render(found: Answered) -> Answer:
        return replace(found.answer, body=answers.claims(_again(found), inputs=inputs))

    def look() -> Answer | None:
        answer = past_culprits(
            call.operation.name, lambda culprits: call.once(lambda: move(culprits), render=render)
        )
        return answer if answer.recorded else None

    worker = str(entry.session_id or f"{entry.principal.lineage}/{entry.worker_id}")
    try:
        found = wakeups.look_until_found(
            look, agent_id=entry.principal.id, worker=worker, seconds=body["wait_seconds"]
        )
    except wakeups.Crowded as crowded:
        nothing = answers.claims([], retry_after_seconds=crowded.after_seconds)
        return Answer(DONE, nothing, recorded=False)
    return found or Answer(DONE, answers.claims([]), recorded=False)


@operation(
    scopes=("work",),
    reads=shapes.BeatIn,
    answers=answers.BatchOut,
    sessions=True,
    batch_max=HEARTBEATS_MAX,
    batch_name="leases",
    beside=shapes.BeatsIn,
)
def heartbeat_leases(call: Call) -> Answer:
    """Renew up to 500 leases, and learn for each what is wanted of its holder."""
    # Who names neither a session nor itself is judged by the tokens alone, as long as protocol 1.
    entry = entry_of(call, call.beside.get("worker_id"))

    def move(leases: list[dict[str, object]]) -> list[Beat | DomainError]:
        outcomes = transitions.heartbeat(entry=entry, beats=leases)
        renewed = sum(isinstance(o, Beat) and o.outcome == "renewed" for o in outcomes)
        metrics.HEARTBEATS.labels(entry.principal.name).inc(renewed)
        return outcomes

    # Nothing stays open while it is made, so that no key and no second try is known of it.
    return past_culprits(
        call.operation.name,
        lambda culprits: answer_each(call.body, move, answers.beat, culprits=culprits),
    )


def _claim(call: Call, entry: Entry, **named: Any) -> list[ClaimOutcome]:
    """Claim what the request asks for. :param named: what it asks for instead."""
    body = call.body
    terms = {name: body.get(name) for name in ("task_types", "runtime", "lease_seconds", "limit")}
    terms["with_inputs"] = _wants_inputs(call)
    return transitions.claim_next(entry=entry, owner=body.get("owner") or "", **(terms | named))


def _claim_past(call: Call, entry: Entry, culprits: Culprits) -> list[ClaimOutcome]:
    """Claim the next jobs apart from those whose row spoils the claim of all.

    By halves, in the order of the queue, as far as the limit goes; past so many culprits as may
    be set aside in a minute.
    """
    room = limit = min(call.body["limit"], CLAIM_LIMIT_MAX)
    bytes_left = CLAIMS_BYTES_MAX
    keys = transitions.claimable_keys(
        entry=entry,
        limit=limit + SET_A_MINUTE_MAX,
        task_types=call.body.get("task_types"),
    )

    def claim(among: list[tuple[int, str]]) -> list[ClaimOutcome]:
        nonlocal room, bytes_left
        if among and (room < 1 or bytes_left < CLAIM_BYTES_ROOM):
            return []
        pks = [pk for pk, _ in among]
        claimed = _claim(
            call, entry, limit=max(room, 1), among=pks, bytes_max=max(bytes_left, CLAIM_BYTES_ROOM)
        )
        # What cannot be shown cannot be given either.
        shown = answers.claims(claimed, inputs=_wants_inputs(call))
        room, bytes_left = room - len(claimed), bytes_left - len(canonical(shown))
        return claimed

    def leave(key: tuple[int, str], error: Exception) -> list[ClaimOutcome]:
        culprits.add(key[1], error)
        return []

    return apart(keys, claim, leave)


def _again(found: Answered) -> list[ClaimOutcome]:
    """Return what a claim that has its record is answered with now."""
    names = repeated_claims.names_in(found.answer.members)
    return repeated_claims.read_and_commit(names, session_pk=found.session_pk)


def _wants_inputs(call: Call) -> bool:
    """Return whether a claim gives the inputs in clear: to callers without a session, by default.

    They stand in the envelope in any case, which only newer workers read.
    """
    wanted = call.body.get("include_inputs")
    return call.context.session_id is None if wanted is None else bool(wanted)


def _count(outcomes: list[ClaimOutcome]) -> None:
    for outcome in outcomes:
        if outcome.outcome == "claimed":
            metrics.CLAIMS.labels(outcome.record.owner).inc()
