"""The page of money: sums with pictures, each with the way to its rows, in few queries."""

from __future__ import annotations

from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from governance.console import spend as page
from governance.core import clock
from governance.money import ledger, rollups
from governance.money.ledger import BudgetBar
from tests.money import any_name, cap, catalogue_of_two  # noqa: F401
from tests.spent import correct, spend, use

pytestmark = pytest.mark.django_db
MONEY, ROWS = "admin:governance_spendhour_money", "admin:governance_spendhour_rows"
QUERIES_MAX = 12


@pytest.fixture
def spent(world: None) -> None:
    catalogue_of_two()
    cap("10", scope="agent", key="hermes", window="day")
    end = spend()
    spend(at=clock.now() - timedelta(days=3), agent="openclaw")
    use()
    correct(end, "-0.01")
    rollups.count()


def shown(client: Any, name: str, **asked: Any) -> str:
    answer = client.get(reverse(name), asked)
    assert answer.status_code == 200
    return str(answer.content.decode())


def lines(seen: str) -> int:
    """Return how many rows the tables of a page have, their heads included."""
    return seen[seen.index('id="content-main"') : seen.index("<dialog")].count("<tr>")


def test_it_shows_days_budgets_agents_types_and_models_with_their_pictures(
    spent: None, as_: Any
) -> None:
    seen = shown(as_("viewer"), MONEY)

    found = rollups.read_spent(
        first=clock.now().astimezone(UTC).date() - timedelta(days=29),
        last=clock.now().astimezone(UTC).date(),
    )
    whole = rollups.total_of(found["day"])
    assert f"{whole.total:,.2f}" in seen
    for words in ("By day", "Budgets now", "By agent", "By job type", "By model", "local/large"):
        assert words in seen
    assert seen.count("<svg") >= 5
    assert "agent hermes per day" in seen
    # Without script and style of their own, as the policy wants it.
    content = seen[seen.index('id="content-main"') :]
    assert "style=" not in content
    assert "Summed up as of" in seen


def test_each_figure_leads_to_its_rows_and_they_to_theirs(spent: None, as_: Any) -> None:
    client = as_("viewer")
    today = clock.now().astimezone(UTC).date()
    seen = shown(client, MONEY)
    assert f"{reverse(ROWS)}?first={today}&amp;last={today}" in seen

    rows = shown(client, ROWS, first=today - timedelta(days=5), last=today)

    for name in ("reservation", "unreserveduse", "adjustment"):
        assert f"/admin/governance/{name}/" in rows
    assert lines(rows) == 1 + 4
    narrowed = shown(client, ROWS, first=today - timedelta(days=5), last=today, agent="openclaw")
    assert lines(narrowed) == 1 + 1
    assert "There are none." in shown(client, ROWS, first="2020-01-01", last="2020-01-01")


def test_the_whole_is_narrowed_and_what_is_not_valid_is_not_asked_for(
    spent: None, as_: Any
) -> None:
    client = as_("viewer")
    seen = shown(client, MONEY, agent="openclaw", days="7")
    assert "Only agent <strong>openclaw</strong>" in seen
    assert "hermes</th>" not in seen
    shown(client, MONEY, days="nine", agent="x" * 300)
    shown(client, ROWS, first="yesterday", only="everything", before="now", before_id="1")


def test_it_costs_the_same_few_queries_however_much_was_spent(spent: None, as_: Any) -> None:
    client = as_("governor")
    counted = []
    for _ in range(2):
        client.get(reverse(MONEY))
        with CaptureQueriesContext(connection) as queries:
            shown(client, MONEY)
        counted.append(len(queries))
        tables = {word for each in queries for word in each["sql"].replace('"', " ").split()}
        assert tables.isdisjoint({"governance_resolution", "governance_reservation"})
        for number in range(5):
            spend(at=clock.now() - timedelta(days=number))
        rollups.count()
    assert counted[0] == counted[1] <= QUERIES_MAX


def test_who_may_not_see_money_is_not_led_to_it(spent: None, as_: Any, client: Any) -> None:
    assert client.get(reverse(MONEY)).status_code == 302
    viewer = as_("viewer")
    assert reverse(MONEY) in shown(viewer, "admin:index")
    group = Group.objects.get(name="viewer")
    group.permissions.filter(codename="view_spendhour").delete()
    assert viewer.get(reverse(MONEY)).status_code == 403
    assert viewer.get(reverse(ROWS)).status_code == 403
    assert reverse(MONEY) not in shown(viewer, "admin:index")


def test_rows_are_for_who_may_see_each_of_their_kinds(spent: None, as_: Any) -> None:
    viewer = as_("viewer")
    Group.objects.get(name="viewer").permissions.filter(codename="view_reservation").delete()
    assert reverse(ROWS) not in shown(viewer, MONEY)
    assert viewer.get(reverse(ROWS)).status_code == 403


def bar(**over: Any) -> BudgetBar:
    starts = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    values: dict[str, Any] = {
        "budget_id": 1, "scope": "global", "key": "", "window": "day", "starts_at": starts,
        "ends_at": starts + timedelta(days=1), "held": Decimal(1), "spent": Decimal(3),
        "cap": Decimal(10), "soft_cap": None,
    }  # fmt: skip
    return ledger.BudgetBar(**values | over)


def test_a_forecast_is_what_a_window_comes_to_if_it_goes_on_so(db: None) -> None:
    row = bar()
    assert page.forecast_of(row, now=row.starts_at + timedelta(hours=6)) == Decimal(12)
    # Of the first minutes nothing follows, nor of a window without an end.
    assert page.forecast_of(row, now=row.starts_at + timedelta(minutes=9)) is None
    assert page.forecast_of(bar(ends_at=None), now=clock.now()) is None
