"""What governors can do about models, prices, routes and budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar

from django.db.models import Model

from governance.core.errors import FieldFault, InvalidArgument, InvalidTransition, NotFound
from governance.core.fields import Amount, Choice, Text, Whole
from governance.core.permissions import Permission
from governance.core.switching import switchable
from governance.core.verbs import Done, Target, Verb, of_row
from governance.money import caps, catalogue
from governance.money.apis import Api
from governance.money.catalogue import SyncReport
from governance.money.models import Budget, LanguageModel, Price, RoutePolicy
from governance.money.pricing import OUTPUT_TOKENS_HELD, TOKENS_MAX, RateSet, text_of
from governance.money.scopes import KEY_CHARS_MAX

M = TypeVar("M", bound=Model)
ADJUST_BUDGET = Permission("adjust_budget", "Can change budgets, model routes and prices")
MODEL, PRICE = Target(LanguageModel), Target(Price)
POLICY, BUDGET = Target(RoutePolicy), Target(Budget)
TIERS = (("low", "low"), ("medium", "medium"), ("high", "high"))
ROUTE_CHARS_MAX = 4000

CAPS = (
    Amount(
        name="cap",
        required=False,
        help="USD. Empty: no cap; 0: nothing that costs anything.",
    ),
    Amount(
        name="soft_cap",
        required=False,
        help="USD. A warning, no refusal; at most the cap.",
    ),
)
#: Not `key`, which names the row that a verb is about.
COUNTED_FOR = Text(
    name="counted_for",
    chars_max=KEY_CHARS_MAX,
    required=False,
    help="Name of the agent, job type, submitter or provider, the task id, provider/name of the "
    "model, or name=value of the label; * (of a label name=*) for each by itself; empty for the "
    "global scope.",
)
API = Choice(
    name="api",
    label="API",
    choices=tuple(Api.choices),
    required=False,
    blank="as it is, or that of its provider",
    help="Over which calls of it are made: a program that speaks the other one never gets it.",
)
OUTPUT_HELD = Whole(
    name="max_output_tokens",
    least=1,
    most=TOKENS_MAX,
    required=False,
    blank=f"{OUTPUT_TOKENS_HELD}",
    help="Held for the output of a call whose request states no limit, and written into it.",
)
CAPS_OF = {"cap": ("cap",), "soft_cap": ("soft_cap",), "both": ("cap", "soft_cap")}
#: What changes caps that are there: what is left open, or as it is, stays as it is.
NEW_CAPS = (
    Amount(name="cap", required=False, help="USD; 0: nothing that costs anything."),
    Amount(name="soft_cap", required=False, help="USD. A warning; at most the cap."),
    Choice(
        name="without",
        choices=(
            ("cap", "no cap any more"),
            ("soft_cap", "no soft cap any more"),
            ("both", "neither any more"),
        ),
        required=False,
        blank="as above",
        help="Takes a cap away.",
    ),
)


@contextmanager
def key_as_counted_for() -> Iterator[None]:
    """Name the verb's field in what is wrong with a key: `key` names the row of a verb."""
    try:
        yield
    except InvalidArgument as refusal:
        refusal.errors = [
            FieldFault(f"/{COUNTED_FOR.name}", fault.detail) if fault.pointer == "/key" else fault
            for fault in refusal.errors
        ]
        raise


def unnamed_models(lines: str) -> str:
    """Return what is wrong with lines that should name models; "" where nothing is."""
    wrong = [line for line in _lines(lines) if "/" not in line]
    return f"Not of the form provider/model: {', '.join(wrong)}." if wrong else ""


def in_force(row: Price | RoutePolicy) -> InvalidTransition | None:
    """Return why a price or a policy cannot be ended; None where it is in force."""
    ended = row.ends_at if isinstance(row, Price) else row.retired_at
    return InvalidTransition("It is not in force any more.") if ended else None


def _set_model(
    *,
    actor: str,
    reason: str,
    provider: str,
    name: str,
    capabilities: str = "",
    api: str | None = None,
    context_tokens_max: int | None = None,
    output_tokens_max: int | None = None,
) -> LanguageModel:
    words = [word.strip() for word in capabilities.split(",")]
    return catalogue.set_model(
        provider=provider,
        name=name,
        capabilities=[word for word in words if word],
        api=api,
        actor=actor,
        reason=reason,
        context_tokens_max=context_tokens_max,
        output_tokens_max=output_tokens_max,
    )


def _enable_model(*, key: int, actor: str, reason: str) -> LanguageModel:
    return catalogue.switch_model(model_id=key, enabled=True, actor=actor, reason=reason)


def _disable_model(*, key: int, actor: str, reason: str) -> LanguageModel:
    return catalogue.switch_model(model_id=key, enabled=False, actor=actor, reason=reason)


def _override_price(
    *,
    key: int,
    actor: str,
    reason: str,
    input_rate: Decimal,
    output_rate: Decimal | None = None,
    call_rate: Decimal = Decimal(0),
    search_rate: Decimal | None = None,
    **parts: Decimal | None,
) -> Price:
    model = _row(LanguageModel, key)
    named = {name.removesuffix("_rate"): rate for name, rate in parts.items()}
    rates = RateSet(0, input_rate, output_rate, **named)
    return catalogue.set_price(
        provider=model.provider,
        name=model.name,
        rates=[rates],
        call_rate=call_rate,
        search_rate=search_rate,
        actor=actor,
        reason=reason,
    )


def _end_price(*, key: int, actor: str, reason: str) -> Price:
    return catalogue.end_price(price_id=key, actor=actor, reason=reason)


def _set_policy(
    *,
    actor: str,
    reason: str,
    models: str = "",
    max_output_tokens: int = OUTPUT_TOKENS_HELD,
    **scope: str,
) -> RoutePolicy:
    pairs = [line.split("/", 1) for line in _lines(models)]
    return catalogue.set_policy(
        models=[(provider, name) for provider, name in pairs],
        max_output_tokens=max_output_tokens,
        actor=actor,
        reason=reason,
        **scope,
    )


def _retire_policy(*, key: int, actor: str, reason: str) -> None:
    policy = _row(RoutePolicy, key)
    catalogue.retire_policy(
        actor=actor,
        reason=reason,
        agent=policy.agent,
        job_type=policy.job_type,
        risk_tier=policy.risk_tier,
    )


def _set_budget(
    *,
    actor: str,
    reason: str,
    scope: str,
    window: str,
    counted_for: str = "",
    cap: Decimal | None = None,
    soft_cap: Decimal | None = None,
) -> Budget:
    with key_as_counted_for():
        return caps.set_budget(
            scope=scope,
            key=counted_for,
            window=window,
            cap=cap,
            soft_cap=soft_cap,
            actor=actor,
            reason=reason,
        )


def _set_caps(*, key: int, actor: str, reason: str, without: str = "", **given: Decimal) -> Budget:
    changed: dict[str, Decimal | None] = dict(given)
    if without:
        changed |= dict.fromkeys(CAPS_OF[without])
    return caps.set_caps(budget_id=key, caps=changed, actor=actor, reason=reason)


def _caps_of(budget: Budget) -> dict[str, Any]:
    """Return what a form about one budget shows: its caps as they are."""
    stated = {"cap": budget.cap, "soft_cap": budget.soft_cap}
    return {name: text_of(cap) for name, cap in stated.items() if cap is not None}


def _enable_budget(*, key: int, actor: str, reason: str) -> Budget:
    return caps.switch_budget(budget_id=key, enabled=True, actor=actor, reason=reason)


def _disable_budget(*, key: int, actor: str, reason: str) -> Budget:
    return caps.disable_budget(budget_id=key, actor=actor, reason=reason)


def _row(model: type[M], key: int) -> M:
    row = model._default_manager.filter(pk=key).first()
    if row is None:
        raise NotFound()
    return row


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _switched(model: LanguageModel) -> Done:
    return Done("enabled" if model.enabled else "disabled", {"enabled": model.enabled})


def _synced(report: SyncReport) -> Done:
    words = (
        f"{len(report.priced)} priced anew, {len(report.unchanged)} unchanged, "
        f"{len(report.unknown)} unknown to the source"
    )
    return Done(words, vars(report))


def _of_budget(words: str, budget: Budget) -> Done:
    terms = {"cap": budget.cap, "soft_cap": budget.soft_cap, "enabled": budget.enabled}
    return Done(words, {"budget_id": budget.pk, **terms})


VERBS: tuple[Verb[Any], ...] = (
    Verb(
        name="make",
        on=MODEL,
        label="Add a model",
        permission=ADJUST_BUDGET,
        effect="Puts a model into the catalogue. It is used only once it has a price and a policy "
        "allows it.",
        fields=(
            Text(name="provider", chars_max=60, help="As genai-prices names it: openai …"),
            Text(name="name", chars_max=120, label="Model"),
            Text(
                name="capabilities",
                chars_max=200,
                required=False,
                help="Separated by commas: tools, vision …",
            ),
            API,
            Whole(name="context_tokens_max", least=1, most=TOKENS_MAX, required=False),
            Whole(name="output_tokens_max", least=1, most=TOKENS_MAX, required=False),
        ),
        run=_set_model,
        done=lambda model: Done(f"{model} is in the catalogue", {"model_id": model.pk}),
        makes=True,
    ),
    Verb(
        name="sync",
        on=MODEL,
        label="Refresh prices",
        permission=ADJUST_BUDGET,
        effect="Takes the prices of the installed genai-prices for every enabled model. Overrides "
        "stay in force.",
        run=catalogue.sync_prices,
        done=_synced,
        makes=True,
    ),
    Verb(
        name="enable",
        on=MODEL,
        label="Enable",
        permission=ADJUST_BUDGET,
        effect="Lets calls use each model again, where a policy allows it.",
        run=_enable_model,
        done=_switched,
        precondition=of_row(switchable, enabled=True),
    ),
    Verb(
        name="disable",
        on=MODEL,
        label="Disable",
        permission=ADJUST_BUDGET,
        effect="Keeps each model from further calls; calls that were decided go on.",
        run=_disable_model,
        done=_switched,
        precondition=of_row(switchable, enabled=False),
        grave=True,
    ),
    Verb(
        name="override_price",
        on=MODEL,
        label="Override the price",
        permission=ADJUST_BUDGET,
        effect="Sets what the model costs from now on, whatever the synchronised price says. "
        "Decisions keep the price that they were made with.",
        fields=(
            Amount(name="input_rate", help="USD per million tokens; 0 is free."),
            Amount(name="output_rate", required=False, help="Empty: it has no output."),
            Amount(name="cached_input_rate", required=False, help="Empty: as input."),
            Amount(name="cache_write_rate", required=False, help="Empty: as input."),
            Amount(
                name="cache_write_1h_rate", required=False, help="Empty: as other cache writes."
            ),
            Amount(name="reasoning_rate", required=False, help="Empty: as output."),
            Amount(name="input_audio_rate", required=False, help="Empty: as input."),
            Amount(name="cached_audio_rate", required=False, help="Empty: as cached input."),
            Amount(name="output_audio_rate", required=False, help="Empty: as output."),
            Amount(
                name="search_rate",
                required=False,
                help="USD per thousand searches. Empty: calls that may search are refused.",
            ),
            Amount(name="call_rate", required=False, help="USD per call."),
        ),
        run=_override_price,
        done=lambda price: Done(f"price {price.version} is in force", {"price_id": price.pk}),
        bulk=False,
    ),
    Verb(
        name="end",
        on=PRICE,
        label="End",
        permission=ADJUST_BUDGET,
        effect="Ends each price now: the one below it applies again, or none, and without a price "
        "a model is not used.",
        run=_end_price,
        done=lambda price: Done("ended", {"ends_at": price.ends_at}),
        precondition=of_row(in_force),
        grave=True,
    ),
    Verb(
        name="make",
        on=POLICY,
        label="Set a policy",
        permission=ADJUST_BUDGET,
        effect="Puts a policy in force in place of the one of the same agent, job type and risk "
        "tier. The policy that names most applies, alone.",
        fields=(
            Text(name="agent", chars_max=60, required=False, help="Empty: any agent."),
            Text(name="job_type", chars_max=60, required=False, help="Empty: any type."),
            Choice(name="risk_tier", choices=TIERS, required=False, blank="any"),
            Text(
                name="models",
                chars_max=ROUTE_CHARS_MAX,
                lines=4,
                required=False,
                help="One provider/model per line, in the order in which they are tried. Empty: "
                "nothing is allowed.",
                rule=unnamed_models,
            ),
            OUTPUT_HELD,
        ),
        run=_set_policy,
        done=lambda policy: Done(
            f"policy {policy.pk} is in force for {policy}", {"policy_id": policy.pk}
        ),
        makes=True,
    ),
    Verb(
        name="retire",
        on=POLICY,
        label="Retire",
        permission=ADJUST_BUDGET,
        effect="Ends each policy, so that the next more general one applies, or none.",
        run=_retire_policy,
        done=lambda _: Done("retired"),
        precondition=of_row(in_force),
        grave=True,
    ),
    Verb(
        name="make",
        on=BUDGET,
        label="Set a budget",
        permission=ADJUST_BUDGET,
        effect="Makes a budget, or changes the caps of the one of that scope, key and window. A "
        "new one counts what its present window has already seen.",
        fields=(
            Choice(name="scope", choices=tuple(Budget.Scope.choices)),
            COUNTED_FOR,
            Choice(name="window", choices=tuple(Budget.Window.choices)),
            *CAPS,
        ),
        run=_set_budget,
        done=lambda budget: _of_budget(f"{budget} is in force", budget),
        makes=True,
    ),
    Verb(
        name="set_caps",
        on=BUDGET,
        label="Change the caps",
        permission=ADJUST_BUDGET,
        effect="Changes the caps of each budget that you give, from the next reservation on, and "
        "nothing else; what is held stays held.",
        fields=NEW_CAPS,
        run=_set_caps,
        done=lambda budget: _of_budget("changed", budget),
        initial=_caps_of,
        edits=True,
    ),
    Verb(
        name="enable",
        on=BUDGET,
        label="Enable",
        permission=ADJUST_BUDGET,
        effect="Lets each budget refuse calls again, with all that its present window has seen.",
        run=_enable_budget,
        done=lambda budget: _of_budget("changed", budget),
        precondition=of_row(switchable, enabled=True),
    ),
    Verb(
        name="disable",
        on=BUDGET,
        label="Disable",
        permission=ADJUST_BUDGET,
        effect="Lets calls be made without regard to each budget, which goes on counting them.",
        run=_disable_budget,
        done=lambda budget: _of_budget("changed", budget),
        precondition=of_row(switchable, enabled=False),
        grave=True,
    ),
)
