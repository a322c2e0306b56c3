"""Every page of the console on a large database: median time and queries, as JSON.

`python -m tests.benchmarks.console --jobs 1000000` measures on a throwaway embedded server;
with `DATABASE_URL` on that database, which is filled up to `--jobs` first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any

ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--plans", action="store_true", help="also name sequential scans")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.settings")
    os.environ["FENCEPOST_URL"] = "http://testserver"
    os.environ.setdefault("FENCEPOST_LOG_LEVEL", "ERROR")
    if "DATABASE_URL" in os.environ:
        measure(asked)
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        os.chmod(folder, 0o711)
        os.environ["FENCEPOST_DATA"] = f"{folder}/data"
        measure(asked)


def measure(asked: argparse.Namespace) -> None:
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
    pages = [measured(client, path, asked) for path in paths(filling.PREFIX)]
    json.dump({"jobs": Job.objects.count(), "pages": pages}, sys.stdout, indent=2)
    print()


def paths(prefix: str) -> list[str]:
    """Return the pages, among them lists as they are filtered, searched and paged deep."""
    from django.urls import reverse

    from governance.models import AuditEvent
    from jobs.models import Job

    middle = Job.objects.order_by("-id").values_list("id", flat=True)[:1][0] // 2
    event = AuditEvent.objects.order_by("-id").values_list("id", flat=True)[:1][0] // 2
    jobs = reverse("admin:jobs_job_changelist")
    lists = {
        "jobs_job": ["", "?state__exact=completed", "?state__exact=escalated", "?agent=hermes",
                     "?stage=waiting", "?stage=over", "?risk_tier__exact=medium", "?since=1h",
                     "?since=7d&state__exact=failed&agent=openclaw", f"?q={prefix}77",
                     "?paused__exact=1", f"?older={middle}", f"?newer={middle}",
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
    for name, queries in lists.items():
        found += [reverse(f"admin:{name}_changelist") + query for query in queries]
    return found


def measured(client: Any, path: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Return the median time of a page in milliseconds, and how many queries it made."""
    from django.db import connection, reset_queries

    times, queries = [], 0
    for _ in range(asked.rounds + 1):
        reset_queries()
        started = time.perf_counter()
        response = client.get(path)
        times.append((time.perf_counter() - started) * 1000)
        assert response.status_code == 200, f"{path}: {response.status_code}"
        queries = len(connection.queries)
    slowest = max(connection.queries, key=lambda query: float(query["time"]), default=None)
    told = {
        "path": path,
        "median_ms": round(statistics.median(times[1:]), 1),
        "queries": queries,
        "slowest_query_ms": round(float(slowest["time"]) * 1000, 1) if slowest else 0,
    }
    return told | ({"slowest_query": slowest["sql"]} if asked.plans and slowest else {})


if __name__ == "__main__":
    main()
