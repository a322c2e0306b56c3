"""What Prometheus is told of calls that have ended: tokens and cost by model, since the start."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter

from governance.money.models import Resolution
from governance.money.published import COUNTERS

#: `model` is one of the catalogue, `counter` one of usage: parts are inside their wholes.
USED = Counter(
    "fencepost_model_usage",
    "Tokens and searches of calls that have ended, as they were reported.",
    ["model", "counter"],
)
COST = Counter(
    "fencepost_model_cost_usd",
    "What calls have cost that have ended, in USD.",
    ["model", "cost_basis"],
)


def count(ends: Iterable[tuple[str, Resolution]]) -> None:
    """Count the ends of calls, each with its `provider/name`, once they are committed."""
    for model, end in ends:
        if end.cost:
            COST.labels(model, end.cost_basis).inc(float(end.cost))
        for name in COUNTERS:
            if number := getattr(end, name):
                USED.labels(model, name).inc(number)
