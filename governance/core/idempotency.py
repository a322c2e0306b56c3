"""Run a keyed request once; give its answer again.

Record and effect commit in one transaction, so a crash leaves neither without the other.  Whoever
executes a key holds an advisory lock that dies with its transaction: no key stays in flight.

A write of a worker takes its key at the gate, behind the advisory lock of its agent and in the
same round trip: `agents.entry.enter` sends `Key.statements`, lets what it locks depend on them by
`Key.unless_answered`, and asks `Key.judge` once it knows that the caller may act.  Whatever has no
gate takes it by `take`.

Source: draft-ietf-httpapi-idempotency-key-header-06; retention as published in the contract,
section 3.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.utils import OperationalError

from governance.core import audit, sql
from governance.core.errors import (
    Contention,
    DomainError,
    IdempotencyInFlight,
    IdempotencyKeyExpired,
    IdempotencyKeyInvalid,
    IdempotencyKeyReused,
)

FULL_ANSWER_DAYS = 7
TOMBSTONE_DAYS = 30
#: How far ahead the clock of whoever makes keys may be.
CLOCK_SKEW_DAYS = 1
TRIES_MAX = 3
#: First argument of the two-key advisory locks on idempotency keys.
LOCK_CLASS = 2
#: SQLSTATEs after which the whole transaction may be tried again: it has done nothing.
RETRIED_STATES = frozenset({"40001", "40P01", "55P03"})
#: The outcome of an answer that is a problem document.
REFUSED = "refused"

TAKE = "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s)) AS taken"
# Index: idempotency_key_once.
FIND = (
    "SELECT digest, outcome, status, body FROM governance_idempotencyrecord"
    " WHERE principal = %s AND operation = %s AND key = %s"
)
# Around a statement that locks: nothing of it is executed for a key that has its answer, or that
# somebody else executes. The lock is held already by then, or is not to be had; asked for again it
# says which. A condition without columns is evaluated once, before the first row.
UNLESS_ANSWERED = (
    "SELECT fresh.* FROM ({statement}) AS fresh"
    " WHERE (SELECT pg_try_advisory_xact_lock({key_class}, hashtext({key_text})) AND NOT EXISTS ("
    "SELECT FROM governance_idempotencyrecord"
    " WHERE principal = {principal} AND operation = {operation} AND key = {key}))"
)
KEEP = """
INSERT INTO governance_idempotencyrecord
       (principal, operation, key, digest, outcome, status, headers, body, created_at, expires_at)
SELECT %s, %s, %s, %s, %s, %s::smallint, '{}', %s, n.now, n.now + make_interval(days => %s)
  FROM (SELECT clock_timestamp() AS now) n
"""


@dataclass(frozen=True)
class Answer:
    """What a request is answered with, whatever carries it.

    :param outcome: one word of the operation's `outcomes`, or `REFUSED`.
    :param body: its members, a bare list, or the JSON text that was kept of either.
    :param status: of a refusal, or of an answer that was kept without its outcome; else None: what
        carries the answer has a status of its own for each outcome.
    :param recorded: whether it is kept under the request's key.
    :param moment: members that are true only as it is given, durations and permissions; they are
        never kept, and a stored answer is given with new ones.
    """

    outcome: str
    body: Mapping[str, Any] | list[Any] | bytes
    status: int | None = None
    recorded: bool = True
    replayed: bool = False
    moment: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_refusal(cls, refusal: DomainError) -> Answer:
        """Return a refusal whose transaction commits: it has recorded something.

        It is kept under the request's key by the same rule as one that is raised.
        """
        problem = refusal.as_problem(instance=audit.request_urn(), of_write=True)
        return cls(REFUSED, problem, refusal.status, recorded=refusal.stored)

    @property
    def kept(self) -> bytes:
        """Return the JSON text of what is kept: the body, and nothing of the moment."""
        return self.body if isinstance(self.body, bytes) else encode(self.body)

    @property
    def content(self) -> bytes:
        """Return the JSON text that is given."""
        return encode(self.members) if self.moment else self.kept

    @property
    def members(self) -> Mapping[str, Any]:
        """Return what is given, as an object."""
        body = json.loads(self.body) if isinstance(self.body, bytes) else self.body
        assert isinstance(body, Mapping), "a bare list has no members"
        return {**body, **self.moment} if self.moment else body

    @property
    def refuses(self) -> bool:
        """Return whether it is a refusal, as far as what was kept of it tells."""
        return self.outcome == REFUSED or (self.status or 0) >= 400


@dataclass
class Key:
    """The identity of a keyed request: `digest` covers all that must be equal in a repetition.

    `used` says that `once` was called with it; `judged`, that the open transaction has asked for
    the stored answer, and has found none: what is refused before that (a session that is
    superseded, say) is no answer to keep.
    """

    principal: str
    operation: str
    key: UUID
    digest: bytes
    used: bool = False
    judged: bool = False

    @property
    def statements(self) -> tuple[sql.Statement, sql.Statement]:
        """Return the lock, and after it the record: what its last holder committed is seen."""
        return (
            sql.Statement(TAKE, (LOCK_CLASS, self._text)),
            sql.Statement(FIND, (self.principal, self.operation, self.key)),
        )

    def unless_answered(self, statement: sql.Statement) -> sql.Statement:
        """Return a statement that locks rows only where the request is to be executed.

        A repetition so neither waits for a job nor takes claimable ones from others.
        """
        values = {
            "key_class": LOCK_CLASS,
            "key_text": self._text,
            "principal": self.principal,
            "operation": self.operation,
            "key": self.key,
        }
        named = isinstance(statement.params, dict)
        text = _unless_answered(statement.sql, tuple(values), named)
        if isinstance(statement.params, dict):
            return sql.Statement(text, statement.params | values)
        return sql.Statement(text, (*statement.params, *values.values()))

    def judge(self, locks: Sequence[sql.Row], records: Sequence[sql.Row]) -> None:
        """Go on with what `statements` answered, or give the stored answer by raising it.

        :raises Answered: the request has its answer; `once` gives it.
        :raises IdempotencyInFlight: somebody else executes it; nobody waits.
        :raises IdempotencyKeyReused, IdempotencyKeyExpired: it has another request's answer, or
            one that is no longer kept.
        """
        if not locks[0]["taken"]:
            raise IdempotencyInFlight(after_seconds=1)
        for record in records:
            raise Answered(_replay(record, self.digest))
        self.judged = True

    def keep(self, answer: Answer) -> sql.Statement:
        """Return the statement that keeps the answer under the key."""
        return sql.Statement(
            KEEP,
            (
                self.principal,
                self.operation,
                self.key,
                self.digest,
                answer.outcome,
                answer.status,
                answer.kept,
                TOMBSTONE_DAYS,
            ),
        )

    @property
    def _text(self) -> str:
        return f"{self.principal}|{self.operation}|{self.key}"


class Answered(Exception):
    """The request has its stored answer: the transaction that found it has nothing more to do."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


@lru_cache
def _unless_answered(statement: str, names: tuple[str, ...], named: bool) -> str:
    places = {name: f"%({name})s" if named else "%s" for name in names}
    return UNLESS_ANSWERED.format(statement=statement, **places)


def encode(body: Mapping[str, Any] | list[Any]) -> bytes:
    """Return the JSON text of an answer."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=str).encode()


def request_digest(*, operation: str, identity: Mapping[str, Any], canonical: bytes) -> bytes:
    """Return the SHA-256 of a request: operation, what it is about, and its canonical body.

    The version of the form and `POST` are from when HTTP alone carried requests; whatever carries
    them now says the same, so that their records are shared.
    """
    named = json.dumps(dict(identity), sort_keys=True, default=str)
    head = "\n".join(["v1", "POST", operation, named, ""])
    return hashlib.sha256(head.encode() + canonical).digest()


def once(run: Callable[[], Answer], *, key: Key | None = None, at_gate: bool = False) -> Answer:
    """Run `run` in one transaction, at most once per key, and return its answer.

    A refusal rolls back what `run` wrote; it is kept as the key's answer, and returned as one,
    where repeating it could never help.  Without a key the one move of `run` is the transaction.

    :param at_gate: `run` takes the key itself, once it has the advisory lock of an agent; who is
        no longer allowed to act gets no stored answer either.
    :raises DomainError: what `run` refuses otherwise; `IdempotencyInFlight`,
        `IdempotencyKeyReused`, `IdempotencyKeyExpired`; `Contention` after bounded tries.
    """
    for attempt in range(1, TRIES_MAX + 1):
        try:
            return run() if key is None else _once(run, key, at_gate)
        except OperationalError as error:
            if sql.sqlstate(error) not in RETRIED_STATES:
                raise
            if attempt == TRIES_MAX:
                raise Contention(after_seconds=1) from error
            time.sleep(random.uniform(0, 0.05 * 2**attempt))
    raise AssertionError("unreachable")


def _once(run: Callable[[], Answer], key: Key, at_gate: bool) -> Answer:
    key.used, key.judged = True, False
    try:
        with sql.transaction_of_one_move():
            try:
                if not at_gate:
                    take(key)
                answer = run()
            except Answered as found:
                # Nothing was written. A transaction that is undone costs the connection all that
                # it has prepared.
                return found.answer
            assert key.judged, f"{key.operation} has not asked for the stored answer"
            if answer.recorded:
                sql.commit_with(key.keep(answer))
            return answer
    except DomainError as refusal:
        if not (key.judged and refusal.stored):
            raise
        return _keep_refusal(key, Answer.of_refusal(refusal))


def take(key: Key | None) -> None:
    """Take the key of the request, if it has one, until the end of the transaction.

    :raises: as `Key.judge` does.
    """
    if key is not None:
        key.judge(*sql.pipeline(*key.statements))


def _keep_refusal(key: Key, answer: Answer) -> Answer:
    """Keep a refusal whose transaction is undone; give what a rival was answered meanwhile."""
    with sql.transaction_of_one_move():
        try:
            take(key)
        except Answered as found:
            return found.answer
        sql.commit_with(key.keep(answer))
    return answer


def _replay(record: sql.Row, digest: bytes) -> Answer:
    if bytes(record["digest"]) != digest:
        raise IdempotencyKeyReused()
    if record["body"] is None:
        raise IdempotencyKeyExpired("The answer of this key is no longer kept.")
    body = bytes(record["body"])
    return Answer(record["outcome"], body, record["status"], replayed=True)


def read_key(text: str, *, now_ms: int) -> UUID:
    """Return the key that a caller has sent.

    :param now_ms: Unix time in milliseconds, with which the key's own is compared.
    :raises IdempotencyKeyInvalid: it is no UUID of version 7, or its time lies in the future.
    :raises IdempotencyKeyExpired: it is older than the records.
    """
    try:
        key = UUID(text)
    except ValueError:
        raise IdempotencyKeyInvalid() from None
    if key.version != 7:
        raise IdempotencyKeyInvalid()
    check_age(key, now_ms=now_ms)
    return key


def check_age(key: UUID, *, now_ms: int) -> None:
    """Refuse a key that is older than the records are kept: it may have been executed.

    :raises IdempotencyKeyInvalid: its UUIDv7 time is more than a day after `now_ms`.
    :raises IdempotencyKeyExpired: it is more than 30 days before `now_ms`.
    """
    made_ms = key.int >> 80
    # Its record would be gone before the key is too old, and the request be executed again.
    if made_ms - now_ms > CLOCK_SKEW_DAYS * 86_400_000:
        raise IdempotencyKeyInvalid("The time in the Idempotency-Key lies in the future.")
    if now_ms - made_ms > TOMBSTONE_DAYS * 86_400_000:
        raise IdempotencyKeyExpired()
