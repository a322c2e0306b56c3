"""Rows that spoil an operation: found, told from faults of the program, and set aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, transaction

from governance.core import audit, sql
from governance.core.errors import DomainError, Internal, JobUnreadable, NotFound, WrongOwner
from governance.core.isolation import BREAKING, of_a_row
from governance.operations.failures import FAILURES, refusal_of
from governance.operations.operation import Call
from jobs import metrics, transitions
from jobs.models import Job
from jobs.operations import answers
from jobs.transitions.work import JOIN_TASK, SELECT_JOBS, from_row, load_context, read_context

log = structlog.get_logger(__name__)
R = TypeVar("R")

#: When to ask again for a job that cannot be read.
RETRY_SECONDS = 60
# No lock. Index: the unique one on task_id.
READ = SELECT_JOBS + "FROM jobs_job j" + JOIN_TASK + "WHERE j.task_id = ANY(%s::text[])"


class Culprits:
    """The jobs whose rows have spoiled one call, each with its error.

    :param kind: the operation.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        #: Whether some item was refused: by an answer that is not to be kept.
        self.refused = False
        self._found: dict[str, Exception] = {}

    def add(self, task_id: str, error: Exception) -> None:
        """Hold the error against the job's row."""
        self._found.setdefault(task_id, error)

    def refuse(self, item: dict[str, Any], error: Exception) -> list[Any]:
        """Return the result of the item of a batch for which its move fails.

        It is held against the job only where its row cannot be read, or breaks what holds for
        rows: what the item itself says may be the cause of anything else.
        """
        self.refused, task_id = True, item["task_id"]
        log.error("row.failed", operation=self.kind, task_id=task_id, exc_info=error)
        refusal: DomainError | None
        if at_fault(task_id):
            self.add(task_id, error)
            refusal = unreadable()
        else:
            refusal = refusal_of(error) or Internal()
        return [refusal.as_problem(instance=audit.request_urn(), of_write=True)]

    def note(self) -> None:
        """Count the failures, each in a transaction of its own; who calls never waits for that."""
        for task_id, error in self._found.items():
            note(task_id, self.kind, error)


def past_culprits(kind: str, answer: Callable[[Culprits | None], R]) -> R:
    """Return what `answer` returns; where a row spoils it, what it returns apart from that row.

    :param answer: is given None, and then what collects the culprits.
    """
    try:
        return answer(None)
    except Exception as error:
        if not of_a_row(error):
            raise
        log.warning("row.spoils_others", operation=kind, error=type(error).__name__)
    culprits = Culprits(kind)
    try:
        return answer(culprits)
    finally:
        culprits.note()


def unreadable() -> JobUnreadable:
    """Return the refusal of what is asked of a job whose row cannot be read."""
    return JobUnreadable(after_seconds=RETRY_SECONDS)


def at_fault(task_id: str) -> bool:
    """Return whether the job by itself cannot be read or shown, whatever was asked of it."""
    try:
        rows, around = sql.pipeline(sql.any_of(READ, [task_id]), read_context([task_id]))
        for row in rows:
            locked = from_row(row)
            load_context([locked], around)
            answers.job(locked)
    except Exception as error:
        if of_a_row(error):
            return True
        raise
    return False


def note(task_id: str, kind: str, error: Exception) -> None:
    """Count a failure at a job; one that cannot be counted is logged, and spoils nothing."""
    try:
        with transaction.atomic():
            noted = transitions.note_failure(task_id=task_id, kind=kind, error=error)
    except DatabaseError as fault:
        log.error("row.failure_not_noted", task_id=task_id, error=str(fault))
        return
    if noted is not None:
        metrics.ROW_FAILURES.labels(kind).inc()


def diagnose(call: Call, error: Exception) -> DomainError | None:
    """Return the refusal of a call about one job whose row is at fault; None where it is not."""
    task_id = call.identity.get("task_id")
    if task_id is None and isinstance(call.body, dict):
        task_id = call.body.get("task_id")
    if not isinstance(task_id, str) or not of_a_row(error):
        return None
    try:
        # A claim says nothing that could make a row break a rule in its place.
        breaks = call.operation.name == "claim_job" and sql.sqlstate(error) in BREAKING
        if not (breaks or at_fault(task_id)):
            return None
        if (fault := _not_theirs(call, task_id)) is not None:
            return fault
    except FAILURES:
        return None
    log.error("row.failed", operation=call.operation.name, task_id=task_id, exc_info=error)
    if call.operation.reads is not None:
        note(task_id, call.operation.name, error)
    return unreadable()


def _not_theirs(call: Call, task_id: str) -> DomainError | None:
    """Return the refusal of a caller that may not know of the job; by columns that can be read."""
    found = Job.objects.filter(task_id=task_id).values_list("agent_id", "submitted_by").first()
    if found is None:
        return NotFound("There is no job of that task_id.")
    if call.principal.kind == "agent":
        return None if found[0] == call.principal.id else WrongOwner()
    if found[1] == call.principal.text:
        return None
    return NotFound("There is no job of that task_id.")
