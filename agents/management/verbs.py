"""Operators' verbs at a shell: options made of a verb's fields, and its outcome printed."""

from __future__ import annotations

import argparse
import json
import sys
from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.management.acting import ActingCommand, add_actor, plain_text
from governance.core import audit
from governance.core.errors import DomainError
from governance.core.fields import Choice, Field, Flag, Json, Span
from governance.core.verbs import OneOf, Together, Verb

ROWS_MAX = 1000
REFUSED = "refused"
#: What `argparse` adds options to.
Options = argparse._ActionsContainer


def add_fields(
    parser: argparse.ArgumentParser,
    fields: Iterable[Field],
    *,
    rules: Iterable[OneOf | Together] = (),
    positional: tuple[str, ...] = (),
) -> None:
    """Add an option for each field of a verb.

    :param positional: names of fields that are arguments by their place.
    """
    groups: dict[str, Options] = {}
    for rule in rules:
        if isinstance(rule, OneOf):
            group = parser.add_mutually_exclusive_group(required=rule.required)
            groups |= dict.fromkeys(rule.names, group)
    for field in fields:
        if field.name in positional:
            parser.add_argument(field.name, type=_reader(field.read), help=field.help)
        else:
            _add_option(groups.get(field.name, parser), field)


def values_of(
    fields: Iterable[Field], options: dict[str, Any], *, rules: Iterable[OneOf | Together] = ()
) -> dict[str, Any]:
    """Return the values of a verb's fields out of a command's options; what is open is absent.

    :raises CommandError: they do not go together.
    """
    values = {
        field.name: options[field.name] for field in fields if options.get(field.name) is not None
    }
    for rule in rules:
        if fault := rule.fault(values):
            raise CommandError(fault)
    return values


def add_rows(parser: argparse.ArgumentParser, verb: Verb[Any]) -> None:
    """Add the arguments of a verb: the keys of rows, why, by whom, and its fields."""
    if not verb.makes:
        parser.add_argument("keys", nargs="+", metavar=verb.on.named.upper(), type=plain_text)
    parser.add_argument(
        "--reason", required=True, type=plain_text, help="why; kept in the audit trail"
    )
    add_actor(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    add_fields(parser, verb.fields, rules=verb.rules)


class VerbCommand(BaseCommand):
    """Do a verb to the named rows, each in a transaction of its own.

    Prints a line per row, or with `--json` one object per line. Exits 1 when any was refused; the
    others are done all the same.
    """

    verb: ClassVar[Verb[Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = self.help or self.verb.effect

    def add_arguments(self, parser: CommandParser) -> None:
        add_rows(parser, self.verb)

    def chosen(self, options: dict[str, Any]) -> Verb[Any]:
        """Return the verb that the options mean."""
        return self.verb

    def handle(self, **options: Any) -> None:
        perform(self, self.chosen(options), options)


def perform(command: BaseCommand, verb: Verb[Any], options: dict[str, Any]) -> None:
    """Do a verb to each of the rows that a command's options name, and print what became of it.

    :raises CommandError: there are too many, or one at least was refused.
    """
    keys = list(dict.fromkeys([""] if verb.makes else options["keys"]))
    if len(keys) > ROWS_MAX:
        raise CommandError(f"At most {ROWS_MAX} rows at a time.")
    values = values_of(verb.fields, options, rules=verb.rules)
    refused = 0
    for key in keys:
        try:
            with audit.at_a_shell(options["actor"]) as actor:
                result = verb.perform(key=key, actor=actor, reason=options["reason"], values=values)
        except DomainError as refusal:
            refused += 1
            words = f"{REFUSED}, {refusal.reason}: {refusal.words}"
            facts = {"outcome": REFUSED, "reason": refusal.reason, "detail": refusal.words}
        else:
            done = verb.done(result)
            words, facts = done.words, dict(done.facts)
        named = {} if verb.makes else {verb.on.named: key}
        line = words if verb.makes else f"{key}: {words}"
        command.stdout.write(json.dumps(named | facts, default=str) if options["json"] else line)
    if refused:
        raise CommandError(f"{refused} of {len(keys)} refused.")


class OneVerbCommand(ActingCommand):
    """Do a verb to one row, or make one, and print its facts."""

    verb: ClassVar[Verb[Any]]
    #: Fields that are arguments by their place.
    positional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = self.help or self.verb.effect

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        if not self.verb.makes:
            parser.add_argument("key", metavar=self.verb.on.named.upper(), type=plain_text)
        add_fields(parser, self.verb.fields, rules=self.verb.rules, positional=self.positional)

    def act(self, **options: Any) -> dict[str, Any]:
        result = self.verb.perform(
            key=options.get("key", ""),
            actor=options["actor"],
            reason=options["reason"],
            values=values_of(self.verb.fields, options, rules=self.verb.rules),
        )
        return dict(self.verb.done(result).facts)


def _add_option(parser: Options, field: Field) -> None:
    flag = _flag(field.option or field.name)
    default = _default(field)
    common: dict[str, Any] = {
        "dest": field.name,
        "default": default,
        "help": (field.help or field.bounds).replace("%", "%%"),
    }
    needed: dict[str, Any] = {"required": True} if field.required and default is None else {}
    if isinstance(field, Flag):
        parser.add_argument(flag, action=BooleanOptionalAction, **common, **needed)
    elif isinstance(field, Choice) and not callable(field.choices):
        words = [word for word, _ in field.choices]
        parser.add_argument(flag, choices=words, **common, **needed)
    elif isinstance(field, Span):
        either = parser.add_mutually_exclusive_group(**needed)
        either.add_argument(flag, type=_reader(field.read), metavar="SECONDS", **common)
        read, unit = _reader(field.of_units), field.unit.upper()
        either.add_argument(_flag(field.given_as), type=read, metavar=unit, **common)
    elif isinstance(field, Json) and field.from_file:
        read = _reader(lambda path: field.read(_text(path)))
        parser.add_argument(flag, type=read, metavar="FILE", **common, **needed)
    else:
        parser.add_argument(flag, type=_reader(field.read), **common, **needed)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _default(field: Field) -> Any:
    """Return what a field that must be said is taken to be: what a form suggests."""
    if not field.required or field.initial is None:
        return None
    suggested = str(field.initial)
    return field.of_units(suggested) if isinstance(field, Span) else field.read(suggested)


def _reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def value(text: str) -> Any:
        try:
            return read(plain_text(text))
        except ValueError as fault:
            raise ArgumentTypeError(str(fault)) from fault

    return value


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except OSError as error:
        raise ValueError(f"{path}: {error}") from error
