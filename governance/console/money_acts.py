"""What governors can do about models, prices, routes and budgets: each act calls one move."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms

from governance.console.acts import Act, add_act
from governance.core.errors import NotFound
from governance.money import catalogue
from governance.money.models import Budget, LanguageModel, Price, RoutePolicy
from governance.money.pricing import RateSet

PERMISSION = "agents.adjust_budget"
AMOUNT: dict[str, Any] = {"max_digits": 24, "decimal_places": 12, "min_value": Decimal(0)}


class ModelForm(forms.Form):
    """A model of the catalogue."""

    provider = forms.CharField(max_length=60, help_text="As genai-prices names it: openai …")
    name = forms.CharField(max_length=120, label="Model")
    capabilities = forms.CharField(
        required=False, max_length=200, help_text="Separated by commas: tools, vision …"
    )
    context_tokens_max = forms.IntegerField(required=False, min_value=1)
    output_tokens_max = forms.IntegerField(required=False, min_value=1)


class RatesForm(forms.Form):
    """Rates in USD per million tokens."""

    input_rate = forms.DecimalField(**AMOUNT, help_text="USD per million tokens; 0 is free.")
    output_rate = forms.DecimalField(**AMOUNT)
    cached_input_rate = forms.DecimalField(**AMOUNT, required=False, help_text="Empty: as input.")
    reasoning_rate = forms.DecimalField(**AMOUNT, required=False, help_text="Empty: as output.")
    call_rate = forms.DecimalField(**AMOUNT, required=False, help_text="USD per call.")


class PolicyForm(forms.Form):
    """Whose work a policy is about, and the models that it may use, in order."""

    agent = forms.CharField(required=False, max_length=60, help_text="Empty: any agent.")
    job_type = forms.CharField(required=False, max_length=60, help_text="Empty: any type.")
    risk_tier = forms.ChoiceField(
        required=False,
        choices=[("", "any"), ("low", "low"), ("medium", "medium"), ("high", "high")],
    )
    models = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "cols": 40}),
        help_text="One provider/model per line, in the order in which they are tried. Empty: "
        "nothing is allowed.",
    )

    def clean_models(self) -> str:
        lines = [line.strip() for line in self.cleaned_data["models"].splitlines()]
        named = [line for line in lines if line]
        if wrong := [line for line in named if "/" not in line]:
            raise forms.ValidationError(f"Not of the form provider/model: {', '.join(wrong)}")
        return "\n".join(named)


class CapsForm(forms.Form):
    """The caps of a budget in USD."""

    cap = forms.DecimalField(
        **AMOUNT, required=False, help_text="USD. Empty: no cap; 0: nothing that costs anything."
    )
    soft_cap = forms.DecimalField(**AMOUNT, required=False, help_text="USD. A warning, no refusal.")


class BudgetForm(CapsForm):
    """A new budget."""

    scope = forms.ChoiceField(choices=Budget.Scope.choices)
    # Not `key`, which names the row that an act is about.
    counted_for = forms.CharField(
        required=False,
        max_length=100,
        help_text="Name of the agent or job type, or the task id; * for each by itself; empty for "
        "the global scope.",
    )
    window = forms.ChoiceField(choices=Budget.Window.choices)
    field_order = ("scope", "counted_for", "window", "cap", "soft_cap")


def amount(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _set_model(
    *, key: str, actor: str, reason: str, provider: str, name: str, capabilities: str = "",
    **bounds: Any,
) -> str:  # fmt: skip
    named = [word.strip() for word in capabilities.split(",") if word.strip()]
    model = catalogue.set_model(
        provider=provider, name=name, capabilities=named, actor=actor, reason=reason, **bounds
    )
    return f"{model} is in the catalogue"


def _switch(*, enabled: bool) -> Any:
    def run(*, key: str, actor: str, reason: str) -> str:
        model = _found(LanguageModel, key)
        catalogue.set_model(
            provider=model.provider,
            name=model.name,
            enabled=enabled,
            capabilities=model.capabilities,
            context_tokens_max=model.context_tokens_max,
            output_tokens_max=model.output_tokens_max,
            actor=actor,
            reason=reason,
        )
        return "enabled" if enabled else "disabled"

    return run


def _override(
    *, key: str, actor: str, reason: str, input_rate: str, output_rate: str,
    cached_input_rate: str | None = None, reasoning_rate: str | None = None, call_rate: str = "0",
) -> str:  # fmt: skip
    model = _found(LanguageModel, key)
    rates = RateSet(
        0,
        Decimal(input_rate),
        Decimal(output_rate),
        cached_input=amount(cached_input_rate),
        reasoning=amount(reasoning_rate),
    )
    price = catalogue.set_price(
        provider=model.provider, name=model.name, rates=[rates], call_rate=Decimal(call_rate),
        actor=actor, reason=reason,
    )  # fmt: skip
    return f"price {price.version} is in force"


def _end_price(*, key: str, actor: str, reason: str) -> str:
    catalogue.end_price(price_id=int(key), actor=actor, reason=reason)
    return "ended"


def _sync(*, key: str, actor: str, reason: str) -> str:
    report = catalogue.sync_prices(actor=actor, reason=reason)
    return (
        f"{len(report.priced)} priced anew, {len(report.unchanged)} unchanged, "
        f"{len(report.unknown)} unknown to the source"
    )


def _set_policy(*, key: str, actor: str, reason: str, models: str = "", **scope: str) -> str:
    named = [tuple(line.split("/", 1)) for line in models.splitlines()]
    policy = catalogue.set_policy(models=named, actor=actor, reason=reason, **scope)  # type: ignore[arg-type]
    return f"policy {policy.pk} is in force for {policy}"


def _retire(*, key: str, actor: str, reason: str) -> str:
    policy = _found(RoutePolicy, key)
    scope = {"agent": policy.agent, "job_type": policy.job_type, "risk_tier": policy.risk_tier}
    catalogue.retire_policy(actor=actor, reason=reason, **scope)
    return "retired"


def _set_budget(
    *, key: str, actor: str, reason: str, cap: str | None = None, soft_cap: str | None = None,
    counted_for: str = "", **scope: Any,
) -> str:  # fmt: skip
    budget = catalogue.set_budget(
        **scope,
        key=counted_for,
        cap=amount(cap),
        soft_cap=amount(soft_cap),
        actor=actor,
        reason=reason,
    )
    return f"{budget} is in force"


def _set_caps(
    *, key: str, actor: str, reason: str, cap: str | None = None, soft_cap: str | None = None
) -> str:
    return _change(key, actor, reason, cap=amount(cap), soft_cap=amount(soft_cap), enabled=True)


def _disable_budget(*, key: str, actor: str, reason: str) -> str:
    budget = _found(Budget, key)
    return _change(key, actor, reason, cap=budget.cap, soft_cap=budget.soft_cap, enabled=False)


def _change(key: str, actor: str, reason: str, **terms: Any) -> str:
    budget = _found(Budget, key)
    catalogue.set_budget(
        scope=budget.scope, key=budget.key, window=budget.window, actor=actor, reason=reason,
        **terms,
    )  # fmt: skip
    return "changed"


def _found(model: Any, key: str) -> Any:
    row = model.objects.filter(pk=int(key)).first() if key.isdigit() else None
    if row is None:
        raise NotFound()
    return row


def _in_force(row: Any, actor: str) -> str:
    return "it is not in force any more" if _ended(row) else ""


def _ended(row: Any) -> Any:
    return row.ends_at if isinstance(row, Price) else row.retired_at


for act in (
    Act(
        name="make",
        model="governance.languagemodel",
        label="Add a model",
        permission=PERMISSION,
        effect="Puts a model into the catalogue. It is used only once it has a price and a policy "
        "allows it.",
        run=_set_model,
        fields=ModelForm,
        makes=True,
    ),
    Act(
        name="sync",
        model="governance.languagemodel",
        label="Refresh prices",
        permission=PERMISSION,
        effect="Takes the prices of the installed genai-prices for every enabled model. Overrides "
        "stay in force.",
        run=_sync,
        makes=True,
    ),
    Act(
        name="enable",
        model="governance.languagemodel",
        label="Enable",
        permission=PERMISSION,
        effect="Lets calls use each model again, where a policy allows it.",
        run=_switch(enabled=True),
        fits=lambda model, actor: "it is enabled already" if model.enabled else "",
    ),
    Act(
        name="disable",
        model="governance.languagemodel",
        label="Disable",
        permission=PERMISSION,
        effect="Keeps each model from further calls; calls that were decided go on.",
        run=_switch(enabled=False),
        fits=lambda model, actor: "" if model.enabled else "it is disabled already",
        grave=True,
    ),
    Act(
        name="override_price",
        model="governance.languagemodel",
        label="Override the price",
        permission=PERMISSION,
        effect="Sets what the model costs from now on, whatever the synchronised price says. "
        "Decisions keep the price that they were made with.",
        run=_override,
        fields=RatesForm,
        bulk=False,
    ),
    Act(
        name="end",
        model="governance.price",
        label="End",
        permission=PERMISSION,
        effect="Ends each price now: the one below it applies again, or none, and without a price "
        "a model is not used.",
        run=_end_price,
        fits=_in_force,
        grave=True,
    ),
    Act(
        name="make",
        model="governance.routepolicy",
        label="Set a policy",
        permission=PERMISSION,
        effect="Puts a policy in force in place of the one of the same agent, job type and risk "
        "tier. The policy that names most applies, alone.",
        run=_set_policy,
        fields=PolicyForm,
        makes=True,
    ),
    Act(
        name="retire",
        model="governance.routepolicy",
        label="Retire",
        permission=PERMISSION,
        effect="Ends each policy, so that the next more general one applies, or none.",
        run=_retire,
        fits=_in_force,
        grave=True,
    ),
    Act(
        name="make",
        model="governance.budget",
        label="Set a budget",
        permission=PERMISSION,
        effect="Makes a budget, or changes the caps of the one of that scope, key and window. A "
        "new one counts from now on.",
        run=_set_budget,
        fields=BudgetForm,
        makes=True,
    ),
    Act(
        name="set_caps",
        model="governance.budget",
        label="Change the caps",
        permission=PERMISSION,
        effect="Sets the caps of each budget, from the next reservation on; what is held stays "
        "held.",
        run=_set_caps,
        fields=CapsForm,
    ),
    Act(
        name="disable",
        model="governance.budget",
        label="Disable",
        permission=PERMISSION,
        effect="Lets calls be made without regard to each budget, which then counts nothing.",
        run=_disable_budget,
        fits=lambda budget, actor: "" if budget.enabled else "it is disabled already",
        grave=True,
    ),
):
    add_act(act)
