"""Claims: who gets to work on what. Each makes an attempt, a lease and a new fencing token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agents.entry import Caller, Entry, enter
from agents.models import RISK_RANK, RiskTier
from governance.core import sql
from governance.core.clock import READ_CLOCK, instant
from governance.core.errors import (
    AdmissionDraining,
    ApprovalRequired,
    AttemptsExhausted,
    DomainError,
    FieldFault,
    InvalidArgument,
    InvalidTransition,
    MaintenanceInhibited,
    OutcomeUnknown,
    RiskNotAllowed,
    WrongOwner,
)
from governance.core.wire import ANSWER_BYTES_MAX, fitting
from jobs.models import Attempt, Job, Lease
from jobs.queries import JOB_BYTES
from jobs.room import (
    NOTED_OF_JOBS,
    TASKS_WITHOUT_ROOM,
    TYPES_WITHOUT_ROOM,
    WITHOUT_ROOM_OF_ITS_OWN,
)
from jobs.transitions.decisions import end_approval
from jobs.transitions.preconditions import (
    approval_expired,
    held_by_another,
    need_match,
    need_not_closed,
)
from jobs.transitions.story import Past, read_pasts
from jobs.transitions.sweeping import end_attempt_if_due
from jobs.transitions.work import (
    JOIN_TASK,
    SELECT_TO_CLAIM,
    LockedJob,
    Outcome,
    State,
    Work,
    from_row,
    lock,
    lock_lease,
)

LEASE_SECONDS_MIN = 60
LEASE_SECONDS_MAX = 3600
CLAIM_LIMIT_MAX = 100
CLAIMS_BYTES_MAX = ANSWER_BYTES_MAX
#: Bytes of the members of a claim whose size hardly varies: the job's, and what it is granted.
CLAIM_BYTES = JOB_BYTES + 2 * 1024

#: Bytes of the texts of a task, each with its escapes: goal, title, and what is to be delivered.
TEXTS_BYTES_MAX = 48 * 1024

# Bytes of what the submitter has made as large as it is, in the form in which it is answered. The
# texts and the inputs stand in the payload of the envelope, which is three quarters of its bytes;
# one that is not compressed need not be written as text to be measured.
ENVELOPE_BYTES = (
    "CASE WHEN pg_column_compression(t.envelope) IS NULL THEN pg_column_size(t.envelope) + 256"
    " ELSE octet_length(t.envelope::text) END"
)
PAYLOAD_BYTES = (
    f"SELECT (v.bytes + LEAST(v.bytes * 3 / 4, CASE WHEN %(with_inputs)s THEN v.bytes"
    f" ELSE {TEXTS_BYTES_MAX} END) + octet_length(t.labels::text))::int"
    f" FROM (SELECT {ENVELOPE_BYTES} AS bytes) v"
)
CLAIM_ORDER = f"j.priority DESC, {Job.CLAIMABLE_AT.format('j')}, j.id"
# Which jobs of the agent may be claimed now, of the priority `r` that is walked. By the first lines
# the indexes of claims are walked. `statement_timestamp` (this statement starts after the admission
# lock) is stable and so bounds the index scan, which `clock_timestamp` would not. In the braces
# stands what a walk of some jobs alone asks for besides.
CLAIMABLE_NOW = f"""c.agent_id = %(agent_id)s AND c.state = 'queued' AND NOT c.paused
            AND c.priority = r.priority
            AND {Job.CLAIMABLE_AT.format("c")} <= statement_timestamp(){{also}}
            AND c.id NOT IN (SELECT job_id FROM jobs_setaside WHERE set_at IS NOT NULL)
            AND c.task_id NOT IN ({TASKS_WITHOUT_ROOM})
            AND NOT ({NOTED_OF_JOBS} AND {WITHOUT_ROOM_OF_ITS_OWN})
            AND (c.deadline_at IS NULL OR c.deadline_at > statement_timestamp())
            AND (c.expires_if_not_started_at IS NULL OR c.attempt > 0
                 OR c.expires_if_not_started_at > statement_timestamp())
            AND {RISK_RANK.format("c.risk_tier")} <= (SELECT {RISK_RANK.format("a.max_risk_tier")}
                  FROM agents_agent a WHERE a.id = %(agent_id)s)
            AND (%(types)s::text[] IS NULL
                 OR c.job_type_id IN (SELECT id FROM jobs_jobtype WHERE name = ANY(%(types)s)))"""
PRIORITIES = "(VALUES (3), (2), (1), (0)) AS r(priority)"
#: A walk by types looks at so many, which is more than it claims: others may be at the first. No
#: parameter, so that the plan that is kept is known to be cheap.
LOOKED_AT_MAX = 256
# Locks: the claimed jobs, and no more than the limit; skips those that others are at. Walks
# job_claim_idx once per priority, from the highest, and stops at the limit; only what was picked is
# sorted. Finds nothing where a type has no room: its jobs may be the first million of that index.
# The jobs are answered from the rows that were locked: joined again, they would be read as they
# stood before the lock.
PICKED = f"""WITH picked AS MATERIALIZED (
  SELECT n.* FROM {PRIORITIES}
   CROSS JOIN LATERAL (
         SELECT c.* FROM jobs_job c
          WHERE {CLAIMABLE_NOW}
          ORDER BY {Job.CLAIMABLE_AT.format("c")}, c.id
          LIMIT %(limit)s
            {{lock}}) n
   WHERE NOT (SELECT EXISTS ({TYPES_WITHOUT_ROOM}))
   LIMIT %(limit)s)
"""
CLAIMABLE_NOW_OF_TYPE = CLAIMABLE_NOW.replace(
    Job.CLAIMABLE_AT.format("c"), Job.CLAIMABLE_AT_OF_TYPE.format("c")
)
# The same where a type has none: job_claim_type_idx once per priority and other type, without a
# lock; then the first of them are locked, and judged as they stand.
PICKED_BY_TYPE = f"""WITH picked AS MATERIALIZED (
  SELECT n.* FROM {PRIORITIES}
   CROSS JOIN LATERAL (
         SELECT c.* FROM (
           SELECT f.id, f.at FROM jobs_jobtype t CROSS JOIN LATERAL (
                  SELECT c.id, {Job.CLAIMABLE_AT_OF_TYPE.format("c")} AS at FROM jobs_job c
                   WHERE c.job_type_id = t.id AND {CLAIMABLE_NOW_OF_TYPE}
                   ORDER BY {Job.CLAIMABLE_AT_OF_TYPE.format("c")}, c.id
                   LIMIT {LOOKED_AT_MAX}) f
            WHERE t.id NOT IN ({TYPES_WITHOUT_ROOM})
              AND (%(types)s::text[] IS NULL OR t.name = ANY(%(types)s))
            ORDER BY f.at, f.id LIMIT {LOOKED_AT_MAX}) first
           JOIN jobs_job c ON c.id = first.id
          WHERE {CLAIMABLE_NOW_OF_TYPE}
          ORDER BY first.at, first.id
          LIMIT %(limit)s
            {{lock}}) n
   LIMIT %(limit)s)
"""
SIZED = f""",
sized AS MATERIALIZED (
  SELECT j.id, b.bytes, sum(b.bytes) OVER (ORDER BY {CLAIM_ORDER}) - b.bytes AS before
    FROM picked j JOIN jobs_task t ON t.job_id = j.id
   CROSS JOIN LATERAL ({PAYLOAD_BYTES}) b(bytes))
"""
ANSWERED = (
    SIZED
    + SELECT_TO_CLAIM
    + ", z.bytes FROM picked j JOIN sized z ON z.id = j.id"
    + f" AND z.before < {CLAIMS_BYTES_MAX}"
    + JOIN_TASK
    + f" ORDER BY {CLAIM_ORDER}"
)


class Walk(NamedTuple):
    """A walk in claim order, as it is made where every type has room and where one has none.

    Two statements: to plan both takes longer than to make either.
    """

    whole: str
    by_type: str


def _walk(answered: str = ANSWERED, *, also: str = "", lock: bool = True) -> Walk:
    """Return the walk past the jobs that `also`, a condition on `c`, does not hold of."""
    locking = "FOR NO KEY UPDATE OF c SKIP LOCKED" if lock else ""
    return Walk(
        *(text.format(also=also, lock=locking) + answered for text in (PICKED, PICKED_BY_TYPE))
    )


CLAIMABLE = _walk()
# The same again, past the jobs of the first walk: in place of those that it had to put on hold.
CLAIMABLE_BESIDE = _walk(
    also=" AND c.id <> ALL(%(walked)s::bigint[])"
    " AND (NOT c.execution_approval_required OR c.approval_valid_until > statement_timestamp())"
)
# The same of the named jobs alone, for claims of which some row spoils the others.
CLAIMABLE_AMONG = _walk(also=" AND c.id = ANY(%(among)s::bigint[])")
# No lock: by their keys, which can be read of any row.
CLAIMABLE_KEYS = _walk(f"SELECT j.id, j.task_id FROM picked j ORDER BY {CLAIM_ORDER}", lock=False)
# No lock. Whether the walk is made by types.
READ_NARROW = f"SELECT EXISTS ({TYPES_WITHOUT_ROOM}) AS narrow"
# No lock. A type that is turned off may still have jobs.
READ_TYPE_NAMES = "SELECT name FROM jobs_jobtype WHERE name = ANY(%s::text[])"
EXPIRED_BEFORE_CLAIM = "The approval had expired before the job was claimed."


@dataclass(frozen=True)
class LeaseGrant:
    """A claim's gift to its worker: the attempt, its lease, and what the ones before left."""

    attempt: Attempt
    lease: Lease
    past: Past
    #: The database's clock, from which the lease is reckoned.
    at: datetime
    #: What its worker is told of model calls, as it is answered: what the type and the policy say.
    model_terms: dict[str, Any]


@dataclass(frozen=True)
class ClaimOutcome(Outcome):
    """The outcome of a claim. `grant` is None where its worker gets none.

    `attempt` is then the one that a repeated claim had made, whose lease the caller does not hold.
    """

    grant: LeaseGrant | None = None
    attempt: int | None = None


@sql.move
def claim(
    *,
    entry: Entry,
    task_id: str,
    owner: str,
    lease_seconds: int | None = None,
    runtime: str | None = None,
) -> ClaimOutcome | DomainError:
    """Claim one task: make its next attempt and lease it to the caller.

    A lease that has expired protects nobody, swept or not: its attempt is ended first, as the
    sweeper would, but without back-off. Source: contract section 1.

    A refusal that is returned, not raised, has written something that must be committed (such an
    end; a job whose approval had expired is back on hold).

    :param owner: the agent that the caller says it is; must be the credential's.
    :param lease_seconds: 60 to 3600; default from the job type.
    :param runtime: pinned for the attempt; default from the session, then the job type.
    :raises WrongOwner, NotFound, OutcomeUnknown, LeaseHeldByAnother, InvalidTransition,
        AttemptsExhausted, MaintenanceInhibited, AdmissionClosed, AdmissionDraining,
        RiskNotAllowed: not now, or not to this agent.
    """
    work = lock([task_id], entry=entry, make_session=True, to_claim=True)
    caller = work.worker
    _check_owner(caller, owner)
    locked = work.get(task_id)
    state = locked.job.state
    if state == State.COMPLETED:
        return ClaimOutcome("already_completed", locked)
    if state == State.ACTIVE and _expired(work, locked):
        need_match(work, locked)
        check_admission(caller)
        _check_risk(locked, caller)
        lock_lease(work, locked)
        if _expired(work, locked):
            return _claim_over(work, locked, lease_seconds=lease_seconds, runtime=runtime)
    if state == State.ACTIVE:
        return _already_running(work, locked, caller, runtime)
    need_match(work, locked)
    _check_claimable(work, locked)
    check_admission(caller)
    _check_risk(locked, caller)
    return _claim_free(work, locked, lease_seconds=lease_seconds, runtime=runtime)


def _expired(work: Work, locked: LockedJob) -> bool:
    """Return whether the running attempt's lease has run out, and nobody has ended it yet."""
    return locked.lease is not None and locked.lease.expires_at <= work.now


def _claim_over(
    work: Work, locked: LockedJob, *, lease_seconds: int | None, runtime: str | None
) -> ClaimOutcome | DomainError:
    """End the attempt whose lease has expired, and claim the job if it can be claimed then."""
    job = locked.job
    end_attempt_if_due(work, locked, actor=work.worker.actor, backoff=False)
    work.save()
    if job.state == State.FAILED and job.attempts_left < 1:
        return AttemptsExhausted(current={"state": job.state, "attempt": job.attempt})
    try:
        _check_claimable(work, locked)
    except DomainError as refusal:
        return refusal
    return _claim_free(work, locked, lease_seconds=lease_seconds, runtime=runtime)


def _claim_free(
    work: Work, locked: LockedJob, *, lease_seconds: int | None, runtime: str | None
) -> ClaimOutcome | DomainError:
    """Grant a job that may be claimed, unless its approval has expired."""
    if approval_expired(locked.job, at=work.now):
        end_approval(work, locked, actor=work.worker.actor, reason=EXPIRED_BEFORE_CLAIM)
        work.save()
        return ApprovalRequired("The approval has expired; the job is held again.")
    _grant(work, locked, lease_seconds=lease_seconds, runtime=runtime)
    pasts = _pasts([locked])
    work.save()
    return ClaimOutcome("claimed", locked, _granted(work, locked, pasts))


@sql.move
def claim_next(
    *,
    entry: Entry,
    owner: str = "",
    limit: int = 1,
    task_types: list[str] | None = None,
    runtime: str | None = None,
    lease_seconds: int | None = None,
    among: list[int] | None = None,
    with_inputs: bool = True,
    bytes_max: int | None = None,
) -> list[ClaimOutcome]:
    """Claim up to `limit` of the agent's claimable jobs, highest priority first, oldest first.

    Returns an empty list when there is nothing to do. Jobs above the agent's highest risk tier, and
    jobs that have no room (`governance/money/room.py`), are passed over. Jobs whose approval has
    expired are put back on hold on the way, and others are looked for in their place. Of several
    jobs no more are granted than `CLAIMS_BYTES_MAX` has room for, and the first in any case.

    :param owner: as of `claim`.
    :param limit: 1 to 100.
    :param among: primary keys of the jobs that come into question; default all.
    :param with_inputs: whether the answer has the inputs beside the envelope.
    :param bytes_max: of what is answered of them all; default `CLAIMS_BYTES_MAX`.
    :raises InvalidArgument: there is no job type of one of the names.
    :raises WrongOwner: it asks for another agent's jobs.
    :raises MaintenanceInhibited, AdmissionClosed, AdmissionDraining: no new work now.
    """
    wanted = _wanted(entry, limit=limit, task_types=task_types, with_inputs=with_inputs)
    first = CLAIMABLE
    if among is not None:
        first, wanted = CLAIMABLE_AMONG, wanted | {"among": among}
    also = [
        sql.Statement(first.whole, wanted),
        sql.Statement(READ_CLOCK),
        sql.Statement(READ_NARROW, {"agent_id": wanted["agent_id"]}),
    ]
    if task_types:
        also.append(sql.any_of(READ_TYPE_NAMES, task_types))
    caller, [rows, [clock], [room], *known] = enter(entry, also=also, make_session=True)
    if task_types:
        places = {f"/task_types/{place}": name for place, name in enumerate(task_types)}
        need_types(places, known=known[0])
    _check_owner(caller, owner)
    check_admission(caller)
    narrow = room["narrow"] and not rows
    if narrow:
        rows, [clock] = sql.pipeline(
            sql.Statement(first.by_type, wanted), sql.Statement(READ_CLOCK)
        )
    work = Work(clock["now"], caller)
    granted = _grantable(work, rows)
    if among is None and (missing := len(rows) - len(granted)):
        walked = [locked.job.pk for locked in work.locked.values()]
        beside = wanted | {"limit": missing, "walked": walked}
        walk = CLAIMABLE_BESIDE.by_type if narrow else CLAIMABLE_BESIDE.whole
        [rows, [clock]] = sql.pipeline(sql.Statement(walk, beside), sql.Statement(READ_CLOCK))
        work.now = clock["now"]
        granted += _grantable(work, rows)
    pasts = _pasts(granted)
    granted = _with_room(granted, pasts, bytes_max or CLAIMS_BYTES_MAX)
    for locked in granted:
        _grant(work, locked, lease_seconds=lease_seconds, runtime=runtime)
    work.save()
    return [ClaimOutcome("claimed", locked, _granted(work, locked, pasts)) for locked in granted]


def _wanted(
    entry: Entry, *, limit: int, task_types: list[str] | None, with_inputs: bool = True
) -> dict[str, Any]:
    return {
        "agent_id": entry.principal.id,
        "types": task_types or None,
        "limit": min(limit, CLAIM_LIMIT_MAX),
        "with_inputs": with_inputs,
    }


def claimable_keys(
    *, entry: Entry, limit: int, task_types: list[str] | None = None
) -> list[tuple[int, str]]:
    """Return primary key and task id of the jobs that a claim would come to, in its order.

    For claims that some row spoils: nothing else of the rows is read, and nothing is locked.
    """
    wanted = _wanted(entry, limit=limit, task_types=task_types) | {"limit": limit}
    rows, [room] = sql.pipeline(
        sql.Statement(CLAIMABLE_KEYS.whole, wanted),
        sql.Statement(READ_NARROW, {"agent_id": wanted["agent_id"]}),
    )
    if room["narrow"] and not rows:
        [rows] = sql.pipeline(sql.Statement(CLAIMABLE_KEYS.by_type, wanted))
    return [(row["id"], row["task_id"]) for row in rows]


def _grantable(work: Work, rows: list[sql.Row]) -> list[LockedJob]:
    """Return the jobs of the rows that may be granted; put those without an approval on hold."""
    fit = []
    for row in rows:
        locked = from_row(row)
        locked.payload_bytes = row["bytes"]
        work.locked[locked.job.task_id] = locked
        if approval_expired(locked.job, at=work.now):
            end_approval(work, locked, actor=work.worker.actor, reason=EXPIRED_BEFORE_CLAIM)
        else:
            fit.append(locked)
    return fit


def _with_room(granted: list[LockedJob], pasts: dict[int, Past], bytes_max: int) -> list[LockedJob]:
    """Return the first of the jobs that one answer has room for; one in any case."""
    sizes = (
        CLAIM_BYTES + locked.payload_bytes + pasts.get(locked.job.pk, Past()).size
        for locked in granted
    )
    return granted[: fitting(sizes, room=bytes_max)]


def _check_owner(caller: Caller, owner: str) -> None:
    """Refuse a claim in another agent's name.

    :raises WrongOwner: `owner` is given, and is not the credential's agent.
    """
    if owner and owner != caller.agent:
        raise WrongOwner("owner must be the agent of the credential.")


def need_types(places: Mapping[str, str], *, known: Sequence[sql.Row]) -> None:
    """Refuse names of job types that do not exist, which would find nothing for ever.

    :param places: each name by its place in the request, a JSON pointer.
    :param known: what `READ_TYPE_NAMES` has found of the names.
    :raises InvalidArgument: with the place of each.
    """
    there = {row["name"] for row in known}
    faults = [
        FieldFault(place, "This task type is not known.")
        for place, name in places.items()
        if name not in there
    ]
    if faults:
        raise InvalidArgument("There is no such task type.", errors=faults)


def check_admission(caller: Caller) -> None:
    """Refuse new work under a maintenance inhibit, or when the agent drains or is closed.

    :raises MaintenanceInhibited: with its end as the time to come back.
    :raises AdmissionClosed, AdmissionDraining: with the generation as `current`.
    """
    if caller.inhibit is not None:
        ends_at = caller.inhibit.ends_at
        after = max(1, int((ends_at - caller.now).total_seconds()) + 1) if ends_at else 60
        raise MaintenanceInhibited(
            f"New work is stopped for maintenance: {caller.inhibit.reason}",
            after_seconds=after,
        )
    need_not_closed(caller)
    if caller.admission == "draining":
        current = {"admission": caller.admission, "generation": caller.admission_generation}
        raise AdmissionDraining(current=current)


def _check_risk(locked: LockedJob, caller: Caller) -> None:
    """Refuse a job above the agent's highest tier, which was lowered since the job came in.

    :raises RiskNotAllowed: with both tiers.
    """
    tier = locked.job.risk_tier
    if not RiskTier(caller.max_risk_tier).allows(tier):
        raise RiskNotAllowed(current={"risk_tier": tier, "max_risk_tier": caller.max_risk_tier})


def _already_running(
    work: Work, locked: LockedJob, caller: Caller, runtime: str | None
) -> ClaimOutcome:
    """Answer a claim of a job that runs: its holder is given the same attempt and token again.

    An id belongs to one process, so that a claim answered more than once is counted, and shown.
    Nothing is renewed.
    """
    lease, attempt = locked.lease, locked.last_attempt
    if lease is None or attempt is None or lease.session_id != caller.session_pk:
        need_match(work, locked)
        raise held_by_another(work, locked)
    if runtime and runtime != attempt.runtime:
        need_match(work, locked)
        raise held_by_another(
            work, locked, f"The attempt runs under the runtime {attempt.runtime}."
        )
    grant = _granted(work, locked, _pasts([locked]))
    attempt.claim_answers += 1
    work.touch_attempt(attempt)
    work.note(
        locked,
        action="job.claim_repeated",
        actor=caller.actor,
        details={"claim_answers": attempt.claim_answers},
    )
    work.save()
    return ClaimOutcome("already_running", locked, grant)


def _check_claimable(work: Work, locked: LockedJob) -> None:
    job = locked.job
    current = {"state": job.state, "paused": job.paused, "available_at": instant(job.available_at)}
    if job.state == State.IN_DOUBT or job.unresolved_executions:
        raise OutcomeUnknown(current=current)
    if job.state != State.QUEUED:
        raise InvalidTransition(f"A job that is {job.state} cannot be claimed.", current=current)
    if job.paused:
        raise InvalidTransition("The job is paused.", current=current)
    if job.claimable_at > work.now:
        after = int((job.claimable_at - work.now).total_seconds()) + 1
        if job.on_hold(at=work.now):
            current["hold_until"] = instant(job.hold_until)
            raise InvalidTransition("The job is on hold.", current=current, after_seconds=after)
        raise InvalidTransition(
            "The job is not available yet.", current=current, after_seconds=after
        )
    if _over(work, locked):
        raise InvalidTransition("The time in which the job may start is over.", current=current)
    if job.attempts_left < 1:
        raise AttemptsExhausted(current=current)


def _over(work: Work, locked: LockedJob) -> bool:
    """Return whether the sweeper will end the job: nobody starts one that should be over."""
    job = locked.job
    ends = [job.deadline_at] if job.attempt else [job.deadline_at, job.expires_if_not_started_at]
    return any(end is not None and end <= work.now for end in ends)


def _grant(
    work: Work,
    locked: LockedJob,
    *,
    lease_seconds: int | None,
    runtime: str | None,
) -> None:
    """Make the attempt and its lease: attempt and token go up by one, for good."""
    job, caller = locked.job, work.worker
    assert caller.session_pk is not None
    seconds = lease_seconds or locked.type.lease_seconds
    timeout = job.attempt_timeout_seconds or locked.type.attempt_timeout_seconds
    job.attempt += 1
    job.fencing_token += 1
    attempt = Attempt(
        job_id=job.pk,
        number=job.attempt,
        fencing_token=job.fencing_token,
        session_id=caller.session_pk,
        worker_id=caller.worker_id,
        runtime=runtime or caller.runtime or locked.type.runtime,
        lease_seconds=seconds,
        claimed_at=work.now,
        deadline_at=work.now + timedelta(seconds=timeout) if timeout else None,
        claim_key=caller.key,
    )
    lease = Lease(
        job_id=job.pk,
        attempt=job.attempt,
        fencing_token=job.fencing_token,
        session_id=caller.session_pk,
        worker_id=caller.worker_id,
        lease_seconds=seconds,
        granted_at=work.now,
        expires_at=work.now + timedelta(seconds=seconds),
        heartbeat_at=work.now,
    )
    locked.attempts[job.attempt] = attempt
    locked.lease = lease
    work.grant(attempt, lease)
    work.move(
        locked,
        State.ACTIVE,
        action="job.claimed",
        actor=caller.actor,
        details={"worker_id": caller.worker_id, "fencing_token": job.fencing_token},
    )


def _pasts(jobs: list[LockedJob]) -> dict[int, Past]:
    """Return what earlier attempts have left, by job; asks only for jobs that were tried before."""
    tried = [one for one in jobs if one.job.attempt > (0 if one.lease is None else 1)]
    return read_pasts([one.job.task_id for one in tried])


def _granted(work: Work, locked: LockedJob, pasts: dict[int, Past]) -> LeaseGrant:
    """Return what the holder of the lease is given."""
    attempt = locked.last_attempt
    assert attempt is not None and locked.lease is not None
    return LeaseGrant(
        attempt=attempt,
        lease=locked.lease,
        past=pasts.get(locked.job.pk) or Past(),
        model_terms=locked.model_terms,
        at=work.now,
    )
