"""What was changed outside: inbox, page, verb and metric."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from governance.core.models import AuditEvent, OutsideChange
from governance.web import metrics
from tests.console import act_url, confirm
from tests.money import cap

pytestmark = pytest.mark.django_db


@pytest.fixture
def change(world: None) -> OutsideChange:
    """A cap that was raised by hand."""
    cap("1")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("UPDATE governance_budget SET cap = 999999")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    return OutsideChange.objects.get()


def gauge() -> str:
    lines = metrics.exposition().decode().splitlines()
    return next(line for line in lines if line.startswith("fencepost_outside_changes "))


def test_it_stands_in_the_inbox_and_in_the_metric_until_it_is_accepted(as_, change):
    governor: Client = as_("governor")
    inbox = reverse("admin:console_inbox")
    assert change.row_key in governor.get(inbox).content.decode()
    assert gauge().endswith(" 1.0")
    page = governor.get(reverse("admin:governance_outsidechange_change", args=(change.pk,)))
    assert "999999.000000000000" in page.content.decode()

    assert confirm(governor, "governance.outsidechange", "accept", change.pk).status_code == 302

    assert "Nothing was changed but by moves of ours." in governor.get(inbox).content.decode()
    assert gauge().endswith(" 0.0")
    event = AuditEvent.objects.get(action="outside_change.accepted")
    assert (event.actor, event.reason) == ("user:governor", "as agreed")


def test_an_operator_sees_it_and_accepts_nothing(as_, change):
    operator: Client = as_("operator")
    assert change.row_key in operator.get(reverse("admin:console_inbox")).content.decode()

    answer = operator.get(act_url("governance.outsidechange", "accept"), {"key": [change.pk]})

    assert answer.status_code == 403
    change.refresh_from_db()
    assert change.settled_at is None
