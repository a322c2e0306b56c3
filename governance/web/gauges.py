"""What Prometheus is told of the ground: background processes, and facts that wait."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from governance.core import clock
from governance.core.models import OutsideChange
from governance.relay import pulse, relay
from governance.web import metrics


def gauges() -> Iterable[Metric]:
    """Read the gauges from the database. Counts end at one past `relay.FACTS_LOOKED_AT_MAX`."""
    with metrics.bounded():
        now = clock.now()
        beats, backlog, sinks = pulse.last_beats(), relay.backlog(), relay.sinks()
        outside = OutsideChange.objects.filter(settled_at=None).count()
    ages = GaugeMetricFamily(
        "fencepost_pulse_age_seconds",
        "Time since a background process last finished a round.",
        labels=["process"],
    )
    for name, at in beats.items():
        ages.add_metric([name], (now - at).total_seconds())
    yield ages
    waiting = GaugeMetricFamily(
        "fencepost_sink_facts_waiting",
        f"Facts that a sink has yet to get, counted up to {relay.FACTS_LOOKED_AT_MAX + 1}.",
        labels=["sink"],
    )
    for sink in sinks:
        waiting.add_metric([sink.name], sink.waiting)
    yield waiting
    oldest = (now - backlog.oldest_at).total_seconds() if backlog.oldest_at else 0.0
    for name, text, value in (
        (
            "fencepost_facts_waiting",
            f"Facts yet to be relayed, counted up to {relay.FACTS_LOOKED_AT_MAX + 1}.",
            backlog.waiting,
        ),
        ("fencepost_oldest_fact_seconds", "Age of the oldest fact that waits; 0 for none.", oldest),
        (
            "fencepost_outside_changes",
            "Rows of configuration that were changed outside, and are not settled.",
            outside,
        ),
        ("fencepost_streams_parked", "Streams that wait for a release.", backlog.parked_streams),
        ("fencepost_streams_retried", "Streams tried again by itself.", backlog.held_streams),
    ):
        yield GaugeMetricFamily(name, text, value=value)
