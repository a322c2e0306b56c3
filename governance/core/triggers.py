"""What the database refuses, as data: every trigger with its table and the function that it runs.

An app declares its own in `<app>/triggers.py`.  The migrations
(`manage.py make_trigger_migration`), the check that refuses to boot without them, readiness and
`docs/reference/triggers.md` come from these declarations; the reasons are in
`docs/decisions/0001-triggers.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from django.db import connection

EVENTS = ("INSERT", "DELETE", "UPDATE", "TRUNCATE")
# A disabled trigger guards nothing and counts as absent.
IN_FORCE = """
SELECT t.tgname, c.relname
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
   AND c.relnamespace = current_schema()::regnamespace
"""


class Statements(NamedTuple):
    """The SQL that makes a trigger or a function, and the SQL that takes it away."""

    create: str
    drop: str


@dataclass(frozen=True)
class Function:
    """A function that triggers run, or that such a function calls.

    `rule` is for people: a sentence that says what holds by it (or what it returns).  Arguments and
    result never change under a name: what needs others is named anew.
    """

    name: str
    rule: str
    body: str
    arguments: str = ""
    result: str = "trigger"
    language: str = "plpgsql"
    immutable: bool = False

    @property
    def statements(self) -> Statements:
        kind = f"LANGUAGE {self.language}{' IMMUTABLE' if self.immutable else ''}"
        body = self.body.strip("\n")
        # The migrations are read by people: what takes arguments has lines of its own.
        gap = "\n    " if self.arguments else " "
        head = f"{self.name}({self.arguments}){gap}RETURNS {self.result} {kind}"
        return Statements(
            f"CREATE OR REPLACE FUNCTION {head} AS $$\n{body}\n$$;",
            f"DROP FUNCTION {self.name};",
        )


@dataclass(frozen=True)
class Trigger:
    """A trigger before `events` on `table`, once per statement unless `each_row`.

    `rule` is for people: the sentence of the reference page.  `deferred`: at the commit, and after
    what it looks at.  `when` is a condition, as PostgreSQL prints it, and `arguments` are what the
    function is given.
    """

    name: str
    table: str
    events: frozenset[str]
    function: Function
    rule: str
    each_row: bool = False
    deferred: bool = False
    when: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def moments(self) -> list[str]:
        """Return the events in the order in which PostgreSQL writes them."""
        return [event for event in EVENTS if event in self.events]

    @property
    def statements(self) -> Statements:
        level = "ROW" if self.each_row else "STATEMENT"
        kind, moment, until = "TRIGGER", "BEFORE", ""
        if self.deferred:
            kind, moment, until = "CONSTRAINT TRIGGER", "AFTER", " DEFERRABLE INITIALLY DEFERRED"
        condition = f" WHEN {self.when}" if self.when else ""
        gap = "\n    " if self.arguments else " "
        given = ",\n        ".join("'" + each.replace("'", "''") + "'" for each in self.arguments)
        return Statements(
            f"CREATE {kind} {self.name}\n"
            f"    {moment} {' OR '.join(self.moments)} ON {self.table}{until}\n"
            f"    FOR EACH {level}{condition}{gap}EXECUTE FUNCTION {self.function.name}({given});",
            f"DROP TRIGGER {self.name} ON {self.table};",
        )


APPEND_ONLY = Function(
    "fencepost_append_only",
    "A row is written once.",
    """
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
""",
)
NEVER_DELETED = Function(
    "fencepost_never_deleted",
    "A row never goes away: others point at it without a foreign key, or it ends an audit chain.",
    """
BEGIN
    RAISE EXCEPTION 'rows of % are never deleted', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END
""",
)


def append_only(*tables: str) -> Iterator[Trigger]:
    """Declare that the rows of each table are neither changed nor deleted."""
    for table in tables:
        events = frozenset({"UPDATE", "DELETE", "TRUNCATE"})
        yield Trigger(f"{table}_append_only", table, events, APPEND_ONLY, APPEND_ONLY.rule)


def never_deleted(*tables: str) -> Iterator[Trigger]:
    """Declare that the rows of each table are changed, but never deleted."""
    for table in tables:
        events = frozenset({"DELETE", "TRUNCATE"})
        yield Trigger(f"{table}_never_deleted", table, events, NEVER_DELETED, NEVER_DELETED.rule)


def row_trigger(table: str, function: Function, *events: str) -> Trigger:
    """Declare that `function` judges each row of `table` before the events, as `<table>_guard`."""
    name = f"{table}_guard"
    return Trigger(name, table, frozenset(events), function, function.rule, each_row=True)


class Declared(NamedTuple):
    """What an app declares. Each function comes after those that it calls."""

    functions: tuple[Function, ...]
    triggers: tuple[Trigger, ...]


_declared: dict[str, Declared] = {}


def declare(app: str, functions: Iterable[Function], triggers: Iterable[Trigger]) -> None:
    """Take in what an app declares, as `<app>/triggers.py` does when the app starts."""
    _declared[app] = Declared(tuple(functions), tuple(triggers))


def declared() -> Mapping[str, Declared]:
    """Return the declarations by app."""
    return MappingProxyType(_declared)


def missing(*, except_of: Collection[str] = ()) -> set[str]:
    """Return the names of declared triggers that are absent from their table or disabled.

    :param except_of: apps to leave out: those whose migrations have not all run.
    """
    with connection.cursor() as cursor:
        cursor.execute(IN_FORCE)
        present = set(cursor.fetchall())
    return {
        trigger.name
        for app, (_, triggers) in _declared.items()
        for trigger in triggers
        if app not in except_of and (trigger.name, trigger.table) not in present
    }
