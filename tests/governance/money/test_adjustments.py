"""What a call cost is corrected by rows: signed, posted, never below 0, never edited."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction
from uuid_utils.compat import uuid7

from governance.core import clock
from governance.core.errors import (
    InvalidArgument,
    InvalidTransition,
    NotFound,
    SelfApproval,
)
from governance.core.models import AuditEvent
from governance.money import ledger
from governance.money.corrections import Adjustment, AdjustmentPosting, AdjustmentVerdict
from governance.money.models import BudgetWindow, Resolution
from governance.money.pricing import Usage
from tests.money import (
    LARGE_CALL,
    another_request,
    cap,
    catalogue_of_two,
    reserved,
    resolve,
)

pytestmark = pytest.mark.django_db
ANNA, BERT = "user:anna", "user:bert"
WHY = "the provider billed 0.02 less"


@pytest.fixture(autouse=True)
def _catalogue(db):
    catalogue_of_two()


@pytest.fixture
def settled():
    """The reservation of a call that cost 0.03."""
    return settle()


def settle():
    reservation_id = reserved().reservation.reservation_id
    usage = Usage(1000, 1000)
    resolve("settled", reservation_id=reservation_id, usage=usage, actor="agent:hermes")
    return reservation_id


def adjust(reservation_id, amount, actor=ANNA):
    return ledger.adjust(
        reservation_id=reservation_id, amount=Decimal(amount), actor=actor, reason=WHY
    )


def decide(adjusted, verdict="confirmed", actor=BERT):
    return ledger.settle_adjustment(
        adjustment_id=adjusted.adjustment.adjustment_id,
        verdict=verdict,
        actor=actor,
        reason="it is so",
    )


def spent():
    return [row.spent for row in BudgetWindow.objects.order_by("id")]


def assert_books_agree():
    assert list(ledger.verify()) == []


def test_it_posts_to_every_window_that_counts_the_call():
    cap("0.03")
    cap("1", scope="agent", key="*", window="day")
    settled = settle()
    assert ledger.reserve(request=another_request()).decision.reason == "BUDGET_EXHAUSTED"

    adjusted = adjust(settled, "-0.02")

    assert (adjusted.outcome, adjusted.cost) == ("posted", Decimal("0.01"))
    assert spent() == [Decimal("0.01")] * 2
    assert AdjustmentPosting.objects.count() == 2
    assert Resolution.objects.get().cost == LARGE_CALL
    assert ledger.reserve(request=another_request()).model == "small"
    assert_books_agree()


def test_it_posts_to_a_budget_that_was_made_after_the_call(settled):
    cap("1")

    adjust(settled, "-0.02")

    assert spent() == [Decimal("0.01")]
    assert_books_agree()


def test_a_budget_that_is_made_after_it_counts_the_corrected_cost(settled):
    adjust(settled, "-0.02")

    cap("1")

    assert spent() == [Decimal("0.01")]
    adjust(settled, "-0.01")
    assert spent() == [0]
    assert_books_agree()


def test_it_may_add_and_says_that_a_cap_is_passed():
    budget = cap("0.03")
    settled = settle()

    adjust(settled, "1.5")

    assert spent() == [Decimal("1.53")]
    found = AuditEvent.objects.filter(subject=budget.audit_subject, action="budget.overrun")
    assert found.count() == 1
    assert_books_agree()


@pytest.mark.parametrize(
    "amount", ["-0.030000000001", "0", "NaN", "Infinity", "1e10", "0.0000000000001"]
)
def test_what_is_no_amount_or_more_than_the_cost_is_refused(settled, amount):
    cap("1")
    with pytest.raises(InvalidArgument) as refused:
        adjust(settled, amount)

    assert [fault.pointer for fault in refused.value.errors] == ["/amount"]
    assert not Adjustment.objects.exists()
    assert spent() == [LARGE_CALL]


def test_several_together_take_off_no_more_than_the_cost(settled):
    adjust(settled, "-0.02")

    with pytest.raises(InvalidArgument):
        adjust(settled, "-0.011")

    assert adjust(settled, "-0.01").cost == 0


def test_a_call_that_is_open_is_not_corrected():
    open_call = reserved().reservation.reservation_id

    with pytest.raises(InvalidTransition):
        adjust(open_call, "1")

    assert not Adjustment.objects.exists()


def test_the_database_refuses_a_cost_below_0_and_every_change(settled):
    adjust(settled, "-0.02")
    row = {
        "resolution_id": settled,
        "amount": Decimal("-0.011"),
        "needs_confirmation": False,
        "reason": WHY,
        "made_by": ANNA,
        "made_at": clock.now(),
    }
    with pytest.raises(DatabaseError, match="below 0"), transaction.atomic():
        Adjustment.objects.create(adjustment_id=uuid7(), **row)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Adjustment.objects.update(amount=1)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AdjustmentPosting.objects.all().delete()


class TestAboveALimit:
    @pytest.fixture(autouse=True)
    def limit(self, settings, settled):
        cap("1")
        settings.ADJUSTMENT_CONFIRM_USD = Decimal("0.01")
        self.settled = settled

    def test_what_is_not_above_it_counts_at_once(self):
        assert adjust(self.settled, "-0.01").outcome == "posted"

    @pytest.mark.parametrize("amount", ["-0.02", "0.02"])
    def test_another_governor_confirms_it(self, amount):
        waiting = adjust(self.settled, amount)
        assert (waiting.outcome, waiting.cost) == ("waiting", LARGE_CALL)
        assert spent() == [LARGE_CALL]
        assert_books_agree()

        confirmed = decide(waiting)

        assert confirmed.outcome == "posted"
        assert spent() == [LARGE_CALL + Decimal(amount)]
        assert_books_agree()

    def test_its_own_maker_does_not(self):
        waiting = adjust(self.settled, "-0.02")

        with pytest.raises(SelfApproval):
            decide(waiting, actor=ANNA)

        assert spent() == [LARGE_CALL]
        row = {"adjustment_id": waiting.adjustment.pk, "verdict": "confirmed", "decided_by": ANNA}
        with pytest.raises(DatabaseError, match="of their own"), transaction.atomic():
            AdjustmentVerdict.objects.create(**row, reason="so", decided_at=clock.now())

    @pytest.mark.parametrize("actor", [ANNA, BERT])
    def test_anybody_declines_it_and_that_is_its_end(self, actor):
        waiting = adjust(self.settled, "-0.02")

        assert decide(waiting, "declined", actor).outcome == "declined"

        with pytest.raises(InvalidTransition, match="declined already"):
            decide(waiting)
        assert spent() == [LARGE_CALL]
        assert_books_agree()

    def test_it_is_confirmed_once_and_only_while_the_cost_allows_it(self):
        first, second = adjust(self.settled, "-0.02"), adjust(self.settled, "-0.02")
        decide(first)

        with pytest.raises(InvalidTransition, match="confirmed already"):
            decide(first)
        with pytest.raises(InvalidArgument):
            decide(second)

        assert spent() == [Decimal("0.01")]
        row = {"adjustment_id": second.adjustment.pk, "verdict": "confirmed", "decided_by": BERT}
        with pytest.raises(DatabaseError, match="below 0"), transaction.atomic():
            AdjustmentVerdict.objects.create(**row, reason="so", decided_at=clock.now())

    def test_what_counts_already_is_not_decided(self):
        posted = adjust(self.settled, "-0.01")

        with pytest.raises(InvalidTransition, match="counts already"):
            decide(posted)
        with pytest.raises(NotFound):
            ledger.settle_adjustment(
                adjustment_id=uuid7(), verdict="confirmed", actor=BERT, reason="so"
            )


TAMPERED = [
    ("UPDATE governance_adjustment SET amount = -0.03", "budget_window.spent"),
    ("DELETE FROM governance_adjustmentposting", "adjustment.postings"),
    ("UPDATE governance_adjustment SET needs_confirmation = true", "adjustment.postings"),
]


@pytest.mark.parametrize(("tampering", "check"), TAMPERED)
def test_what_was_tampered_with_is_found(tampering, check):
    cap("1")
    adjust(settle(), "-0.02")

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(tampering)
        cursor.execute("SET session_replication_role = origin")

    assert check in {found.check for found in ledger.verify()}
