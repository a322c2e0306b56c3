"""The console's pages of models, routes and budgets, and of the audit trail."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from governance.console.models import BulkItem
from governance.core import verbs
from governance.core.models import AuditEvent
from governance.money.models import Budget, BudgetWindow, LanguageModel, Price, RoutePolicy
from tests.console import act_url, confirm

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
    assert (budget.cap, budget.soft_cap) == (Decimal(20), None)

    confirm(client, "governance.budget", "disable", budget.pk)
    budget.refresh_from_db()
    assert (budget.enabled, budget.cap) == (False, Decimal(20))
    actors = AuditEvent.objects.filter(subject=budget.audit_subject).values_list("actor", flat=True)
    assert set(actors) == {"user:governor"}


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
        ("Overview", "o"), ("Inbox", "i"), ("Jobs", "j"), ("Agents", "a"), ("Audit", "u"),
    ]  # fmt: skip
    assert links(client.get(index)) == [("Overview", "o"), ("Audit", "u")]
