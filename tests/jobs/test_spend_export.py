"""Spend as a file: FOCUS 1.2 column by column, the plain form; a file is whole or absent."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from governance.core import clock
from governance.money import catalogue, ledger
from governance.money.models import Resolution
from governance.money.pricing import RateSet, Usage, text_of
from jobs.models import Job
from jobs.spend import export, focus, rows
from tests.jobs.focus_columns import COLUMNS, VALUES
from tests.money import TEST, request

pytestmark = pytest.mark.django_db
RATES = RateSet(0, Decimal(3), Decimal(15), cached_input=Decimal("0.3"))
Made = Callable[..., Resolution]


@pytest.fixture
def call(make_job: Callable[..., Job]) -> Made:
    """End a call of a job of its own: `call(Usage(...))`, `call(end="failed", basis="none")`."""
    catalogue.set_model(provider="acme", name="m-1", **TEST)
    catalogue.set_price(provider="acme", name="m-1", rates=[RATES], **TEST)
    catalogue.set_policy(models=[("acme", "m-1")], **TEST)

    def made(
        usage: Usage | None = None, *, end: str = "settled", basis: str | None = None, **over: Any
    ) -> Resolution:
        job = make_job(**over)
        routed = ledger.reserve(request=request(task_id=job.task_id, job_id=job.job_id))
        assert routed.reservation is not None
        wanted = ledger.End(
            reservation_id=routed.reservation.reservation_id,
            ended_as=end,
            usage=usage,
            cost_basis=basis,
        )
        return ledger.resolve(end=wanted, actor="agent:hermes").resolution

    return made


def exported(path: Path, form: str = "focus") -> list[dict[str, str]]:
    today = clock.now().date().isoformat()
    call_command(
        "export_spend",
        "--from", today, "--to", today, "--format", form, "--out", str(path),
        "--account", "plane.example",
    )  # fmt: skip
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def faults(row: dict[str, str]) -> Iterator[str]:
    """Yield what of a row the published columns do not allow."""
    for name, text in row.items():
        if name.startswith("x_"):
            continue
        column = COLUMNS[name]
        if text == "":
            if not column.nulls:
                yield f"{name} is null"
        elif name in VALUES and text not in VALUES[name]:
            yield f"{name} is {text}"
        elif not FORMS[column.kind](text):
            yield f"{name} is no {column.kind}: {text}"


def is_json_object(text: str) -> bool:
    return isinstance(json.loads(text), dict)


FORMS: dict[str, Callable[[str], Any]] = {
    "string": lambda text: text.strip() == text and "\0" not in text,
    "decimal": re.compile(r"-?[0-9]+(\.[0-9]+)?(E-?[0-9]+)?").fullmatch,
    "instant": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").fullmatch,
    "json": is_json_object,
}


def test_the_columns_are_the_published_ones_and_none_that_is_mandatory_is_missing() -> None:
    written = {name for name in focus.COLUMNS if not name.startswith("x_")}

    assert written <= set(COLUMNS)
    assert {name for name, column in COLUMNS.items() if column.level == "mandatory"} <= written
    assert "x_CostBasis" in focus.COLUMNS
    assert len(COLUMNS) == 57


def test_every_value_is_one_that_its_column_takes(call: Made, tmp_path: Path) -> None:
    call(Usage(input_tokens=1000, output_tokens=7, cached_input_tokens=400))
    call(Usage(input_tokens=3, output_tokens=0), labels={"team": "search"})
    call(labels=["urgent"])
    call(end="failed")

    found = exported(tmp_path / "spend.csv")

    assert [fault for row in found for fault in faults(row)] == []
    assert {row["Tags"] for row in found} == {"", '{"team": "search"}', '{"urgent": true}'}
    for row in found:
        quantity, cost = Decimal(row["PricingQuantity"]), Decimal(row["BilledCost"])
        # Source: ListUnitPrice and ContractedUnitPrice; the product of price and quantity.
        for price in ("ListUnitPrice", "ContractedUnitPrice"):
            assert abs(quantity * Decimal(row[price]) - cost) < Decimal("1e-20")
        assert row["ChargePeriodStart"] < row["ChargePeriodEnd"]
        assert row["BillingPeriodStart"] <= row["ChargePeriodStart"]
        assert row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]


def test_the_check_of_values_sees_what_is_wrong() -> None:
    wrong = {
        "BilledCost": "1,5",
        "ChargeCategory": "Use",
        "ChargePeriodStart": "2026-11-30",
        "ProviderName": "",
        "BillingAccountName": "",
    }

    assert list(faults(wrong)) == [
        "BilledCost is no decimal: 1,5",
        "ChargeCategory is Use",
        "ChargePeriodStart is no instant: 2026-11-30",
        "ProviderName is null",
    ]


def test_a_call_is_a_row_per_counter_and_its_parts_are_not_counted_twice(
    call: Made, tmp_path: Path
) -> None:
    resolution = call(Usage(input_tokens=1000, output_tokens=10, cached_input_tokens=400))

    found = exported(tmp_path / "spend.csv")

    assert {
        row["x_Counter"]: (row["ConsumedQuantity"], row["ListUnitPrice"], row["BilledCost"])
        for row in found
    } == {
        "input_tokens": ("600", "3", "0.0018"),
        "cached_input_tokens": ("400", "0.3", "0.00012"),
        "output_tokens": ("10", "15", "0.00015"),
    }
    assert sum(Decimal(row["BilledCost"]) for row in found) == resolution.cost
    assert {row["x_CostBasis"] for row in found} == {"actual"}
    assert {row["SkuId"] for row in found} == {
        "acme/m-1/input_tokens", "acme/m-1/cached_input_tokens", "acme/m-1/output_tokens",
    }  # fmt: skip


def test_a_call_at_its_estimate_is_one_request_and_what_cost_nothing_is_no_charge(
    call: Made, tmp_path: Path
) -> None:
    held = call()
    call(end="failed", basis="none")
    call(end="released")

    [row] = exported(tmp_path / "spend.csv")

    assert (row["x_CostBasis"], row["x_Flags"]) == ("estimate", "usage_missing")
    assert (row["ConsumedQuantity"], row["ConsumedUnit"]) == ("1", "Requests")
    assert row["BilledCost"] == text_of(held.cost)


@pytest.mark.parametrize(
    ("counted", "split", "quantities"),
    [
        # A part without a rate is priced in its whole.
        (
            {"input_tokens": 100, "cached_input_tokens": 40},
            {"input_tokens": "1"},
            {"input_tokens": 100},
        ),
        # What is both cached and audio is taken out of the whole once.
        (
            {
                "input_tokens": 100,
                "cached_input_tokens": 40,
                "input_audio_tokens": 30,
                "cached_audio_tokens": 10,
            },
            dict.fromkeys(
                (
                    "input_tokens",
                    "cached_input_tokens",
                    "input_audio_tokens",
                    "cached_audio_tokens",
                ),
                "1",
            ),
            {
                "input_tokens": 40,
                "cached_input_tokens": 30,
                "input_audio_tokens": 20,
                "cached_audio_tokens": 10,
            },
        ),
        (
            {"input_tokens": 100, "cache_write_tokens": 60, "cache_write_1h_tokens": 20},
            {"input_tokens": "1", "cache_write_tokens": "1", "cache_write_1h_tokens": "1"},
            {"input_tokens": 40, "cache_write_tokens": 40, "cache_write_1h_tokens": 20},
        ),
        ({"searches": 3}, {"searches": "0.03", "calls": "0.1"}, {"searches": 3, "call": 1}),
    ],
)
def test_quantities_are_those_of_the_rates(
    counted: dict[str, int], split: dict[str, str], quantities: dict[str, int]
) -> None:
    row = dict.fromkeys(focus.COUNTERS) | counted | {"cost_basis": "usage", "cost_split": split}

    found = focus.charges_of(row)

    assert {charge.counter: charge.quantity for charge in found} == quantities


def test_the_plain_form_has_a_row_per_call(call: Made, tmp_path: Path) -> None:
    resolution = call(
        Usage(input_tokens=5, output_tokens=6, service_tier="=cmd()"), labels={"team": "a"}
    )
    call(end="failed", basis="none")
    call(end="released")

    found = exported(tmp_path / "spend.csv", form="csv")

    assert [row["cost_basis"] for row in found] == [
        "estimate" if resolution.usage_odd else resolution.cost_basis,
        "none",
    ]
    assert found[0] | {"resolved_at": "", "reserved_at": "", "held": "", "cost": ""} == found[0] | {
        "resolved_at": "", "reserved_at": "", "held": "", "cost": "",
        "input_tokens": "5", "output_tokens": "6", "labels": '{"team": "a"}',
        "submitted_by": "submitter:ops", "provider": "acme", "model": "m-1",
        # No spreadsheet runs what a worker has said.
        "service_tier": "'=cmd()", "searches": "0",
    }  # fmt: skip
    assert Decimal(found[0]["cost"]) == resolution.cost


def test_only_the_days_that_are_asked_for_are_written_and_in_few_statements(
    call: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_PER_FETCH", 2)
    for _ in range(5):
        call()
    today = clock.now().date()

    with CaptureQueriesContext(connection) as statements:
        found = list(rows.read_rows(since=today, until=today))
    before = list(rows.read_rows(since=date(2020, 1, 1), until=date(2020, 1, 2)))

    assert len(found) == 5
    assert [row["resolved_at"] for row in found] == sorted(row["resolved_at"] for row in found)
    # One for the calls, and one for the corrections of calls and uses.
    assert len([s for s in statements.captured_queries if "governance_resolution" in s["sql"]]) == 2
    assert before == []


def test_a_file_that_cannot_be_finished_leaves_the_one_before(
    call: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spend.csv"
    path.write_text("before")
    call()

    def broken(*_: Any, **__: Any) -> Iterator[dict[str, str]]:
        raise OSError("the disk is full")

    monkeypatch.setattr(export, "_rows", broken)
    with pytest.raises(CommandError, match="the disk is full"):
        exported(path)

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("spend.csv", "before")
    ]


def test_a_range_that_is_none_is_refused(tmp_path: Path) -> None:
    for since, until in (("2026-11-02", "2026-11-01"), ("2026-11-31", "2026-12-01")):
        with pytest.raises(CommandError):
            call_command(
                "export_spend", "--from", since, "--to", until, "--out", str(tmp_path / "x.csv")
            )
    assert list(tmp_path.iterdir()) == []
