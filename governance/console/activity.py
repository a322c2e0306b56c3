"""What happened when, for charts: audit events counted by minute, each once."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction

from governance.console.models import EventMinute, EventMinuteCursor
from governance.core import clock

#: Events this young may still be followed by one of a smaller id that commits later.
LAG_SECONDS = 20
EVENTS_PER_ROUND = 20_000
KEPT_DAYS = 8

# Locks: the cursor's row, held by the caller. Index: the primary key of the events.
COUNT_MINUTES = """
WITH fresh AS (
    SELECT id, at, action FROM governance_auditevent
     WHERE id > %(last)s ORDER BY id LIMIT %(limit)s
), settled AS (
    SELECT * FROM fresh WHERE id < COALESCE(
        (SELECT min(id) FROM fresh WHERE at > clock_timestamp() - make_interval(secs => %(lag)s)),
        9223372036854775807)
), counted AS (
    INSERT INTO governance_eventminute (minute, action, count)
    SELECT date_trunc('minute', at), action, count(*) FROM settled GROUP BY 1, 2
        ON CONFLICT (minute, action)
        DO UPDATE SET count = governance_eventminute.count + EXCLUDED.count
)
SELECT count(*), max(id) FROM settled
"""

# Locks: none. Index: event_minute_once.
SUM_BUCKETS = """
SELECT (extract(epoch FROM minute - %s) / 60)::int / %s AS bucket, action, sum(count)::int
  FROM governance_eventminute
 WHERE minute BETWEEN %s AND %s AND action = ANY(%s) GROUP BY 1, 2
"""


def count_if_due(*, now: datetime) -> None:
    """Count what is new, for a page, unless somebody did within the lag."""
    at = EventMinuteCursor.objects.values_list("counted_at", flat=True).first()
    if at is None or now - at > timedelta(seconds=LAG_SECONDS):
        count_minutes()


@transaction.atomic
def count_minutes(*, limit: int = EVENTS_PER_ROUND) -> int:
    """Count the events that were not counted yet, up to `limit`; returns how many it counted.

    Returns 0 at once while another process is at it.
    """
    EventMinuteCursor.objects.bulk_create(
        [EventMinuteCursor(pk=1, counted_at=clock.now())], ignore_conflicts=True
    )
    at = EventMinuteCursor.objects.select_for_update(skip_locked=True, no_key=True).first()
    if at is None:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            COUNT_MINUTES, {"last": at.last_event_id, "limit": limit, "lag": LAG_SECONDS}
        )
        counted, last = cursor.fetchone()
    at.last_event_id = last or at.last_event_id
    at.counted_at = clock.now()
    at.save(update_fields=["last_event_id", "counted_at"])
    return int(counted)


def forget_minutes(*, days: int = KEPT_DAYS) -> int:
    """Drop the minutes that no chart shows any more; returns how many rows went."""
    limit = clock.now() - timedelta(days=days)
    return EventMinute.objects.filter(minute__lt=limit).delete()[0]


def series(
    *, groups: dict[str, tuple[str, ...]], until: datetime, buckets: int, bucket_minutes: int
) -> dict[str, list[int]]:
    """Return per group the events of its actions per bucket, oldest first.

    The last bucket holds `until`.  One statement for all groups.
    """
    edge = until.replace(second=0, microsecond=0)
    start = edge - timedelta(minutes=buckets * bucket_minutes - 1)
    actions = [action for group in groups.values() for action in group]
    with connection.cursor() as cursor:
        cursor.execute(SUM_BUCKETS, [start, bucket_minutes, start, edge, actions])
        sums = cursor.fetchall()
    values = {name: [0] * buckets for name in groups}
    for bucket, action, count in sums:
        for name, group in groups.items():
            if action in group:
                values[name][bucket] += count
    return values
