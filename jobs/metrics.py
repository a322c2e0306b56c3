"""What Prometheus is told of jobs: how many in which state, what waits, what was claimed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from django.db import connection
from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from governance.core.isolation import of_a_row
from governance.web import metrics
from jobs.waiting import BRAKED, CLAIMABLE_AT, SWEEPER

log = structlog.get_logger(__name__)

CLAIMS = Counter("fencepost_claims", "Leases granted.", ["agent"])
HEARTBEATS = Counter("fencepost_heartbeats", "Leases renewed.", ["agent"])
#: `cause` is one of three words of `jobs.transitions.deferrals`.
DEFERRALS = Counter(
    "fencepost_deferrals",
    "Attempts that were deferred, by what the service makes of the cause.",
    ["agent", "cause"],
)
EXPIRIES = Counter("fencepost_expiries", "Leases that the sweeper ended.", [])
ROW_FAILURES = Counter(
    "fencepost_row_failures", "Operations that a job's row has failed.", ["operation"]
)

# No locks. Counts unfinished and finished jobs alike, from `job_by_agent_idx` or the table.
JOBS = """
SELECT a.name, j.state, count(*) FROM jobs_job j JOIN agents_agent a ON a.id = j.agent_id
 GROUP BY a.name, j.state
"""
# No locks. `job_claim_idx` once per agent and priority; each stops at its first row.
OLDEST = f"""
SELECT a.name, coalesce(extract(epoch FROM clock_timestamp()
                                - greatest(min(o.claimable_at), to_timestamp(0))), 0)
  FROM agents_agent a
 CROSS JOIN (VALUES (0), (1), (2), (3)) AS r(priority)
  LEFT JOIN LATERAL (
       SELECT {CLAIMABLE_AT} AS claimable_at FROM jobs_job j
        WHERE j.agent_id = a.id AND j.state = 'queued' AND NOT j.paused
          AND j.priority = r.priority AND {CLAIMABLE_AT} <= clock_timestamp()
        ORDER BY {CLAIMABLE_AT} LIMIT 1) o ON true
 GROUP BY a.name
"""
LEASES = """
SELECT a.name, count(l.job_id) FROM agents_agent a
  LEFT JOIN jobs_job j ON j.agent_id = a.id AND j.state = 'active'
  LEFT JOIN jobs_lease l ON l.job_id = j.id AND l.expires_at > clock_timestamp()
 GROUP BY a.name
"""
#: What the sweeper could not end in its last round; an operator has to look.
FAILURES = f"""
SELECT count(*) FROM governance_pulse p, jsonb_object_keys(p.details -> 'failures')
 WHERE p.name = '{SWEEPER}'
"""
SET_ASIDE = "SELECT count(*) FROM jobs_setaside WHERE set_at IS NOT NULL"
#: Whether so many rows fail that none is set aside any more.
SET_ASIDE_STOPPED = f"SELECT ({BRAKED})::int"
GAUGES: tuple[tuple[str, str, list[str], str], ...] = (
    ("fencepost_oldest_claimable_seconds", "Age of the oldest claimable job.", ["agent"], OLDEST),
    ("fencepost_live_leases", "Leases that have not expired.", ["agent"], LEASES),
    ("fencepost_sweep_failures", "Jobs that the sweeper could not end.", [], FAILURES),
    ("fencepost_jobs_set_aside", "Jobs set aside: their rows spoil claims.", [], SET_ASIDE),
    (
        "fencepost_set_aside_stopped",
        "1 while so many rows fail that none is set aside.",
        [],
        SET_ASIDE_STOPPED,
    ),
    # The one that grows with the history is the last: should it time out, the others are told.
    ("fencepost_jobs", "Jobs by state.", ["agent", "state"], JOBS),
)


def gauges() -> Iterable[Metric]:
    """Read the gauges from the database, each in a transaction of its own."""
    for name, text, labels, query in GAUGES:
        family = GaugeMetricFamily(name, text, labels=labels)
        try:
            for *values, number in _rows(query):
                family.add_metric(values, float(number))
        except Exception as error:
            if not of_a_row(error):
                raise
            # One gauge that a row spoils; the others are told.
            log.warning("gauge_unavailable", gauge=name, exc_info=True)
            continue
        yield family


def _rows(query: str) -> list[tuple[Any, ...]]:
    with metrics.bounded(), connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()
