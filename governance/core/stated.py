"""What events state of rows: a row of configuration is what the last event that names it says.

`audit.record(..., rows=[row])` puts each row, as it stands in the table, under `rows` in the
event's details.  A deferred trigger compares at commit: a row that was written without an event of
the same transaction that states it as it is now is noted as `changed_outside`, on the chain of its
subject, with the role that wrote it.  `manage.py verify_ledger` compares all rows, both ways.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.db import connection
from django.db.models import Model

from governance.core.triggers import Function, Trigger

#: The member of an event's details that states rows, and the action of what is no move of ours.
ROWS, CHANGED_OUTSIDE = "rows", "changed_outside"
#: The end of a chain moves with every event, and is what `verify_audit` compares.
CHAIN_COLUMNS = ("audit_seq", "audit_head")

IS_OURS = Function(
    "governance_is_ours",
    "Tells of a row that is visible whether this transaction wrote it, in a savepoint of its own "
    "too: such an id is that of the transaction or a later one, and still in progress.",
    """
DECLARE
    top bigint := pg_current_xact_id()::text::bigint;
    ahead bigint := (written_by::text::bigint - top % 4294967296 + 4294967296) % 4294967296;
BEGIN
    IF ahead = 0 OR ahead >= 2147483648 THEN
        RETURN ahead = 0;
    END IF;
    BEGIN
        RETURN coalesce(pg_xact_status((top + ahead)::text::xid8) = 'in progress', false);
    EXCEPTION WHEN invalid_parameter_value THEN
        -- Frozen long ago, so that its id only looks like a later one.
        RETURN false;
    END;
END
""",
    arguments="written_by xid",
    result="boolean",
)
STATED = Function(
    "governance_stated",
    "A row as events state it: each column as text, those that are long or secret as a digest.",
    """
    SELECT coalesce(jsonb_object_agg(key, CASE
               WHEN value = 'null'::jsonb THEN value
               WHEN key = ANY (digested) THEN to_jsonb(
                   'sha256:' || encode(sha256(convert_to(value::text, 'UTF8')), 'hex'))
               WHEN jsonb_typeof(value) = 'string' THEN value
               ELSE to_jsonb(value::text) END), '{}'::jsonb)
      FROM jsonb_each(found) WHERE key <> ALL (left_out)
""",
    arguments="found jsonb, left_out text[], digested text[]",
    result="jsonb",
    language="sql",
    immutable=True,
)
BODY = Function(
    "governance_body",
    "The body of an event as JSON; NULL where its bytes are none: `verify_audit` names that one.",
    """
BEGIN
    RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
""",
    arguments="body bytea",
    result="jsonb",
    immutable=True,
)
CANONICAL = Function(
    "governance_canonical",
    "The bytes of an event, as text: keys in order, no spaces, as `governance/core/audit.py` "
    "writes them.",
    """
BEGIN
    CASE jsonb_typeof(value)
        WHEN 'object' THEN
            RETURN '{' || coalesce((
                SELECT string_agg(to_jsonb(key)::text || ':' || governance_canonical(member), ','
                                  ORDER BY key COLLATE "C")
                  FROM jsonb_each(value) AS m(key, member)), '') || '}';
        WHEN 'array' THEN
            RETURN '[' || coalesce((
                SELECT string_agg(governance_canonical(member), ',' ORDER BY place)
                  FROM jsonb_array_elements(value) WITH ORDINALITY AS m(member, place)), '') || ']';
        ELSE
            RETURN value::text;
    END CASE;
END
""",
    arguments="value jsonb",
    result="text",
    immutable=True,
)
INSTANT = Function(
    "governance_instant",
    "An instant as events write it, in UTC, without the fraction where there is none.",
    """
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
           || CASE WHEN to_char(at, 'US') = '000000' THEN '' ELSE to_char(at, '.US') END
           || '+00:00'
""",
    arguments="at timestamp with time zone",
    result="text",
    language="sql",
)
APPEND = Function(
    "governance_append",
    "Appends an event to the chain that ends at a row, under the row's lock, and returns its "
    "number; NULL where there is no such row.",
    """
DECLARE
    last_seq bigint;
    last_hash bytea;
    at timestamptz;
    body bytea;
BEGIN
    EXECUTE format('SELECT audit_seq, audit_head FROM %I WHERE id = $1 FOR NO KEY UPDATE',
                   head_table) INTO last_seq, last_hash USING head_id;
    IF last_seq IS NULL THEN
        RETURN NULL;
    END IF;
    at := clock_timestamp();
    body := convert_to(governance_canonical(jsonb_build_object(
        'subject', of_subject, 'seq', last_seq + 1,
        'at', governance_instant(at),
        'action', done, 'actor', done_by, 'reason', why, 'request_id', '',
        'before', before, 'after', after, 'details', details)), 'UTF8');
    INSERT INTO governance_auditevent
           (subject, seq, at, action, actor, reason, request_id, body, prev_hash, hash)
    VALUES (of_subject, last_seq + 1, at, done, done_by, why, '', body, last_hash,
            sha256(last_hash || body));
    EXECUTE format('UPDATE %I SET audit_seq = $2, audit_head = $3 WHERE id = $1', head_table)
      USING head_id, last_seq + 1, sha256(last_hash || body);
    RETURN last_seq + 1;
END
""",
    arguments="of_subject text, head_table text, head_id bigint,\n    "
    "done text, done_by text, why text, before jsonb, after jsonb, details jsonb",
    result="bigint",
)
# Pending rows of other transactions cannot be seen: at their commit none is pending any more.
NEEDS_EVENT = Function(
    "governance_needs_event",
    "A row that was written has an event of the same transaction that states it as it is at the "
    "commit; else the change is noted, and becomes an event `changed_outside`.",
    """
DECLARE
    zone text := current_setting('TimeZone');
    written jsonb;
    of_key text;
    of_subject text;
    head_table text;
    head_id bigint;
    stated jsonb;
    was jsonb;
    event record;
    said jsonb;
    covered boolean := false;
BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    written := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    of_key := TG_TABLE_NAME || ':' || (written->>'id');
    EXECUTE TG_ARGV[0] INTO of_subject, head_table, head_id USING written;
    EXECUTE format('SELECT governance_stated(to_jsonb(t), $2, $3) FROM %I t WHERE id = $1',
                   TG_TABLE_NAME)
       INTO stated USING (written->>'id')::bigint, TG_ARGV[1]::text[], TG_ARGV[2]::text[];
    -- Whoever appends holds the end of the chain until the commit: our events are the last ones.
    FOR event IN SELECT e.body, e.xmin AS written_by FROM governance_auditevent e
                  WHERE e.subject = of_subject ORDER BY e.seq DESC
    LOOP
        EXIT WHEN NOT governance_is_ours(event.written_by);
        said := governance_body(event.body);
        IF TG_ARGV[3] <> '' THEN
            EXECUTE TG_ARGV[3] INTO covered USING written, said;
            EXIT WHEN covered;
        ELSIF said->'details'->'rows' ? of_key THEN
            covered := (said->'details'->'rows'->of_key)
                       IS NOT DISTINCT FROM coalesce(stated, 'null'::jsonb);
            EXIT;
        END IF;
    END LOOP;
    IF covered THEN
        UPDATE governance_outsidechange SET settled_at = clock_timestamp()
         WHERE row_key = of_key AND settled_at IS NULL;
    ELSIF of_subject IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM governance_outsidechange c
         WHERE c.row_key = of_key AND c.seq IS NULL
    ) THEN
        IF TG_OP <> 'INSERT' THEN
            was := governance_stated(to_jsonb(OLD), TG_ARGV[1]::text[], TG_ARGV[2]::text[]);
        END IF;
        INSERT INTO governance_outsidechange
               (subject, head_table, head_id, row_key, operation, before, after, role, noted_at)
        VALUES (of_subject, head_table, head_id, of_key, TG_OP, was,
                stated, session_user, clock_timestamp());
    END IF;
    PERFORM set_config('TimeZone', zone, true);
    RETURN NULL;
END
""",
)
# Runs after every trigger that was queued before it, so that it sees all that is to be appended.
APPEND_OUTSIDE = Function(
    "governance_append_outside",
    "The changes of a transaction that no event of it states are appended to the chains of their "
    "subjects, whose heads are locked in the order of the subjects.",
    """
DECLARE
    change record;
    appended bigint;
BEGIN
    FOR change IN SELECT * FROM governance_outsidechange
                   WHERE seq IS NULL ORDER BY subject COLLATE "C", id
    LOOP
        appended := governance_append(
            change.subject, change.head_table, change.head_id, 'changed_outside',
            'database:' || change.role, '',
            jsonb_build_object(change.row_key, change.before),
            jsonb_build_object(change.row_key, change.after),
            jsonb_build_object('operation', change.operation, 'session_user', change.role,
                               'rows', jsonb_build_object(change.row_key, change.after)));
        UPDATE governance_outsidechange SET seq = coalesce(appended, 0) WHERE id = change.id;
    END LOOP;
    RETURN NULL;
END
""",
)
STATE_ROWS = Function(
    "governance_state_rows",
    "States each row of a table in an event of its subject, as it is at an upgrade: what older "
    "events say of it, they say with fewer words. Returns how many.",
    """
DECLARE
    zone text := current_setting('TimeZone');
    found record;
    of_subject text;
    head_table text;
    head_id bigint;
    done bigint := 0;
BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    FOR found IN EXECUTE format(
        'SELECT id, to_jsonb(t) AS row, governance_stated(to_jsonb(t), $1, $2) AS stated'
        '  FROM %I t ORDER BY id', of_table) USING left_out, digested
    LOOP
        EXECUTE head INTO of_subject, head_table, head_id USING found.row;
        PERFORM governance_append(
            of_subject, head_table, head_id, 'configuration.stated', 'system:upgrade',
            'Stated as it was at the upgrade.', NULL, NULL,
            jsonb_build_object('rows', jsonb_build_object(
                of_table || ':' || found.id, found.stated)));
        done := done + 1;
    END LOOP;
    PERFORM set_config('TimeZone', zone, true);
    RETURN done;
END
""",
    arguments="of_table text, head text,\n    left_out text[], digested text[]",
    result="bigint",
)
FUNCTIONS = (
    IS_OURS,
    STATED,
    BODY,
    CANONICAL,
    INSTANT,
    APPEND,
    NEEDS_EVENT,
    APPEND_OUTSIDE,
    STATE_ROWS,
)
APPENDED = Trigger(
    "governance_outsidechange_appended",
    "governance_outsidechange",
    frozenset({"INSERT"}),
    APPEND_OUTSIDE,
    APPEND_OUTSIDE.rule,
    each_row=True,
    deferred=True,
)


@dataclass(frozen=True)
class StatedTable:
    """A table of configuration, whose rows events state.

    :param head: SQL that gives subject, table and id of the chain's end, of a row as `$1` (JSON).
    :param left_out: columns that no move sets, as counters.
    :param digested: columns of which events hold the SHA-256: secrets, and what is long.
    :param matches: SQL that tells whether an event's body, `$2`, is the one of the row; "" for the
        comparison with what it states.
    """

    table: str
    head: str
    left_out: tuple[str, ...] = ()
    digested: tuple[str, ...] = ()
    matches: str = ""

    @property
    def arguments(self) -> tuple[str, str, str, str]:
        """Return what the trigger's function is given."""
        left_out = _array((*CHAIN_COLUMNS, *self.left_out))
        return _lines(self.head), left_out, _array(self.digested), _lines(self.matches)

    @property
    def triggers(self) -> tuple[Trigger, Trigger]:
        """Return the two triggers: PostgreSQL compares rows in an update's condition only."""
        same = f"- '{self.arguments[1]}'::text[]"
        changed = f"((to_jsonb(old.*) {same})\n    IS DISTINCT FROM (to_jsonb(new.*) {same}))"
        return (
            self._trigger("stated", frozenset({"INSERT", "DELETE"})),
            self._trigger("restated", frozenset({"UPDATE"}), when=changed),
        )

    def _trigger(self, word: str, events: frozenset[str], when: str = "") -> Trigger:
        return Trigger(
            f"{self.table}_{word}",
            self.table,
            events,
            NEEDS_EVENT,
            NEEDS_EVENT.rule,
            each_row=True,
            deferred=True,
            when=when,
            arguments=self.arguments,
        )


_tables: dict[str, StatedTable] = {}


def stated_tables(*tables: StatedTable) -> Iterator[Trigger]:
    """Declare that events state the rows of each table, and return the triggers that hold it."""
    for table in tables:
        _tables[table.table] = table
        yield from table.triggers


def tables() -> Mapping[str, StatedTable]:
    """Return the declared tables by name."""
    return MappingProxyType(_tables)


def of_rows(rows: Iterable[Model]) -> dict[str, dict[str, str | None] | None]:
    """Return rows as an event states them, by `table:id`; None for one that is there no more.

    Reads what this transaction has written: called after the rows are saved.
    """
    ids: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        ids[row._meta.db_table].append(row.pk)
    return {key: found for name, pks in ids.items() for key, found in _read(name, pks).items()}


def _read(name: str, pks: list[Any]) -> dict[str, Any]:
    _, left_out, digested, _ = _tables[name].arguments
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, governance_stated(to_jsonb(t), %s::text[], %s::text[])::text"
            f" FROM {connection.ops.quote_name(name)} t WHERE id = ANY(%s)",
            (left_out, digested, pks),
        )
        found = {pk: json.loads(text) for pk, text in cursor.fetchall()}
    return {f"{name}:{pk}": found.get(pk) for pk in pks}


def _lines(statement: str) -> str:
    """Break a statement before its clauses, so that the migrations can be read."""
    statement = re.sub(r" (FROM|WHERE|AND|UNION ALL) ", r"\n        \1 ", statement)
    return statement.replace(", '", ",\n        '")


def _array(names: Iterable[str]) -> str:
    return "{" + ",".join(names) + "}"
