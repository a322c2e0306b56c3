"""Operators' verbs: each declared once, with what it asks for, demands and calls.

The console's actions and forms, `manage.py act`, the control call of the API, the permissions and
the reference pages are made from these declarations.  A verb calls one transition, which decides;
its precondition is a forecast over a row that is loaded already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model

from governance.core import permissions
from governance.core.errors import DomainError, InvalidArgument, NotFound
from governance.core.fields import Field
from governance.core.permissions import Permission

R = TypeVar("R")


@dataclass(frozen=True)
class Target:
    """The rows that a verb is about.

    :param key: the unique field by which people name one.
    """

    model: type[Model]
    key: str = "pk"

    @property
    def label(self) -> str:
        """Return the model's label, `jobs.job`."""
        return self.model._meta.label_lower

    @property
    def named(self) -> str:
        """Return what people call the key: `task_id`, `id`."""
        return "id" if self.key == "pk" else self.key

    def parse(self, key: str) -> Any:
        """Return the key as its field's value.

        :raises NotFound: no row can have it.
        """
        meta = self.model._meta
        column = meta.pk if self.key == "pk" else meta.get_field(self.key)
        try:
            return column.to_python(key)  # type: ignore[union-attr]
        except ValidationError:
            raise NotFound(f"There is no {meta.verbose_name} {key}.") from None


@dataclass(frozen=True)
class Done:
    """What a verb did.

    :param words: for a person: `stopped, now stopped`.
    :param facts: for a script, by name: `{"outcome": "stopped", "state": "stopped", ...}`.
    """

    words: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OneOf:
    """Of these fields at most one is given; where `required`, exactly one.

    In a form the last of them wins: the ones before it may be suggestions.
    """

    names: tuple[str, ...]
    required: bool = False

    def settle(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with one of these fields at most."""
        given = [name for name in self.names if name in values]
        return {name: value for name, value in values.items() if name not in given[:-1]}

    def fault(self, values: Mapping[str, Any]) -> str:
        """Return what is wrong with the values, as a sentence; "" where nothing is."""
        given = [name for name in self.names if name in values]
        if len(given) > 1:
            return f"Give one of {_listed(self.names)}, not both."
        return f"Give {_listed(self.names)}." if self.required and not given else ""


@dataclass(frozen=True)
class Together:
    """Of these fields all are given, or none."""

    names: tuple[str, ...]

    def settle(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values as they are."""
        return values

    def fault(self, values: Mapping[str, Any]) -> str:
        """Return what is wrong with the values, as a sentence; "" where nothing is."""
        given = [name for name in self.names if name in values]
        if 0 < len(given) < len(self.names):
            return f"Give all of {_listed(self.names, ' and ')}, or none."
        return ""


class Precondition(Protocol):
    """A pure function over a loaded row: why it would not take the verb from this actor now."""

    def __call__(self, row: Any, /, *, actor: str, now: datetime) -> DomainError | None: ...


def anything(row: Any, /, *, actor: str, now: datetime) -> None:
    """Demand nothing of a row."""


def of_row(judge: Callable[..., DomainError | None], **fixed: Any) -> Precondition:
    """Return a precondition that depends on the row alone, whoever acts and whenever.

    :param judge: takes the row; returns the refusal, or None.
    :param fixed: further arguments of it.
    """

    def precondition(row: Any, /, *, actor: str, now: datetime) -> DomainError | None:
        return judge(row, **fixed)

    return precondition


@dataclass(frozen=True, kw_only=True)
class Verb(Generic[R]):
    """What an operator can do to the rows of one model.

    :param name: unique per model; part of its page's path.
    :param effect: what happens to each row, in a sentence or two.
    :param run: calls the transition, as `run(key=, actor=, reason=, **fields)`; without `key` where
        the verb makes a row, with `expected_revision` where it judges what was seen.
    :param done: says what became of it.
    :param precondition: a forecast; the transition decides.
    :param initial: what a form is filled with where the verb is about one row.
    :param edits: what its form is filled with, and is left as it is, is no change, and not given.
    :param grave: it cannot be undone, or stops what others rely on.
    :param bulk: it is offered for many rows at once.
    :param makes: it makes a row instead of acting on one.
    :param as_seen: it judges what the operator saw: a row that has moved on since is skipped.
    :param command: an older command of its own, which does the same.
    :param control: the `action` under which submitters call it for their own jobs.
    """

    name: str
    on: Target
    label: str
    permission: Permission
    effect: str
    run: Callable[..., R]
    done: Callable[[R], Done]
    precondition: Precondition = anything
    fields: tuple[Field, ...] = ()
    rules: tuple[OneOf | Together, ...] = ()
    initial: Callable[[Any], dict[str, Any]] = lambda row: {}
    edits: bool = False
    grave: bool = False
    bulk: bool = True
    makes: bool = False
    as_seen: bool = False
    command: str = ""
    control: str = ""

    @property
    def address(self) -> str:
        """Return the name that no other verb has: `job.stop`."""
        return f"{self.on.label.partition('.')[2]}.{self.name}"

    def keep(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields' values as JSON keeps them."""
        return {one.name: one.keep(values[one.name]) for one in self.fields if one.name in values}

    def restore(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields' values that `keep` made JSON of, with their types.

        :raises InvalidArgument: a value is of no field of this verb (any more).
        """
        fields = {one.name: one for one in self.fields}
        if unknown := sorted(kept.keys() - fields.keys()):
            raise InvalidArgument(f"{self.label} has no field {', '.join(unknown)} (any more).")
        return {name: fields[name].restore(value) for name, value in kept.items()}

    def perform(
        self,
        *,
        key: str,
        actor: str,
        reason: str,
        values: Mapping[str, Any],
        seen_revision: int | None = None,
    ) -> R:
        """Do it to one row, or make one, and return what the transition returned.

        :param values: of the fields, by name; what was left open is absent.
        :raises NotFound: no row can have that key.
        :raises DomainError: the transition refuses.
        """
        named = {} if self.makes else {"key": self.on.parse(key)}
        seen = {"expected_revision": seen_revision} if self.as_seen else {}
        return self.run(**named, **seen, actor=actor, reason=reason, **values)


_verbs: dict[tuple[str, str], Verb[Any]] = {}


def register(*verbs: Verb[Any]) -> None:
    """Make verbs known, and the permissions that they need.

    :raises ValueError: a verb of that model has the name already.
    """
    for verb in verbs:
        if (verb.on.label, verb.name) in _verbs:
            raise ValueError(f"the verb {verb.address} is declared twice")
        permissions.register(verb.permission)
        _verbs[verb.on.label, verb.name] = verb


def every() -> list[Verb[Any]]:
    """Return every verb, in the order in which they were made known."""
    return list(_verbs.values())


def on(label: str) -> list[Verb[Any]]:
    """Return the verbs of a model, by its label."""
    return [verb for verb in _verbs.values() if verb.on.label == label]


def key_of(label: str) -> str:
    """Return the field by which the verbs of a model name a row; `pk` where there are none."""
    return next((verb.on.key for verb in on(label)), "pk")


def find(label: str, name: str) -> Verb[Any] | None:
    """Return a verb of a model by its name; None where there is none."""
    return _verbs.get((label, name))


def _listed(names: tuple[str, ...], between: str = " or ") -> str:
    return between.join(name.replace("_", " ") for name in names)
