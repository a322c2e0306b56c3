"""What is not kept for ever: answers of idempotency keys, content of facts that everybody has.

Each function removes one bounded batch in a transaction of its own, and skips rows that somebody
else has locked, so that several may run.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection, transaction

from governance.core import outbox
from governance.core.idempotency import CLOCK_SKEW_DAYS, FULL_ANSWER_DAYS

#: As long as any key is remembered; after that only the receipt of a fact is kept.
PUBLISHED_FACT_DAYS = 90
ROWS_PER_BATCH = 1_000

# Locks: the rows it empties. Index: idempotency_body_age_idx.
DROP_BODIES = """
WITH old AS MATERIALIZED (
    SELECT id FROM governance_idempotencyrecord
     WHERE body IS NOT NULL AND created_at < clock_timestamp() - make_interval(days => %s)
     ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE governance_idempotencyrecord r SET body = NULL, headers = '{}' FROM old WHERE r.id = old.id
"""

# Locks: the rows it deletes. Index: idempotency_expiry_idx; how long a record is kept depends on
# its key, and stands in it.
DROP_TOMBSTONES = """
WITH old AS MATERIALIZED (
    SELECT id FROM governance_idempotencyrecord
     WHERE expires_at < clock_timestamp() - make_interval(days => %s)
     ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED)
DELETE FROM governance_idempotencyrecord r USING old WHERE r.id = old.id
"""

# Locks: the rows it deletes. Walks the primary key from its start, where the oldest facts are,
# and stops at the first fact that is younger: a page may hold nothing to delete, since facts that
# wait stay.
PAGE_OF_FACTS = """
SELECT id, published_at < clock_timestamp() - make_interval(days => %(days)s) AS old,
       recorded_at < clock_timestamp() - make_interval(days => %(days)s) AS aged
  FROM governance_fact WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
"""
# What agents stated under ids of their own choice leaves its receipt: the id stays taken for ever.
DROP_FACTS = """
WITH old AS MATERIALIZED (
    SELECT id FROM governance_fact WHERE id = ANY(%s) FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM governance_fact f USING old WHERE f.id = old.id
    RETURNING f.fact_id, f.principal, f.stream, f.type, f.content_sha256, f.receipt_id,
              f.sequence, f.recorded_at),
receipts AS (
    INSERT INTO governance_prunedfact
           (fact_id, principal, stream, type, content_sha256, receipt_id, sequence, recorded_at)
    SELECT fact_id, principal, stream, type, content_sha256, receipt_id, sequence, recorded_at
      FROM gone WHERE principal <> %s)
SELECT count(*) FROM gone
"""


@dataclass
class Pruned:
    """How many rows were emptied or removed."""

    bodies: int = 0
    tombstones: int = 0
    facts: int = 0

    def __str__(self) -> str:
        return f"{self.bodies} answers, {self.tombstones} tombstones, {self.facts} facts"


def prune(*, limit: int = ROWS_PER_BATCH, rounds_max: int | None = None) -> Pruned:
    """Remove what is past its retention, in batches of `limit` rows.

    :param rounds_max: stop after that many batches of each kind, though more may be left.
    """
    return Pruned(
        bodies=_until_done(DROP_BODIES, FULL_ANSWER_DAYS, limit, rounds_max),
        # A client's clock may run ahead: its key must not outlive the record of it.
        tombstones=_until_done(DROP_TOMBSTONES, CLOCK_SKEW_DAYS, limit, rounds_max),
        facts=_prune_facts(limit, rounds_max),
    )


def _until_done(statement: str, days: int, limit: int, rounds_max: int | None) -> int:
    total = rounds = 0
    while rounds_max is None or rounds < rounds_max:
        rounds += 1
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [days, limit])
            total += cursor.rowcount
            if cursor.rowcount < limit:
                break
    return total


def _prune_facts(limit: int, rounds_max: int | None) -> int:
    total = rounds = after = 0
    while rounds_max is None or rounds < rounds_max:
        rounds += 1
        with transaction.atomic(), connection.cursor() as cursor:
            params = {"days": PUBLISHED_FACT_DAYS, "after": after, "limit": limit}
            cursor.execute(PAGE_OF_FACTS, params)
            page = cursor.fetchall()
            if old := [fact for fact, published_long_ago, _ in page if published_long_ago]:
                cursor.execute(DROP_FACTS, [old, outbox.SYSTEM])
                total += cursor.fetchone()[0]
        if len(page) < limit or not page[-1][2]:
            break
        after = page[-1][0]
    return total
