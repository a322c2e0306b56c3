"""What operators set before money is spent: models, prices, route policies, budgets.

Every move takes `actor` and `reason` and is audited on the chain of what it changes.  A price or
a policy never changes: another one follows it, so that an old decision still says what it meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from importlib.metadata import version as package_version
from itertools import pairwise
from typing import Any

from django.db import transaction
from django.db.models import Min, QuerySet
from genai_prices import data_snapshot

from governance.core import audit, clock, digests
from governance.core.errors import FieldFault, InvalidArgument, NotFound
from governance.core.reasons import required
from governance.core.switching import switchable
from governance.money import caps, room, scopes
from governance.money.apis import Api, api_of
from governance.money.models import (
    LanguageModel,
    Price,
    RoutePolicy,
    RoutePolicyModel,
)
from governance.money.pricing import (
    OUTPUT_TOKENS_HELD,
    TOKENS_MAX,
    PriceUnusable,
    RateSet,
    document_of_rates,
    is_amount,
    stored_price,
    text_of,
)
from governance.money.published import CALL_KEY, THOUSAND, Document, document_of

#: Budgets are set in a module of their own; who sets them asks for them here, with the rest.
set_budget, set_caps = caps.set_budget, caps.set_caps
disable_budget, switch_budget = caps.disable_budget, caps.switch_budget

#: Above it a rate is a mistake: a mistyped one must not overflow an amount.
RATE_MAX = Decimal(1_000_000)
POLICY_MODELS_MAX = 20
TIERS_MAX = 10

#: The columns of a price that repeat rates of its document.
COLUMNS = {
    "input_rate": "input_mtok",
    "cached_input_rate": "cache_read_mtok",
    "output_rate": "output_mtok",
    "reasoning_rate": "output_reasoning_mtok",
}

#: What the catalogue knows of a model, and its events say of it.
KNOWN = ("enabled", "api", "capabilities", "context_tokens_max", "output_tokens_max")


@dataclass
class SyncReport:
    """What a synchronisation did: names of models."""

    priced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@transaction.atomic
def set_model(
    *,
    provider: str,
    name: str,
    actor: str,
    reason: str,
    enabled: bool = True,
    api: str | None = None,
    capabilities: Sequence[str] = (),
    context_tokens_max: int | None = None,
    output_tokens_max: int | None = None,
) -> LanguageModel:
    """Add a model to the catalogue, or change what is known of it.

    :param api: what calls of it are made over (`Api`); None: as it is, and of a new one that of
        its provider.
    :raises InvalidArgument: a name or the reason is empty, or the API is unknown.
    """
    _require(provider=provider, name=name)
    reason = required(reason)
    if api is not None and api not in Api.values:
        raise InvalidArgument(errors=[FieldFault("/api", " or ".join(Api.values))])
    LanguageModel.objects.get_or_create(
        provider=provider, name=name, defaults={"api": api_of(provider)}
    )
    model = _locked_model(provider, name)
    known = {
        "enabled": enabled,
        "api": api or model.api,
        "capabilities": sorted(set(capabilities)),
        "context_tokens_max": context_tokens_max,
        "output_tokens_max": output_tokens_max,
    }
    before = {key: getattr(model, key) for key in known}
    if model.audit_seq and before == known:
        return model
    for key, value in known.items():
        setattr(model, key, value)
    model.save(update_fields=list(known))
    audit.record(
        model,
        action="model.changed" if model.audit_seq else "model.added",
        actor=actor,
        reason=reason,
        at=clock.now(),
        before=before if model.audit_seq else None,
        after=known,
        rows=[model],
    )
    return model


@transaction.atomic
def switch_model(*, model_id: int, enabled: bool, actor: str, reason: str) -> LanguageModel:
    """Let calls use a model, or no longer.

    :raises NotFound: there is no such model.
    :raises InvalidTransition: it is so already.
    """
    reason = required(reason)
    model = LanguageModel.objects.select_for_update(no_key=True).filter(pk=model_id).first()
    if model is None:
        raise NotFound("There is no such model.")
    if refusal := switchable(model, enabled=enabled):
        raise refusal
    before = {key: getattr(model, key) for key in KNOWN}
    model.enabled = enabled
    model.save(update_fields=["enabled"])
    audit.record(
        model,
        action="model.changed",
        actor=actor,
        reason=reason,
        at=clock.now(),
        before=before,
        after=before | {"enabled": enabled},
        rows=[model],
    )
    room.clear_all()
    return model


@transaction.atomic
def set_price(
    *,
    provider: str,
    name: str,
    rates: Sequence[RateSet],
    actor: str,
    reason: str,
    call_rate: Decimal = Decimal(0),
    search_rate: Decimal | None = None,
) -> Price:
    """Override the price of a model from now on. A price of 0 says that it is free.

    :param rates: per million tokens; base rates first, then those above thresholds, ascending.
    :param search_rate: per thousand searches; None: calls that search are refused.
    :raises NotFound: no such model.
    :raises InvalidArgument: a rate is negative or not finite, thresholds do not ascend, or a rate
        of a part comes without those that it needs beside it.
    """
    reason = required(reason)
    _check_rates(rates, call_rate, search_rate)
    document = document_of_rates(
        provider, name, rates, call_rate=call_rate, search_rate=search_rate
    )
    try:
        _need_usable(document)
    except PriceUnusable as fault:
        raise InvalidArgument(errors=[FieldFault("/rates", str(fault))]) from fault
    model = _locked_model(provider, name)
    now = clock.now()
    ended = _end_all(model.prices.filter(source=Price.Source.OVERRIDE, ends_at=None), now)
    return _price(
        model,
        ended=ended,
        source=Price.Source.OVERRIDE,
        version=f"override {now:%Y-%m-%dT%H:%M:%S.%fZ}",
        document=document,
        now=now,
        actor=actor,
        reason=reason,
    )


@transaction.atomic
def end_price(*, price_id: int, actor: str, reason: str) -> Price:
    """End a price now, so that the one below it applies again: the synchronised one, or none.

    :raises NotFound: no such price in force.
    """
    reason = required(reason)
    found = Price.objects.filter(pk=price_id).values_list("model__provider", "model__name").first()
    if found is None:
        raise NotFound()
    model = _locked_model(*found)
    price = Price.objects.get(pk=price_id)
    if price.ends_at is not None:
        raise NotFound("This price has ended.")
    price.ends_at = clock.now()
    price.save(update_fields=["ends_at"])
    audit.record(
        model,
        action="model.price_ended",
        actor=actor,
        reason=reason,
        at=price.ends_at,
        before={"version": price.version},
        rows=[price],
    )
    room.clear_all()
    return price


def sync_prices(*, actor: str, reason: str, back: bool = True) -> SyncReport:
    """Take the prices of the installed `genai-prices` for every enabled model.

    One transaction per model.  A model that the source does not know keeps the price it has; one
    whose calls cost, by the source, what nobody counts has no published price any more.

    :param back: go back to the installed list also where a newer one was taken.
    """
    reason = required(reason)
    report = SyncReport()
    for model in LanguageModel.objects.filter(enabled=True).order_by("pk"):
        try:
            document = _published(model)
        except LookupError:
            report.unknown.append(str(model))
        except PriceUnusable as why:
            _end_published(model, actor=actor, reason=f"{reason}: {why}")
            report.unknown.append(str(model))
        else:
            done = _sync_one(model, document, actor=actor, reason=reason, back=back)
            (report.priced if done else report.unchanged).append(str(model))
    return report


def take_newer_list(*, actor: str, reason: str) -> SyncReport | None:
    """Take the prices of the installed list where it is newer than what was taken; else None.

    Never an older one: of two processes in an upgrade one still has it installed.  Nor the first:
    whether published prices apply at all is a governor's word (`sync_prices`).
    """
    newest = newest_list()
    if newest is None or _ordered(installed_version()) < _ordered(newest[0]):
        return None
    if installed_version() == newest[0] and not _partly_stored(newest[0]):
        return None
    return sync_prices(actor=actor, reason=reason, back=False)


def _partly_stored(version: str) -> bool:
    """Tell whether the newest list was taken by a release that kept a part of what it says."""
    rows = Price.objects.filter(source=Price.Source.GENAI_PRICES, version=version, ends_at=None)
    whole = rows.exclude(document__isnull=True).values("model")
    return rows.filter(document__isnull=True, model__enabled=True).exclude(model__in=whole).exists()


@transaction.atomic
def set_policy(
    *,
    models: Sequence[tuple[str, str]],
    actor: str,
    reason: str,
    agent: str = "",
    job_type: str = "",
    risk_tier: str = "",
    max_output_tokens: int = OUTPUT_TOKENS_HELD,
) -> RoutePolicy:
    """Put a policy in force in place of the one of the same agent, job type and risk tier.

    :param models: `(provider, name)` in the order in which they are tried; none: nothing is
        allowed, which is different from having no policy of its own.
    :param max_output_tokens: held for a call whose request states no limit, and written into it.
    :raises InvalidArgument: unknown or repeated models, too many of them, an unknown risk tier,
        agent or job type, or no number of tokens.
    """
    reason = required(reason)
    chosen = [_known_model(provider, name, index) for index, (provider, name) in enumerate(models)]
    if len({model.pk for model in chosen}) != len(chosen) or len(chosen) > POLICY_MODELS_MAX:
        raise InvalidArgument(
            errors=[FieldFault("/models", f"up to {POLICY_MODELS_MAX}, each of them once")]
        )
    if risk_tier not in ("", "low", "medium", "high"):
        raise InvalidArgument(errors=[FieldFault("/risk_tier", "low, medium, high or empty")])
    if type(max_output_tokens) is not int or not 1 <= max_output_tokens <= TOKENS_MAX:
        raise InvalidArgument(errors=[FieldFault("/max_output_tokens", f"1 to {TOKENS_MAX}")])
    names = {"agent": agent, "job_type": job_type}
    unknown = [
        fault
        for kind, name in names.items()
        if name
        for fault in scopes.unknown(kind, name, field=kind)
    ]
    if unknown:
        raise InvalidArgument(errors=unknown)
    scope = {"agent": agent, "job_type": job_type, "risk_tier": risk_tier}
    before = _retire(scope, actor=actor, reason=reason)
    now = clock.now()
    policy = RoutePolicy.objects.create(
        **scope, created_at=now, max_output_tokens=max_output_tokens
    )
    lines = RoutePolicyModel.objects.bulk_create(
        RoutePolicyModel(policy=policy, position=n, model=m) for n, m in enumerate(chosen, start=1)
    )
    audit.record(
        policy,
        action="route_policy.set",
        actor=actor,
        reason=reason,
        at=now,
        before=before,
        after=scope
        | {"models": [str(model) for model in chosen], "max_output_tokens": max_output_tokens},
        rows=[policy, *lines],
    )
    room.clear_all()
    return policy


@transaction.atomic
def retire_policy(
    *, actor: str, reason: str, agent: str = "", job_type: str = "", risk_tier: str = ""
) -> None:
    """End a policy, so that the next more general one applies.

    :raises NotFound: none is in force for exactly that.
    """
    reason = required(reason)
    scope = {"agent": agent, "job_type": job_type, "risk_tier": risk_tier}
    if _retire(scope, actor=actor, reason=reason) is None:
        raise NotFound("No such policy is in force.")
    room.clear_all()


def _retire(scope: dict[str, str], *, actor: str, reason: str) -> dict[str, Any] | None:
    """Retire the policy in force for exactly `scope`, and return it as audited; None: none was."""
    in_force = RoutePolicy.objects.filter(**scope, retired_at=None)
    policy = in_force.select_for_update(no_key=True).first()
    if policy is None:
        return None
    retired = {"policy_id": policy.pk, "models": [str(line.model) for line in lines_of(policy)]}
    policy.retired_at = clock.now()
    policy.save(update_fields=["retired_at"])
    audit.record(
        policy,
        action="route_policy.retired",
        actor=actor,
        reason=reason,
        at=policy.retired_at,
        before=retired,
        rows=[policy],
    )
    return retired


def lines_of(policy: RoutePolicy) -> Iterable[RoutePolicyModel]:
    """Return the allowed models of a policy, in order."""
    return policy.lines.select_related("model").order_by("position")


def _published(model: LanguageModel) -> Document:
    """Return what the installed list says of a model.

    :raises LookupError: nothing.
    :raises PriceUnusable: what its calls cost is not told by what is counted.
    """
    provider, info = data_snapshot.get_snapshot().find_provider_model(
        model.name, None, model.provider, None
    )
    document = document_of(provider, info)
    _need_usable(document)
    return document


@transaction.atomic
def _end_published(model: LanguageModel, *, actor: str, reason: str) -> None:
    """End the published prices of a model by which its calls would cost too little."""
    model = _locked_model(model.provider, model.name)
    now, source = clock.now(), Price.Source.GENAI_PRICES
    ended = _end_all(model.prices.filter(source=source, ends_at=None).order_by("starts_at"), now)
    if not ended:
        return
    audit.record(
        model,
        action="model.price_ended",
        actor=actor,
        reason=reason,
        at=now,
        before={"version": ended[-1].version},
        rows=ended,
    )


def _end_all(prices: QuerySet[Price], now: datetime) -> list[Price]:
    """End prices, and return them."""
    ended = list(prices)
    Price.objects.filter(pk__in=[price.pk for price in ended]).update(ends_at=now)
    return ended


def _need_usable(document: Document) -> None:
    """Hold a call by a price once, so that none is in force that nothing can be held by.

    :raises PriceUnusable: the library computes nothing from it.
    """
    stored_price(json.dumps(document)).hold_rates(clock.now().date(), ())


def installed_version() -> str:
    """Return the version of the installed list, as prices that come from it name it."""
    return f"genai-prices {package_version('genai-prices')}"


def newest_list() -> tuple[str, datetime] | None:
    """Return the newest list that was taken and since when; None where none was."""
    taken = (
        Price.objects.filter(source=Price.Source.GENAI_PRICES)
        .values_list("version")
        .annotate(since=Min("starts_at"))
    )
    return max(taken, key=lambda row: _ordered(row[0]), default=None)


def _ordered(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are ordered."""
    return tuple(map(int, re.findall(r"[0-9]+", version)))


@transaction.atomic
def _sync_one(
    model: LanguageModel, document: Document, *, actor: str, reason: str, back: bool
) -> bool:
    """Follow the newest synchronised price with this one, unless it says the same."""
    model = _locked_model(model.provider, model.name)
    version = installed_version()
    newest = model.prices.filter(source=Price.Source.GENAI_PRICES).order_by("-starts_at").first()
    if newest and newest.version == version and newest.document == document:
        return False
    if newest and not back and _ordered(version) < _ordered(newest.version):
        return False
    _price(
        model,
        source=Price.Source.GENAI_PRICES,
        version=version,
        document=document,
        now=clock.now(),
        actor=actor,
        reason=reason,
    )
    return True


def _price(
    model: LanguageModel,
    *,
    source: str,
    version: str,
    document: Document,
    now: datetime,
    actor: str,
    reason: str,
    ended: Sequence[Price] = (),
) -> Price:
    base = stored_price(json.dumps(document)).base_rates(now)
    columns = {column: base.get(key) for column, key in COLUMNS.items()}
    price = Price.objects.create(
        model=model,
        source=source,
        version=version,
        starts_at=now,
        call_rate=base.get(CALL_KEY, Decimal(0)) / THOUSAND,
        document=document,
        **columns,
    )
    known = {name: text_of(rate) for name, rate in columns.items() if rate is not None}
    audit.record(
        model,
        action="model.priced",
        actor=actor,
        reason=reason,
        at=now,
        after={
            "version": version,
            "rates": [{"above_input_tokens": 0, **known}],
            "document_sha256": digests.sha256_hex(digests.canonical(document)),
        },
        rows=[price, *ended],
    )
    room.clear_all()
    return price


def _check_rates(rates: Sequence[RateSet], *others: Decimal | None) -> None:
    thresholds = [each.above_input_tokens for each in rates]
    faults = []
    if len({each.output is None for each in rates}) > 1:
        faults.append(FieldFault("/rates", "each has a rate for output, or none has"))
    if not rates or thresholds[0] != 0 or len(rates) > TIERS_MAX:
        faults.append(FieldFault("/rates", f"base rates at 0, then up to {TIERS_MAX - 1} others"))
    if any(a >= b for a, b in pairwise(thresholds)):
        faults.append(FieldFault("/rates", "thresholds ascend"))
    amounts = [rate for each in rates for rate in each.rates.values()] + [*others]
    if not all(is_amount(rate) and (rate is None or rate <= RATE_MAX) for rate in amounts):
        faults.append(FieldFault("/rates", f"rates are amounts from 0 to {RATE_MAX}"))
    if faults:
        raise InvalidArgument("The price is not valid.", errors=faults)


def _known_model(provider: str, name: str, index: int) -> LanguageModel:
    found = LanguageModel.objects.filter(provider=provider, name=name).first()
    if found is None:
        fault = FieldFault(f"/models/{index}", f"{provider}/{name} is not in the catalogue")
        raise InvalidArgument(errors=[fault])
    return found


def _locked_model(provider: str, name: str) -> LanguageModel:
    rows = LanguageModel.objects.select_for_update(no_key=True)
    found = rows.filter(provider=provider, name=name).first()
    if found is None:
        raise NotFound(f"{provider}/{name} is not in the catalogue.")
    return found


def _require(**texts: str) -> None:
    faults = [FieldFault(f"/{n}", "must not be empty") for n, text in texts.items() if not text]
    if faults:
        raise InvalidArgument(errors=faults)
