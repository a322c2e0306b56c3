"""What Prometheus is told of the ground: background processes, and facts that wait."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from governance.core import clock
from governance.core.models import OutsideChange
from governance.money import ledger, room
from governance.money.ledger import BudgetBar
from governance.money.models import Budget
from governance.money.scopes import every_of
from governance.relay import pulse, relay
from governance.web import metrics

#: Jobs may be many; scopes of many jobs are few.
NOTES_MAX = 500


def gauges() -> Iterable[Metric]:
    """Read the gauges from the database. Counts end at one past `relay.FACTS_LOOKED_AT_MAX`."""
    with metrics.bounded():
        now = clock.now()
        beats, backlog, sinks = pulse.last_beats(), relay.backlog(), relay.sinks()
        notes = list(room.in_force()[:NOTES_MAX])
        outside = OutsideChange.objects.filter(settled_at=None).count()
    ages = GaugeMetricFamily(
        "fencepost_pulse_age_seconds",
        "Time since a background process last finished a round.",
        labels=["process"],
    )
    for name, at in beats.items():
        ages.add_metric([name], (now - at).total_seconds())
    yield ages
    full = GaugeMetricFamily(
        "fencepost_no_room",
        "Seconds until a scope whose jobs are passed over is tried again; room may come sooner.",
        labels=["scope", "key"],
    )
    for note in notes:
        full.add_metric([note.scope, note.key], (note.until - now).total_seconds())
    yield full
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


def money_gauges() -> Iterable[Metric]:
    """Read what budgets have spent and held in their current windows, and their caps.

    A series for each budget, and for each name that one counts by itself, which are as many as are
    registered; of one for each job, or each value of a label, its fullest alone: those have no
    bound.
    """
    with metrics.bounded():
        bars = ledger.budget_bars()
    labels = ["budget", "scope", "key", "window"]
    spent = GaugeMetricFamily("fencepost_budget_spent_usd", "Spent in this window.", labels=labels)
    held = GaugeMetricFamily("fencepost_budget_held_usd", "Held for open calls.", labels=labels)
    cap = GaugeMetricFamily("fencepost_budget_cap_usd", "The cap, where one is.", labels=labels)
    for series, bar in _series(bars).items():
        spent.add_metric(series, float(bar.spent))
        held.add_metric(series, float(bar.held))
        if bar.cap is not None:
            cap.add_metric(series, float(bar.cap))
    yield from (spent, held, cap)


def _series(bars: Iterable[BudgetBar]) -> dict[tuple[str, ...], BudgetBar]:
    """Return the bars by their labels; of several of one label the first, which is the fullest."""
    found: dict[tuple[str, ...], BudgetBar] = {}
    for bar in bars:
        unbounded = bar.each and bar.scope in (Budget.Scope.JOB, Budget.Scope.LABEL)
        key = every_of(bar.scope, bar.key) if unbounded else bar.key
        found.setdefault((str(bar.budget_id), bar.scope, key, bar.window), bar)
    return found
