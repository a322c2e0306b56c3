"""What a configuration file would change, and the change: in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from decimal import Decimal
from typing import Any

from django.db import connection, transaction
from django.db.utils import DatabaseError

from agents import barrier
from governance.core import sql
from governance.core.digests import canonical, sha256_hex
from governance.core.errors import DomainError
from jobs.configuration.files import Wanted
from jobs.configuration.members import number
from jobs.configuration.sections import SECTIONS, Key, Rows, Section, Values

#: Another changed the same, made the same, or the two waited for each other.
RACES = {"40001", "23505", "40P01"}

#: What is set, by section and entry.
State = dict[str, Rows]


class Refused(Exception):
    """The file was refused, and nothing was changed; the message names the place and the reason."""


@dataclass(frozen=True)
class Change:
    """One entry that is made, changed or ended. `before` and `after`: the members that change."""

    section: Section
    key: Key
    what: str
    before: Values
    after: Values

    MADE, CHANGED, ENDED = "made", "changed", "ended"

    @property
    def place(self) -> str:
        """Return what names the entry: `agents.hermes`, `budgets agent/hermes/day`."""
        if self.section.by_name:
            return f"{self.section.name}.{self.key[0]}"
        return f"{self.section.name} {'/'.join(part or 'any' for part in self.key)}"

    def lines(self) -> Iterator[str]:
        """Yield the change as the lines of a diff."""
        if self.what == self.ENDED:
            yield f"- {self.place}"
            return
        sign = "+" if self.what == self.MADE else "~"
        if not self.after:
            yield f"{sign} {self.place}"
        for name, value in self.after.items():
            shown = self._text(name, value)
            if name in self.before:
                shown = f"{self._text(name, self.before[name])} -> {shown}"
            yield f"{sign} {self.place}.{name}: {shown}"

    def as_json(self) -> dict[str, Any]:
        """Return the change as JSON."""
        return {
            "entry": self.place,
            "what": self.what,
            "before": plain(self.before),
            "after": plain(self.after),
        }

    def _text(self, name: str, value: Any) -> str:
        member = self.section.member(name)
        assert member is not None
        return " ".join(member.text(value).split())


@dataclass(frozen=True)
class Applied:
    """What was changed, or would be; the digests of the state before and after."""

    changes: list[Change]
    before: str
    after: str


def read_state() -> State:
    """Return all that is set."""
    return {section.name: section.rows() for section in SECTIONS}


def digest_of(state: State) -> str:
    """Return the SHA-256 of a state: equal for equal states, whatever they came from."""
    rows = {
        name: sorted([list(key), plain(values)] for key, values in rows.items())
        for name, rows in state.items()
    }
    return sha256_hex(canonical(rows))


def plain(value: Any) -> Any:
    """Return a value of a state as JSON, the same for equal values."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    return number(value) if isinstance(value, Decimal) else value


def apply(
    *,
    wanted: Wanted,
    actor: str,
    reason: str,
    prune: bool = False,
    dry_run: bool = False,
    expect: str = "",
) -> Applied:
    """Make what is set what the file wants, in one transaction; what it does not name stays.

    Reads one snapshot: where somebody changes what this changes meanwhile, nothing is done.

    :param prune: end what is absent from the sections that the file has.
    :param dry_run: do all of it, and take it back.
    :param expect: digest of the state that must be found.
    :raises Refused: a transition refuses, a name is of nothing, or the state is another.
    """
    try:
        with _one_snapshot():
            state = read_state()
            before = digest_of(state)
            if expect and expect != before:
                raise Refused(f"The state has changed: it is {before}, not {expect}.")
            changes = list(plan(state, wanted, prune=prune))
            _check_names(state, wanted, changes)
            _perform(state, changes, wanted, actor=actor, reason=reason)
            after = digest_of(read_state())
            transaction.set_rollback(dry_run)
            return Applied(changes, before, after)
    except DatabaseError as error:
        if sql.sqlstate(error) not in RACES:
            raise
        raise Refused("Somebody changed the same meanwhile; look again.") from error


def plan(state: State, wanted: Wanted, *, prune: bool) -> Iterator[Change]:
    """Yield what has to change, in the order in which it can be done."""
    for section in SECTIONS:
        rows = state[section.name]
        for key, values in wanted.sections.get(section.name, {}).items():
            if key not in rows:
                yield Change(section, key, Change.MADE, {}, values)
                continue
            now = rows[key]
            after = {name: value for name, value in values.items() if now[name] != value}
            if after:
                before = {name: now[name] for name in after}
                yield Change(section, key, Change.CHANGED, before, after)
    for section in reversed(SECTIONS if prune else ()):
        if section.name not in wanted.sections or section.end is None:
            continue
        for key, values in state[section.name].items():
            if key not in wanted.sections[section.name] and not section.ended(values):
                yield Change(section, key, Change.ENDED, values, {})


def _check_names(state: State, wanted: Wanted, changes: list[Change]) -> None:
    """Refuse entries that name what neither is nor is wanted.

    :raises Refused: naming the first of them.
    """
    for change in changes:
        for name, key in change.section.refers(change.key, change.after):
            if change.what == Change.ENDED:
                continue
            if key not in state[name] and key not in wanted.sections.get(name, {}):
                kind = name.removesuffix("s").replace("_", " ")
                raise Refused(f"{_place(wanted, change)}: There is no {kind} {'/'.join(key)}.")


def _perform(
    state: State, changes: list[Change], wanted: Wanted, *, actor: str, reason: str
) -> None:
    """Do every change by its transition.

    :raises Refused: a transition refuses.
    """
    # The gates of all agents at once, in key order, as whoever closes more than one does.
    configured = [c.key[0] for c in changes if c.section.name == "agents" and c.what != c.MADE]
    if configured:
        barrier.hold(configured)
    why = {"actor": actor, "reason": reason}
    for change in changes:
        section, key = change.section, change.key
        try:
            if change.what == Change.MADE:
                section.make(key, change.after, **why)
            elif change.what == Change.CHANGED:
                whole = state[section.name][key] | change.after
                section.change(key, change.after, whole, **why)
            elif section.end is not None:
                section.end(key, change.before, **why)
        except DomainError as refusal:
            raise Refused(
                f"{_place(wanted, change)}: {refusal.words} ({refusal.reason})"
            ) from refusal


def _place(wanted: Wanted, change: Change) -> str:
    return wanted.places.get((change.section.name, change.key), change.place)


@contextmanager
def _one_snapshot() -> Iterator[None]:
    nested = connection.in_atomic_block
    with transaction.atomic():
        if not nested:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield
