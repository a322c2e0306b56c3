"""Uses, corrections and openings are as their events say: each tampering is found and named."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from agents.principals import Principal
from governance.core.models import AuditEvent
from governance.money import catalogue, ledger, proofs
from governance.money.corrections import Adjustment, AdjustmentVerdict, BudgetOpening
from governance.money.uses import UnreservedUse
from jobs import executions
from jobs.models import Execution, Job
from tests.jobs.governed import TEST, Governed, price_a_model
from tests.jobs.test_proofs import tamper

pytestmark = pytest.mark.django_db
ANNA: dict[str, Any] = {"actor": "user:anna", "reason": "billed otherwise"}
BERT: dict[str, Any] = {"actor": "user:bert", "reason": "compared with the invoice"}


@pytest.fixture(autouse=True)
def books(make_job: Callable[..., Job], hermes: Principal, settings: LazySettings) -> None:
    """Two uses, one of them odd, and a call; four corrections; a budget that came after."""
    price_a_model(cap=Decimal(10))
    settings.ADJUSTMENT_CONFIRM_USD = Decimal(1)
    worker = Governed(hermes)
    use = report(worker, make_job(), {"input_tokens": 3_000_000, "output_tokens": 0})
    report(worker, make_job(), {"input_tokens": 4, "output_tokens": -1})
    execution = worker.begin(make_job())
    worker.result(execution, usage={"input_tokens": 2_000_000, "output_tokens": 0})
    call = execution.reservation_id
    executions.adjust_spend(use_id=use.pk, amount=Decimal("-0.5"), **ANNA)
    for verdict, amount in (("confirmed", Decimal("-1.5")), ("declined", Decimal(2))):
        asked = executions.adjust_spend(reservation_id=call, amount=amount, **ANNA)
        executions.settle_adjustment(adjustment_id=asked.adjustment.pk, verdict=verdict, **BERT)
    catalogue.set_budget(scope="agent", key="*", window="none", cap=None, **TEST)
    executions.adjust_spend(use_id=use.pk, amount=Decimal("-0.25"), **ANNA)


def report(worker: Governed, job: Job, usage: Any) -> UnreservedUse:
    worker.claim(job)
    worker.start(job, worker.permit(job, None).permit_id)
    worker.result(Execution.objects.get(job=job), usage=usage)
    return UnreservedUse.objects.latest("recorded_at")


def found() -> set[str]:
    return {difference.check for difference in proofs.verify()}


SPENT = "UPDATE governance_budgetwindow SET spent = spent"
DEAR = "(SELECT use_id FROM governance_unreserveduse WHERE cost = 3)"
HALF = "(SELECT adjustment_id FROM governance_adjustment WHERE amount = -0.5)"
WAITED = "needs_confirmation AND amount < 0"
TAMPERED = [
    (
        "UPDATE governance_unreserveduse SET input_tokens = 1000000, cost = 1,"
        f" cost_split = '{{\"input_tokens\": \"1\"}}' WHERE cost = 3; {SPENT} - 2",
        {"unreserved_use.cost", "unreserved_use.counts.input_tokens"},
    ),
    (
        "UPDATE governance_unreserveduse SET input_tokens = 0 WHERE cost = 3",
        {"unreserved_use.counts.input_tokens"},
    ),
    (
        f"DELETE FROM governance_adjustmentposting WHERE adjustment_id IN (SELECT adjustment_id"
        f" FROM governance_adjustment WHERE use_id = {DEAR});"
        f"DELETE FROM governance_adjustment WHERE use_id = {DEAR};"
        f"DELETE FROM governance_unreservedposting WHERE use_id = {DEAR};"
        f"DELETE FROM governance_unreserveduse WHERE cost = 3; {SPENT} - 2.25",
        {"unreserved_use.row", "adjustment.row"},
    ),
    (
        f"DELETE FROM governance_unreservedposting WHERE use_id = {DEAR}; {SPENT} - 2.5",
        {"unreserved_use.windows"},
    ),
    ("UPDATE governance_unreserveduse SET agent = 'eve'", {"unreserved_use.agent"}),
    ("UPDATE governance_unreserveduse SET recorded_by = 'x'", {"unreserved_use.by"}),
    ("UPDATE governance_unreserveduse SET usage_odd = false", {"unreserved_use.usage_odd"}),
    ("UPDATE governance_unreserveduse SET cost_basis = 'usage'", {"unreserved_use.cost_basis"}),
    (
        "UPDATE governance_unreserveduse SET recorded_at = '2020-1-1Z'",
        {"unreserved_use.recorded_at"},
    ),
    (
        "UPDATE governance_unreserveduse SET reservation_id ="
        " (SELECT reservation_id FROM governance_reservation)",
        {"unreserved_use.reservation_id"},
    ),
    (
        "UPDATE governance_unreserveduse SET job_id = gen_random_uuid()",
        {"unreserved_use.row", "unreserved_use.event", "adjustment.row", "adjustment.event"},
    ),
    (
        f"UPDATE governance_adjustment SET amount = -1 WHERE amount = -0.5; {SPENT} - 0.5",
        {"adjustment.amount"},
    ),
    (
        "UPDATE governance_adjustment SET made_by = 'user:eve'",
        {"adjustment.made_by", "adjustment.by"},
    ),
    ("UPDATE governance_adjustment SET reason = 'none'", {"adjustment.reason"}),
    ("UPDATE governance_adjustment SET made_at = '2020-1-1Z'", {"adjustment.written_at"}),
    (
        "UPDATE governance_adjustment SET use_id ="
        " (SELECT use_id FROM governance_unreserveduse WHERE cost <> 3) WHERE amount = -0.5",
        {"adjustment.row", "adjustment.event"},
    ),
    (
        f"UPDATE governance_adjustment SET needs_confirmation = false WHERE {WAITED}",
        # The event of the verdict is there for a row that says it was never asked for one.
        {
            "adjustment.row",
            *(f"adjustment.{n}" for n in ("needs_confirmation", "by", "reason", "written_at")),
        },
    ),
    (
        f"DELETE FROM governance_adjustmentposting WHERE adjustment_id = {HALF};"
        f"DELETE FROM governance_adjustment WHERE amount = -0.5; {SPENT} + 0.5",
        {"adjustment.row"},
    ),
    (
        f"DELETE FROM governance_adjustmentposting WHERE adjustment_id = {HALF}; {SPENT} + 0.5",
        {"adjustment.windows"},
    ),
    (
        "UPDATE governance_adjustmentverdict SET verdict = 'declined'",
        {"adjustment.row", "adjustment.event"},
    ),
    ("UPDATE governance_adjustmentverdict SET decided_by = 'user:eve'", {"adjustment.by"}),
    ("UPDATE governance_adjustmentverdict SET reason = 'none'", {"adjustment.reason"}),
    ("UPDATE governance_adjustmentverdict SET decided_at = '2020-1-1Z'", {"adjustment.written_at"}),
    ("DELETE FROM governance_adjustmentverdict", {"adjustment.row"}),
    (
        f"UPDATE governance_budgetopening SET spent = 1 WHERE spent > 0; {SPENT} - 1",
        {"budget_opening.spent", "budget_opening.openings_sha256"},
    ),
    (
        "UPDATE governance_budgetopening SET window_id ="
        " (SELECT min(id) FROM governance_budgetwindow)",
        {"budget_opening.row", "budget_opening.event"},
    ),
    ("UPDATE governance_budgetopening SET opened_by = 'user:eve'", {"budget_opening.by"}),
    (
        "UPDATE governance_budgetopening SET opened_at = '2020-1-1Z'",
        {"budget_opening.row", "budget_opening.event"},
    ),
    ("DELETE FROM governance_budgetopening", {"budget_opening.row"}),
]  # fmt: skip


def test_what_nobody_meddled_with_agrees() -> None:
    assert list(proofs.verify()) == []
    assert list(ledger.verify()) == []
    assert (Adjustment.objects.count(), AdjustmentVerdict.objects.count()) == (4, 2)
    assert BudgetOpening.objects.filter(spent__gt=0).count() == 1


@pytest.mark.parametrize(("statement", "checks"), TAMPERED)
def test_what_was_tampered_with_is_named(statement: str, checks: set[str]) -> None:
    tamper(statement)

    assert found() == checks


INSERTED = [
    (
        "INSERT INTO governance_adjustment (adjustment_id, use_id, amount, needs_confirmation,"
        " reason, made_by, made_at) SELECT gen_random_uuid(), use_id, -1, false, 'why', 'user:eve',"
        " now() FROM governance_unreserveduse WHERE cost = 3",
        "adjustment.event",
    ),
    (
        "INSERT INTO governance_budgetopening (window_id, spent, opened_by, opened_at)"
        " SELECT min(id), 0, 'user:eve', '2020-1-1Z' FROM governance_budgetwindow",
        "budget_opening.event",
    ),
    (
        "INSERT INTO governance_adjustmentposting (adjustment_id, window_id)"
        " SELECT adjustment_id, (SELECT max(id) FROM governance_budgetwindow)"
        " FROM governance_adjustment WHERE amount = -0.5",
        "adjustment.windows",
    ),
]


@pytest.mark.parametrize(("statement", "check"), INSERTED)
def test_what_was_written_by_hand_with_the_triggers_on_is_named(statement: str, check: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)

    assert found() == {check}


def test_what_was_sent_is_proven_by_its_digest() -> None:
    tamper("UPDATE governance_unreserveduse SET usage_sent = '\"nothing\"' WHERE usage_odd")

    assert {one.check for one in ledger.verify()} == {"unreserved_use.content_sha256"}


@pytest.mark.parametrize(
    ("actions", "path", "statement", "check"),
    [
        (
            "ledger.unreserved",
            "{details,windows}",
            "UPDATE governance_unreserveduse SET cost_basis = 'usage'",
            "unreserved_use.cost_basis",
        ),
        (
            "%.adjust%",
            "{details,written_at}",
            "UPDATE governance_adjustment SET amount = 2.5 WHERE amount = 2",
            "adjustment.amount",
        ),
        (
            "budget.opened",
            "{after,openings}",
            "UPDATE governance_budgetopening SET opened_by = 'user:eve'",
            "budget_opening.by",
        ),
    ],
)
def test_an_event_of_before_is_compared_by_what_it_says(
    actions: str, path: str, statement: str, check: str
) -> None:
    tamper(
        "UPDATE governance_auditevent SET body = convert_to((convert_from(body, 'UTF8')::jsonb"
        f" #- '{path}')::text, 'UTF8') WHERE action LIKE '{actions}'"
    )
    assert found() == set()

    tamper(statement)

    assert found() == {check}


def test_a_budget_that_is_enabled_again_and_takes_nothing_over_needs_no_row() -> None:
    budget = catalogue.set_budget(scope="global", window="none", cap=None, enabled=False, **TEST)
    catalogue.switch_budget(budget_id=budget.pk, enabled=True, **TEST)

    assert found() == set()
    assert AuditEvent.objects.filter(action="budget.opened").count() == 2
