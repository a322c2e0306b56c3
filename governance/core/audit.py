"""The audit chain: what is appended to it, and as which bytes.

Each subject (`job:<uuid>`, `agent:<name>`, `fleet` ...) has a chain of its own, whose end stands
on the subject's row.  Whoever appends holds that row's lock, so chains neither fork nor queue
behind one another: `hash = sha256(prev_hash || body)` over the bytes that are stored.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from django.db.models import Model

from governance.core import stated
from governance.core.models import GENESIS, AuditEvent, ChainHead

#: The id of the request that is being served, for events and log lines.
current_request_id: ContextVar[str] = ContextVar("current_request_id", default="")
#: The account that runs a command which acts as somebody else.
_ran_by: ContextVar[str] = ContextVar("ran_by", default="")


def request_urn() -> str:
    """Return the URN of the request that is being served, for `instance` of a problem."""
    return f"urn:fencepost:request:{current_request_id.get()}"


def shell_actor() -> str:
    """Return who acts at a shell, where no `--actor` says otherwise: `command:<system user>`."""
    try:
        return f"command:{getpass.getuser()}"
    except (KeyError, OSError):
        return "command:unknown"


@contextmanager
def at_a_shell(named: str) -> Iterator[str]:
    """Give the actor of a command: whom `--actor` names, else the system account that runs it.

    A name at a shell is a claim that nobody has checked: each event of the block also says, as
    `ran_by` in its details, which account ran the command.
    """
    account = shell_actor()
    token = _ran_by.set(account if named not in ("", account) else "")
    try:
        yield named or account
    finally:
        _ran_by.reset(token)


def chain(
    head: ChainHead,
    *,
    subject: str,
    action: str,
    actor: str,
    at: datetime,
    reason: str = "",
    before: Any = None,
    after: Any = None,
    details: dict[str, Any] | None = None,
) -> AuditEvent:
    """Return the next event of the chain that ends at `head`, unsaved, and advance `head`.

    The caller holds the lock on the head's row and writes both: the event, and the head's
    `audit_seq` and `audit_head`.

    :param action: `noun.past_tense`, as `job.claimed`.
    :param details: JSON values that explain the event; never secrets, never payloads.
    """
    seq = head.audit_seq + 1
    request_id = current_request_id.get()
    details = dict(details or {})
    if ran_by := _ran_by.get():
        details["ran_by"] = ran_by
    body = encode(
        {
            "subject": subject,
            "seq": seq,
            "at": at.isoformat(),
            "action": action,
            "actor": actor,
            "reason": reason,
            "request_id": request_id,
            "before": before,
            "after": after,
            "details": details,
        }
    )
    prev_hash = bytes(head.audit_head or GENESIS)
    event = AuditEvent(
        subject=subject,
        seq=seq,
        at=at,
        action=action,
        actor=actor,
        reason=reason,
        request_id=request_id,
        body=body,
        prev_hash=prev_hash,
        hash=link(prev_hash, body),
    )
    head.audit_seq, head.audit_head = seq, event.hash
    return event


def record(
    head: ChainHead, *, subject: str = "", rows: Iterable[Model] = (), **event: Any
) -> AuditEvent:
    """Append an event and save it and the head. For subjects that are not on a hot path.

    Takes what `chain` takes; `subject` defaults to the head's own `audit_subject`.

    :param rows: rows of configuration that were saved, changed or deleted; the event states them
        as they are now.
    """
    named = subject or head.audit_subject  # type: ignore[attr-defined]
    if found := stated.of_rows(rows):
        event["details"] = {**(event.get("details") or {}), stated.ROWS: found}
    appended = chain(head, subject=named, **event)
    appended.save(force_insert=True)
    type(head)._default_manager.filter(pk=head.pk).update(
        audit_seq=head.audit_seq, audit_head=head.audit_head
    )
    return appended


def encode(body: dict[str, Any]) -> bytes:
    """Return the bytes that are hashed and stored. Verification never re-encodes them."""
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    ).encode()


def link(prev_hash: bytes, body: bytes) -> bytes:
    """Return the hash of an event from the one before it and its own bytes."""
    return hashlib.sha256(prev_hash + body).digest()
