"""What was booked beside the calls - uses, corrections - in files, sums, answers and pages."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.urls import reverse

from governance.money import catalogue, ledger
from governance.money.corrections import Adjustment
from governance.money.uses import UnreservedUse
from jobs import evidence, executions
from jobs.models import Execution, Job
from jobs.spend import export
from jobs.spend.sums import read_spend
from tests.jobs.governed import TEST, Governed
from tests.jobs.test_spend_export import exported, faults

ANNA: dict[str, Any] = {"actor": "user:anna", "reason": "billed otherwise"}
BERT: dict[str, Any] = {"actor": "user:bert", "reason": "compared with the invoice"}
USAGE = {"input_tokens": 1_000_000, "output_tokens": 500_000, "cached_input_tokens": 400_000}


def used_without(governed: Governed, job: Job, usage: Any = None) -> Execution:
    governed.claim(job)
    governed.start(job, governed.permit(job, None).permit_id)
    execution = Execution.objects.get(job=job)
    governed.result(execution, usage=usage or USAGE)
    return execution


@pytest.fixture
def job(governed: Governed, make_job: Callable[..., Job], settings: LazySettings) -> Job:
    """A job that used 2 USD without a reservation: 0.75 were taken off, 0.25 wait, 9 do not count.

    Another has a call of 0.0007 USD to which 1 USD was added.
    """
    made = make_job(labels={"team": "search"})
    used_without(governed, made)
    use = UnreservedUse.objects.get()
    executions.adjust_spend(use_id=use.pk, amount=Decimal("-0.75"), **ANNA)
    call = governed.begin(make_job())
    governed.result(call)
    executions.adjust_spend(reservation_id=call.reservation_id, amount=Decimal(1), **ANNA)
    settings.ADJUSTMENT_CONFIRM_USD = Decimal(0)
    executions.adjust_spend(use_id=use.pk, amount=Decimal("-0.25"), **ANNA)
    asked = executions.adjust_spend(use_id=use.pk, amount=Decimal(9), **ANNA)
    executions.settle_adjustment(adjustment_id=asked.adjustment.pk, verdict="declined", **BERT)
    return made


TOTAL = Decimal("1.25") + Decimal("1.0007")


def test_focus_has_a_row_per_counter_and_corrections_of_their_class(
    job: Job, tmp_path: Path
) -> None:
    found = exported(tmp_path / "spend.csv")

    assert [fault for row in found for fault in faults(row)] == []
    assert sum(Decimal(row["BilledCost"]) for row in found) == TOTAL
    use = UnreservedUse.objects.get()
    assert {
        row["x_Counter"]: (row["BilledCost"], row["x_CostBasis"], row["x_Flags"])
        for row in found
        if row["x_UseId"] == str(use.pk) and not row["ChargeClass"]
    } == {
        "input_tokens": ("1.00", "actual", "unreserved"),
        "output_tokens": ("1.00", "actual", "unreserved"),
    }
    corrections = [row for row in found if row["ChargeClass"] == "Correction"]
    assert {(row["BilledCost"], row["ConsumedQuantity"], row["Tags"]) for row in corrections} == {
        ("-0.75", "", '{"team": "search"}'),
        ("1.00", "", ""),
    }
    assert {row["x_AdjustmentId"] for row in corrections} == {
        str(row.pk) for row in Adjustment.objects.filter(needs_confirmation=False)
    }
    assert {row["ProviderName"] for row in found} == {"local"}


def test_what_is_confirmed_is_a_correction_and_what_nobody_priced_a_row(
    governed: Governed, make_job: Callable[..., Job], job: Job, tmp_path: Path
) -> None:
    waiting = Adjustment.objects.get(needs_confirmation=True, verdict=None)
    executions.settle_adjustment(adjustment_id=waiting.pk, verdict="confirmed", **BERT)
    catalogue.set_policy(models=[], **TEST)
    used_without(governed, make_job(), usage={"input_tokens": 7, "output_tokens": 0})

    found = exported(tmp_path / "spend.csv")

    assert [fault for row in found for fault in faults(row)] == []
    assert sum(Decimal(row["BilledCost"]) for row in found) == TOTAL - Decimal("0.25")
    [unpriced] = [row for row in found if "unpriced" in row["x_Flags"]]
    assert (unpriced["ProviderName"], unpriced["BilledCost"]) == ("unknown", "0.00")


def test_the_plain_form_adds_up_and_a_signed_amount_is_a_number(job: Job, tmp_path: Path) -> None:
    found = exported(tmp_path / "spend.csv", form="csv")

    assert [(row["ended_as"], row["cost"]) for row in found] == [
        ("unreserved", "2.00"),
        ("adjusted", "-0.75"),
        ("settled", "0.0007"),
        ("adjusted", "1.00"),
    ]
    assert sum(Decimal(row["cost"]) for row in found) == TOTAL


@pytest.mark.parametrize(
    ("text", "written"),
    [("-0.75", "-0.75"), ("-1+2", "'-1+2"), ("-a", "'-a"), ("=1", "'=1"), ("7", "7")],
)
def test_only_numbers_may_begin_with_a_sign(text: str, written: str) -> None:
    assert export._harmless(text) == written


@pytest.mark.parametrize("group_by", ["day", "model", "job_type", "label:team"])
def test_a_submitter_is_told_what_is_left(job: Job, group_by: str) -> None:
    assert read_spend(submitter=job.submitted_by, group_by=group_by).total == TOTAL


def test_the_bill_of_an_attempt_is_as_it_was_corrected(job: Job) -> None:
    bills = {
        each.job_id == job.pk: ledger.read_bill(external_request_id=each.external_request_id)
        for each in Execution.objects.all()
    }

    assert bills[True].cost == Decimal("1.25")
    assert bills[False].cost == Decimal("1.0007")
    assert ledger.read_bill(external_request_id="xr_nobody").cost == 0


def test_the_evidence_has_them(job: Job) -> None:
    out = BytesIO()
    evidence.export(task_id=job.task_id, out=out, actor="user:anna")

    with zipfile.ZipFile(out) as bundle:
        rows = {
            name: [json.loads(line) for line in bundle.read(f"rows/{name}.jsonl").splitlines()]
            for name in ("unreserved_uses", "adjustments", "adjustment_verdicts")
        }
    assert {name: len(found) for name, found in rows.items()} == {
        "unreserved_uses": 1,
        "adjustments": 3,
        "adjustment_verdicts": 1,
    }
    assert "billed otherwise" in {row["reason"] for row in rows["adjustments"]}


def test_the_job_s_page_and_its_execution_s_show_them(job: Job, as_: Any) -> None:
    client = as_("governor")
    execution = Execution.objects.get(job=job)
    for name, key in (("job", job.pk), ("execution", execution.pk)):
        page = client.get(reverse(f"admin:jobs_{name}_change", args=(key,))).text
        for row in Adjustment.objects.exclude(use=None):
            assert reverse("admin:governance_adjustment_change", args=(row.pk,)) in page
        assert "used, not reserved" in page
        assert "waits for another governor" in page
        assert "billed otherwise" in page
        other = Adjustment.objects.get(use=None)
        assert reverse("admin:governance_adjustment_change", args=(other.pk,)) not in page
