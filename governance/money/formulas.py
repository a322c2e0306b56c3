"""What calls cost by a stored price as sums of products, so that the database can add them up.

By most prices a call costs a sum of its counts, each times a rate, whatever the hour: the rates of
a range of input.  These rates are what the price library says of a million of each kind; that the
sums are the library's own, to the last place, is proven in `tests/governance/money/test_formulas`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any

from governance.money.contents import BYTES_PER_TOKEN
from governance.money.pricing import NAMED
from governance.money.published import (
    COUNTERS,
    EXACT,
    MILLION,
    STANDARD,
    HoldRates,
    PriceUnusable,
    StoredPrice,
)

#: Amounts are compared as whole numbers of their last place.
SCALE = Decimal(10) ** 12
#: Of a price that does not go by the time, one is as good as another.
ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
#: What was counted for the rate of its last one; those before it are known by then.
PROBES = (
    ("input_tokens",),
    ("input_tokens", "cached_input_tokens"),
    ("input_tokens", "cache_write_tokens"),
    ("input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
    ("input_tokens", "input_audio_tokens"),
    ("input_tokens", "cached_input_tokens", "input_audio_tokens", "cached_audio_tokens"),
    ("output_tokens",),
    ("output_tokens", "reasoning_tokens"),
    ("output_tokens", "output_audio_tokens"),
    ("searches",),
)


@dataclass(frozen=True)
class Formula:
    """What calls cost whose input is above `above`, and at most `until` (None: no end).

    :param rates: by counter, in units of the last place that is kept.
    :param call: what each call costs, in the same units.
    """

    above: int
    until: int | None
    rates: dict[str, Decimal]
    call: Decimal


@dataclass(frozen=True)
class Formulas:
    """The formulas of a price: of what calls cost, and of what is held for them at most.

    Those of holds have the rates `input` and `output`.
    """

    costs: tuple[Formula, ...]
    holds: tuple[Formula, ...]


def formulas_of(price: StoredPrice) -> Formulas | None:
    """Return the formulas of a price for calls that name nothing which changes it.

    None where it has none: what a call costs depends on when it was made, or no rates of a hold
    are the dearest of all that its input reaches.
    """
    named = {value for variant in price.variants for value in variant.when.values()}
    if price.by_time or named & STANDARD or 0 in price.tier_starts(ANY_TIME):
        return None
    with localcontext(EXACT):
        try:
            holds = list(_holds(price.hold_rates(ANY_TIME.date(), ())))
            ranges = _ranges(price.tier_starts(ANY_TIME))
            costs = [_cost(price, above, until) for above, until in ranges]
        except PriceUnusable:
            return None
    return None if None in holds else Formulas(tuple(costs), tuple(filter(None, holds)))


def _ranges(starts: Iterable[int]) -> list[tuple[int, int | None]]:
    edges = sorted({0, *starts})
    return list(zip(edges, [*edges[1:], None], strict=True))


def _cost(price: StoredPrice, above: int, until: int | None) -> Formula:
    """Return what calls of a range cost, by the library: what a million of each kind adds."""
    call = price.at_tier({}, ANY_TIME, above)
    rates: dict[str, Decimal] = {}
    for *known, name in PROBES:
        total = price.at_tier(dict.fromkeys((*known, name), MILLION), ANY_TIME, above) - call
        rates[name] = total / MILLION - sum((rates[each] for each in known), Decimal(0))
    return Formula(above, until, {name: rate * SCALE for name, rate in rates.items()}, call * SCALE)


def _holds(rates: tuple[HoldRates, ...]) -> Iterable[Formula | None]:
    """Yield by range the dearest of the rates that its input reaches; None where there are two."""
    for above, until in _ranges(each.above for each in rates):
        reached = [(each.input, each.output, each.call) for each in rates if each.above <= above]
        dearest = tuple(max(rate) for rate in zip(*reached, strict=True))
        if dearest not in reached:
            yield None
            continue
        of_input, of_output, call = dearest
        per_token = SCALE / MILLION
        of = {"input": of_input * per_token, "output": of_output * per_token}
        yield Formula(above, until, of, call * SCALE)


def _rows_of(formulas: Iterable[tuple[int, Formula]], alias: str, names: Iterable[str]) -> str:
    """Return the SQL of formulas as rows: `price_id, above, until, call`, and a rate by each name.

    :param formulas: each with the id of its price.
    """
    rows: list[dict[str, Any]] = [
        {"price_id": price_id, "above": each.above, "until": each.until, "call": f"{each.call:f}"}
        | {name: f"{rate:f}" for name, rate in each.rates.items()}
        for price_id, each in formulas
    ]
    columns = ", ".join(f"{name} numeric" for name in ("call", *names))
    return (
        f"jsonb_to_recordset('{json.dumps(rows)}'::jsonb)"
        f" AS {alias}(price_id bigint, above bigint, until bigint, {columns})"
    )


_N = {name: f"coalesce(e.{name}, 0)" for name in COUNTERS}
#: Tells of an end `e` that no part of its counts is above its whole, as the library demands it.
WHOLE = (
    "({cached_input_tokens} + {cache_write_tokens} + {input_audio_tokens} - {cached_audio_tokens}"
    " <= {input_tokens} AND {cache_write_1h_tokens} <= {cache_write_tokens}"
    " AND {cached_audio_tokens} <= {input_audio_tokens}"
    " AND {cached_audio_tokens} <= {cached_input_tokens}"
    " AND {reasoning_tokens} + {output_audio_tokens} <= {output_tokens})"
).format(**_N)
_COUNTED = " + ".join(f"{count} * f.{name}" for name, count in _N.items())
#: The units that a call `e` costs by the formula `f` of its range.
COST = f"ceil({_COUNTED} + f.call)"
_NAMES = ", ".join(f"'{name}'" for name in ("", *sorted(STANDARD)))
#: Tells of an end `e` that its answer named nothing that may change its price.
UNNAMED = " AND ".join(f"e.{name} IN ({_NAMES})" for name in NAMED)

# The units that a call of a decision `d` is held at, by the formula `h` of the range of its input;
# and that it costs where nobody counted it, by the formula `u` of that of its input by its bytes.
HELD = "ceil(d.estimated_input_tokens * h.input + d.max_output_tokens * h.output + h.call)"
_BY_BYTES = (
    f"least((d.request_bytes + {BYTES_PER_TOKEN - 1}) / {BYTES_PER_TOKEN},"
    " d.estimated_input_tokens)"
)
UNKNOWN = f"ceil({_BY_BYTES} * u.input + d.max_output_tokens * u.output + u.call)"
_EXPECTED = (
    "CASE WHEN e.cost_basis = 'none' THEN 0"
    f" WHEN e.input_tokens IS NOT NULL AND NOT ({WHOLE} AND {UNNAMED}) THEN NULL"
    f" WHEN e.cost_basis = 'usage' AND e.input_tokens IS NOT NULL THEN {COST}"
    # An estimate that has its split is of usage that nobody counted: it costs that.
    " WHEN e.cost_basis = 'estimate' AND e.cost_split IS NOT NULL"
    f"  THEN CASE WHEN e.input_tokens IS NOT NULL THEN {COST} END"
    f" WHEN e.cost_basis = 'estimate' AND e.input_tokens IS NOT NULL"
    f"  THEN greatest(r.amount * {SCALE:f}, {COST})"
    f" WHEN e.cost_basis = 'estimate' AND d.request_bytes IS NULL THEN r.amount * {SCALE:f}"
    f" WHEN e.cost_basis = 'estimate' THEN {UNKNOWN} END"
)
_PART = "'^[0-9]+([.][0-9]+)?$'"
_SPLIT = (
    "CASE WHEN e.cost_split IS NULL THEN true WHEN jsonb_typeof(e.cost_split) = 'object' THEN"
    f" (SELECT sum(CASE WHEN value ~ {_PART} THEN value::numeric END) = e.cost"
    f"  AND bool_and(value ~ {_PART}) FROM jsonb_each_text(e.cost_split)) END"
)
#: Tells of a call that it was held at and has cost what the formulas say.
PROVEN = (
    f"(position('=' in d.requirements::text) = 0 AND r.amount * {SCALE:f} = {HELD}"
    f" AND (e.reservation_id IS NULL OR (e.cost * {SCALE:f} = {_EXPECTED} AND {_SPLIT})))"
)


def joins_of(formulas: Mapping[int, Formulas]) -> str:
    """Return the SQL that joins to `d`, `r` and `e` the formulas that `PROVEN` stands on.

    :param formulas: by the id of the price.
    """
    costs = [(key, each) for key, found in formulas.items() for each in found.costs]
    holds = [(key, each) for key, found in formulas.items() for each in found.holds]
    kinds = (
        ("f", costs, tuple(COUNTERS), "e.input_tokens"),
        ("h", holds, ("input", "output"), "d.estimated_input_tokens"),
        ("u", holds, ("input", "output"), _BY_BYTES),
    )
    return "".join(
        f" LEFT JOIN {_rows_of(rows, alias, names)} ON {alias}.price_id = d.price_id"
        f" AND ({alias}.above = 0 OR {count} > {alias}.above)"
        f" AND ({alias}.until IS NULL OR {count} <= {alias}.until)"
        for alias, rows, names, count in kinds
    )
