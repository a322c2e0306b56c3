"""Disputed uses of a job's calls: a governor accepts or dismisses them, on the job's chain."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from governance.core.errors import NotFound
from governance.money import ledger
from governance.money.disputes import DisputedUse
from governance.money.verdicts import Settled
from jobs.executions.binding import note_money
from jobs.transitions.work import lock


@transaction.atomic
def settle_dispute(*, dispute_id: UUID, verdict: str, actor: str, reason: str) -> Settled:
    """Book what was reported beyond what its model can do, or dismiss it. Source: money, rule 4.

    :param verdict: `accepted` or `dismissed`.
    :raises NotFound: there is no such dispute.
    :raises InvalidTransition: it is over.
    """
    task_id = DisputedUse.objects.filter(pk=dispute_id).values_list("task_id", flat=True).first()
    if task_id is None:
        raise NotFound("There is no dispute of that id.")
    work = lock([task_id])
    locked = work.get(task_id)
    settled = ledger.settle_dispute(
        dispute_id=dispute_id, verdict=verdict, actor=actor, reason=reason
    )
    note_money(work, locked, settled, actor=actor, reason=reason)
    if settled.booked is not None:
        note_money(work, locked, settled.booked, actor=actor, reason=reason)
    work.save()
    return settled
