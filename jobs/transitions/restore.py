"""After a restore: nothing that the lost commits handed out may be taken for valid.

Commits that a restore or a promotion lost may have made attempts and tokens that the rows no
longer know.  A token that is handed out again would let a forgotten worker write, so every lease
is ended and every token jumps further than any that can have been lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from agents import barrier
from agents.transitions import epochs
from governance.core import sql
from governance.core.reasons import required
from jobs.models import Attempt
from jobs.transitions.sweeping import lose_attempt
from jobs.transitions.work import lock

#: Further than any number of claims that lost commits can have made on one job.
TOKEN_JUMP = 2**20

# The whole table is walked once, and whoever restores waits for it; nobody claims meanwhile.
NO_TIME_LIMITS = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"
ACTIVE_TASKS = "SELECT task_id FROM jobs_job WHERE state = 'active' ORDER BY id"
# Locks: all jobs but those that are over for good, which never hand a token out again.
RAISE_TOKENS = """
WITH raised AS (
    UPDATE jobs_job SET fencing_token = fencing_token + %(jump)s
     WHERE state NOT IN ('completed', 'stopped') RETURNING 1)
SELECT count(*) AS jobs FROM raised
"""


@dataclass(frozen=True)
class Restored:
    """The work of a restore: the new epoch, leases that were ended, jobs whose token was raised."""

    dispatcher_epoch: UUID
    leases_ended: int
    tokens_raised: int


@transaction.atomic
def restore(*, actor: str, reason: str) -> Restored:
    """Rotate the epoch, end all leases and raise every token by 2^20, in one transaction.

    Holds the gates of all agents throughout, so that no worker acts on a half-raised table.
    """
    reason = required(reason)
    for setting in NO_TIME_LIMITS.split("; "):
        sql.pipeline(sql.Statement(setting))
    barrier.hold()
    [active] = sql.pipeline(sql.Statement(ACTIVE_TASKS))
    work = lock([row["task_id"] for row in active])
    for locked in work.locked.values():
        lose_attempt(
            work,
            locked,
            Attempt.Outcome.SUPERSEDED,
            "The control plane was restored; the lease may be one that was lost.",
        )
    work.save()
    [[raised]] = sql.pipeline(sql.Statement(RAISE_TOKENS, {"jump": TOKEN_JUMP}))
    epoch = epochs.rotate(
        actor=actor,
        reason=reason,
        details={
            "after_restore": True,
            "leases_ended": len(work.locked),
            "tokens_raised": raised["jobs"],
            "token_jump": TOKEN_JUMP,
        },
    )
    return Restored(epoch, len(work.locked), raised["jobs"])
