"""Every page of the console on a large database: median time and queries, as JSON.

`python -m tests.benchmarks.console --jobs 1000000` measures on a throwaway embedded server;
with `DATABASE_URL` on that database, which is filled up to `--jobs` first.

Ends with 1 when a page breaks a bar: its median time, a list's number of queries, or a plan that
reads a big table from end to end. `faults` in the JSON says which.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

from tests.benchmarks import throwaway_server

ROUNDS = 7
MEDIAN_MS_MAX = 300
LIST_QUERIES_MAX = 12
#: A table of more rows than this must not be read from end to end for a page.
BIG_ROWS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--slowest", action="store_true", help="also print the slowest queries")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.settings")
    os.environ["FENCEPOST_URL"] = "http://testserver"
    os.environ.setdefault("FENCEPOST_LOG_LEVEL", "ERROR")
    if "DATABASE_URL" in os.environ:
        sys.exit(measure(asked))
    with throwaway_server():
        status = measure(asked)
    sys.exit(status)


def measure(asked: argparse.Namespace) -> int:
    """Print the measurements and return the exit status."""
    import django
    from django.core.management import call_command

    django.setup()
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    from jobs import filling
    from jobs.models import Job

    call_command("migrate", verbosity=0)
    there = Job.objects.count()
    if there < asked.jobs:
        call_command("fill", jobs=asked.jobs - there, stdout=sys.stderr)
    user, _ = User.objects.get_or_create(
        username="bench", defaults={"is_staff": True, "is_superuser": True}
    )
    client = Client()
    client.force_login(user)
    connection.force_debug_cursor = True
    big = big_tables()
    pages = [measured(client, path, asked, big=big) for path in paths(filling.PREFIX)]
    broken = [{"path": page["path"], "faults": page["faults"]} for page in pages if page["faults"]]
    bars = {"median_ms": MEDIAN_MS_MAX, "list_queries": LIST_QUERIES_MAX, "big_rows": BIG_ROWS}
    told = {"jobs": Job.objects.count(), "bars": bars, "faults": broken, "pages": pages}
    json.dump(told, sys.stdout, indent=2)
    print()
    return 1 if broken else 0


def big_tables() -> set[str]:
    """Return the tables that have grown big, by the planner's own count."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > %s", [BIG_ROWS]
        )
        return {name for (name,) in cursor.fetchall()}


def faults_of(page: dict[str, Any], *, is_list: bool) -> list[str]:
    """Return which bars a measured page breaks."""
    found = []
    if page["median_ms"] > MEDIAN_MS_MAX:
        found.append(f"median of {page['median_ms']} ms, at most {MEDIAN_MS_MAX}")
    if is_list and page["queries"] > LIST_QUERIES_MAX:
        found.append(f"{page['queries']} queries, at most {LIST_QUERIES_MAX}")
    found += [f"reads {table} from end to end" for table in page["sequential_scans"]]
    return found


def paths(prefix: str) -> list[str]:
    """Return the pages, among them lists as they are filtered, searched and paged deep."""
    from django.urls import reverse

    from governance.core.models import AuditEvent
    from jobs.models import Job

    middle, event = middle_of(Job), middle_of(AuditEvent)
    jobs = reverse("admin:jobs_job_changelist")
    asked = {
        "jobs_job": ["", "?state__exact=completed", "?state__exact=escalated", "?agent=hermes",
                     "?stage=waiting", "?stage=over", "?risk_tier__exact=medium",
                     "?risk_tier__exact=high", "?since=1h",
                     "?since=7d&state__exact=failed&agent=openclaw", f"?q={prefix}77",
                     "?paused__exact=1", "?on_hold=yes", f"?older={middle}", f"?newer={middle}",
                     f"?state__exact=stopped&older={middle}"],
        "jobs_attempt": ["", f"?q={prefix}123", f"?older={middle}", "?since=24h"],
        "jobs_execution": [""],
        "governance_reservation": [""],
        "governance_routedecision": [""],
        "governance_idempotencyrecord": [""],
        "governance_auditevent": ["", f"?q={prefix}1234", f"?older={event}", "?since=1h"],
        "governance_fact": ["", f"?q={prefix}1234", "?since=1h"],
    }  # fmt: skip
    found = [reverse("admin:index"), reverse("admin:console_inbox")]
    found += [f"{jobs.rpartition('job/')[0]}job/{middle}/change/"]
    for name, queries in asked.items():
        found += [reverse(f"admin:{name}_changelist") + query for query in queries]
    return found + sorted(lists() - {path.partition("?")[0] for path in found})


def middle_of(model: Any) -> int:
    """Return the key of a row about halfway."""
    keys = model.objects.order_by("pk").values_list("pk", flat=True)
    return int(keys.filter(pk__gte=keys.last() // 2)[0])


def lists() -> set[str]:
    """Return the paths of all lists of the console."""
    from django.contrib import admin
    from django.urls import reverse

    return {
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for model, page in admin.site._registry.items()
        if hasattr(page, "key_field")
    }


def measured(client: Any, path: str, asked: argparse.Namespace, *, big: set[str]) -> dict[str, Any]:
    """Return the median time of a page in ms, how many queries it made, and what they read."""
    from django.db import connection, reset_queries

    from tests import plans

    times, queries = [], 0
    for _ in range(asked.rounds + 1):
        reset_queries()
        started = time.perf_counter()
        response = client.get(path)
        times.append((time.perf_counter() - started) * 1000)
        assert response.status_code == 200, f"{path}: {response.status_code}"
        queries = len(connection.queries)
    slowest = max(connection.queries, key=lambda query: float(query["time"]), default=None)
    with plans.sent() as statements:
        client.get(path)
    scans = {table for one in statements for table in plans.read_whole(plans.plan_of(one)) & big}
    told: dict[str, Any] = {
        "path": path,
        "median_ms": round(statistics.median(times[1:]), 1),
        "queries": queries,
        "slowest_query_ms": round(float(slowest["time"]) * 1000, 1) if slowest else 0,
        "sequential_scans": sorted(scans),
    }
    told["faults"] = faults_of(told, is_list=path.partition("?")[0] in lists())
    return told | ({"slowest_query": slowest["sql"]} if asked.slowest and slowest else {})


if __name__ == "__main__":
    main()
