"""The work of one transaction: jobs that it locked together, and rows that it will save together.

Every move is made of the same steps: lock a set of jobs in key order, read what stands around
them in the statements after the lock, judge each in Python, and save all rows in one round trip.
A move on one job is the move on a set of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.entry import Caller, Entry, enter
from governance.core import audit, clock, outbox, redaction, sql
from governance.core.digests import canonical, external_request_id
from governance.core.errors import NotFound, WrongOwner
from governance.core.models import AuditEvent, Fact
from jobs import wakeups
from jobs.backoff import retry_delay_seconds
from jobs.models import Attempt, Job, JobType, Lease, Task
from jobs.queries import MODEL_TERMS, OPEN_ESCALATION, PAYLOAD, JobRecord
from jobs.transitions.authority import ACTOR as AUTHORITY
from jobs.transitions.authority import end_authority, fail_model_only

State = Job.State

#: Columns of a job that moves write; the others never change.
MOVING = (
    "state",
    "paused",
    "available_at",
    "hold_until",
    "attempt",
    "max_attempts",
    "deferrals",
    "unconfirmed_deferrals",
    "fencing_token",
    "revision",
    "fact_sequence",
    "reflection_count",
    "unresolved_executions",
    "approval_valid_until",
    "asked_again_by",
    "state_since",
    "finished_at",
    "updated_at",
    "audit_seq",
    "audit_head",
)
ENDING = (
    "ended_at",
    "outcome",
    "outcome_sha256",
    "needs_review",
    "retryable",
    "error_code",
    "error_message",
    "result",
    "result_pointer",
    "progress",
    "claim_answers",
    "governed",
)

# What a job is answered with and judged by; none of it but the job itself ever changes, so that
# it may be read in the statement that waits for the lock.
SELECT_JOBS = (
    f"SELECT {sql.select_list(Job, 'j')}, {sql.select_list(Task, 't')}, "
    f"{sql.select_list(JobType, 'y')}, a.name AS owner "
)
# Of several jobs without the payload, which their answers do not carry.
SELECT_SEVERAL = SELECT_JOBS.replace(
    sql.select_list(Task, "t"), sql.select_list(Task, "t", without=PAYLOAD)
)
# And to claim them: what is told of their model calls.
SELECT_TO_CLAIM = f"{SELECT_JOBS}, {MODEL_TERMS} AS model_terms "
JOIN_TASK = (
    " JOIN jobs_task t ON t.job_id = j.id JOIN jobs_jobtype y ON y.id = j.job_type_id"
    " JOIN agents_agent a ON a.id = j.agent_id "
)
# Locks: the jobs, in key order. Index: the unique one on task_id.
LOCK_BY_TASK = (
    SELECT_JOBS + "FROM jobs_job j" + JOIN_TASK + "WHERE j.task_id = ANY(%s::text[]) ORDER BY j.id"
    " FOR NO KEY UPDATE OF j"
)
# Locks: the job, unless somebody else is at it. For sweeps: whoever holds it will see to it.
LOCK_IF_FREE = LOCK_BY_TASK + " SKIP LOCKED"
# Locks: the leases, in job order: a heartbeat that is under way is seen, or comes too late.
LOCK_LEASES = (
    "SELECT l.job_id FROM jobs_lease l JOIN jobs_job j ON j.id = l.job_id"
    " WHERE j.task_id = ANY(%s::text[]) ORDER BY l.job_id FOR NO KEY UPDATE OF l"
)
# What stands around the jobs once they are locked, and the clock, in one statement after the locks:
# each job's lease and open escalation; its running or last attempt and those of the numbers that
# the request names, each with the kind of session that made it. One row per attempt, and one for a
# job without.
READ_CONTEXT = (
    f"SELECT clock_timestamp() AS now, j.id AS job_id, {sql.select_list(Lease, 'l')},"
    f" {sql.select_list(Attempt, 'p')}, s.kind AS session_kind, s.lineage,"
    " e.reason AS escalation_reason"
    " FROM jobs_job j"
    f" LEFT JOIN jobs_lease l ON l.job_id = j.id {OPEN_ESCALATION}"
    " LEFT JOIN jobs_attempt p ON p.job_id = j.id AND (p.number = j.attempt OR p.number = ANY(%s))"
    " LEFT JOIN agents_session s ON s.id = p.session_id WHERE j.task_id = ANY(%s::text[])"
)
#: A late word is not that late: deferrals have no bound, and what is read must have one.
ENDED_MAX = 400
# The attempts that have ended, for writes that name none, without their payload. Index:
# attempt_number_once, from its end.
READ_ENDED = (
    "SELECT p.job_id, p.number, p.session_id, p.worker_id, p.outcome, p.outcome_sha256,"
    " s.kind = 'activated' AS activated, s.lineage"
    " FROM jobs_attempt p JOIN jobs_job j ON j.id = p.job_id"
    " LEFT JOIN agents_session s ON s.id = p.session_id"
    f" WHERE j.task_id = ANY(%s::text[]) AND p.number > j.attempt - {ENDED_MAX}"
    " AND p.ended_at IS NOT NULL ORDER BY p.job_id, p.number"
)
DROP_LEASES = "DELETE FROM jobs_lease WHERE job_id = ANY(%s::bigint[])"
END_ESCALATIONS = (
    "UPDATE jobs_escalation SET resolution = 'ended', resolved_at = %s, resolved_by = %s,"
    " resolve_reason = %s WHERE job_id = ANY(%s::bigint[]) AND resolved_at IS NULL"
)


#: What claims write; no trigger of a table looks for it.
HOT = frozenset({Attempt, Lease})


@dataclass(frozen=True)
class Outcome:
    """The outcome of a move in a word, and the job as the move leaves it."""

    outcome: str
    record: JobRecord

    @property
    def job(self) -> Job:
        return self.record.job


@dataclass(frozen=True)
class EndedAttempt:
    """An attempt that has ended: whose it was, and what became of it.

    `outcome_sha256` is the `digest` of what its worker reported, empty where it did not.
    """

    number: int
    session_id: int
    worker_id: str
    activated: bool
    outcome: str
    outcome_sha256: str
    lineage: UUID | None = None


@dataclass(kw_only=True)
class LockedJob(JobRecord):
    """A locked job with what stands around it."""

    type: JobType
    #: The revision that the row had when it was locked; 1 where it has just come into being.
    revision_read: int = 1
    #: The numbers of the attempts that an activated session has made, of those that are read.
    activated: set[int] = field(default_factory=set)
    #: The lineage of each, None where its session is one of before.
    lineages: dict[int, UUID | None] = field(default_factory=dict)
    #: All that have ended, where the request names no attempt.
    ended: list[EndedAttempt] = field(default_factory=list)
    #: The worker that an item of a batch names; empty: whom the request names.
    worker_id: str = ""
    #: What its worker is told of model calls, as it is answered; read where it is claimed.
    model_terms: dict[str, Any] = field(default_factory=dict)
    #: Bytes that its payload takes in an answer; counted where several are claimed.
    payload_bytes: int = 0

    def identity(self, attempt: Attempt) -> str:
        """Return the external identity of an attempt of the job; contract section 5."""
        return external_request_id(
            task_id=self.job.task_id,
            job_id=str(self.job.job_id),
            execution_digest=self.task.execution_digest,
            runtime=attempt.runtime,
            attempt=attempt.number,
        )


class Work:
    """The jobs that a transaction has locked, and the rows that it will save."""

    def __init__(self, now: datetime, caller: Caller | None = None) -> None:
        self.now = now
        self.caller = caller
        self.locked: dict[str, LockedJob] = {}
        self._jobs: dict[int, Job] = {}
        self._ended: dict[int, Attempt] = {}
        self._dropped: list[int] = []
        #: Jobs whose governed attempt has ended: what it may still do ends with it.
        self._disarmed: list[LockedJob] = []
        #: Executions that ended with their attempt, whose calls are booked.
        self._booked: list[str] = []
        self._events: list[AuditEvent] = []
        self._facts: list[Fact] = []
        self._fresh: list[Any] = []
        self._statements: list[sql.Statement] = []

    @property
    def worker(self) -> Caller:
        """Return the caller of a worker's write, who was admitted before anything was locked."""
        assert self.caller is not None
        return self.caller

    def get(self, task_id: str) -> LockedJob:
        """Return the locked job of `task_id`.

        :raises NotFound: there is none.
        :raises WrongOwner: it belongs to another agent than the caller.
        """
        locked = self.locked.get(task_id)
        if locked is None:
            raise NotFound("There is no job of that task_id.")
        if self.caller is not None and locked.job.agent_id != self.caller.agent_id:
            raise WrongOwner()
        return locked

    def move(
        self,
        locked: LockedJob,
        state: str,
        *,
        action: str,
        actor: str,
        reason: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        """Put the job into `state`, with its audit event and its fact."""
        before = locked.job.state
        locked.job.move_to(state, at=self.now)
        self.note(locked, action=action, actor=actor, reason=reason, before=before, details=details)

    def note(
        self,
        locked: LockedJob,
        *,
        action: str,
        actor: str,
        reason: str = "",
        before: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> str:
        """Record what was done to the job: an event of its chain, and a fact of its stream.

        Returns the fact's id.
        """
        job = locked.job
        content = {"attempt": job.attempt, "revision": job.revision, **(details or {})}
        named = self._named(locked, actor)
        # A job that has just come into being was nothing before.
        was = job.state if before is None else before
        event = audit.chain(
            job,
            subject=job.audit_subject,
            action=action,
            actor=actor,
            at=self.now,
            reason=reason,
            before={"state": was} if was else None,
            after={"state": job.state, "paused": job.paused},
            details=named | content,
        )
        job.fact_sequence += 1
        data = {
            "job_id": str(job.job_id),
            "task_id": job.task_id,
            "owner": locked.owner,
            "state": job.state,
            "fencing_token": job.fencing_token,
            **content,
        }
        self._events.append(event)
        fact = outbox.fact(
            stream=job.audit_subject,
            sequence=job.fact_sequence,
            kind=action,
            at=self.now,
            data=data,
        )
        self._facts.append(fact)
        self.touch(locked)
        return fact.fact_id

    def relay(
        self, locked: LockedJob, fact: Fact, *, action: str, actor: str, details: dict[str, Any]
    ) -> None:
        """Save a fact that somebody else states about the job, with the event that records it."""
        event = audit.chain(
            locked.job,
            subject=locked.job.audit_subject,
            action=action,
            actor=actor,
            at=self.now,
            details=self._named(locked, actor) | details,
        )
        if fact.relayed:
            locked.job.fact_sequence += 1
            fact.sequence = locked.job.fact_sequence
        self._events.append(event)
        self._facts.append(fact)
        self.touch(locked)

    def _named(self, locked: LockedJob, actor: str) -> dict[str, str]:
        """Return what an event names a worker by, where it is the worker's act."""
        if self.caller is None or actor != self.caller.actor:
            return {}
        return self.caller.named(locked.worker_id)

    def touch(self, locked: LockedJob) -> None:
        """Save the job's moving columns at the end."""
        if locked.job.revision != locked.revision_read:
            locked.job.updated_at = self.now
        self._jobs[locked.job.pk] = locked.job

    def touch_attempt(self, attempt: Attempt) -> None:
        """Save the attempt's ending columns at the end."""
        self._ended[attempt.pk] = attempt

    def grant(self, attempt: Attempt, lease: Lease) -> None:
        """Save a new attempt with its lease."""
        self._fresh += [attempt, lease]

    def add(self, row: Any) -> None:
        """Save a new row of any other model, before the job that it explains."""
        self._fresh.append(row)

    def end_attempt(self, locked: LockedJob, outcome: str) -> Attempt:
        """End the running attempt: close its row, keep its last progress, drop its lease."""
        attempt, lease = locked.last_attempt, locked.lease
        assert attempt is not None, f"{locked.job} is active without an attempt"
        attempt.close(outcome, at=self.now)
        if lease is not None:
            if attempt.progress is None:
                attempt.progress = lease.progress
            self._dropped.append(locked.job.pk)
            locked.lease = None
        self.touch_attempt(attempt)
        if attempt.governed:
            self._disarmed.append(locked)
            self._end_model_only(locked, attempt)
        return attempt

    def _end_model_only(self, locked: LockedJob, attempt: Attempt) -> None:
        """Leave nothing in doubt that touched nothing but models, however the attempt ends."""
        if not locked.job.unresolved_executions:
            return
        ended = fail_model_only(attempt=attempt, now=self.now)
        if ended is not None:
            self._booked.append(ended)
            locked.job.unresolved_executions -= 1
            details = {"external_request_id": ended}
            self.note(locked, action="execution.failed", actor=AUTHORITY, details=details)

    def end_escalation(self, locked: LockedJob, *, actor: str, reason: str) -> None:
        """Close the job's open escalation, whose subject has ended."""
        self._statements.append(
            sql.Statement(END_ESCALATIONS, (self.now, actor, reason, [locked.job.pk]))
        )

    def also(self, statement: sql.Statement) -> None:
        """Run a further statement of the same transaction with the rest, before the jobs."""
        self._statements.append(statement)

    def _end_authority(self) -> None:
        """End what governed attempts may still do, and say so on their jobs' chains."""
        by_job_id = {locked.job.job_id: locked for locked in self._disarmed}
        jobs = [locked.job for locked in self._disarmed]
        self._disarmed = []
        for released in end_authority(jobs=jobs, now=self.now, booked=self._booked):
            event = released.event()
            locked = by_job_id[released.reservation.job_id]
            self.note(locked, action=event["action"], actor=AUTHORITY, details=event["after"])

    def save_new(self, fresh: list[LockedJob]) -> None:
        """Write tasks, events and facts of jobs that were just inserted, and of no others."""
        self._jobs = {locked.job.pk: locked.job for locked in fresh}
        if not fresh:
            return
        subjects = {locked.job.audit_subject for locked in fresh}
        written = sql.one_cte(
            sql.insert([locked.task for locked in fresh]),
            sql.insert([event for event in self._events if event.subject in subjects]),
            sql.insert([fact for fact in self._facts if fact.stream in subjects]),
        )
        sql.pipeline(written)
        self._announce()

    def save(self) -> None:
        """Write everything in one round trip, in the order that the triggers of the tables need."""
        if self._disarmed:
            self._end_authority()
        statements = list(self._statements)
        by_model: dict[type, list[Any]] = {}
        for row in self._fresh:
            by_model.setdefault(type(row), []).append(row)
        # Their triggers look for the rows that explain a move, which so come first.
        statements += [sql.insert(by_model.pop(kind)) for kind in list(by_model) if kind not in HOT]
        moving = [sql.insert(rows) for rows in by_model.values()]
        if self._dropped:
            moving.append(sql.any_of(DROP_LEASES, self._dropped))
        if self._ended:
            moving.append(sql.update(list(self._ended.values()), ENDING))
        if self._jobs:
            moving.append(sql.update(list(self._jobs.values()), MOVING))
        if self._events:
            moving += [sql.insert(self._events), sql.insert(self._facts)]
        if moving:
            statements.append(sql.one_cte(*moving))
        if statements:
            sql.pipeline(*statements)
        self._announce()
        self._forget()

    def _forget(self) -> None:
        """Forget what is saved, so that a further move of the transaction can be saved after it."""
        self._jobs, self._ended, self._dropped = {}, {}, []
        self._events, self._facts, self._fresh, self._statements = [], [], [], []

    def _announce(self) -> None:
        """Wake the workers whose jobs can be claimed now, once that is committed."""
        ready = {
            job.agent_id
            for job in self._jobs.values()
            if job.state == State.QUEUED and not job.paused and job.claimable_at <= self.now
        }
        for agent_id in ready:
            transaction.on_commit(partial(wakeups.announce, agent_id), robust=True)


def lock(
    task_ids: Sequence[str],
    *,
    entry: Entry | None = None,
    numbers: Sequence[int | None] | None = None,
    first: Sequence[sql.Statement] = (),
    make_session: bool = False,
    if_free: bool = False,
    unnumbered: bool = False,
    to_claim: bool = False,
) -> Work:
    """Lock the jobs and read what stands around them, in one round trip.

    :param entry: the worker that calls; it is admitted before anything is locked.
    :param numbers: the attempts that the request names, beside the running or last ones.
    :param first: what is locked between the caller's agent and the jobs.
    :param if_free: leave out jobs that somebody else has locked, and lock the leases of the rest.
    :param unnumbered: the request names no attempt of some job: read those that have ended.
    :param to_claim: read what is told of the jobs' model calls.
    """
    locking = LOCK_IF_FREE if if_free else LOCK_BY_TASK
    if to_claim:
        locking = locking.replace(SELECT_JOBS, SELECT_TO_CLAIM, 1)
    elif len(task_ids) > 1:
        locking = locking.replace(SELECT_JOBS, SELECT_SEVERAL, 1)
    statements = [*first, sql.any_of(locking, task_ids)]
    if if_free:
        statements.append(sql.any_of(LOCK_LEASES, task_ids))
    statements.append(read_context(task_ids, numbers))
    if unnumbered:
        statements.append(sql.any_of(READ_ENDED, task_ids))
    caller = None
    if entry is not None:
        caller, rows = enter(entry, also=statements, make_session=make_session)
    else:
        rows = sql.pipeline(*statements)
    jobs, around = rows[len(first)], rows[-2 if unnumbered else -1]
    work = Work(around[0]["now"] if around else clock.now(), caller)
    for row in jobs:
        locked = from_row(row)
        work.locked[locked.job.task_id] = locked
    load_context(work.locked.values(), around)
    if unnumbered:
        _load_ended(work.locked.values(), rows[-1])
    return work


def lock_lease(work: Work, locked: LockedJob) -> None:
    """Lock the lease of a job that is held, and read again what stands around it, and the clock.

    A heartbeat takes the lease's row alone: one that is under way is seen, or comes too late.
    """
    task_ids = [locked.job.task_id]
    _, around = sql.pipeline(sql.any_of(LOCK_LEASES, task_ids), read_context(task_ids))
    work.now, locked.lease = around[0]["now"], None
    load_context([locked], around)


def read_context(
    task_ids: Sequence[str], numbers: Sequence[int | None] | None = None
) -> sql.Statement:
    """Return the reading of what stands around the jobs. :param numbers: as of `lock`."""
    named = sorted({number for number in numbers or () if number is not None})
    return sql.any_of(READ_CONTEXT, task_ids, named)


def load_context(locked: Iterable[LockedJob], rows: Sequence[sql.Row]) -> None:
    """Put what `read_context` has read around the jobs that are held, and no others."""
    by_pk = {one.job.pk: one for one in locked}
    for row in rows:
        one, number = by_pk.get(row["job_id"]), row["p_number"]
        if one is None:
            continue
        one.escalation_reason = row["escalation_reason"]
        if one.lease is None and row["l_job_id"] is not None:
            one.lease = sql.build(Lease, row, "l")
        if number is not None:
            one.attempts[number] = sql.build(Attempt, row, "p")
            one.lineages[number] = row["lineage"]
            if row["session_kind"] == "activated":
                one.activated.add(number)


def _load_ended(locked: Iterable[LockedJob], rows: Sequence[sql.Row]) -> None:
    by_pk = {one.job.pk: one for one in locked}
    for row in rows:
        if (one := by_pk.get(row.pop("job_id"))) is not None:
            one.ended.append(EndedAttempt(**row))


def from_row(row: sql.Row) -> LockedJob:
    """Return the locked job of a row that `SELECT_JOBS` selected."""
    job_type, job = sql.build(JobType, row, "y"), sql.build(Job, row, "j")
    return LockedJob(
        job=job,
        task=sql.build(Task, row, "t"),
        owner=row["owner"],
        job_type=job_type.name,
        type=job_type,
        model_terms=json.loads(row["model_terms"]) if "model_terms" in row else {},
        revision_read=job.revision,
    )


@dataclass(frozen=True)
class Content:
    """What a write says, as digests by which its repetition is known. `stored` is kept in rows."""

    stored: str
    known: frozenset[str]

    def recorded_as(self, recorded: str) -> bool:
        """Return whether this was said by the write of which that digest was kept."""
        return recorded in self.known


def plain_content(**content: Any) -> Content:
    """Return what a write says whose content is kept as it was sent."""
    sha256 = digest(**content)
    return Content(sha256, frozenset((sha256,)))


def redacted_content(**content: Any) -> Content:
    """Return what a write says of whose words secrets are taken out before they are kept."""
    known = redaction.fingerprints(canonical(content))
    return Content(known[0], frozenset(known))


def digest(**content: Any) -> str:
    """Return the SHA-256 (hex) of what a request says, by which repetitions are recognised."""
    return hashlib.sha256(canonical(content)).hexdigest()


def retry_at(locked: LockedJob, now: datetime) -> datetime:
    """Return when the next automatic attempt may be claimed; the job type's policy."""
    delay = retry_delay_seconds(
        locked.job.counted_attempts,
        base_seconds=locked.type.backoff_base_seconds,
        cap_seconds=locked.type.backoff_cap_seconds,
    )
    return now + timedelta(seconds=delay)
