"""The console's pages of models, routes and budgets, and of the audit trail."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from governance.console.models import BulkItem
from governance.core import clock, verbs
from governance.core.models import AuditEvent
from governance.money.models import Budget, BudgetWindow, LanguageModel, Price, RoutePolicy
from governance.money.pricing import read_usage
from tests.console import act_url, confirm, token_in
from tests.money import catalogue_of_two, reserved, resolve

MONEY = ("languagemodel", "price", "routepolicy", "budget")


@pytest.fixture
def model(as_: Any) -> LanguageModel:
    """A model with a price that a governor gave it."""
    client = as_("governor")
    confirm(
        client, "governance.languagemodel", "make", "new", provider="acme", name="m1",
        capabilities="tools, vision",
    )  # fmt: skip
    row = LanguageModel.objects.get()
    confirm(
        client, "governance.languagemodel", "override_price", row.pk, input_rate="1.5",
        output_rate="6",
    )  # fmt: skip
    return row


def test_a_model_gets_into_the_catalogue_with_a_price(model: LanguageModel, as_: Any) -> None:
    price = Price.objects.get()

    assert (str(model), model.capabilities) == ("acme/m1", ["tools", "vision"])
    assert (price.input_rate, price.output_rate) == (Decimal("1.5"), Decimal(6))
    page = as_("viewer").get(reverse("admin:governance_languagemodel_change", args=(model.pk,)))
    assert "1.50 / 6.00 USD (override)" in page.content.decode()
    assert "audit chain verified" in page.content.decode()


def test_a_model_is_disabled_and_a_price_ended(model: LanguageModel, as_: Any) -> None:
    client = as_("governor")

    confirm(client, "governance.languagemodel", "disable", model.pk)
    confirm(client, "governance.price", "end", Price.objects.get().pk)

    model.refresh_from_db()
    assert (model.enabled, model.capabilities) == (False, ["tools", "vision"])
    assert Price.objects.get().ends_at is not None


def test_an_override_states_every_rate_and_its_page_shows_the_whole_price(
    model: LanguageModel, as_: Any
) -> None:
    client = as_("governor")
    stated = {
        "input_rate": "1", "cached_input_rate": "0.1", "cache_write_rate": "1.25",
        "cache_write_1h_rate": "2", "input_audio_rate": "10", "output_rate": "5",
        "search_rate": "8",
    }  # fmt: skip

    confirm(client, "governance.languagemodel", "override_price", model.pk, **stated)

    price = Price.objects.latest("pk")
    prices = price.document["prices"]
    assert (prices["cache_write_1h_mtok"], prices["web_searches_kcount"]) == ("2", "8")
    page = client.get(reverse("admin:governance_price_change", args=(price.pk,)))
    assert "web_searches_kcount" in page.content.decode()


def test_an_override_without_output_is_of_a_model_for_input(model: LanguageModel, as_: Any) -> None:
    client = as_("governor")

    confirm(client, "governance.languagemodel", "override_price", model.pk, input_rate="1")

    page = client.get(reverse("admin:governance_languagemodel_change", args=(model.pk,)))
    assert Price.objects.latest("pk").output_rate is None
    assert "1.00 / - USD (override)" in page.content.decode()


@pytest.mark.parametrize("name", ["index", "governance_budget_changelist"])
def test_the_overview_and_money_say_when_the_price_list_is_old(
    model: LanguageModel, as_: Any, name: str
) -> None:
    client, said = as_("viewer"), "Prices are those of genai-prices 1.2.3"
    page = reverse(f"admin:{name}")
    row = {"model": model, "source": "genai-prices", "input_rate": 1, "output_rate": 1}
    for version, days in (("1.2.3", 31), ("1.2.2", 90)):
        Price.objects.create(
            **row,
            version=f"genai-prices {version}",
            starts_at=clock.now() - timedelta(days=days),
        )

    assert said in client.get(page).content.decode()
    Price.objects.create(
        **row, version="genai-prices 1.10.0", starts_at=clock.now() - timedelta(days=29)
    )
    assert "Prices are those of" not in client.get(page).content.decode()


def test_terms_that_say_nothing_are_told_at_their_field(as_: Any) -> None:
    asked = {
        "agent": "hermes", "job_type": "content_prep", "risk_tier": "low",
        "estimated_input_tokens": 1, "max_output_tokens": 1, "requirements": "searches=many",
    }  # fmt: skip

    page = as_("governor").get(reverse("admin:governance_routepolicy_dry_run"), asked)

    assert page.status_code == 200
    assert "searches=0 to 9999" in page.content.decode()


def test_a_reservation_shows_what_was_counted_and_odd_usage_as_it_came(
    model: LanguageModel, as_: Any
) -> None:
    catalogue_of_two()
    good, odd = reserved().reservation, reserved().reservation
    for row, usage in ((good, {"input_tokens": 1000, "output_tokens": 20}), (odd, {"tokens": 7})):
        resolve("settled", reservation_id=row.pk, usage=read_usage(usage), actor="agent:hermes")

    pages = [
        as_("viewer").get(reverse("admin:governance_reservation_change", args=(row.pk,)))
        for row in (good, odd)
    ]

    first, second = (page.content.decode() for page in pages)
    assert "input_tokens 1,000, output_tokens 20" in first
    assert "output_tokens 0.0004" in first
    assert "usage missing, usage odd" in second
    assert "&quot;tokens&quot;: 7" in second


def test_a_policy_is_tried_out_before_anybody_uses_it(model: LanguageModel, as_: Any) -> None:
    client = as_("governor")
    asked = {
        "agent": "hermes", "job_type": "content_prep", "risk_tier": "low",
        "estimated_input_tokens": 1_000_000, "max_output_tokens": 1,
    }  # fmt: skip
    url = reverse("admin:governance_routepolicy_dry_run")
    before = client.get(url, asked).content.decode()

    confirm(client, "governance.routepolicy", "make", "new", agent="hermes", models="acme/m1")

    after = client.get(url, asked).content.decode()
    assert "refused" in before
    assert "acme/m1, holding 1.5" in after
    policy = RoutePolicy.objects.get()
    confirm(client, "governance.routepolicy", "retire", policy.pk)
    assert "refused" in client.get(url, asked).content.decode()


def test_a_policy_of_an_unknown_model_is_refused_with_words(as_: Any) -> None:
    client = as_("governor")

    confirm(client, "governance.routepolicy", "make", "new", models="acme/none")

    assert RoutePolicy.objects.count() == 0
    assert BulkItem.objects.get().outcome == "failed"


def test_a_budget_is_made_changed_and_disabled(as_: Any) -> None:
    client = as_("governor")
    confirm(
        client, "governance.budget", "make", "new", scope="agent", counted_for="hermes",
        window="day", cap="10.50", soft_cap="8",
    )  # fmt: skip
    budget = Budget.objects.get()
    assert (budget.cap, budget.soft_cap) == (Decimal("10.50"), Decimal(8))

    confirm(client, "governance.budget", "set_caps", budget.pk, cap="20")
    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap) == (Decimal(20), Decimal(8))

    confirm(client, "governance.budget", "set_caps", budget.pk, without="soft_cap")
    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap) == (Decimal(20), None)

    confirm(client, "governance.budget", "disable", budget.pk)
    budget.refresh_from_db()
    assert (budget.enabled, budget.cap) == (False, Decimal(20))
    actors = AuditEvent.objects.filter(subject=budget.audit_subject).values_list("actor", flat=True)
    assert set(actors) == {"user:governor"}


def test_the_form_of_a_budget_shows_its_caps_and_changes_what_was_changed(as_: Any) -> None:
    client = as_("governor")
    confirm(
        client, "governance.budget", "make", "new", scope="global", window="day", cap="10",
        soft_cap="8",
    )  # fmt: skip
    budget = Budget.objects.get()
    url = act_url("governance.budget", "set_caps")
    page = client.get(url, {"key": budget.pk})
    inputs = re.findall(r'<input[^>]*name="((?:initial-)?(?:cap|soft_cap))"[^>]*>', page.text)
    assert sorted(inputs) == ["cap", "initial-cap", "initial-soft_cap", "soft_cap"]
    # Another governor raises the cap while the form is open.
    Budget.objects.update(cap=20)

    client.post(url, {
        "selection": token_in(page), "reason": "as agreed", "cap": "10.00", "initial-cap": "10.00",
        "soft_cap": "9", "initial-soft_cap": "8.00",
    })  # fmt: skip

    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap) == (Decimal(20), Decimal(9))


def test_a_budget_for_a_name_that_nobody_bears_is_refused_at_its_field(as_: Any) -> None:
    client = as_("governor")

    page = confirm(
        client, "governance.budget", "make", "new", scope="agent", counted_for="herms",
        window="day", cap="1",
    )  # fmt: skip

    assert page.status_code == 422
    assert "There is no agent herms." in page.text
    assert not Budget.objects.exists()


def test_budget_bars_say_what_is_spent_held_and_left(as_: Any) -> None:
    client = as_("governor")
    confirm(client, "governance.budget", "make", "new", scope="global", window="none", cap="10")
    window = BudgetWindow.objects.first()
    if window is None:
        budget = Budget.objects.get()
        window = BudgetWindow.objects.create(
            budget=budget, kind="none", starts_at="1970-01-01T00:00:00Z"
        )
    BudgetWindow.objects.filter(pk=window.pk).update(held=Decimal(1), spent=Decimal("2.5"))

    for page in (
        reverse("admin:index"),
        reverse("admin:governance_budget_changelist"),
        reverse("admin:governance_budget_change", args=(window.budget_id,)),
    ):
        said = client.get(page).content.decode()
        assert "2.50 spent, 1.00 held, 6.50 left" in said


@pytest.mark.parametrize("group", ["viewer", "operator", "approver"])
def test_money_is_the_governors(as_: Any, group: str) -> None:
    client = as_(group)

    for model in MONEY:
        assert client.get(reverse(f"admin:governance_{model}_changelist")).status_code == 200
        for verb in verbs.on(f"governance.{model}"):
            url = act_url(f"governance.{model}", verb.name)
            assert client.get(url, {"key": "new"}).status_code == 403
            assert client.post(url, {"selection": "x", "reason": "x"}).status_code == 403


def test_the_audit_trail_is_found_by_task_and_agent_and_exported(as_: Any, make_job: Any) -> None:
    job = make_job(task_id="find-me")
    client = as_("operator")
    url = reverse("admin:governance_auditevent_changelist")

    by_task = client.get(url, {"q": "find-me"}).context["cl"].result_list
    by_agent = client.get(url, {"q": "hermes"}).context["cl"].result_list
    event = client.get(reverse("admin:governance_auditevent_change", args=(by_task[0].pk,)))
    export = client.get(reverse("admin:governance_auditevent_export", args=("jsonl",)))

    assert [row.subject for row in by_task] == [job.audit_subject]
    assert {row.subject for row in by_agent} == {"agent:hermes"}
    assert "execution_digest" in event.content.decode()
    lines = b"".join(export.streaming_content).decode().splitlines()
    # Its own end comes after its last row.
    assert len(lines) == AuditEvent.objects.exclude(action="export.ended").count()


def test_the_head_of_a_page_leads_to_what_its_reader_may_see(as_: Any) -> None:
    reader = User.objects.create_user("auditor", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_auditevent"))
    client = Client()
    client.force_login(reader)

    def links(page: Any) -> list[tuple[str, str]]:
        return [(link["name"], link["key"]) for link in page.context["primary_links"]]

    index = reverse("admin:index")
    assert links(as_("viewer").get(index)) == [
        ("Overview", "o"), ("Inbox", "i"), ("Jobs", "j"), ("Agents", "a"), ("Money", "m"),
        ("Audit", "u"),
    ]  # fmt: skip
    assert links(client.get(index)) == [("Overview", "o"), ("Audit", "u")]
