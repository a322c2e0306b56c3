"""What must hold afterwards, whatever happened: judged from the rows and from what was promised."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from uuid import UUID

from django.db.models import F

from governance.core.models import AuditEvent, Fact
from governance.evidence import trail
from governance.money import ledger
from governance.money.models import BudgetWindow, Reservation, Resolution
from jobs.models import (
    Attempt,
    Execution,
    ExecutionEvidence,
    Job,
    Lease,
    Permit,
    Reconciliation,
    Reflection,
)
from tests.simulation.lives import Ack, History
from tests.simulation.outside import Outside

#: Whose workers write results that name their attempt.
TELLING = {"hermes", "openclaw"}


def violations(history: History, outside: Outside | None = None) -> list[str]:
    """Return every promise that the rows, or what was seen outside, do not bear out."""
    return [
        *history.faults,
        *_lost_submissions(history),
        *_lost_writes(history),
        *_keys_executed_twice(history),
        *_claims_behind_a_closed_barrier(history),
        *_writes_of_superseded_sessions(),
        *_permits_of_older_epochs(),
        *_broken_jobs(),
        *_broken_chains(),
        *_broken_books(),
        *(_broken_effects(outside) if outside else ()),
        *(_facts_out_of_order(outside) if outside else ()),
    ]


def _lost_submissions(history: History) -> Iterator[str]:
    there = {task: str(job) for task, job in Job.objects.values_list("task_id", "job_id")}
    for task_id, answered in history.submitted.items():
        if answered != {there.get(task_id)}:
            yield f"{task_id}: answered as {answered}, is {there.get(task_id)}"


def _lost_writes(history: History) -> Iterator[str]:
    attempts = {
        (attempt.job.task_id, attempt.number): attempt
        for attempt in Attempt.objects.select_related("job")
    }
    reflections = {
        (reflection.job.task_id, reflection.number): reflection.what_worked
        for reflection in Reflection.objects.select_related("job")
    }
    kept = _Kept(reflections)
    for ack in history.acks:
        attempt = attempts.get((ack.task_id, ack.attempt))
        if attempt is None or attempt.fencing_token != ack.fencing_token:
            yield f"{ack}: acknowledged under a token that the attempt never had"
        elif not kept.has(ack, attempt):
            yield f"{ack}: acknowledged and not there"


class _Kept:
    """The rows that acknowledged writes must have left."""

    def __init__(self, reflections: dict[tuple[str, int], str]) -> None:
        self.reflections = reflections
        self.facts = dict(Fact.objects.values_list("receipt_id", "sequence"))
        self.reservations = set(Reservation.objects.values_list("reservation_id", flat=True))
        self.permits = set(Permit.objects.values_list("permit_id", flat=True))
        self.executions = dict(Execution.objects.values_list("external_request_id", "state"))
        evidence = ExecutionEvidence.objects.values_list(
            "execution__external_request_id", "outcome"
        )
        self.evidence = set(evidence)

    def has(self, ack: Ack, attempt: Attempt) -> bool:
        content = ack.content
        if ack.kind == "complete":
            return bool(attempt.outcome == "completed" and attempt.result == content)
        if ack.kind == "fail":
            return bool(attempt.outcome == "failed" and attempt.error_message == content)
        if ack.kind == "fact":
            return self.facts.get(UUID(content["receipt_id"]), 0) == content["sequence"]
        if ack.kind == "route":
            return UUID(content) in self.reservations
        if ack.kind == "permit":
            return UUID(content) in self.permits
        if ack.kind == "start":
            return content in self.executions
        if ack.kind == "result":
            request_id, outcome, code = content
            if code == "APPLIED":
                return self.executions.get(request_id) == outcome
            return (request_id, outcome) in self.evidence
        return self.reflections.get((ack.task_id, ack.attempt)) == content


def _keys_executed_twice(history: History) -> Iterator[str]:
    granted = defaultdict(set)
    for key, task_id, number in Attempt.objects.values_list("claim_key", "job__task_id", "number"):
        granted[str(key)].add((task_id, number))
    for key, answered in history.claims.items():
        if granted[key] != answered:
            yield f"claim {key}: answered {answered}, granted {granted[key]}"


def _claims_behind_a_closed_barrier(history: History) -> Iterator[str]:
    for agent, closed_at, opened_at in history.closed:
        behind = Attempt.objects.filter(
            job__agent__name=agent, claimed_at__gt=closed_at, claimed_at__lt=opened_at
        )
        for attempt in behind:
            yield f"{attempt}: claimed at {attempt.claimed_at}, closed since {closed_at}"


def _writes_of_superseded_sessions() -> Iterator[str]:
    """A session that was fenced has claimed, asked, started, reported and ended nothing since."""
    fenced = Attempt.objects.filter(session__superseded_at__isnull=False)
    reported = ["completed", "failed", "escalated"]
    for attempt in fenced.filter(claimed_at__gt=F("session__superseded_at")):
        yield f"{attempt}: claimed after its session was superseded"
    late = fenced.filter(outcome__in=reported, ended_at__gt=F("session__superseded_at"))
    for attempt in late:
        yield f"{attempt}: {attempt.outcome} after its session was superseded"
    permits = Permit.objects.filter(session__superseded_at__isnull=False)
    for permit in permits.filter(issued_at__gt=F("session__superseded_at")):
        yield f"{permit}: issued after its session was superseded"
    for permit in permits.filter(state="spent", ended_at__gt=F("session__superseded_at")):
        yield f"{permit}: spent after its session was superseded"


def _permits_of_older_epochs() -> Iterator[str]:
    """Every permit was issued, and spent, under the epoch of its time."""
    rotations = AuditEvent.objects.filter(action="epoch.rotated").order_by("at")
    said = [(event.at, json.loads(bytes(event.body))) for event in rotations]
    began = [(at, body["after"]["dispatcher_epoch"]) for at, body in said]
    if not began:
        return
    for permit in Permit.objects.all():
        times = [permit.issued_at, *([permit.ended_at] if permit.state == "spent" else [])]
        for at in times:
            current = [epoch for since, epoch in began if since <= at][-1:]
            if current and current != [str(permit.dispatcher_epoch)]:
                yield f"{permit}: {permit.state} at {at} under the epoch {permit.dispatcher_epoch}"


def _broken_jobs() -> Iterator[str]:
    leased = set(Lease.objects.values_list("job_id", flat=True))
    attempts = defaultdict(list)
    for attempt in Attempt.objects.order_by("job_id", "number"):
        attempts[attempt.job_id].append(attempt)
    happened = Reconciliation.objects.filter(verdict="happened")
    verdicts = set(happened.values_list("execution__job_id", "execution__attempt"))
    for job in Job.objects.select_related("agent"):
        bound = (job.pk, job.attempt) in verdicts
        yield from _faults_of(job, attempts[job.pk], job.pk in leased, bound)


def _faults_of(job: Job, attempts: list[Attempt], leased: bool, bound: bool) -> Iterator[str]:
    tokens = [attempt.fencing_token for attempt in attempts]
    completed = [attempt for attempt in attempts if attempt.outcome == "completed"]
    if [attempt.number for attempt in attempts] != list(range(1, job.attempt + 1)):
        yield f"{job}: attempts {[attempt.number for attempt in attempts]} of {job.attempt}"
    if tokens != sorted(set(tokens)) or tokens[-1:] > [job.fencing_token]:
        yield f"{job}: tokens {tokens}, now {job.fencing_token}"
    if leased != (job.state == "active"):
        yield f"{job}: {job.state}, and leased is {leased}"
    if job.attempts_left < 0:
        yield f"{job}: attempt {job.attempt} of {job.max_attempts}, {job.deferrals} not counted"
    # By its last attempt, or by a person who knows that its effect happened.
    ended = len(completed) + (bound and job.state == "completed")
    if ended != (job.state == "completed"):
        yield f"{job}: {job.state} with {len(completed)} completed attempts"
    for attempt in completed if job.agent.name in TELLING else ():
        own = {"by": attempt.worker_id, "attempt": attempt.number, "token": attempt.fencing_token}
        if attempt.result != own:
            yield f"{job}: attempt {attempt.number} has the result {attempt.result}"


def _broken_chains() -> Iterator[str]:
    streams = defaultdict(list)
    facts = Fact.objects.filter(relayed=True).order_by("stream", "sequence")
    for stream, number in facts.values_list("stream", "sequence"):
        streams[stream].append(number)
    for job in Job.objects.all():
        if streams[job.audit_subject] != list(range(1, job.fact_sequence + 1)):
            yield f"{job}: facts {streams[job.audit_subject]} of {job.fact_sequence}"
    for finding in trail.verify().findings:
        yield f"audit: {finding}"


def _broken_books() -> Iterator[str]:
    """No more is held and spent than the cap, beyond what was flagged as an over-run."""
    for difference in ledger.verify():
        yield f"ledger: {difference}"
    overruns = Resolution.objects.filter(overrun=True).select_related("reservation")
    over = sum(each.cost - each.reservation.amount for each in overruns)
    for window in BudgetWindow.objects.select_related("budget"):
        if window.held + window.spent > window.budget.cap + over:
            yield f"{window}: {window.held} and {window.spent}, over-run by {over}"


def _broken_effects(outside: Outside) -> Iterator[str]:
    """What was done outside was allowed before, once, and is what the rows say of it."""
    executions = {
        execution.external_request_id: execution
        for execution in Execution.objects.prefetch_related("reconciliations")
    }
    for request_id, times in outside.effects.items():
        execution = executions.get(request_id)
        if execution is None or execution.state == "refused":
            yield f"{request_id}: done without an issued start"
        elif execution.decided_at > times[0]:
            yield f"{request_id}: done at {times[0]}, issued at {execution.decided_at}"
        if len(times) > 1:
            yield f"{request_id}: done {len(times)} times"
    for request_id, execution in executions.items():
        done, said = bool(outside.effects.get(request_id)), _said_of(execution)
        if said is None:
            yield f"{request_id}: unknown for ever"
        elif said in ("succeeded", "happened") and not done:
            yield f"{request_id}: {said}, and was not done"
        elif said in ("not_started", "not_happened", "refused") and done:
            yield f"{request_id}: {said}, and was done"
    yield from _begun_in_spite_of_doubt(executions.values())


def _said_of(execution: Execution) -> str | None:
    """Return what the result or the final verdict says of an execution; None: nothing."""
    if execution.state != "unknown":
        return str(execution.state)
    verdicts = [said.verdict for said in execution.reconciliations.all()]
    return next((verdict for verdict in verdicts if verdict != "undetermined"), None)


def _begun_in_spite_of_doubt(executions: Iterable[Execution]) -> Iterator[str]:
    """While one execution of a job is unknown, no further attempt of it is claimed."""
    attempts: defaultdict[int, list[datetime]] = defaultdict(list)
    for job_id, claimed_at in Attempt.objects.values_list("job_id", "claimed_at"):
        attempts[job_id].append(claimed_at)
    for execution in executions:
        if execution.state == "refused":
            continue
        verdicts = [
            said.decided_at
            for said in execution.reconciliations.all()
            if said.verdict != "undetermined"
        ]
        known_at = execution.resulted_at or (verdicts[0] if verdicts else None)
        for claimed_at in attempts[execution.job_id]:
            if claimed_at > execution.decided_at and (known_at is None or claimed_at < known_at):
                yield f"{execution}: claimed again at {claimed_at}, known since {known_at}"


def _facts_out_of_order(outside: Outside) -> Iterator[str]:
    """Every fact arrived; a stream's in its order, and what came twice was the same."""
    told: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    facts = Fact.objects.filter(relayed=True).order_by("stream", "sequence")
    for stream, sequence, fact_id in facts.values_list("stream", "sequence", "fact_id"):
        told[stream].append((sequence, fact_id))
    for stream, expected in told.items():
        arrived = list(dict.fromkeys(outside.facts[stream]))
        if arrived != expected:
            yield f"{stream}: {len(arrived)} of {len(expected)} facts arrived: {arrived[:20]}"
    for stream in outside.facts.keys() - told.keys():
        yield f"{stream}: facts arrived of which there is no row"
