"""What was booked as rows, a few at a time, with the job that each was for.

The ends of model calls, what was used and not reserved, and the corrections of both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from heapq import merge
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, JSONObject

from governance.evidence.chain import snapshot
from governance.money.corrections import COUNTS, Adjustment
from governance.money.models import CURRENCY, Reservation, Resolution
from governance.money.pricing import NAMED
from governance.money.published import COUNTERS
from governance.money.uses import UnreservedUse
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
OF_USE = {
    "use_id": "use_id",
    "resolved_at": "recorded_at",
    "provider": "model__provider",
    "model": "model__name",
    "price_version": "price__version",
    **{
        name: name
        for name in (
            "task_id", "job_id", "attempt", "agent", "job_type", "reservation_id", "cost",
            "cost_basis", "cost_split", "usage_odd", *COUNTERS, *NAMED,
        )
    },
}  # fmt: skip
#: What an adjustment takes from the call that it corrects, and from the use.
OF_CORRECTED = ("task_id", "job_id", "attempt", "agent", "job_type", "provider", "model",
                "price_version", "cost_basis")  # fmt: skip
NOTHING: Mapping[str, Any] = dict.fromkeys(
    ("reservation_id", "use_id", "adjustment_id", "held", "reserved_at", "call", "cost_split",
     *COUNTERS)
) | dict.fromkeys(("provider_response_id", *NAMED), "")  # fmt: skip
#: Who submitted a job that is not there any more, and its labels.
NO_JOB = {"submitted_by": "", "labels": {}}
Row = Mapping[str, Any]


def of_job(job_id: Any) -> Subquery:
    """Return who submitted a job, and its labels. Index: the unique one on job_id."""
    return Subquery(
        Job.objects.filter(job_id=job_id).values(
            members=JSONObject(submitted_by="submitted_by", labels="task__labels")
        )[:1]
    )


def read_rows(*, since: date, until: date) -> Generator[Row]:
    """Yield all that was booked on the days of a range, in that order, as rows of one shape.

    Takes no locks and as long as it needs, in one snapshot; a few thousand rows are in memory.

    :param since: the first day, in UTC. :param until: the last, itself included.
    """
    days = (
        datetime.combine(since, datetime.min.time(), UTC),
        datetime.combine(until + timedelta(days=1), datetime.min.time(), UTC),
    )
    with snapshot(), ExitStack() as stack:
        kinds = (read_calls(*days), read_uses(*days), read_adjustments(*days))
        for kind in kinds:
            # Who stops in between closes the cursors before the transaction.
            stack.enter_context(closing(kind))
        yield from merge(*kinds, key=lambda row: row["resolved_at"])


def read_calls(first: datetime, end: datetime) -> Generator[Row]:
    """Yield the calls that ended in `[first, end)`, released ones left out, oldest first."""
    ended = Resolution.objects.filter(resolved_at__gte=first, resolved_at__lt=end).exclude(
        ended_as=Reservation.State.RELEASED
    )
    # Index: resolution_time_idx, which has this order.
    rows = ended.order_by("resolved_at", "reservation").values(
        *MEMBERS, *BESIDE.values(), job=of_job(OuterRef("reservation__job_id"))
    )
    yield from _shaped(
        rows,
        lambda row: (
            {name: row[name] for name in MEMBERS}
            | {name: row[column] for name, column in BESIDE.items()}
            | {"flags": [name for name in Resolution.FLAGS if row[name]]}
        ),
    )


def read_uses(first: datetime, end: datetime) -> Generator[Row]:
    """Yield what was not reserved and was recorded in `[first, end)`, oldest first.

    One whose price nobody knows has cost 0 so far, and the flag `unpriced`.
    """
    recorded = UnreservedUse.objects.filter(recorded_at__gte=first, recorded_at__lt=end)
    # Index: unreserved_use_recorded_idx.
    rows = recorded.order_by("recorded_at", "use_id").values(
        *OF_USE.values(), "disputed", job=of_job(OuterRef("job_id"))
    )
    yield from _shaped(
        rows,
        lambda row: (
            {name: row[column] for name, column in OF_USE.items()}
            | {
                "ended_as": "unreserved",
                "currency": CURRENCY,
                "cost": Decimal(0) if row["cost"] is None else row["cost"],
                "flags": UnreservedUse.flags_of(
                    cost=row["cost"], odd=row["usage_odd"], disputed=row["disputed"]
                ),
            }
        ),
    )


def read_adjustments(first: datetime, end: datetime) -> Generator[Row]:
    """Yield the corrections that count since an instant in `[first, end)`, oldest first."""
    since = Coalesce("verdict__decided_at", "made_at")
    columns = {
        name: Coalesce(f"resolution__{BESIDE.get(name, name)}", f"use__{OF_USE[name]}")
        for name in OF_CORRECTED
    }
    counting: QuerySet[Any] = (
        Adjustment.objects.filter(COUNTS)
        .annotate(since=since, **{f"{name}_of": column for name, column in columns.items()})
        .annotate(job=of_job(OuterRef("job_id_of")))
    )
    # Few: people write them.
    rows = counting.filter(since__gte=first, since__lt=end).order_by("since", "adjustment_id")
    yield from _shaped(
        rows.values("adjustment_id", "resolution_id", "use_id", "amount", "since", "job",
                    *(f"{name}_of" for name in columns)),
        lambda row: (
            {name: row[f"{name}_of"] for name in columns}
            | {
                "ended_as": "adjusted",
                "currency": CURRENCY,
                "cost": row["amount"],
                "resolved_at": row["since"],
                "reservation_id": row["resolution_id"],
                "use_id": row["use_id"],
                "adjustment_id": row["adjustment_id"],
                "flags": [],
            }
        ),
    )  # fmt: skip


def _shaped(rows: QuerySet[Any], members: Callable[[Any], Mapping[str, Any]]) -> Generator[Row]:
    fetched: Any = rows.iterator(chunk_size=ROWS_PER_FETCH)
    with closing(fetched):
        for row in fetched:
            yield {**NOTHING, **members(row), **(row["job"] or NO_JOB)}
