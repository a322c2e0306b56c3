"""Runs: a verb done on a frozen selection, row by row, each outcome recorded.

A verb is done row by row, each in a transaction of its own that holds the outcome as well: a row
is done once, by whichever process gets to it first, and a process that dies leaves the rest
pending for the next one.  The rules are the transition's; nothing here decides about a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from governance.console.models import BulkItem, BulkRun
from governance.console.selections import PHRASE_ABOVE, Selection
from governance.core import audit, clock, verbs
from governance.core.errors import DomainError, NotFound, PermissionDenied
from governance.core.verbs import Verb

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: How long one request works on a run before it shows how far it got.
SLICE_SECONDS = 2.0
#: A run that began this long ago is nobody's whose request still works on it.
ABANDONED_AFTER_SECONDS = 10
#: Refusals because of what the row is now; everything else is a failure of the verb.
SKIPPING_CODES = frozenset({"FAILED_PRECONDITION", "ABORTED", "ALREADY_EXISTS", "NOT_FOUND"})


def permitted(user: Any, model: str, *, makes: bool = False) -> list[Verb[Any]]:
    """Return the verbs on rows of a model, or those that make one, that the user may use."""
    return [
        verb
        for verb in verbs.on(model)
        if verb.makes == makes and user.has_perm(verb.permission.name)
    ]


def actor_of(user: Any) -> str:
    """Return the user as audit events name one."""
    return f"user:{user.get_username()}"


def phrase_for(verb: Verb[Any], count: int) -> str:
    """Return what an operator must type to confirm, "" for a small selection."""
    return f"{verb.name.replace('_', ' ')} {count}" if count > PHRASE_ABOVE else ""


def begin(
    *, verb: Verb[Any], selection: Selection, user: User, reason: str, values: dict[str, Any]
) -> BulkRun:
    """Record the run with one pending item per row; the same selection again is the same run.

    :param values: of the verb's fields, by name.
    :raises PermissionDenied: the user may not do this.
    """
    if not user.has_perm(verb.permission.name):
        raise PermissionDenied()
    try:
        with transaction.atomic():
            run = BulkRun.objects.create(
                run_id=selection.run_id,
                act=verb.name,
                model=verb.on.label,
                user=user,
                reason=reason,
                fields=verb.keep(values),
                total=len(selection.keys),
                created_at=clock.now(),
            )
            BulkItem.objects.bulk_create(
                BulkItem(run=run, position=position, key=key, revision=selection.revisions.get(key))
                for position, key in enumerate(selection.keys, start=1)
            )
    except IntegrityError:
        return BulkRun.objects.get(run_id=selection.run_id)
    return run


def once(
    *, selection: Selection, name: str, user: User, reason: str, make: Callable[[], T]
) -> T | None:
    """Do `make` in one transaction with its record; None when the selection was used before.

    For what is answered once and must not be kept, like a token that is shown once.
    """
    try:
        with transaction.atomic():
            now = clock.now()
            run = BulkRun.objects.create(
                run_id=selection.run_id,
                act=name,
                model=selection.model,
                user=user,
                reason=reason,
                total=len(selection.keys),
                created_at=now,
                finished_at=now,
            )
            BulkItem.objects.bulk_create(
                BulkItem(run=run, position=position, key=key, outcome=BulkItem.Outcome.DONE, at=now)
                for position, key in enumerate(selection.keys, start=1)
            )
            return make()
    except IntegrityError:
        if BulkRun.objects.filter(run_id=selection.run_id).exists():
            return None
        raise


def advance(
    *, run: BulkRun, seconds: float = SLICE_SECONDS, refusals: list[DomainError] | None = None
) -> BulkRun:
    """Work on the run's pending items for a while; whoever does the last one ends the run.

    :param refusals: takes up the refusals that this call met, for a page that can show more of
        them than an item keeps.
    """
    until = time.monotonic() + seconds
    before = audit.current_request_id.set(str(run.run_id))
    try:
        while run.finished_at is None and time.monotonic() < until:
            if not _do_next(run=run, refusals=refusals):
                _finish(run=run)
                break
    finally:
        audit.current_request_id.reset(before)
    run.refresh_from_db()
    return run


def advance_abandoned(
    *, seconds: float = SLICE_SECONDS, after_seconds: float = ABANDONED_AFTER_SECONDS
) -> int:
    """Go on with the oldest open run, of which perhaps nobody watches the page. For the sweeper.

    Leaves a run alone that has just begun: taking its row from under the request that began it
    would leave the operator with a run to watch in place of the answer.
    Returns the number of runs that were worked on: 0 or 1.
    """
    since = clock.now() - timedelta(seconds=after_seconds)
    run = BulkRun.objects.filter(finished_at=None, created_at__lte=since).order_by("id").first()
    if run is None:
        return 0
    advance(run=run, seconds=seconds)
    return 1


def stop(*, run: BulkRun, actor: str) -> None:
    """Leave what is still pending untried."""
    pending = BulkItem.objects.filter(run=run, outcome=BulkItem.Outcome.PENDING)
    with transaction.atomic():
        locked = pending.select_for_update(no_key=True).values_list("pk", flat=True)
        BulkItem.objects.filter(pk__in=list(locked)).update(
            outcome=BulkItem.Outcome.NOT_TRIED, at=clock.now(), detail=f"stopped by {actor}"
        )
        BulkRun.objects.filter(pk=run.pk, finished_at=None).update(
            stopped_by=actor, finished_at=clock.now()
        )


@transaction.atomic
def _do_next(*, run: BulkRun, refusals: list[DomainError] | None) -> bool:
    """Do the next item that nobody else is at. False when there is none."""
    item = (
        BulkItem.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(run=run, outcome=BulkItem.Outcome.PENDING)
        .order_by("position")
        .first()
    )
    if item is None:
        return False
    item.outcome, item.detail = _outcome(run=run, item=item, refusals=refusals)
    item.at = clock.now()
    item.save(update_fields=["outcome", "detail", "at"])
    return True


def _outcome(
    *, run: BulkRun, item: BulkItem, refusals: list[DomainError] | None
) -> tuple[str, str]:
    """Do the verb to one row in a savepoint and say what became of it."""
    outcomes = BulkItem.Outcome
    verb = verbs.find(run.model, run.act)
    user = run.user
    if verb is None or not user.is_active or not user.has_perm(verb.permission.name):
        return outcomes.FAILED, f"{run.actor} may not do this (any more)"
    try:
        with transaction.atomic():
            result = verb.perform(
                key=item.key,
                actor=run.actor,
                reason=run.reason,
                values=verb.restore(run.fields),
                seen_revision=item.revision,
            )
            done = verb.done(result)
    except DomainError as error:
        if refusals is not None:
            refusals.append(error)
        skipped = error.code in SKIPPING_CODES and not isinstance(error, NotFound)
        outcome = outcomes.SKIPPED if skipped else outcomes.FAILED
        return outcome, f"{error.detail} ({error.reason})"
    except Exception:  # one row that breaks must not keep the rest of the run from its turn
        logger.exception("verb %s failed on %s", verb.address, item.key)
        return outcomes.FAILED, "an internal error; the log has it under this run's id"
    return outcomes.DONE, done.words


def _finish(*, run: BulkRun) -> None:
    """End the run unless another process is still at an item of it."""
    with transaction.atomic():
        if not BulkItem.objects.filter(run=run, outcome=BulkItem.Outcome.PENDING).exists():
            BulkRun.objects.filter(pk=run.pk, finished_at=None).update(finished_at=clock.now())
