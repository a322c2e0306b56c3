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
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.utils import OperationalError

from governance.core import audit, sql
from governance.core.clock import instant
from governance.core.digests import canonical
from governance.core.errors import (
    Contention,
    DomainError,
    FieldFault,
    IdempotencyInFlight,
    IdempotencyKeyExpired,
    IdempotencyKeyInvalid,
    IdempotencyKeyReused,
    InvalidArgument,
)

FULL_ANSWER_DAYS = 7
#: How long a record is kept of a key that says by itself when it was made, and is refused after.
TOMBSTONE_DAYS = 30
#: Of any other key, which nobody can tell the age of.
UNDATED_TOMBSTONE_DAYS = 90
#: How far ahead the clock of whoever makes keys may be.
CLOCK_SKEW_DAYS = 1
#: Nobody made a UUID of version 7 before 2020: the clock that says so was never set.
CLOCK_SET_MS = 1_577_836_800_000
#: The form of digests in new records. Those of version 1 are compared as they were made.
DIGEST_VERSION = 2
OPERATION_ID_CHARS_MAX = 120
_OPERATION_ID = re.compile(rf"[!-~]([ -~]{{0,{OPERATION_ID_CHARS_MAX - 2}}}[!-~])?")
TRIES_MAX = 3
#: First argument of the two-key advisory locks on idempotency keys.
LOCK_CLASS = 2
#: SQLSTATEs after which the whole transaction may be tried again: it has done nothing.
RETRIED_STATES = frozenset({"40001", "40P01", "55P03"})
#: The outcome of an answer that is a problem document.
REFUSED = "refused"

TAKE = "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s)) AS taken"
# Index: idempotency_scope_once.
FIND = (
    "SELECT digest, digest_version, outcome, status, body FROM governance_idempotencyrecord"
    " WHERE principal = %s AND operation = %s AND operation_id = %s AND key = %s"
)
# Around a statement that locks: nothing of it is executed for a key that has its answer, or that
# somebody else executes. The lock is held already by then, or is not to be had; asked for again it
# says which. A condition without columns is evaluated once, before the first row.
UNLESS_ANSWERED = (
    "SELECT fresh.* FROM ({statement}) AS fresh"
    " WHERE (SELECT pg_try_advisory_xact_lock({key_class}, hashtext({key_text})) AND NOT EXISTS ("
    "SELECT FROM governance_idempotencyrecord"
    " WHERE principal = {principal} AND operation = {operation}"
    " AND operation_id = {operation_id} AND key = {key}))"
)
KEEP = """
INSERT INTO governance_idempotencyrecord
       (principal, operation, operation_id, key, digest, digest_version, outcome, status, headers,
        body, created_at, expires_at)
SELECT %s, %s, %s, %s, %s, %s::smallint, %s, %s::smallint, '{}',
       %s, n.now, n.now + make_interval(days => %s)
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
    :param kept_as: what is kept in place of the body: names of rows, of which a stored answer is
        rendered as they stand then.
    """

    outcome: str
    body: Mapping[str, Any] | list[Any] | bytes
    status: int | None = None
    recorded: bool = True
    replayed: bool = False
    moment: Mapping[str, Any] = field(default_factory=dict)
    kept_as: Mapping[str, Any] | None = None

    @classmethod
    def of_refusal(cls, refusal: DomainError) -> Answer:
        """Return a refusal whose transaction commits: it has recorded something.

        It is kept under the request's key by the same rule as one that is raised.
        """
        problem = refusal.as_problem(instance=audit.request_urn(), of_write=True)
        return cls(REFUSED, problem, refusal.status, recorded=refusal.stored)

    @property
    def kept(self) -> bytes:
        """Return the JSON text of what is kept: the body or its names, nothing of the moment."""
        return self._text if self.kept_as is None else encode(self.kept_as)

    @property
    def content(self) -> bytes:
        """Return the JSON text that is given."""
        return encode(self.members) if self.moment else self._text

    @property
    def _text(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else encode(self.body)

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

    `operation_id` is empty for the operation's own name, which is the default. `digest_v1` gives
    the digest of the same request in the form of version 1, for the records that have one.

    `used` says that `once` was called with it; `judged`, that the open transaction has asked for
    the stored answer, and has found none: what is refused before that (a session that is
    superseded, say) is no answer to keep.
    """

    principal: str
    operation: str
    key: UUID
    digest: bytes
    operation_id: str = ""
    digest_v1: Callable[[], bytes] | None = None
    used: bool = False
    judged: bool = False

    @property
    def statements(self) -> tuple[sql.Statement, sql.Statement]:
        """Return the lock, and after it the record: what its last holder committed is seen."""
        return (
            sql.Statement(TAKE, (LOCK_CLASS, self._text)),
            sql.Statement(FIND, self._scope),
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
            "operation_id": self.operation_id,
            "key": self.key,
        }
        named = isinstance(statement.params, dict)
        text = _unless_answered(statement.sql, tuple(values), named)
        if isinstance(statement.params, dict):
            return sql.Statement(text, statement.params | values)
        return sql.Statement(text, (*statement.params, *values.values()))

    def judge(
        self, locks: Sequence[sql.Row], records: Sequence[sql.Row], *, session_pk: int | None = None
    ) -> None:
        """Go on with what `statements` answered, or give the stored answer by raising it.

        :param session_pk: the session that asks, as the gate has read it.
        :raises Answered: the request has its answer; `once` gives it.
        :raises IdempotencyInFlight: somebody else executes it; nobody waits.
        :raises IdempotencyKeyReused, IdempotencyKeyExpired: it has another request's answer, or
            one that is no longer kept.
        """
        if not locks[0]["taken"]:
            raise IdempotencyInFlight(after_seconds=1)
        for record in records:
            raise Answered(_replay(record, self), session_pk)
        self.judged = True

    def keep(self, answer: Answer) -> sql.Statement:
        """Return the statement that keeps the answer under the key."""
        return sql.Statement(
            KEEP,
            (
                *self._scope,
                self.digest,
                DIGEST_VERSION,
                answer.outcome,
                answer.status,
                answer.kept,
                TOMBSTONE_DAYS if self.key.version == 7 else UNDATED_TOMBSTONE_DAYS,
            ),
        )

    @property
    def _scope(self) -> tuple[str, str, str, UUID]:
        return (self.principal, self.operation, self.operation_id, self.key)

    @property
    def _text(self) -> str:
        # Without an Operation-Id it is what it was before there was one.
        text = f"{self.principal}|{self.operation}|{self.key}"
        return f"{text}|{self.operation_id}" if self.operation_id else text


class Answered(Exception):
    """The request has its stored answer: the transaction that found it has nothing more to do.

    `session_pk` is the session that asks again, where the gate has read one.
    """

    def __init__(self, answer: Answer, session_pk: int | None = None) -> None:
        super().__init__()
        self.answer = answer
        self.session_pk = session_pk


#: Renders a stored answer of the names that are kept of it, in the transaction that found it.
Render = Callable[[Answered], Answer]


@lru_cache
def _unless_answered(statement: str, names: tuple[str, ...], named: bool) -> str:
    places = {name: f"%({name})s" if named else "%s" for name in names}
    return UNLESS_ANSWERED.format(statement=statement, **places)


def encode(body: Mapping[str, Any] | list[Any]) -> bytes:
    """Return the JSON text of an answer."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=str).encode()


def request_digest(
    *, operation: str, identity: Mapping[str, Any], request: Any, version: int = DIGEST_VERSION
) -> bytes:
    """Return the SHA-256 of a request: the same for the same request, whatever carries it.

    :param operation: its stable name.
    :param identity: what the call is about, each name in its type.
    :param request: of version 2 the validated request, as JSON or with instants and UUIDs in it;
        of version 1, of which no new digests are kept, the body as it was sent.
    """
    if version == 1:
        named = json.dumps(dict(identity), sort_keys=True, default=str)
        head = "\n".join(["v1", "POST", operation, named, ""])
        return hashlib.sha256(head.encode() + canonical(request)).digest()
    content = {"version": version, "operation": operation, "identity": identity, "request": request}
    return hashlib.sha256(canonical(_as_json(content))).digest()


def _as_json(value: Any) -> Any:
    """Return a validated value as JSON: instants in UTC, UUIDs as text."""
    if isinstance(value, Mapping):
        return {name: _as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(member) for member in value]
    if isinstance(value, datetime):
        return instant(value)
    return str(value) if isinstance(value, UUID) else value


def once(
    run: Callable[[], Answer],
    *,
    key: Key | None = None,
    at_gate: bool = False,
    render: Render | None = None,
) -> Answer:
    """Run `run` in one transaction, at most once per key, and return its answer.

    A refusal rolls back what `run` wrote; it is kept as the key's answer, and returned as one,
    where repeating it could never help.  Without a key the one move of `run` is the transaction.

    :param at_gate: `run` takes the key itself, once it has the advisory lock of an agent; who is
        no longer allowed to act gets no stored answer either.
    :param render: gives the stored answer of what is kept in its place; refusals are kept whole.
    :raises DomainError: what `run` refuses otherwise; `IdempotencyInFlight`,
        `IdempotencyKeyReused`, `IdempotencyKeyExpired`; `Contention` after bounded tries.
    """
    for attempt in range(1, TRIES_MAX + 1):
        try:
            return run() if key is None else _once(run, key, at_gate, render)
        except OperationalError as error:
            if sql.sqlstate(error) not in RETRIED_STATES:
                raise
            if attempt == TRIES_MAX:
                raise Contention(after_seconds=1) from error
            time.sleep(random.uniform(0, 0.05 * 2**attempt))
    raise AssertionError("unreachable")


def _once(run: Callable[[], Answer], key: Key, at_gate: bool, render: Render | None) -> Answer:
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
                return _given(found, render)
            assert key.judged, f"{key.operation} has not asked for the stored answer"
            if answer.recorded:
                sql.commit_with(key.keep(answer))
            return answer
    except DomainError as refusal:
        if not (key.judged and refusal.stored):
            raise
        return _keep_refusal(key, Answer.of_refusal(refusal), render)


def _given(found: Answered, render: Render | None) -> Answer:
    """Return the stored answer as it is given now."""
    return found.answer if render is None or found.answer.refuses else render(found)


def take(key: Key | None) -> None:
    """Take the key of the request, if it has one, until the end of the transaction.

    :raises: as `Key.judge` does.
    """
    if key is not None:
        key.judge(*sql.pipeline(*key.statements))


def _keep_refusal(key: Key, answer: Answer, render: Render | None) -> Answer:
    """Keep a refusal whose transaction is undone; give what a rival was answered meanwhile."""
    with sql.transaction_of_one_move():
        try:
            take(key)
        except Answered as found:
            return _given(found, render)
        sql.commit_with(key.keep(answer))
    return answer


def _replay(record: sql.Row, key: Key) -> Answer:
    if bytes(record["digest"]) != _comparable(key, record["digest_version"]):
        raise IdempotencyKeyReused()
    if record["body"] is None:
        raise IdempotencyKeyExpired("The answer of this key is no longer kept.")
    body = bytes(record["body"])
    return Answer(record["outcome"], body, record["status"], replayed=True)


def _comparable(key: Key, version: int) -> bytes | None:
    """Return the digest of the request in the form that the record has it in."""
    if version == DIGEST_VERSION:
        return key.digest
    return key.digest_v1() if key.digest_v1 is not None else None


def read_key(text: str, *, now_ms: int) -> UUID:
    """Return the key that a caller has sent: a UUID of any version, neither nil nor max.

    :param now_ms: Unix time in milliseconds, with which the key's own is compared.
    :raises IdempotencyKeyInvalid: it is none, or as `check_age`.
    :raises IdempotencyKeyExpired: it is older than the records.
    """
    try:
        key = UUID(text)
    except ValueError:
        raise IdempotencyKeyInvalid() from None
    if key.int in (0, 2**128 - 1):
        raise IdempotencyKeyInvalid("The nil and the max UUID name no request.")
    check_age(key, now_ms=now_ms)
    return key


def check_age(key: UUID, *, now_ms: int) -> None:
    """Refuse a key that is older than the records are kept: it may have been executed.

    Of version 7 alone: no other key tells its age in a way that clients rely on.

    :raises IdempotencyKeyInvalid: its time is more than a day after `now_ms`, or that of a clock
        that was never set.
    :raises IdempotencyKeyExpired: it is more than 30 days before `now_ms`.
    """
    if key.version != 7:
        return
    made_ms = key.int >> 80
    # Its record would be gone before the key is too old, and the request be executed again.
    if made_ms - now_ms > CLOCK_SKEW_DAYS * 86_400_000:
        raise IdempotencyKeyInvalid(
            "The time in the Idempotency-Key lies in the future; look at your clock."
        )
    if made_ms < CLOCK_SET_MS:
        raise IdempotencyKeyInvalid(
            "The time in the Idempotency-Key is that of a clock that was never set; look at yours."
        )
    if now_ms - made_ms > TOMBSTONE_DAYS * 86_400_000:
        raise IdempotencyKeyExpired()


def read_operation_id(text: str | None, *, operation: str) -> str:
    """Return the part of a key's scope that a caller names; empty for the operation's own name.

    :raises InvalidArgument: it is not 1 to 120 printable ASCII characters without blank ends.
    """
    if text is None or text == operation:
        return ""
    if not _OPERATION_ID.fullmatch(text):
        detail = f"1 to {OPERATION_ID_CHARS_MAX} printable ASCII characters, no blank at an end"
        raise InvalidArgument(
            "The Operation-Id is not valid.", errors=[FieldFault("/operation_id", detail)]
        )
    return text
