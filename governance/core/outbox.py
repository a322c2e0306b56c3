"""Facts: what the outside world is told, written in the transaction of what they tell.

A fact belongs to a stream (`job:<uuid>`) whose next number stands on the stream's locked row, so
that numbers are gapless and in commit order.  Relaying is the business of `manage.py relay`.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from uuid_utils.compat import uuid7

from governance.core import audit, sql
from governance.core.models import Fact

#: CloudEvents `type` prefix of the facts that the service itself states.
TYPE_PREFIX = "dev.fencepost."
#: Whose facts have ids that the service makes, which nobody restates.
SYSTEM = "system"


def fact(
    *,
    stream: str,
    sequence: int,
    kind: str,
    at: datetime,
    data: dict[str, Any],
    principal: str = SYSTEM,
) -> Fact:
    """Return a fact of the service itself, unsaved. The caller holds the stream's row lock.

    :param kind: `noun.past_tense`, the same word as the audit event's action.
    """
    receipt = uuid7()
    return Fact(
        fact_id=str(receipt),
        principal=principal,
        stream=stream,
        sequence=sequence,
        type=TYPE_PREFIX + kind,
        data=data,
        content_sha256=hashlib.sha256(audit.encode(data)).hexdigest(),
        receipt_id=receipt,
        recorded_at=at,
    )


# Locks: the stream's counter, until the transaction ends.
NEXT_IN_STREAM = """
INSERT INTO governance_factstream (name, sequence) VALUES (%s, 1)
    ON CONFLICT (name) DO UPDATE SET sequence = governance_factstream.sequence + 1
RETURNING sequence
"""


def next_in_stream(name: str) -> int:
    """Return the next number of a stream that is not a job's, and hold its counter."""
    [[row]] = sql.pipeline(sql.Statement(NEXT_IN_STREAM, (name,)))
    return int(row["sequence"])
