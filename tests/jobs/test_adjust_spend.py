"""A cost is corrected at a shell and in the console, and confirmed by another governor."""

from __future__ import annotations

import json
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from uuid_utils.compat import uuid7

from governance.core.models import AuditEvent
from governance.money import ledger
from governance.money.corrections import Adjustment
from governance.money.models import BudgetWindow, Reservation
from jobs import executions, transitions
from jobs.models import Job
from tests.console import act_url, confirm
from tests.jobs.governed import Governed

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


def last_event(reservation: Reservation) -> tuple[AuditEvent, dict[str, Any]]:
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
        assert "the call costs 1000.00 USD, and no less than 0" in page.text
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
