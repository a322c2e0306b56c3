"""Operations of claims: get leases, keep them."""

from __future__ import annotations

from agents.operations.callers import entry_of, named_entry
from governance.core.errors import DomainError
from governance.core.idempotency import Answer
from governance.operations.operation import DONE, Call, operation
from jobs import metrics, transitions, wakeups
from jobs.operations import answers, shapes
from jobs.operations.answering import answer_each, answer_of
from jobs.transitions import ClaimOutcome
from jobs.transitions.leases import HEARTBEATS_MAX, Beat


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.ClaimIn,
    answers=answers.ClaimAnswerOut,
    outcomes=("claimed", "already_running", "already_completed"),
    key="honoured",
    sessions=True,
    if_match=True,
)
def claim_job(call: Call) -> Answer:
    """Claim a task: its next attempt, a lease, and a new fencing token."""
    entry, body = named_entry(call, call.body.get("worker_id")), call.body

    def move() -> Answer:
        outcome = transitions.claim(
            entry=entry,
            task_id=call.identity["task_id"],
            owner=body.get("owner") or "",
            lease_seconds=body.get("lease_seconds"),
            runtime=body.get("runtime"),
        )
        if isinstance(outcome, ClaimOutcome):
            _count([outcome])
        return answer_of(outcome, answers.claimed)

    return call.once(move)


@operation(
    scopes=("work",),
    reads=shapes.ClaimsIn,
    answers=answers.ClaimsOut,
    key="required",
    sessions=True,
)
def claim_jobs(call: Call) -> Answer:
    """Claim the next jobs, highest priority first; waits for one if asked to.

    The wait lies before the transaction. The answer is kept under the key only when a lease
    was granted.
    """
    entry, body = named_entry(call, call.body.get("worker_id")), call.body

    def move() -> Answer:
        outcomes = transitions.claim_next(
            entry=entry,
            owner=body.get("owner") or "",
            limit=body["limit"],
            task_types=body.get("task_types"),
            runtime=body.get("runtime"),
            lease_seconds=body.get("lease_seconds"),
        )
        _count(outcomes)
        return Answer(DONE, answers.claims(outcomes), recorded=bool(outcomes))

    def look() -> Answer | None:
        answer = call.once(move)
        return answer if answer.recorded else None

    worker = str(entry.session_id or f"{entry.principal.lineage}/{entry.worker_id}")
    try:
        found = wakeups.look_until_found(
            look, agent_id=entry.principal.id, worker=worker, seconds=body["wait_seconds"]
        )
    except wakeups.Crowded as crowded:
        return Answer(DONE, answers.claims([], retry_after_seconds=crowded.after_seconds))
    return found or Answer(DONE, answers.claims([]))


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

    return answer_each(call.body, move, answers.beat)


def _count(outcomes: list[ClaimOutcome]) -> None:
    for outcome in outcomes:
        if outcome.outcome == "claimed":
            metrics.CLAIMS.labels(outcome.record.owner).inc()
