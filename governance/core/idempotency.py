"""Run a keyed request once; give its answer again.

Record and effect commit in one transaction, so a crash leaves neither without the other.  Whoever
executes a key holds an advisory lock that dies with its transaction: no key stays in flight.

Source: draft-ietf-httpapi-idempotency-key-header-06; retention as published in the contract.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
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

TAKE = "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s)) AS taken"
FIND = (
    "SELECT digest, status, headers::text, body FROM governance_idempotencyrecord"
    " WHERE principal = %s AND operation = %s AND key = %s"
)
KEEP = """
INSERT INTO governance_idempotencyrecord
       (principal, operation, key, digest, status, headers, body, created_at, expires_at)
SELECT %s, %s, %s, %s, %s, %s::jsonb, %s, n.now, n.now + make_interval(days => %s)
  FROM (SELECT clock_timestamp() AS now) n
"""


@dataclass(frozen=True)
class Answer:
    """What a request is answered with. `recorded` false: not kept under the idempotency key."""

    status: int
    body: dict[str, Any] | bytes
    headers: dict[str, str] = field(default_factory=dict)
    recorded: bool = True
    replayed: bool = False

    @property
    def content(self) -> bytes:
        """The body as it goes over the wire."""
        return self.body if isinstance(self.body, bytes) else encode(self.body)


@dataclass(frozen=True)
class Key:
    """The identity of a keyed request: `digest` covers all that must be equal in a repetition."""

    principal: str
    operation: str
    key: UUID
    digest: bytes


def encode(body: dict[str, Any]) -> bytes:
    """Return the JSON text of an answer."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=str).encode()


def request_digest(*, method: str, operation: str, path: dict[str, Any], canonical: bytes) -> bytes:
    """Return the SHA-256 of a request: version, method, operation, path parameters, body."""
    head = "\n".join(["v1", method, operation, json.dumps(path, sort_keys=True, default=str), ""])
    return hashlib.sha256(head.encode() + canonical).digest()


def once(
    run: Callable[[], Answer],
    *,
    key: Key | None = None,
    gate: Callable[[], None] | None = None,
) -> Answer:
    """Run `run` in one transaction, at most once per key, and return its answer.

    `gate` is evaluated in the transaction before a stored answer is given: who is no longer
    allowed to act gets no replay either.  A refusal rolls back what `run` wrote; it is kept as
    the key's answer, and returned as one, where repeating it could never help.  Without key and
    gate the one move of `run` is the transaction.

    :raises DomainError: what `gate` or `run` refuse otherwise; `IdempotencyInFlight`,
        `IdempotencyKeyReused`, `IdempotencyKeyExpired`; `Contention` after bounded tries.
    """
    for attempt in range(1, TRIES_MAX + 1):
        try:
            return _once(run, key, gate)
        except OperationalError as error:
            if sql.sqlstate(error) not in RETRIED_STATES:
                raise
            if attempt == TRIES_MAX:
                raise Contention(after_seconds=1) from error
            time.sleep(random.uniform(0, 0.05 * 2**attempt))
    raise AssertionError("unreachable")


def _once(run: Callable[[], Answer], key: Key | None, gate: Callable[[], None] | None) -> Answer:
    if key is None and gate is None:
        return run()  # one move, which is a transaction by itself
    judged = False
    try:
        with sql.transaction_of_one_move():
            found = _take(key) if key is not None else None
            if gate is not None:
                gate()
            if found is not None and key is not None:
                return _replay(found, key)
            judged = True
            answer = run()
            if key is not None and answer.recorded:
                _keep(key, answer)
        return answer
    except DomainError as error:
        if key is None or not judged or not error.stored:
            raise
        return _keep_refusal(
            key, Answer(error.status, error.as_problem(instance=audit.request_urn()))
        )


def _keep_refusal(key: Key, answer: Answer) -> Answer:
    """Keep a refusal whose transaction is undone; give what a rival was answered meanwhile."""
    with transaction.atomic(durable=True):
        if (found := _take(key)) is not None:
            return _replay(found, key)
        _keep(key, answer)
    return answer


def _take(key: Key) -> sql.Row | None:
    """Hold the key until the end of the transaction and return its record, if there is one.

    :raises IdempotencyInFlight: somebody else holds it; nobody waits.
    """
    # The record is read in the statement after the lock, so that what its last holder committed
    # is seen. Index: idempotency_key_once.
    [[lock], records] = sql.pipeline(
        sql.Statement(TAKE, (LOCK_CLASS, f"{key.principal}|{key.operation}|{key.key}")),
        sql.Statement(FIND, (key.principal, key.operation, key.key)),
    )
    if not lock["taken"]:
        raise IdempotencyInFlight(after_seconds=1)
    return records[0] if records else None


def _replay(found: sql.Row, key: Key) -> Answer:
    if bytes(found["digest"]) != key.digest:
        raise IdempotencyKeyReused()
    if found["body"] is None:
        raise IdempotencyKeyExpired("The answer of this key is no longer kept.")
    return Answer(
        found["status"], bytes(found["body"]), json.loads(found["headers"]), replayed=True
    )


def _keep(key: Key, answer: Answer) -> None:
    row = (
        key.principal,
        key.operation,
        key.key,
        key.digest,
        answer.status,
        json.dumps(answer.headers),
        answer.content,
        TOMBSTONE_DAYS,
    )
    sql.pipeline(sql.Statement(KEEP, row))


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
