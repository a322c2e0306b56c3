"""The sections of a configuration file: what each entry is, reads of, and is changed by.

A section names no rule of its own: its members are the fields of the verbs and commands that
configure the same rows, and its moves are their transitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Any

from agents.models import Agent, RiskTier, Submitter
from agents.transitions import principals
from agents.verbs import CONFIGURE, REGISTER_SUBMITTER
from governance.core.errors import InvalidTransition
from governance.core.fields import Flag, Whole
from governance.money import catalogue, limiting
from governance.money.limit_verbs import BOUNDS
from governance.money.limits import Limit
from governance.money.models import Budget, LanguageModel, Price, RoutePolicy
from governance.money.pricing import (
    TOKENS_MAX,
    RateSet,
    document_of_rates,
)
from governance.money.scopes import is_each
from governance.money.stated import rates_of, rates_of_document
from governance.money.verbs import API, CAPS, OUTPUT_HELD
from jobs import transitions
from jobs.configuration.members import Member, amount, number, of_field, of_fields, of_words
from jobs.models import JobType, Source
from jobs.transitions import TypeSettings
from jobs.verbs.job_type import SOURCE_FIELDS, TYPE_FIELDS

#: What names an entry: its name, or what its section says.
Key = tuple[str, ...]
Values = dict[str, Any]
#: Values of entries, by what names them.
Rows = dict[Key, Values]
ENABLED = of_field(Flag(name="enabled"))


@dataclass(frozen=True)
class Section:
    """One kind of entry.

    :param names: the members that name an entry, in order; none: it is a table by its name.
    :param rows: returns what is.
    :param make: makes the entry `key` with some values.
    :param change: changes some values of the entry; is given all of them, those changed as wanted.
    :param end: disables or retires the entry; None where nothing does.
    :param ended: tells of an entry's values whether that is done already.
    :param refers: returns the entries of other sections that an entry names, as (section, key).
    """

    name: str
    members: tuple[Member, ...]
    rows: Callable[[], Rows]
    make: Callable[..., Any]
    change: Callable[..., Any]
    end: Callable[..., Any] | None
    ended: Callable[[Values], bool] = lambda values: not values["enabled"]
    names: tuple[str, ...] = ()
    refers: Callable[[Key, Values], list[tuple[str, Key]]] = lambda key, values: []

    @property
    def by_name(self) -> bool:
        return not self.names

    def member(self, name: str) -> Member | None:
        """Return the member of that name."""
        return next((member for member in self.members if member.name == name), None)


# --- Agents, intake ---------------------------------------------------------------------------


def _columns(row: Any, members: tuple[Member, ...]) -> Values:
    return {member.name: getattr(row, member.name) for member in members}


def _make_agent(key: Key, values: Values, **why: Any) -> None:
    risk = values.get("max_risk_tier", RiskTier.MEDIUM)
    row = principals.register_agent(name=key[0], max_risk_tier=risk, **why)
    if rest := {name: value for name, value in values.items() if getattr(row, name) != value}:
        _change_agent(key, rest, rest, **why)


def _change_agent(key: Key, changed: Values, values: Values, **why: Any) -> None:
    settings = principals.Settings(**changed)
    principals.configure_agent(name=key[0], settings=settings, **why)


AGENT_MEMBERS = of_fields(CONFIGURE.fields)
AGENTS = Section(
    name="agents",
    members=AGENT_MEMBERS,
    rows=lambda: {(row.name,): _columns(row, AGENT_MEMBERS) for row in Agent.objects.all()},
    make=_make_agent,
    change=_change_agent,
    end=lambda key, values, **why: _change_agent(key, {"enabled": False}, values, **why),
)

TYPE_MEMBERS = of_fields(TYPE_FIELDS)


def _type_rows() -> Rows:
    return {
        (row.name,): _columns(row, TYPE_MEMBERS)
        | {
            "agent": row.agent.name,
            # As the option says it: 0 is none.
            "attempt_timeout_seconds": row.attempt_timeout_seconds or 0,
        }
        for row in JobType.objects.select_related("agent")
    }


def _make_type(key: Key, values: Values, **why: Any) -> None:
    transitions.register_job_type(name=key[0], settings=TypeSettings(**values), **why)


def _change_type(key: Key, changed: Values, values: Values, **why: Any) -> None:
    transitions.configure_job_type(name=key[0], settings=TypeSettings(**changed), **why)


JOB_TYPES = Section(
    name="job_types",
    members=TYPE_MEMBERS,
    rows=_type_rows,
    make=_make_type,
    change=_change_type,
    end=lambda key, values, **why: _change_type(key, {"enabled": False}, values, **why),
)


def _make_source(key: Key, values: Values, **why: Any) -> None:
    transitions.register_source(name=key[0], **why)
    if not values.get("enabled", True):
        _change_source(key, values, values, **why)


def _change_source(key: Key, changed: Values, values: Values, **why: Any) -> None:
    transitions.configure_source(name=key[0], enabled=changed["enabled"], **why)


SOURCE_MEMBERS = of_fields(SOURCE_FIELDS)
SOURCES = Section(
    name="sources",
    members=SOURCE_MEMBERS,
    rows=lambda: {(row.name,): _columns(row, SOURCE_MEMBERS) for row in Source.objects.all()},
    make=_make_source,
    change=_change_source,
    end=lambda key, values, **why: _change_source(key, {"enabled": False}, values, **why),
)


def _submitter_rows() -> Rows:
    rows = Submitter.objects.select_related("owner").prefetch_related("task_prefixes")
    return {
        (row.name,): {
            "owner": row.owner.get_username() if row.owner else "",
            "task_id_prefix": sorted(owned.prefix for owned in row.task_prefixes.all()),
        }
        for row in rows
    }


def _make_submitter(key: Key, values: Values, **why: Any) -> None:
    principals.register_submitter(name=key[0], owner=values.get("owner", ""), **why)
    if prefixes := values.get("task_id_prefix"):
        principals.configure_submitter(name=key[0], add=prefixes, **why)


def _change_submitter(key: Key, changed: Values, values: Values, **why: Any) -> None:
    if "owner" in changed:
        raise InvalidTransition("Who answers for a submitter is said when it is registered.")
    now, wanted = set(_submitter_rows()[key]["task_id_prefix"]), set(changed["task_id_prefix"])
    principals.configure_submitter(
        name=key[0], add=sorted(wanted - now), remove=sorted(now - wanted), **why
    )


SUBMITTERS = Section(
    name="submitters",
    members=(
        *of_fields([field for field in REGISTER_SUBMITTER.fields if field.name != "name"]),
        of_words("task_id_prefix", ordered=False),
    ),
    rows=_submitter_rows,
    make=_make_submitter,
    change=_change_submitter,
    # Nothing disables one; its credentials are revoked.
    end=None,
)

# --- Money ------------------------------------------------------------------------------------

MODEL_MEMBERS = (
    ENABLED,
    of_field(API),
    of_words("capabilities", ordered=False),
    *(
        of_field(Whole(name=name, least=1, most=TOKENS_MAX), nullable=True)
        for name in ("context_tokens_max", "output_tokens_max")
    ),
)


def _set_model(key: Key, changed: Values, values: Values, **why: Any) -> None:
    catalogue.set_model(provider=key[0], name=key[1], **values, **why)


def _disable_model(key: Key, values: Values, **why: Any) -> None:
    _set_model(key, {"enabled": False}, values | {"enabled": False}, **why)


MODELS = Section(
    name="models",
    names=("provider", "name"),
    members=MODEL_MEMBERS,
    rows=lambda: {
        (row.provider, row.name): _columns(row, MODEL_MEMBERS)
        for row in LanguageModel.objects.all()
    },
    make=lambda key, values, **why: _set_model(key, values, values, **why),
    change=_set_model,
    end=_disable_model,
)

#: What rates are above another count of tokens than 0.
ABOVE = "above_input_tokens"
RATES = tuple(field.name for field in fields(RateSet) if field.name != ABOVE)


def _read_rates(given: Any) -> list[RateSet]:
    entries = given if isinstance(given, list) else [given]
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(f"It must be a table of {', '.join(RATES)}, or a list of such tables.")
    stated = [_read_rate_set(entry) for entry in entries]
    # As they are written: with the rates that follow from others.
    return rates_of_document(document_of_rates("", "", stated)).rates


def _read_rate_set(entry: Mapping[str, Any]) -> RateSet:
    if unknown := sorted(entry.keys() - {ABOVE, *RATES}):
        raise ValueError(f"There is no rate {', '.join(unknown)}.")
    above = entry.get(ABOVE, 0)
    if type(above) is not int:
        raise ValueError(f"{ABOVE} must be a whole number.")
    rates: dict[str, Decimal | None] = {n: amount(entry[n]) for n in RATES if n in entry}
    try:
        # Without a rate for output a model has none.
        return RateSet(above, **({"output": None} | rates))  # type: ignore[arg-type]
    except TypeError:
        raise ValueError("A rate for input is needed.") from None


def _write_rates(rates: list[RateSet]) -> str:
    return f"[{', '.join(_rate_set_text(each) for each in rates)}]"


def _rate_set_text(rates: RateSet) -> str:
    known = [(name, value) for name, value in asdict(rates).items() if value is not None]
    pairs = [
        f"{name} = {number(Decimal(value))}" for name, value in known if value or name != ABOVE
    ]
    return "{ " + ", ".join(pairs) + " }"


CALL_RATE = Member("call_rate", amount, number)
SEARCH_RATE = Member("search_rate", amount, number, nullable=True)


def _overrides() -> Rows:
    rows = Price.objects.filter(source=Price.Source.OVERRIDE, ends_at=None)
    prices: Rows = {}
    for row in rows.select_related("model"):
        prices[row.model.provider, row.model.name] = dict(vars(rates_of(row)))
    return prices


def _set_price(key: Key, changed: Values, values: Values, **why: Any) -> None:
    stated = {"rates": [], **values}
    catalogue.set_price(provider=key[0], name=key[1], **stated, **why)


def _end_price(key: Key, values: Values, **why: Any) -> None:
    row = Price.objects.get(
        source=Price.Source.OVERRIDE, ends_at=None, model__provider=key[0], model__name=key[1]
    )
    catalogue.end_price(price_id=row.pk, **why)


PRICES = Section(
    name="prices",
    names=("provider", "model"),
    members=(Member("rates", _read_rates, _write_rates), CALL_RATE, SEARCH_RATE),
    rows=_overrides,
    make=lambda key, values, **why: _set_price(key, values, values, **why),
    change=_set_price,
    end=_end_price,
    ended=lambda values: False,
)

POLICY_NAMES = ("agent", "job_type", "risk_tier")


def _policy_rows() -> Rows:
    return {
        (row.agent, row.job_type, row.risk_tier): {
            "models": [str(line.model) for line in catalogue.lines_of(row)],
            "max_output_tokens": row.max_output_tokens,
        }
        for row in RoutePolicy.objects.filter(retired_at=None)
    }


def _set_policy(key: Key, changed: Values, values: Values, **why: Any) -> None:
    named = [name.partition("/") for name in values.get("models", [])]
    models = [(provider, name) for provider, _, name in named]
    stated: Values = {**values, **dict(zip(POLICY_NAMES, key, strict=True)), "models": models}
    catalogue.set_policy(**stated, **why)


def _retire_policy(key: Key, values: Values, **why: Any) -> None:
    catalogue.retire_policy(**dict(zip(POLICY_NAMES, key, strict=True)), **why)


def _named_by_policy(key: Key, values: Values) -> list[tuple[str, Key]]:
    named = [("agents", (key[0],)), ("job_types", (key[1],))]
    return [(section, names) for section, names in named if names != ("",)]


POLICIES = Section(
    name="policies",
    names=POLICY_NAMES,
    members=(of_words("models"), of_field(OUTPUT_HELD)),
    rows=_policy_rows,
    make=lambda key, values, **why: _set_policy(key, values, values, **why),
    change=_set_policy,
    end=_retire_policy,
    ended=lambda values: False,
    refers=_named_by_policy,
)

#: The sections whose entries budgets name.
NAMED_BY_SCOPE = {
    "agent": "agents",
    "job_type": "job_types",
    "submitter": "submitters",
    "model": "models",
}
BUDGET_NAMES = ("scope", "key", "window")
BUDGET_MEMBERS = (*(of_field(field, nullable=True) for field in CAPS), ENABLED)


def _set_budget(key: Key, changed: Values, values: Values, **why: Any) -> None:
    stated: Values = {"cap": None, **values, **dict(zip(BUDGET_NAMES, key, strict=True))}
    catalogue.set_budget(**stated, **why)


def _named_by_budget(key: Key, values: Values) -> list[tuple[str, Key]]:
    scope, name = key[0], key[1]
    section = NAMED_BY_SCOPE.get(scope)
    if section is None or not name or is_each(scope, name):
        return []
    provider, _, model = name.partition("/")
    return [(section, (provider, model) if scope == Budget.Scope.MODEL else (name,))]


BUDGETS = Section(
    name="budgets",
    names=BUDGET_NAMES,
    members=BUDGET_MEMBERS,
    rows=lambda: {
        (row.scope, row.key, row.window): _columns(row, BUDGET_MEMBERS)
        for row in Budget.objects.all()
    },
    make=lambda key, values, **why: _set_budget(key, values, values, **why),
    change=_set_budget,
    end=lambda key, values, **why: _set_budget(
        key, {"enabled": False}, values | {"enabled": False}, **why
    ),
    refers=_named_by_budget,
)

LIMIT_MEMBERS = (*(of_field(field, nullable=True) for field in BOUNDS), ENABLED)


def _set_limit(key: Key, changed: Values, values: Values, **why: Any) -> None:
    limiting.set_limit(scope=key[0], key=key[1], **values, **why)


LIMITS = Section(
    name="limits",
    names=("scope", "key"),
    members=LIMIT_MEMBERS,
    rows=lambda: {
        (row.scope, row.key): _columns(row, LIMIT_MEMBERS) for row in Limit.objects.all()
    },
    make=lambda key, values, **why: _set_limit(key, values, values, **why),
    change=_set_limit,
    end=lambda key, values, **why: _set_limit(key, {}, values | {"enabled": False}, **why),
    refers=_named_by_budget,
)

#: In the order in which they are applied: what others name comes first. Ends go backwards.
SECTIONS = (AGENTS, SOURCES, SUBMITTERS, JOB_TYPES, MODELS, PRICES, POLICIES, BUDGETS, LIMITS)
BY_NAME = {section.name: section for section in SECTIONS}
