"""What people say of disputed uses: they were used, and are booked, or they were not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from governance.core import clock, sql
from governance.core.errors import InvalidTransition, NotFound
from governance.core.reasons import required
from governance.money.disputes import DisputedUse, DisputeVerdict
from governance.money.models import Resolution
from governance.money.policies import PRICE_COLUMNS, price_list
from governance.money.pricing import PriceUnusable, Usage
from governance.money.unreserved import Unreserved, cost_of, digest_of_dispute, post_use
from governance.money.uses import UnreservedUse

Verdict = DisputeVerdict.Verdict
READ_PRICE = f"SELECT {PRICE_COLUMNS} FROM governance_price p WHERE p.id = %s"


@dataclass(frozen=True)
class Settled:
    """A dispute that is over. `booked` is where what was accepted stands; None: nothing was."""

    verdict: DisputeVerdict
    booked: Unreserved | None

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        return {
            "action": f"ledger.dispute_{self.verdict.verdict}",
            "after": {
                "dispute_id": str(self.verdict.dispute_id),
                "verdict": self.verdict.verdict,
                "use_id": self.verdict.use_id and str(self.verdict.use_id),
                "decided_at": self.verdict.decided_at.isoformat(timespec="microseconds"),
            },
        }


@transaction.atomic
def settle_dispute(*, dispute_id: UUID, verdict: str, actor: str, reason: str) -> Settled:
    """Accept what was disputed, which books it in every budget that applies now, or dismiss it.

    The caller has locked the job, as everybody does who changes these rows.

    :param verdict: `accepted` or `dismissed`.
    :raises NotFound: there is no such dispute.
    :raises InvalidTransition: it is over.
    """
    reason = required(reason)
    beside = ("verdict", "use")
    dispute = DisputedUse.objects.select_related(*beside).filter(pk=dispute_id).first()
    if dispute is None:
        raise NotFound("There is no dispute of that id.")
    if refusal := refusal_of_dispute(dispute):
        raise refusal
    now = clock.now()
    booked = None
    if verdict == Verdict.ACCEPTED:
        booked = post_use(_accepted(dispute, actor=actor, at=now), at=now)
    made = DisputeVerdict.objects.create(
        dispute=dispute,
        verdict=verdict,
        use=booked.use if booked is not None else None,
        reason=reason,
        decided_by=actor,
        decided_at=now,
    )
    return Settled(made, booked)


def refusal_of_dispute(dispute: DisputedUse) -> InvalidTransition | None:
    """Return why nobody can decide about it: somebody has; None where nobody has."""
    stored = getattr(dispute, "verdict", None)
    return InvalidTransition(f"It is {stored.verdict} already.") if stored else None


def _accepted(dispute: DisputedUse, *, actor: str, at: datetime) -> UnreservedUse:
    """Return the row, unsaved, that books what was disputed at the price that it was booked by."""
    usage = Usage(**dispute.counts)
    [[row]] = sql.pipeline(sql.Statement(READ_PRICE, (dispute.price_id,)))
    try:
        cost, split = cost_of(price_list(row), usage, at=at)
    except PriceUnusable:
        cost, split = None, None
    return UnreservedUse(
        use_id=uuid7(),
        external_request_id=dispute.external_request_id,
        task_id=dispute.task_id,
        job_id=dispute.job_id,
        attempt=dispute.attempt,
        agent=dispute.agent,
        job_type=dispute.job_type,
        reservation_id=dispute.reservation_id,
        model_id=dispute.model_id if cost is not None else None,
        price_id=dispute.price_id if cost is not None else None,
        **usage.counts,
        **usage.texts,
        cost=cost,
        cost_basis=Resolution.Basis.ESTIMATE if split is None else Resolution.Basis.USAGE,
        cost_split=split,
        usage_odd=False,
        usage_sent=usage.stated,
        content_sha256=digest_of_dispute(dispute.pk),
        recorded_by=actor,
        recorded_at=at,
    )
