"""Intake: a task becomes a job, once and for ever."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing.exceptions import Unresolvable
from uuid_utils.compat import uuid7

from agents.models import RiskTier
from agents.prefixes import owners as owners_of
from agents.principals import Principal
from governance.core import sql
from governance.core.clock import READ_CLOCK, instant
from governance.core.digests import execution_digest
from governance.core.errors import (
    DomainError,
    FieldFault,
    InvalidArgument,
    TaskContentMismatch,
    TaskIdReserved,
    TaskIdTaken,
)
from governance.evidence.envelopes import payload_of, sign
from jobs.models import Job, JobType, Priority, Task
from jobs.queries import JobRecord, read_jobs
from jobs.transitions.work import LockedJob, Outcome, State, Work, digest

INTAKE_LIMIT_MAX = 500
SCHEMA_FAULTS_MAX = 20

# No lock. The types with their agents, and what is already known of the tasks.
READ_TYPES = (
    f"SELECT {sql.select_list(JobType, 'y')}, a.name AS owner, a.max_risk_tier, a.enabled"
    " FROM jobs_jobtype y JOIN agents_agent a ON a.id = y.agent_id WHERE y.name = ANY(%s::text[])"
)
READ_AGENTS = (
    "SELECT id, name, max_risk_tier, enabled FROM agents_agent WHERE name = ANY(%s::text[])"
)
READ_SOURCES = "SELECT name FROM jobs_source WHERE enabled AND name = ANY(%s::text[])"
READ_KNOWN = (
    "SELECT j.id, j.task_id, j.submitted_by FROM jobs_job j WHERE j.task_id = ANY(%s::text[])"
)

#: What two envelopes of the same task must agree on. When it was submitted is not part of it.
CONTENT = (
    "task_id",
    "source",
    "title",
    "goal",
    "task_type",
    "risk_tier",
    "priority",
    "preferred_owner",
    "inputs",
    "output_required",
    "review_required",
    "execution_approval_required",
    "rollback_required",
    "available_at",
    "deadline_at",
    "expires_if_not_started_at",
    "attempt_timeout_seconds",
    "labels",
    "max_attempts",
)


@dataclass(frozen=True)
class _Lookup:
    """The rows that one intake has looked up, and when."""

    now: datetime
    types: dict[str, sql.Row]
    agents: dict[str, sql.Row]
    sources: set[str]
    #: Primary keys of the jobs that exist, by task id; and who submitted them.
    known: dict[str, int]
    submitted_by: dict[str, str]
    #: The principals that own a prefix of the task ids.
    owners: dict[str, str]


@sql.move
def intake(*, principal: Principal, envelopes: list[dict[str, Any]]) -> list[Outcome | DomainError]:
    """Make a job of each task envelope, each by itself, in one transaction.

    Takes envelopes whose shape has been checked; checks the domain's rules and lists every fault.
    A task that exists with the same envelope answers with its job (`already_queued`); one of
    another submitter is `TaskIdTaken`, and tells nothing of itself, not even whether it is alike.
    An id under a prefix that another submitter owns is `TaskIdReserved`, whether there is such a
    task or not. Holds the prefixes as they are until it commits.
    """
    lookup = _look_up(envelopes)
    made: dict[str, LockedJob] = {}
    refusals: dict[int, DomainError] = {}
    for place, envelope in enumerate(envelopes):
        task_id = envelope["task_id"]
        if _reserved(principal, task_id, lookup):
            refusals[place] = TaskIdReserved()
            continue
        if task_id in made or task_id in lookup.known:
            continue
        try:
            made[task_id] = _make(principal, envelope, lookup)
        except DomainError as refusal:
            refusals[place] = refusal
    fresh = _insert(Work(lookup.now), made, principal) if made else set()
    records = made | _known_jobs(lookup, made, fresh)
    answers: list[Outcome | DomainError] = []
    for place, envelope in enumerate(envelopes):
        if place in refusals:
            answers.append(refusals[place])
            continue
        record = records[envelope["task_id"]]
        answers.append(_answer(record, envelope, principal, is_new=record.job.task_id in fresh))
        # Named again, it is a repetition.
        fresh.discard(record.job.task_id)
    return answers


def _reserved(principal: Principal, task_id: str, lookup: _Lookup) -> bool:
    """Return whether another owns a prefix of the id; jobs that exist stay their submitters'."""
    owner = lookup.owners.get(task_id, principal.text)
    return principal.text not in (owner, lookup.submitted_by.get(task_id))


def _look_up(envelopes: list[dict[str, Any]]) -> _Lookup:
    owners = {e.get("preferred_owner") for e in envelopes}
    _, prefixes, types, agents, sources, known, [clock] = sql.pipeline(
        *owners_of([e["task_id"] for e in envelopes]),
        sql.any_of(READ_TYPES, list({e["task_type"] for e in envelopes})),
        sql.Statement(READ_AGENTS, ([o for o in owners if o],)),
        sql.any_of(READ_SOURCES, list({e["source"] for e in envelopes})),
        sql.any_of(READ_KNOWN, [e["task_id"] for e in envelopes]),
        sql.Statement(READ_CLOCK),
    )
    return _Lookup(
        now=clock["now"],
        types={row["y_name"]: row for row in types},
        agents={row["name"]: row for row in agents},
        sources={row["name"] for row in sources},
        known={row["task_id"]: row["id"] for row in known},
        submitted_by={row["task_id"]: row["submitted_by"] for row in known},
        owners={row["task_id"]: f"submitter:{row['name']}" for row in prefixes},
    )


def _content_sha256(envelope: dict[str, Any], *, in_utc: bool = True) -> str:
    """Return the digest of what two envelopes of a task must agree on.

    :param in_utc: an instant is the same with another offset; rows of before have the digest of
        instants with the offsets in which they were given.
    """
    content = {}
    for name in CONTENT:
        value = envelope.get(name)
        if isinstance(value, datetime):
            value = (value.astimezone(UTC) if in_utc else value).isoformat()
        content[name] = value
    return digest(**content)


def _make(principal: Principal, envelope: dict[str, Any], lookup: _Lookup) -> LockedJob:
    """Return the job and task of an envelope, unsaved.

    :raises InvalidArgument: with every broken rule.
    """
    row = lookup.types.get(envelope["task_type"])
    faults = _faults(envelope, row, lookup)
    if faults or row is None:
        raise InvalidArgument("The task breaks the rules of intake.", errors=faults)
    job_type = sql.build(JobType, row, "y")
    owner = envelope.get("preferred_owner") or row["owner"]
    job = Job(
        job_id=uuid7(),
        task_id=envelope["task_id"],
        agent_id=lookup.agents[owner]["id"] if owner in lookup.agents else job_type.agent_id,
        job_type_id=job_type.pk,
        risk_tier=envelope["risk_tier"],
        priority=Priority[envelope["priority"].upper()],
        state=State.HELD if envelope.get("execution_approval_required") else State.QUEUED,
        available_at=max(envelope.get("available_at") or lookup.now, lookup.now),
        max_attempts=envelope.get("max_attempts") or job_type.max_attempts,
        review_required=bool(envelope.get("review_required")),
        execution_approval_required=bool(envelope.get("execution_approval_required")),
        submitted_by=principal.text,
        requested_by=f"user:{principal.requested_by}" if principal.requested_by else "",
        deadline_at=envelope.get("deadline_at"),
        expires_if_not_started_at=envelope.get("expires_if_not_started_at"),
        attempt_timeout_seconds=envelope.get("attempt_timeout_seconds"),
        created_at=lookup.now,
        state_since=lookup.now,
    )
    task = _task(job, envelope, agent=owner, task_type=job_type.name)
    return LockedJob(job=job, task=task, owner=owner, job_type=job_type.name, type=job_type)


def _task(job: Job, envelope: dict[str, Any], *, agent: str, task_type: str) -> Task:
    """Return the task of a job, with its payload signed; contract section 5 lists the payload."""
    output = envelope.get("output_required", False)
    payload = {
        "task_id": job.task_id,
        "job_id": str(job.job_id),
        "agent": agent,
        "task_type": task_type,
        "risk_tier": job.risk_tier,
        "title": envelope["title"],
        "goal": envelope["goal"],
        "inputs": envelope.get("inputs") or {},
        "output_required": output,
        "review_required": job.review_required,
        "execution_approval_required": job.execution_approval_required,
        "rollback_required": bool(envelope.get("rollback_required")),
        "issued_at": instant(job.created_at),
    }
    signed = sign(payload)
    return Task(
        source=envelope["source"],
        title=payload["title"],
        goal=payload["goal"],
        inputs=payload["inputs"],
        output_required=bool(output),
        output_text=output if isinstance(output, str) else None,
        rollback_required=payload["rollback_required"],
        labels=envelope.get("labels") or {},
        submitted_at=envelope.get("created_at"),
        content_sha256=_content_sha256(envelope),
        envelope=signed,
        execution_digest=execution_digest(payload_of(signed)),
    )


def _faults(envelope: dict[str, Any], row: sql.Row | None, lookup: _Lookup) -> list[FieldFault]:
    """Return every rule of intake that the envelope breaks."""
    faults = []

    def fault(pointer: str, detail: str) -> None:
        faults.append(FieldFault(pointer, detail))

    if envelope["source"] not in lookup.sources:
        fault("/source", "This source is not known.")
    owner = envelope.get("preferred_owner")
    if owner and owner not in lookup.agents:
        fault("/preferred_owner", "There is no such agent.")
    if row is None or not row["y_enabled"]:
        fault("/task_type", "This task type is not known.")
        return faults
    if owner and owner in lookup.agents and owner != row["owner"]:
        fault("/preferred_owner", f"Tasks of this type go to {row['owner']}.")
    agent = lookup.agents.get(owner or "") or row
    if not agent["enabled"]:
        fault("/task_type", "The agent of this type is disabled.")
    tier = envelope["risk_tier"]
    if not RiskTier(agent["max_risk_tier"]).allows(tier):
        fault("/risk_tier", f"The agent is allowed {agent['max_risk_tier']} at most.")
    if tier == RiskTier.HIGH:
        for name in ("review_required", "execution_approval_required"):
            if not envelope.get(name):
                fault(f"/{name}", "A task of high risk needs it.")
    wanted, ceiling = envelope.get("max_attempts"), row["y_max_attempts_ceiling"]
    if wanted and wanted > ceiling:
        fault("/max_attempts", f"The ceiling of this type is {ceiling}.")
    for name in ("deadline_at", "expires_if_not_started_at"):
        if envelope.get(name) and envelope[name] <= lookup.now:
            fault(f"/{name}", "This time has passed.")
    schema = row["y_inputs_schema"]  # JSON text, which serves as the cache's key
    if schema != "{}":
        faults += _faults_of_inputs(envelope.get("inputs") or {}, schema)
    return faults


def _faults_of_inputs(inputs: dict[str, Any], schema: str) -> list[FieldFault]:
    """Return where the inputs break the schema of their type.

    A schema is tried when it is set, on no inputs; references that end there may still loop, or
    lead nowhere, on others. What cannot be judged is not taken.
    """
    try:
        found = sorted(_validator(schema).iter_errors(inputs), key=str)
    except (RecursionError, Unresolvable):
        detail = "The schema of this type cannot judge these inputs: its references have no end."
        return [FieldFault("/inputs", detail)]
    return [
        FieldFault(
            "/inputs" + "".join(f"/{part}" for part in error.absolute_path), error.message[:500]
        )
        for error in found[:SCHEMA_FAULTS_MAX]
    ]


@lru_cache(maxsize=256)
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema))


def _insert(work: Work, made: dict[str, LockedJob], principal: Principal) -> set[str]:
    """Insert the jobs that nobody else inserted meanwhile; return their task ids."""
    # In one order for all: an insert waits for a rival's of the same task, and two that named the
    # same tasks in opposite order would wait for each other.
    made = {task_id: made[task_id] for task_id in sorted(made)}
    for locked in made.values():
        work.note(
            locked,
            action="job.held" if locked.job.state == State.HELD else "job.queued",
            actor=principal.text,
            before="",
            details={"execution_digest": locked.task.execution_digest},
        )
    jobs = [locked.job for locked in made.values()]
    [rows] = sql.pipeline(sql.insert(jobs, unless_present=True, returning=("task_id",)))
    fresh = {row["task_id"]: row["id"] for row in rows}
    for task_id, locked in made.items():
        if task_id in fresh:
            locked.job.pk = locked.task.job_id = fresh[task_id]
    work.save_new([made[task_id] for task_id in fresh])
    return set(fresh)


def _known_jobs(
    lookup: _Lookup, made: dict[str, LockedJob], fresh: set[str]
) -> dict[str, JobRecord]:
    """Return the jobs that existed before, or were inserted by a rival, by task id."""
    known = list(lookup.known.values())
    if lost := [task_id for task_id in made if task_id not in fresh]:
        [rows] = sql.pipeline(sql.any_of(READ_KNOWN, lost))
        known += [row["id"] for row in rows]
    records = read_jobs(job_pks=known) if known else {}
    return {record.job.task_id: record for record in records.values()}


def _answer(
    record: JobRecord, envelope: dict[str, Any], principal: Principal, *, is_new: bool
) -> Outcome | DomainError:
    if is_new:
        return Outcome(record.job.state, record)
    if record.job.submitted_by != principal.text:
        return TaskIdTaken()
    known = record.task.content_sha256
    if known not in (_content_sha256(envelope), _content_sha256(envelope, in_utc=False)):
        return TaskContentMismatch()
    return Outcome("already_queued", record)
