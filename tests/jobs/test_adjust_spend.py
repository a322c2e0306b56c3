"""A cost is corrected at a shell and in the console, and confirmed by another governor."""

from __future__ import annotations

import json
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.urls import reverse
from uuid_utils.compat import uuid7

from governance.console import corrections
from governance.core.errors import NotFound
from governance.core.models import AuditEvent
from governance.money import catalogue, ledger
from governance.money.corrections import Adjustment
from governance.money.models import BudgetWindow, Reservation
from governance.money.uses import UnreservedUse
from jobs import executions, transitions
from jobs.models import Execution, Job
from tests.console import act_url, confirm
from tests.jobs.governed import TEST, Governed

WHY = "a bogus report"
BOGUS = {"input_tokens": 10**9, "output_tokens": 0}


@pytest.fixture
def bogus(governed: Governed, make_job: Any) -> Reservation:
    """A call that says it used 10^9 tokens, and cost 1000 USD by that."""
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation
    resolved = executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=reservation.reservation_id,
        end="settled",
        usage=BOGUS,
    )
    assert resolved.resolution is not None
    assert resolved.resolution.cost == 1000
    return Reservation.objects.get()


def run(**options: Any) -> dict[str, Any]:
    out = StringIO()
    options = {"actor": "user:anna", "reason": WHY, "json": True} | options
    call_command("adjust_spend", stdout=out, **options)
    return dict(json.loads(out.getvalue()))


def spent() -> Decimal:
    return BudgetWindow.objects.get().spent


def last_event(reservation: Reservation | UnreservedUse) -> tuple[AuditEvent, dict[str, Any]]:
    job = Job.objects.get(task_id=reservation.task_id)
    event = AuditEvent.objects.filter(subject=job.audit_subject).latest("seq")
    return event, json.loads(bytes(event.body))["details"]


def test_a_bogus_report_is_undone_by_one_row(bogus: Reservation) -> None:
    out = StringIO()
    call_command(
        "adjust_spend", "--reservation", str(bogus.pk), "--amount", "-1000.00", "--reason", WHY,
        "--actor", "user:anna", "--json", stdout=out,
    )  # fmt: skip

    answer = json.loads(out.getvalue())
    assert (answer["outcome"], answer["cost"]) == ("posted", "0.00")
    assert spent() == 0
    event, details = last_event(bogus)
    assert (event.action, event.actor, event.reason) == (
        "reservation.adjusted",
        "user:anna",
        WHY,
    )
    assert details["amount"] == "-1000.00"
    assert details["adjustment_id"] == answer["adjustment_id"]
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"reservation": uuid7(), "amount": Decimal(1)}, "no such reservation"),
        ({"confirm": uuid7()}, "no adjustment"),
        ({"confirm": uuid7(), "amount": Decimal(1)}, "--amount goes with"),
    ],
)
def test_what_is_not_there_is_refused(
    bogus: Reservation, options: dict[str, Any], fault: str
) -> None:
    before = AuditEvent.objects.count()

    with pytest.raises(CommandError, match=fault):
        run(**options)

    assert AuditEvent.objects.count() == before
    assert spent() == 1000


def test_above_the_limit_it_waits_and_another_confirms_it(
    bogus: Reservation, settings: Any
) -> None:
    settings.ADJUSTMENT_CONFIRM_USD = Decimal(100)
    waiting = run(reservation=bogus.pk, amount=Decimal(-1000))
    assert waiting["outcome"] == "waiting"
    assert last_event(bogus)[0].action == "reservation.adjustment_asked"
    with pytest.raises(CommandError, match="of their own"):
        run(confirm=waiting["adjustment_id"])
    assert spent() == 1000

    done = run(confirm=waiting["adjustment_id"], actor="user:bert")

    assert (done["outcome"], spent()) == ("posted", 0)
    event, details = last_event(bogus)
    assert (event.action, event.actor) == ("reservation.adjusted", "user:bert")
    assert details["made_by"] == "user:anna"


def test_it_is_declined_and_counts_never(bogus: Reservation, settings: Any) -> None:
    settings.ADJUSTMENT_CONFIRM_USD = Decimal(100)
    waiting = run(reservation=bogus.pk, amount=Decimal(-1000))

    assert run(decline=waiting["adjustment_id"])["outcome"] == "declined"

    assert spent() == 1000
    assert last_event(bogus)[0].action == "reservation.adjustment_declined"


class TestWithoutAReservation:
    """Usage that came without a reservation, 10^9 tokens of it, is undone by one row as well."""

    @pytest.fixture
    def use(self, governed: Governed, make_job: Any) -> UnreservedUse:
        job = make_job()
        governed.claim(job)
        governed.start(job, governed.permit(job, None).permit_id)
        governed.result(Execution.objects.get(job=job), usage=BOGUS)
        assert spent() == 1000
        return UnreservedUse.objects.get()

    def test_one_row_undoes_it(self, use: UnreservedUse) -> None:
        out = StringIO()
        call_command(
            "adjust_spend", "--unreserved", str(use.pk), "--amount", "-1000.00", "--reason", WHY,
            "--actor", "user:anna", "--json", stdout=out,
        )  # fmt: skip

        answer = json.loads(out.getvalue())
        assert (answer["outcome"], answer["cost"], answer["use_id"]) == (
            "posted",
            "0.00",
            str(use.pk),
        )
        assert spent() == 0
        use.refresh_from_db()
        assert use.cost == 1000
        event, details = last_event(use)
        assert (event.action, event.reason) == ("unreserved_use.adjusted", WHY)
        assert details["windows"] == [BudgetWindow.objects.get().pk]
        assert list(ledger.verify()) == []

    @pytest.mark.parametrize("amount", ["-1000.000000000001", "0"])
    def test_it_costs_no_less_than_0(self, use: UnreservedUse, amount: str) -> None:
        with pytest.raises(CommandError, match="INVALID_ARGUMENT"):
            run(unreserved=use.pk, amount=Decimal(amount))

        assert not Adjustment.objects.exists()
        assert spent() == 1000

    def test_what_is_not_there_is_refused(self, use: UnreservedUse) -> None:
        with pytest.raises(CommandError, match="no such unreserved use"):
            run(unreserved=uuid7(), amount=Decimal(1))
        with pytest.raises(NotFound), transaction.atomic():
            ledger.adjust(use_id=uuid7(), amount=Decimal(1), actor="user:anna", reason=WHY)

    def test_above_the_limit_another_governor_confirms_it(
        self, use: UnreservedUse, settings: Any
    ) -> None:
        settings.ADJUSTMENT_CONFIRM_USD = Decimal(100)
        waiting = run(unreserved=use.pk, amount=Decimal(-1000))
        assert (waiting["outcome"], spent()) == ("waiting", 1000)
        assert last_event(use)[0].action == "unreserved_use.adjustment_asked"
        assert use.task_id in " ".join(each.title for each in corrections.waiting(9))
        with pytest.raises(CommandError, match="of their own"):
            run(confirm=waiting["adjustment_id"])

        assert run(confirm=waiting["adjustment_id"], actor="user:bert")["outcome"] == "posted"

        assert spent() == 0
        assert list(ledger.verify()) == []

    def test_the_database_refuses_a_cost_below_0_and_a_row_of_both_or_neither(
        self, use: UnreservedUse, bogus: Reservation
    ) -> None:
        row: dict[str, Any] = {
            "needs_confirmation": False, "reason": WHY, "made_by": "user:anna",
            "made_at": use.recorded_at,
        }  # fmt: skip
        for wrong, fault in (
            ({"use": use, "amount": Decimal("-1000.1")}, "below 0"),
            ({"use": use, "resolution_id": bogus.pk, "amount": Decimal(1)}, "adjustment_is_of_one"),
            ({"amount": Decimal(1)}, "adjustment_is_of_one"),
        ):
            with pytest.raises(DatabaseError, match=fault), transaction.atomic():
                Adjustment.objects.create(adjustment_id=uuid7(), **row, **wrong)

    @pytest.mark.parametrize("budget_first", [True, False])
    def test_a_budget_that_is_made_beside_it_counts_what_is_left(
        self, use: UnreservedUse, budget_first: bool
    ) -> None:
        def correct() -> Any:
            return run(unreserved=use.pk, amount=Decimal(-999))

        def make() -> Any:
            return catalogue.set_budget(
                scope="agent", key="*", window="day", cap=Decimal(9), **TEST
            )

        for act in (make, correct) if budget_first else (correct, make):
            act()

        assert [window.spent for window in BudgetWindow.objects.all()] == [1, 1]
        assert list(ledger.verify()) == []

    def test_what_nobody_could_price_gets_its_cost(
        self, governed: Governed, make_job: Any, use: UnreservedUse
    ) -> None:
        catalogue.set_policy(models=[], **TEST)
        job = make_job()
        governed.claim(job)
        governed.start(job, governed.permit(job, None).permit_id)
        governed.result(Execution.objects.get(job=job), usage=BOGUS)
        unpriced = UnreservedUse.objects.get(cost=None)
        catalogue.set_budget(scope="agent", key="hermes", window="day", cap=None, **TEST)

        assert run(unreserved=unpriced.pk, amount=Decimal("2.5"))["cost"] == "2.50"

        assert [window.spent for window in BudgetWindow.objects.all()] == [Decimal("1002.5")] * 2
        catalogue.set_budget(scope="global", window="day", cap=None, **TEST)
        assert BudgetWindow.objects.latest("id").spent == Decimal("1002.5")
        assert list(ledger.verify()) == []

    def test_the_console_leads_from_the_inbox_to_the_form(
        self, as_: Any, use: UnreservedUse
    ) -> None:
        client = as_("governor")
        address = reverse("admin:governance_unreserveduse_change", args=(use.pk,))
        assert address in client.get(reverse("admin:console_inbox")).text
        assert act_url("governance.unreserveduse", "adjust_spend") in client.get(address).text

        confirm(client, "governance.unreserveduse", "adjust_spend", use.pk, amount="-999.5")

        assert spent() == Decimal("0.5")
        assert "by user:governor (counts): as agreed" in client.get(address).text
        page = reverse("admin:governance_adjustment_change", args=(Adjustment.objects.get().pk,))
        assert address in client.get(page).text


class TestInTheConsole:
    def test_a_governor_corrects_the_cost_of_a_call(self, as_: Any, bogus: Reservation) -> None:
        client = as_("governor")
        confirm(client, "governance.reservation", "adjust_spend", bogus.pk, amount="-999.5")

        page = client.get(reverse("admin:governance_reservation_change", args=(bogus.pk,))).text
        assert spent() == Decimal("0.5")
        assert "by user:governor (counts): as agreed" in page

    def test_a_fault_is_shown_at_the_amount(self, as_: Any, bogus: Reservation) -> None:
        client = as_("governor")
        page = confirm(client, "governance.reservation", "adjust_spend", bogus.pk, amount="-1001")

        assert page.status_code == 422
        assert "it costs 1000.00 USD, and no less than 0" in page.text
        assert not Adjustment.objects.exists()

    def test_what_waits_is_in_the_inbox_until_another_governor_confirms_it(
        self, as_: Any, bogus: Reservation, settings: Any
    ) -> None:
        settings.ADJUSTMENT_CONFIRM_USD = Decimal(100)
        client = as_("governor")
        confirm(client, "governance.reservation", "adjust_spend", bogus.pk, amount="-1000")
        row = Adjustment.objects.get()
        address = reverse("admin:governance_adjustment_change", args=(row.pk,))

        assert address in client.get(reverse("admin:console_inbox")).text
        assert act_url("governance.adjustment", "confirm") not in client.get(address).text
        confirm(client, "governance.adjustment", "confirm", row.pk)
        assert spent() == 1000

        run(confirm=row.pk, actor="user:bert")

        assert address not in client.get(reverse("admin:console_inbox")).text
        assert "confirmed" in client.get(address).text
        assert spent() == 0

    @pytest.mark.parametrize("group", ["viewer", "operator", "approver"])
    def test_nobody_else_may(self, as_: Any, bogus: Reservation, group: str) -> None:
        url = act_url("governance.reservation", "adjust_spend")

        assert as_(group).get(url, {"key": str(bogus.pk)}).status_code == 403


def test_a_call_of_a_job_that_is_over_is_corrected_too(
    governed: Governed, bogus: Reservation
) -> None:
    transitions.stop(task_id=bogus.task_id, actor="user:anna", reason="over")

    assert run(reservation=bogus.pk, amount=Decimal(-1))["cost"] == "999.00"
