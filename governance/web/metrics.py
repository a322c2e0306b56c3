"""Numbers for Prometheus: how long requests take, and what each app knows to tell.

Counters and latencies are per process, put together through `PROMETHEUS_MULTIPROC_DIR` where it is
set; gauges are read from the database at the scrape.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import structlog
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Histogram, generate_latest, multiprocess
from prometheus_client.core import REGISTRY, Metric

log = structlog.get_logger(__name__)

#: Seconds. A long poll waits on purpose, up to half a minute.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
#: A scrape may take this long at the database, whatever the size of the history.
SCRAPE_TIMEOUT_MS = 3000
REQUESTS = Histogram(
    "fencepost_request_seconds",
    "Time from a request to its answer.",
    ["method", "route", "status"],
    buckets=BUCKETS,
)

Gauges = Callable[[], Iterable[Metric]]
_gauges: list[Gauges] = []


def register(gauges: Gauges) -> None:
    """Have `gauges` asked at every scrape; apps do this when they are ready."""
    if gauges not in _gauges:
        _gauges.append(gauges)


@contextmanager
def bounded() -> Iterator[None]:
    """Open a transaction whose statements are ended after `SCRAPE_TIMEOUT_MS`."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {SCRAPE_TIMEOUT_MS}")
        yield


class _FromTheDatabase:
    def collect(self) -> Iterable[Metric]:
        for gauges in _gauges:
            try:
                yield from gauges()
            except DatabaseError:
                # The scrape still tells how the processes do.
                log.warning("gauges_unavailable", exc_info=True)


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_FromTheDatabase())
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        multiprocess.MultiProcessCollector(registry)
        return generate_latest(registry)
    return generate_latest(REGISTRY) + generate_latest(registry)


class RequestMetrics:
    """Note how long each request takes, by the route that it matched."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        # A route and never a path: the number of series is bounded.
        route = f"/{match.route}" if match else "unmatched"
        REQUESTS.labels(
            _METHODS.get(request.method or "", "other"), route, response.status_code
        ).observe(time.perf_counter() - started)
        return response


_METHODS = {name: name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}
