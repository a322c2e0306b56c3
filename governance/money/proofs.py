"""Compare every row of money and configuration with what its audit event says, both ways.

A row without its event, an event without its row, and every member in which they differ are
differences.  Members that events of an earlier release do not have are not compared.  Whoever
forges a row and its event is found only against a checkpoint that was exported before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from governance.core import sql, stated
from governance.core.stated import CHANGED_OUTSIDE, StatedTable
from governance.money import disputes, reservations, routes
from governance.money.books import Difference, read_rows, unbounded
from governance.money.pricing import NAMED
from governance.money.published import COUNTERS

#: An amount as `pricing.text_of` writes it.
AMOUNT = "round({0}, greatest(2, min_scale({0})))::text"


@dataclass(frozen=True)
class Compared:
    """A table whose rows are each written with one event.

    :param check: what its differences are called.
    :param actions: the actions of the events.
    :param rows: SQL that gives `id`, the `subject` of the event, and `row`: members as JSON.
    :param key: the member of the event's details that holds the id.
    :param words: SQL of what the event `e` says, of its details `d`.
    :param member: of the event's body that is taken as its details.
    :param alone: SQL of the words of events that need no row.
    """

    check: str
    actions: tuple[str, ...]
    rows: str
    key: str
    words: str = "d"
    member: str = "details"
    alone: str = "false"

    @property
    def statement(self) -> str:
        """Return the SQL of what differs: a hash join, of one pass over the events."""
        actions = ", ".join(f"'{action}'" for action in self.actions)
        # The inner query stands by itself, so that a body is read once.
        return (
            "SELECT coalesce(r.subject, e.subject) AS subject, coalesce(r.id, e.id) AS id, e.seq,"
            " r.row::text, e.words::text FROM"
            f" ({self.rows}) r FULL JOIN"
            f" (SELECT subject, seq, words, words->>'{self.key}' AS id FROM"
            f" (SELECT e.subject, e.seq, {self.words} AS words FROM"
            " (SELECT subject, seq, at, action, actor, reason,"
            f" governance_body(body)->'{self.member}' AS d FROM governance_auditevent"
            f" WHERE action IN ({actions}) OFFSET 0) e) s OFFSET 0) e"
            " ON e.id = r.id AND e.subject = r.subject"
            f" WHERE e.words IS NULL OR (r.row IS NULL AND NOT ({self.alone}))"
            " OR (NOT e.words @> r.row AND NOT e.words @>"
            " (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(r.row)"
            "   WHERE e.words ? key))"
            " ORDER BY 1, 2"
        )


def object_of(**members: str) -> str:
    """Return the SQL of an object of JSON. :param members: by name the SQL of each."""
    pairs = ", ".join(f"'{name}', {column}" for name, column in members.items())
    return f"jsonb_build_object({pairs})"


_HELD = object_of(
    reservation_id="r.reservation_id", amount=AMOUNT.format("r.amount"), currency="r.currency"
)
#: An instant as events write it.
INSTANT = """to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
_DECIDED = object_of(
    decision="d.decision",
    route_request_id="d.route_request_id",
    reason="nullif(d.reason, '')",
    provider="m.provider",
    model="m.name",
    price_version="nullif(d.price_version, '')",
    position="d.position",
    policy_id="d.policy_id",
    attempt="d.attempt",
    estimated_input_tokens="d.estimated_input_tokens",
    max_output_tokens="d.max_output_tokens",
    content_sha256="d.content_sha256",
    external_request_id="d.external_request_id",
    call="d.call::text",
    **{name: f"d.{name}" for name in routes.STATED if name != "requirements"},
    # A list contains each of its parts, so it is compared as text.
    requirements="d.requirements::text",
    decided_at=INSTANT.format("d.decided_at"),
    reservation=f"CASE WHEN r.reservation_id IS NOT NULL THEN {_HELD} END",
)
_USED = object_of(
    **{name: f"e.{name}" for name in COUNTERS},
    **{name: f"nullif(e.{name}, '')" for name in NAMED},
)
_ENDED = object_of(
    state="e.ended_as",
    actual=AMOUNT.format("e.cost"),
    cost_basis="e.cost_basis",
    overrun="e.overrun",
    usage_missing="e.usage_missing",
    usage_odd="e.usage_odd",
    disputed="e.disputed",
    **{name: f"e.{name}" for name in reservations.STATED},
    resolved_at=INSTANT.format("e.resolved_at"),
    usage=_USED,
)
#: What the number of a request says: whose it is, and which call of it.
_OF_NUMBER = object_of(
    external_request_id="split_part(e.d->>'route_request_id', ':', 1)",
    call="coalesce(nullif(split_part(e.d->>'route_request_id', ':', 3), ''), '1')",
)
#: The two rows of a call: what was decided before it, and its end.
CALLS = (
    Compared(
        "decision",
        ("route.issued", "route.refused"),
        f"SELECT d.decision_id::text AS id, 'job:' || d.job_id AS subject, {_DECIDED} AS row"
        " FROM governance_routedecision d"
        " LEFT JOIN governance_languagemodel m ON m.id = d.model_id"
        " LEFT JOIN governance_reservation r ON r.decision_id = d.decision_id",
        "decision_id",
        words=f"e.d || {_OF_NUMBER} || CASE WHEN e.d ? 'requirements' THEN"
        " jsonb_build_object('requirements', e.d->>'requirements') ELSE '{}' END",
    ),
    Compared(
        "resolution",
        ("reservation.settled", "reservation.failed", "reservation.released"),
        f"SELECT e.reservation_id::text AS id, 'job:' || r.job_id AS subject, {_ENDED} AS row"
        " FROM governance_resolution e"
        " LEFT JOIN governance_reservation r ON r.reservation_id = e.reservation_id",
        "reservation_id",
    ),
)
#: What is beyond what a model can do, and what people said of it.
DISPUTES = (
    Compared(
        "dispute",
        ("ledger.disputed",),
        "SELECT x.dispute_id::text AS id, 'job:' || x.job_id AS subject, "
        + object_of(
            external_request_id="x.external_request_id",
            reservation_id="coalesce(x.resolution_id, u.reservation_id)",
            cost=AMOUNT.format("x.cost"),
            counts=object_of(
                **{name: f"coalesce((x.counts->>'{name}')::bigint, 0)" for name in COUNTERS}
            ),
            **{name: f"x.{name}" for name in disputes.STATED},
            recorded_at=INSTANT.format("x.recorded_at"),
            by="x.recorded_by",
        )
        + " AS row FROM governance_disputeduse x"
        " LEFT JOIN governance_unreserveduse u ON u.use_id = x.use_id",
        "dispute_id",
        words="e.d || jsonb_build_object('by', e.actor)",
    ),
    Compared(
        "dispute_verdict",
        ("ledger.dispute_accepted", "ledger.dispute_dismissed"),
        "SELECT v.dispute_id::text AS id, 'job:' || x.job_id AS subject, "
        + object_of(
            verdict="v.verdict",
            use_id="v.use_id",
            by="v.decided_by",
            reason="v.reason",
            decided_at=INSTANT.format("v.decided_at"),
        )
        + " AS row FROM governance_disputeverdict v"
        " LEFT JOIN governance_disputeduse x ON x.dispute_id = v.dispute_id",
        "dispute_id",
        words="e.d || jsonb_build_object('by', e.actor, 'reason', e.reason)",
    ),
)
_compared: list[Compared] = [*CALLS, *DISPUTES]


def compare(compared: Compared) -> None:
    """Have a further table compared; apps do this when they are ready."""
    if compared not in _compared:
        _compared.append(compared)


def verify() -> Iterator[Difference]:
    """Yield what rows and events contradict each other in.

    Takes no locks and as long as it needs, in constant memory; each statement is one snapshot.
    """
    with unbounded():
        for compared in _compared:
            for row in read_rows(compared.statement):
                yield from _of_event(compared, row)
        for row in read_rows(_configuration(stated.tables())):
            yield from _of_configuration(row)


def _of_event(compared: Compared, row: sql.Row) -> Iterator[Difference]:
    subject = f"{compared.check} {row['id']} of {row['subject']}"
    if row["words"] is None:
        yield Difference(f"{compared.check}.event", subject, "an event of its row", "none")
    elif row["row"] is None:
        event = f"event {row['seq']}"
        yield Difference(f"{compared.check}.row", subject, f"the row of {event}", "none")
    else:
        subject = f"{subject}, event {row['seq']}"
        words, found = json.loads(row["words"]), json.loads(row["row"])
        yield from _members(compared.check, subject, words, found)


def _members(
    check: str, subject: str, words: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[Difference]:
    for name, value in found.items():
        if name not in words:
            continue
        expected = words[name]
        if isinstance(value, dict) and isinstance(expected, dict):
            yield from _members(f"{check}.{name}", subject, expected, value)
        elif value != expected:
            yield Difference(f"{check}.{name}", subject, _shown(expected), _shown(value))


def _configuration(tables: Mapping[str, StatedTable]) -> str:
    """Return the SQL of the rows that are not as the last event states them, one pass for all."""
    rows = " UNION ALL ".join(
        f"SELECT '{table.table}:' || id AS key,"
        f" governance_stated(to_jsonb(t), '{table.arguments[1]}', '{table.arguments[2]}') AS row,"
        # One whose event says it in other words is stated only where it was changed outside.
        f" {not table.matches} AS always FROM {table.table} t"
        for table in tables.values()
    )
    return (
        "SELECT coalesce(r.key, s.key) AS key, s.subject, s.seq, s.action, s.actor, r.row::text,"
        f" s.words::text FROM ({rows}) r FULL JOIN"
        " (SELECT DISTINCT ON (x.key) x.key, nullif(x.value, 'null') AS words, e.subject, e.seq,"
        "   e.action, e.actor FROM (SELECT id, subject, seq, action, actor,"
        "    governance_body(body)->'details'->'rows' AS rows FROM governance_auditevent"
        "    WHERE position('\"rows\":{' IN body) > 0 OFFSET 0) e"
        "  CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(e.rows) WHEN 'object' THEN e.rows"
        "   ELSE '{}' END) x ORDER BY x.key, e.id DESC) s ON s.key = r.key"
        " WHERE (r.row IS DISTINCT FROM s.words AND (r.always OR s.key IS NOT NULL))"
        f" OR s.action = '{CHANGED_OUTSIDE}' ORDER BY 1"
    )


def _of_configuration(row: sql.Row) -> Iterator[Difference]:
    table, _, pk = row["key"].partition(":")
    subject = f"row {pk}"
    if row["subject"] is not None:
        subject += f" of {row['subject']}, event {row['seq']}"
    if row["action"] == CHANGED_OUTSIDE:
        found = f"by {row['actor']}"
        yield Difference(f"{table}.{CHANGED_OUTSIDE}", subject, "changed by a move", found)
    if row["row"] is None and row["words"] is None:
        return
    if row["words"] is None:
        yield Difference(f"{table}.event", subject, "an event that states it", "none")
    elif row["row"] is None:
        yield Difference(f"{table}.row", subject, "the row that its event states", "none")
    else:
        yield from _members(table, subject, json.loads(row["words"]), json.loads(row["row"]))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
