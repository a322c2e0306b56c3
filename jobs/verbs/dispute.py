"""What governors can do about disputed uses: book them, or dismiss them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from governance.core.verbs import Done, Target, Verb, of_row
from governance.money import ledger
from governance.money.disputes import DisputedUse, DisputeVerdict
from governance.money.verbs import ADJUST_BUDGET
from governance.money.verdicts import Settled
from jobs import executions

Verdict = DisputeVerdict.Verdict
DISPUTE = Target(DisputedUse)


def _accept(*, key: UUID, actor: str, reason: str) -> Settled:
    return executions.settle_dispute(
        dispute_id=key, verdict=Verdict.ACCEPTED, actor=actor, reason=reason
    )


def _dismiss(*, key: UUID, actor: str, reason: str) -> Settled:
    return executions.settle_dispute(
        dispute_id=key, verdict=Verdict.DISMISSED, actor=actor, reason=reason
    )


def _done(settled: Settled) -> Done:
    use_id = settled.verdict.use_id
    facts = {"dispute_id": str(settled.verdict.dispute_id), "use_id": use_id and str(use_id)}
    return Done(settled.verdict.verdict, facts)


VERBS: tuple[Verb[Any], ...] = (
    Verb(
        name="accept",
        on=DISPUTE,
        label="Accept",
        permission=ADJUST_BUDGET,
        effect="Books what was reported beyond what the model can do, in every budget that applies "
        "now: it was used all the same. A limit of the model that is wrong is set beside.",
        run=_accept,
        done=_done,
        precondition=of_row(ledger.refusal_of_dispute),
        grave=True,
    ),
    Verb(
        name="dismiss",
        on=DISPUTE,
        label="Dismiss",
        permission=ADJUST_BUDGET,
        effect="Ends each dispute: what was reported beyond what the model can do was not used, "
        "and is never booked. The report is kept.",
        run=_dismiss,
        done=_done,
        precondition=of_row(ledger.refusal_of_dispute),
    ),
)
