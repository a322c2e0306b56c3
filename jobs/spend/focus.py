"""Spend in the columns of FOCUS, which systems of billing data read: one row per counter.

A correction is one row, of the class that FOCUS has for it, and of no quantity.

Only columns that say something here are written: all that are mandatory, and of the others those
whose condition holds.  What FOCUS has no column for stands in columns that begin with `x_`.

Source: FinOps Open Cost and Usage Specification (FOCUS), version 1.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from governance.money.pricing import WHOLES, text_of, window_of
from governance.money.published import COUNTERS

MILLION = Decimal(10**6)
#: The provider of what was used, where nobody knows of which model that was.
UNKNOWN = "unknown"
TOKENS, SEARCHES, REQUESTS = "Tokens", "Searches", "Requests"
PARTS = {name: [part for part, whole in WHOLES if whole == name] for name in COUNTERS}

COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice",
    "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
    "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceId",
    "SubAccountId", "SubAccountName", "Tags", "x_Agent", "x_Attempt", "x_Call", "x_CostBasis",
    "x_Counter", "x_Flags", "x_JobId", "x_JobType", "x_Model", "x_PriceVersion",
    "x_ReservationId", "x_ResolvedAt", "x_TaskId", "x_UseId", "x_AdjustmentId",
)  # fmt: skip


@dataclass(frozen=True)
class Charge:
    """What one counter of a call costs. `unit` is that of `quantity`; 1 request where none is."""

    counter: str
    cost: Decimal
    quantity: int
    unit: str


def charges_of(row: Mapping[str, Any]) -> list[Charge]:
    """Return what the counters of a call cost, together its cost; none where nothing was billed.

    A call without a split was booked at what was held for it: that is one charge, of one request.
    """
    if row["cost_basis"] == "none":
        return []
    split = {name: Decimal(part) for name, part in (row["cost_split"] or {}).items()}
    if not split:
        return [Charge("call", row["cost"], 1, REQUESTS)]
    return [_charge(name, cost, row, split) for name, cost in split.items()]


def _charge(
    name: str, cost: Decimal, row: Mapping[str, Any], split: Mapping[str, Decimal]
) -> Charge:
    if name not in COUNTERS:
        return Charge("call", cost, 1, REQUESTS)
    unit = SEARCHES if name == "searches" else TOKENS
    return Charge(name, cost, _priced(name, row, split) or 1, unit)


def _priced(name: str, row: Mapping[str, Any], split: Mapping[str, Decimal]) -> int:
    """Return how much of a counter was priced as such: without the parts priced by themselves."""
    inside = {part for part in _below(name) if part in split}
    return max((row[name] or 0) - sum(_priced(part, row, split) for part in inside), 0)


def _below(name: str) -> set[str]:
    found = set(PARTS[name])
    return found.union(*(_below(part) for part in found))


def focus_rows(row: Mapping[str, Any], *, account: str) -> Iterator[dict[str, str]]:
    """Yield what was booked as rows of FOCUS, each with the values of `COLUMNS` as text.

    "" is null.

    :param account: what the installation is known by, as the account that is billed.
    """
    row = {**row, "provider": row["provider"] or UNKNOWN, "model": row["model"] or UNKNOWN}
    call = _of_call(row, account)
    if row["adjustment_id"] is not None:
        yield call | _of_correction(row)
        return
    for charge in charges_of(row):
        yield call | _of_charge(charge, row)


def _of_call(row: Mapping[str, Any], account: str) -> dict[str, str]:
    month, next_month = window_of("month", row["resolved_at"])
    assert next_month is not None
    hour = row["resolved_at"].replace(minute=0, second=0, microsecond=0)
    return {
        "BillingAccountId": account,
        "BillingAccountName": "",
        "BillingCurrency": row["currency"],
        "BillingPeriodStart": _instant(month),
        "BillingPeriodEnd": _instant(next_month),
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _instant(hour),
        "ChargePeriodEnd": _instant(hour + timedelta(hours=1)),
        "InvoiceIssuerName": row["provider"],
        "PricingCategory": "Standard",
        "ProviderName": row["provider"],
        "PublisherName": row["provider"],
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": row["provider"],
        "ServiceSubcategory": "Generative AI",
        "SubAccountId": row["submitted_by"],
        "SubAccountName": row["submitted_by"].partition(":")[2],
        "Tags": _tags(row["labels"]),
        "x_Agent": row["agent"],
        "x_Attempt": str(row["attempt"]),
        "x_Call": _text(row["call"]),
        "x_CostBasis": "actual" if row["cost_basis"] == "usage" else row["cost_basis"],
        "x_Flags": " ".join(row["flags"]),
        "x_JobId": str(row["job_id"]),
        "x_JobType": row["job_type"],
        "x_Model": row["model"],
        "x_PriceVersion": _text(row["price_version"]),
        "x_ReservationId": _text(row["reservation_id"]),
        "x_UseId": _text(row["use_id"]),
        "x_AdjustmentId": _text(row["adjustment_id"]),
        "x_ResolvedAt": _instant(row["resolved_at"]),
        "x_TaskId": row["task_id"],
    }


def _of_charge(charge: Charge, row: Mapping[str, Any]) -> dict[str, str]:
    by_million = charge.unit == TOKENS
    quantity = charge.quantity / MILLION if by_million else Decimal(charge.quantity)
    meter = charge.counter.replace("_", " ").title()
    sku = "/".join(
        part for part in (row["provider"], row["model"], charge.counter, *_served(row)) if part
    )
    price = f"{charge.cost / quantity:f}"
    return _costs(charge.cost) | {
        "ListUnitPrice": price,
        "ContractedUnitPrice": price,
        "ChargeDescription": f"{meter} of {row['provider']}/{row['model']} for {row['task_id']}",
        "ConsumedQuantity": str(charge.quantity),
        "ConsumedUnit": charge.unit,
        "PricingQuantity": f"{quantity:f}",
        "PricingUnit": f"1000000 {TOKENS}" if by_million else charge.unit,
        "SkuId": sku,
        "SkuMeter": meter,
        "SkuPriceId": sku,
        "x_Counter": charge.counter,
    }


def _of_correction(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what a correction adds to, or takes off, what was booked of one call or use."""
    null = ("ListUnitPrice", "ContractedUnitPrice", "ConsumedQuantity", "ConsumedUnit",
            "PricingQuantity", "PricingUnit", "SkuId", "SkuMeter", "SkuPriceId",
            "PricingCategory")  # fmt: skip
    model = f"{row['provider']}/{row['model']}"
    return dict.fromkeys(null, "") | _costs(row["cost"]) | {
        "ChargeClass": "Correction",
        "ChargeFrequency": "One-Time",
        "ChargeDescription": f"Correction of {model} for {row['task_id']}",
        "x_Counter": "correction",
    }  # fmt: skip


def _costs(cost: Decimal) -> dict[str, str]:
    return dict.fromkeys(
        ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), text_of(cost)
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _served(row: Mapping[str, Any]) -> list[str]:
    """Return how the call was served, where the provider's answer has said so."""
    return [row[name] for name in ("service_tier", "processing", "speed")]


def _tags(labels: Any) -> str:
    """Return labels as tags: those of an array have no value, and are `true`."""
    tags = labels if isinstance(labels, dict) else dict.fromkeys(labels or (), True)
    return json.dumps(tags, ensure_ascii=False, sort_keys=True) if tags else ""


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"
