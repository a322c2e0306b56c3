"""What a test shows beside the answer: that a refused move left no trace, and what a job left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from governance.core.errors import DomainError
from governance.core.models import AuditEvent, Fact
from jobs.models import (
    Approval,
    Attempt,
    Escalation,
    Job,
    Lease,
    Reflection,
    RetryExtension,
    Review,
)

ROWS_OF_A_JOB = (Attempt, Lease, Approval, Review, Escalation, RetryExtension, Reflection)


def rows(*jobs: Job) -> list[Any]:
    """Return every row that belongs to the jobs, events and facts included."""
    pks = [job.pk for job in jobs]
    subjects = [job.audit_subject for job in jobs]
    found: list[Any] = [list(Job.objects.filter(pk__in=pks).order_by("pk").values())]
    for model in ROWS_OF_A_JOB:
        found.append(list(model.objects.filter(job_id__in=pks).order_by("pk").values()))
    found.append(list(AuditEvent.objects.filter(subject__in=subjects).order_by("pk").values("pk")))
    found.append(list(Fact.objects.filter(stream__in=subjects).order_by("pk").values("pk")))
    return found


@contextmanager
def untouched(*jobs: Job) -> Iterator[None]:
    """Assert that the block changes no row of the jobs and records nothing about them."""
    before = rows(*jobs)
    yield
    assert rows(*jobs) == before


@contextmanager
def refused(refusal: type[DomainError], *jobs: Job) -> Iterator[pytest.ExceptionInfo[DomainError]]:
    """Assert that the block is refused with exactly this refusal, and leaves no trace."""
    with untouched(*jobs), pytest.raises(DomainError) as caught:
        yield caught
    assert type(caught.value) is refusal, caught.value


def is_refusal(answer: Any, refusal: type[DomainError]) -> bool:
    """Return whether an item of a batch is exactly this refusal."""
    return type(answer) is refusal


def actions(job: Job) -> list[str]:
    """Return the actions of the job's audit chain, in order."""
    events = AuditEvent.objects.filter(subject=job.audit_subject).order_by("seq")
    return list(events.values_list("action", flat=True))


def events_of(job: Job) -> list[dict[str, Any]]:
    """Return the details of the job's audit events, in order."""
    events = AuditEvent.objects.filter(subject=job.audit_subject).order_by("seq")
    return [json.loads(bytes(event.body))["details"] for event in events]


def facts(job: Job) -> list[tuple[int, str]]:
    """Return number and type of the job's facts, in order."""
    found = Fact.objects.filter(stream=job.audit_subject).order_by("sequence")
    return list(found.values_list("sequence", "type"))
