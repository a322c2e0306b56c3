"""What operators set, how it is audited, and the commands around money and keys."""

from __future__ import annotations

import json
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from governance.core import audit
from governance.core.errors import InvalidArgument, InvalidTransition, NotFound
from governance.core.models import AuditEvent
from governance.evidence import envelopes
from governance.money import catalogue
from governance.money.models import Budget, LanguageModel, Price, RoutePolicy
from governance.money.pricing import RateSet, Usage
from tests.money import LARGE, SMALL, TEST, cap, catalogue_of_two, price, reserved, resolve

pytestmark = pytest.mark.django_db

KNOWN = {"provider": "anthropic", "name": "claude-haiku-4-5"}


def run(*args, **options):
    out = StringIO()
    call_command(*args, stdout=out, **options)
    return out.getvalue()


def actions(head):
    events = AuditEvent.objects.filter(subject=head.audit_subject).order_by("seq")
    return [event.action for event in events]


def test_every_change_is_an_event_with_what_was_before():
    catalogue_of_two()
    budget = cap("1")
    cap("2")

    event = AuditEvent.objects.get(subject=budget.audit_subject, seq=3)

    body = json.loads(bytes(event.body))
    assert (body["before"]["cap"], body["after"]["cap"]) == ("1.00", "2.00")
    assert (event.actor, event.reason) == (TEST["actor"], TEST["reason"])
    assert actions(budget) == ["budget.added", "budget.opened", "budget.changed"]
    assert actions(LanguageModel.objects.get(name="small")) == ["model.added", "model.priced"]
    assert actions(RoutePolicy.objects.get()) == ["route_policy.set"]
    assert bytes(event.hash) == audit.link(bytes(event.prev_hash), bytes(event.body))


def test_setting_the_same_model_again_is_no_change():
    for _ in range(2):
        found = catalogue.set_model(provider="local", name="small", **TEST)

    assert actions(found) == ["model.added"]


def test_a_model_is_switched_once_and_keeps_the_rest():
    model = catalogue.set_model(provider="local", name="small", capabilities=["tools"], **TEST)

    off = catalogue.switch_model(model_id=model.pk, enabled=False, **TEST)
    with pytest.raises(InvalidTransition, match="disabled already") as refused:
        catalogue.switch_model(model_id=model.pk, enabled=False, **TEST)

    assert refused.value.effect == "none"
    assert (off.enabled, off.capabilities) == (False, ["tools"])
    assert catalogue.switch_model(model_id=model.pk, enabled=True, **TEST).enabled
    assert actions(model) == ["model.added", "model.changed", "model.changed"]
    with pytest.raises(NotFound):
        catalogue.switch_model(model_id=model.pk + 1, enabled=True, **TEST)


def test_a_budget_is_disabled_once_and_keeps_its_caps():
    budget = cap("1")

    off = catalogue.disable_budget(budget_id=budget.pk, **TEST)
    with pytest.raises(InvalidTransition, match="disabled already") as refused:
        catalogue.disable_budget(budget_id=budget.pk, **TEST)

    assert refused.value.effect == "none"
    assert (off.enabled, off.cap) == (False, Decimal(1))
    assert actions(budget) == ["budget.added", "budget.opened", "budget.changed"]
    with pytest.raises(NotFound):
        catalogue.disable_budget(budget_id=budget.pk + 1, **TEST)


@pytest.mark.parametrize(
    "move",
    [
        lambda **kw: catalogue.set_model(provider="p", name="m", **kw),
        lambda **kw: catalogue.set_policy(models=[], **kw),
        lambda **kw: catalogue.set_budget(scope="global", window="day", cap=None, **kw),
        lambda **kw: catalogue.sync_prices(**kw),
    ],
)
def test_a_change_without_a_reason_is_refused(move):
    with pytest.raises(InvalidArgument):
        move(actor="user:anna", reason="")

    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    "terms",
    [
        {"scope": "team", "window": "day", "cap": None},
        {"scope": "global", "window": "year", "cap": None},
        {"scope": "label", "key": "search", "window": "day", "cap": None},
        {"scope": "label", "key": "team=", "window": "day", "cap": None},
        {"scope": "label", "key": "=search", "window": "day", "cap": None},
        {"scope": "label", "key": "*", "window": "day", "cap": None},
        {"scope": "model", "key": "local/small", "window": "day", "cap": None},
        {"scope": "provider", "key": "local", "window": "day", "cap": None},
        {"scope": "job", "key": "x" * 402, "window": "day", "cap": None},
        {"scope": "global", "key": "x", "window": "day", "cap": None},
        {"scope": "agent", "window": "day", "cap": None},
        {"scope": "global", "window": "day", "cap": Decimal(-1)},
        {"scope": "global", "window": "day", "cap": Decimal("NaN")},
        {"scope": "global", "window": "day", "cap": Decimal("Infinity")},
        {"scope": "global", "window": "day", "cap": Decimal("1e-13")},
        {"scope": "global", "window": "day", "cap": None, "soft_cap": Decimal(-1)},
        {"scope": "global", "window": "day", "cap": Decimal(1), "soft_cap": Decimal("1.01")},
    ],
)
def test_a_malformed_budget_is_refused(terms):
    with pytest.raises(InvalidArgument):
        catalogue.set_budget(**terms, **TEST)

    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    "rates",
    [
        [],
        [RateSet(10, Decimal(1), Decimal(1))],
        [RateSet(0, Decimal(-1), Decimal(1))],
        [RateSet(0, Decimal("NaN"), Decimal(1))],
        [RateSet(0, Decimal(10**9), Decimal(1))],
        [RateSet(n, Decimal(1), Decimal(1)) for n in (0, 20, 10)],
    ],
)
def test_a_malformed_price_is_refused(rates):
    catalogue.set_model(provider="local", name="small", **TEST)

    with pytest.raises(InvalidArgument):
        catalogue.set_price(provider="local", name="small", rates=rates, **TEST)

    assert not Price.objects.exists()


def test_a_price_for_an_unknown_model_is_not_found():
    with pytest.raises(NotFound):
        price(SMALL, input_rate="1", output_rate="1")


def test_a_new_override_ends_the_one_before():
    catalogue_of_two()
    price(SMALL, input_rate="5", output_rate="5")

    old, new = Price.objects.filter(model__name="small").order_by("starts_at")

    assert old.ends_at == new.starts_at
    assert new.ends_at is None


def test_a_policy_takes_the_place_of_the_one_before():
    catalogue_of_two()
    catalogue.set_policy(models=[SMALL], **TEST)

    old, new = RoutePolicy.objects.order_by("pk")

    assert old.retired_at is not None
    assert [line.model.name for line in catalogue.lines_of(old)] == ["large", "small"]
    assert [line.model.name for line in catalogue.lines_of(new)] == ["small"]
    assert actions(old) == ["route_policy.set", "route_policy.retired"]


@pytest.mark.parametrize(
    "terms",
    [
        {"models": [("local", "unknown")]},
        {"models": [SMALL, LARGE, SMALL]},
        {"models": [SMALL], "risk_tier": "extreme"},
    ],
)
def test_a_malformed_policy_is_refused_and_the_old_one_stays(terms):
    catalogue_of_two()

    with pytest.raises(InvalidArgument):
        catalogue.set_policy(**terms, **TEST)

    assert RoutePolicy.objects.get().retired_at is None


def test_published_prices_are_taken_once_per_version_with_their_tiers(monkeypatch):
    catalogue.set_model(**KNOWN, **TEST)
    catalogue.set_model(provider="nobody", name="nothing", **TEST)

    first = catalogue.sync_prices(**TEST)
    again = catalogue.sync_prices(**TEST)
    monkeypatch.setattr(catalogue, "package_version", lambda name: "9.9.9")
    later = catalogue.sync_prices(**TEST)

    named = "{provider}/{name}".format(**KNOWN)
    assert (first.priced, first.unknown) == ([named], ["nobody/nothing"])
    assert again.unchanged == later.priced == [named]
    assert Price.objects.filter(source="genai-prices").count() == 2


def test_a_published_price_costs_what_its_source_says():
    from genai_prices import Usage as PublishedUsage
    from genai_prices import calc_price

    catalogue.set_model(**KNOWN, **TEST)
    catalogue.sync_prices(**TEST)
    catalogue.set_policy(models=[(KNOWN["provider"], KNOWN["name"])], **TEST)
    for tokens in (1000, 250_000):
        routed = reserved(estimated_input_tokens=tokens, max_output_tokens=tokens)

        ended = resolve(
            "settled",
            reservation_id=routed.reservation.reservation_id,
            usage=Usage(tokens, 500, 100),
            actor="agent:hermes",
        )

        published = calc_price(
            PublishedUsage(input_tokens=tokens, output_tokens=500, cache_read_tokens=100),
            KNOWN["name"],
            provider_id=KNOWN["provider"],
        )
        assert ended.resolution.cost == published.total_price


def test_an_override_wins_over_a_published_price_until_it_ends():
    catalogue.set_model(**KNOWN, **TEST)
    catalogue.sync_prices(**TEST)
    catalogue.set_policy(models=[(KNOWN["provider"], KNOWN["name"])], **TEST)
    rates = [RateSet(0, Decimal(1), Decimal(1))]
    override = catalogue.set_price(**KNOWN, rates=rates, **TEST)
    assert reserved().decision.price_id == override.pk

    catalogue.end_price(price_id=override.pk, **TEST)

    assert reserved().decision.price_version.startswith("genai-prices ")
    with pytest.raises(NotFound):
        catalogue.end_price(price_id=override.pk, **TEST)


def test_sync_prices_adds_and_reports():
    answer = json.loads(run("sync_prices", "--json", "--add", "anthropic/claude-haiku-4-5"))

    assert answer == {
        "priced": ["anthropic/claude-haiku-4-5"],
        "unchanged": [],
        "unknown": [],
    }
    assert "unchanged: anthropic/claude-haiku-4-5" in run("sync_prices")
    with pytest.raises(CommandError, match="INVALID_ARGUMENT"):
        run("sync_prices", "--add", "anthropic")


def test_dry_run_route_explains_itself():
    catalogue_of_two()
    cap("0.02")
    asked = [
        "--agent=hermes",
        "--job-type=content_prep",
        "--risk-tier=low",
        "--estimated-input-tokens=1000",
        "--max-output-tokens=1000",
    ]

    text = run("dry_run_route", *asked)

    assert "local/small, at most 0.003 USD" in text
    assert "1. local/large: over_budget" in text
    assert json.loads(run("dry_run_route", "--json", *asked))["model"] == "small"
    assert "refused: MODEL_NOT_ALLOWED" in run("dry_run_route", *asked, "--requires=vision")


def test_verify_ledger_fails_when_a_counter_is_wrong():
    catalogue_of_two()
    cap("1")
    assert "agrees" in run("verify_ledger")
    assert json.loads(run("verify_ledger", "--json")) == {"ok": True, "differences": []}
    reserved()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE governance_budgetwindow SET held = 7")

    # The other is the call of no job, whose decision no event tells of.
    with pytest.raises(CommandError, match="2 differences"):
        run("verify_ledger")


def test_rotate_signing_key_names_both_keys(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    before = envelopes.active_key().keyid

    answer = json.loads(run("rotate_signing_key", "--json"))

    assert answer == {"retired": before, "active": envelopes.active_key().keyid}
