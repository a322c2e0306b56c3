"""The ends of model calls as rows, a few at a time, with the job that each was for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject

from governance.money.models import Reservation, Resolution
from governance.money.pricing import NAMED
from governance.money.published import COUNTERS
from jobs.models import Job

ROWS_PER_FETCH = 2000
#: What is read of each end, and of its reservation and decision, by the name in a row.
MEMBERS = (
    "ended_as", "cost", "cost_basis", "cost_split", *Resolution.FLAGS,
    "provider_response_id", "resolved_at", *COUNTERS, *NAMED,
)  # fmt: skip
BESIDE = {
    "reservation_id": "reservation_id",
    "task_id": "reservation__task_id",
    "job_id": "reservation__job_id",
    "attempt": "reservation__attempt",
    "agent": "reservation__agent",
    "held": "reservation__amount",
    "currency": "reservation__currency",
    "reserved_at": "reservation__reserved_at",
    "call": "reservation__decision__call",
    "job_type": "reservation__decision__job_type",
    "provider": "reservation__decision__model__provider",
    "model": "reservation__decision__model__name",
    "price_version": "reservation__decision__price_version",
}
#: Index: the unique one on job_id.
OF_JOB = Subquery(
    Job.objects.filter(job_id=OuterRef("reservation__job_id")).values(
        members=JSONObject(submitted_by="submitted_by", labels="task__labels")
    )[:1]
)


def read_calls(*, since: date, until: date) -> Iterator[Mapping[str, Any]]:
    """Yield the calls that ended on the days of a range, in that order, released ones left out.

    Takes no locks and as long as it needs, in one snapshot; a few thousand rows are in memory.

    :param since: the first day, in UTC. :param until: the last, itself included.
    """
    ended = Resolution.objects.filter(
        resolved_at__gte=datetime.combine(since, datetime.min.time(), UTC),
        resolved_at__lt=datetime.combine(until + timedelta(days=1), datetime.min.time(), UTC),
    ).exclude(ended_as=Reservation.State.RELEASED)
    # Index: resolution_time_idx, which has this order.
    rows = ended.order_by("resolved_at", "reservation").values(
        *MEMBERS, *BESIDE.values(), of=OF_JOB
    )
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
        for row in rows.iterator(chunk_size=ROWS_PER_FETCH):
            named = {name: row[column] for name, column in BESIDE.items()}
            job = row["of"] or {"submitted_by": "", "labels": {}}
            yield {name: row[name] for name in MEMBERS} | named | job


def flags_of(row: Mapping[str, Any]) -> list[str]:
    """Return what a person should look at, as `Resolution.flags` does."""
    return [name for name in Resolution.FLAGS if row[name]]
