"""What Prometheus is told of the fleet: the guard's verdict, and how long workers are silent."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from agents import guard
from governance.web import metrics

STATES = (guard.HEALTHY, guard.DEGRADED, guard.INHIBITED)


def gauges() -> Iterable[Metric]:
    """Let the guard look, and tell what it sees."""
    with metrics.bounded():
        look = guard.look()
    verdict = GaugeMetricFamily("fencepost_guard", "1 for the guard's state.", labels=["state"])
    for state in STATES:
        verdict.add_metric([state], float(look.state == state))
    yield verdict
    silent = GaugeMetricFamily(
        "fencepost_agent_silent_seconds",
        "Time since an expected agent was last heard of; none for one that never was.",
        labels=["agent"],
    )
    missing = GaugeMetricFamily(
        "fencepost_agent_missing",
        "1 for an expected agent that makes the guard degraded.",
        labels=["agent"],
    )
    lacking = GaugeMetricFamily(
        "fencepost_agent_workers_missing",
        "Workers of an expected agent that should be fresh and are not.",
        labels=["agent"],
    )
    for watch in look.agents:
        if not watch.expected:
            continue
        if watch.age_seconds is not None:
            silent.add_metric([watch.agent], watch.age_seconds)
        missing.add_metric([watch.agent], float(watch.alarming))
        lacking.add_metric([watch.agent], float(watch.workers_missing))
    yield from (silent, missing, lacking)
