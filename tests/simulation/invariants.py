"""What must hold afterwards, whatever happened: judged from the rows and from what was promised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from governance import sealing
from governance.models import Fact
from jobs.models import Attempt, Job, Lease, Reflection
from tests.simulation.lives import Ack, History


def violations(history: History) -> list[str]:
    """Return every promise that the rows do not bear out."""
    return [
        *history.faults,
        *_lost_submissions(history),
        *_lost_writes(history),
        *_keys_executed_twice(history),
        *_claims_behind_a_closed_barrier(history),
        *_broken_jobs(),
        *_broken_chains(),
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
    for ack in history.acks:
        attempt = attempts.get((ack.task_id, ack.attempt))
        if attempt is None or attempt.fencing_token != ack.fencing_token:
            yield f"{ack}: acknowledged under a token that the attempt never had"
        elif not _is_kept(ack, attempt, reflections):
            yield f"{ack}: acknowledged and not there"


def _is_kept(ack: Ack, attempt: Attempt, reflections: dict[tuple[str, int], str]) -> bool:
    if ack.kind == "complete":
        return attempt.outcome == "completed" and attempt.result == ack.content
    if ack.kind == "fail":
        return attempt.outcome == "failed" and attempt.error_message == ack.content
    return reflections.get((ack.task_id, ack.attempt)) == ack.content


def _keys_executed_twice(history: History) -> Iterator[str]:
    granted = defaultdict(set)
    for key, task_id, number in Attempt.objects.values_list("claim_key", "job__task_id", "number"):
        granted[str(key)].add((task_id, number))
    for key, answered in history.claims.items():
        if granted[key] != answered:
            yield f"claim {key}: answered {answered}, granted {granted[key]}"


def _claims_behind_a_closed_barrier(history: History) -> Iterator[str]:
    for closed_at, opened_at in history.closed:
        behind = Attempt.objects.filter(claimed_at__gt=closed_at, claimed_at__lt=opened_at)
        for attempt in behind:
            yield f"{attempt}: claimed at {attempt.claimed_at}, closed since {closed_at}"


def _broken_jobs() -> Iterator[str]:
    leased = set(Lease.objects.values_list("job_id", flat=True))
    attempts = defaultdict(list)
    for attempt in Attempt.objects.order_by("job_id", "number"):
        attempts[attempt.job_id].append(attempt)
    for job in Job.objects.all():
        yield from _faults_of(job, attempts[job.pk], job.pk in leased)


def _faults_of(job: Job, attempts: list[Attempt], leased: bool) -> Iterator[str]:
    tokens = [attempt.fencing_token for attempt in attempts]
    completed = [attempt for attempt in attempts if attempt.outcome == "completed"]
    if [attempt.number for attempt in attempts] != list(range(1, job.attempt + 1)):
        yield f"{job}: attempts {[attempt.number for attempt in attempts]} of {job.attempt}"
    if tokens != sorted(set(tokens)) or tokens[-1:] > [job.fencing_token]:
        yield f"{job}: tokens {tokens}, now {job.fencing_token}"
    if leased != (job.state == "active"):
        yield f"{job}: {job.state}, and leased is {leased}"
    if len(completed) != (job.state == "completed"):
        yield f"{job}: {job.state} with {len(completed)} completed attempts"
    for attempt in completed:
        own = {"by": attempt.worker_id, "attempt": attempt.number, "token": attempt.fencing_token}
        if attempt.result != own:
            yield f"{job}: attempt {attempt.number} has the result {attempt.result}"


def _broken_chains() -> Iterator[str]:
    streams = defaultdict(list)
    for stream, number in Fact.objects.order_by("stream", "sequence").values_list(
        "stream", "sequence"
    ):
        streams[stream].append(number)
    for job in Job.objects.all():
        if streams[job.audit_subject] != list(range(1, job.fact_sequence + 1)):
            yield f"{job}: facts {streams[job.audit_subject]} of {job.fact_sequence}"
    for finding in sealing.verify().findings:
        yield f"audit: {finding}"
