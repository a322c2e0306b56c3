"""Rows that were changed outside: a governor's word that one stays as it is now."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import Model

from governance.core import audit, clock
from governance.core.errors import InvalidTransition, NotFound
from governance.core.models import OutsideChange
from governance.core.permissions import Permission
from governance.core.reasons import required
from governance.core.verbs import Done, Target, Verb, of_row

ACCEPT_OUTSIDE_CHANGE = Permission(
    "accept_outside_change", "Can accept what was changed outside the plane"
)


@transaction.atomic
def accept(*, change_id: int, actor: str, reason: str) -> OutsideChange:
    """State a row that was changed outside as it is now, and settle what stands open of it.

    :raises NotFound: there is no such change.
    :raises InvalidTransition: it is settled already.
    """
    reason = required(reason)
    found = OutsideChange.objects.filter(pk=change_id).first()
    if found is None:
        raise NotFound("There is no such change.")
    heads = _model(found.head_table)._default_manager.select_for_update(no_key=True)
    head: Any = heads.get(pk=found.head_id)
    # Read again: whoever settled it in the meantime held the same head.
    change = OutsideChange.objects.get(pk=change_id)
    if refusal := open_still(change):
        raise refusal
    now = clock.now()
    table, _, pk = change.row_key.partition(":")
    audit.record(
        head,
        action="outside_change.accepted",
        actor=actor,
        at=now,
        reason=reason,
        details={"change_id": change.pk},
        rows=[_model(table)(pk=int(pk))],
    )
    OutsideChange.objects.filter(row_key=change.row_key, settled_at=None).update(settled_at=now)
    change.settled_at = now
    return change


def open_still(change: OutsideChange) -> InvalidTransition | None:
    """Return why a change cannot be accepted; None where it stands open."""
    return InvalidTransition("It is settled already.") if change.settled_at else None


def _model(table: str) -> type[Model]:
    return next(model for model in apps.get_models() if model._meta.db_table == table)


def _accept(*, key: int, actor: str, reason: str) -> OutsideChange:
    return accept(change_id=key, actor=actor, reason=reason)


def _accepted(change: OutsideChange) -> Done:
    return Done(f"{change.row_key} stays as it is", {"row": change.row_key})


VERBS: tuple[Verb[Any], ...] = (
    Verb(
        name="accept",
        on=Target(OutsideChange),
        label="Accept",
        permission=ACCEPT_OUTSIDE_CHANGE,
        effect="States each row as it is now in an event of its subject, so that it stands in the "
        "inbox no more and `verify_ledger` agrees with it. The event of the change stays.",
        run=_accept,
        done=_accepted,
        precondition=of_row(open_still),
        grave=True,
    ),
)
