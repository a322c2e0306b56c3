"""Acts of operators: declared by apps, done on frozen selections, recorded as runs.

An act is done row by row, each in a transaction of its own that holds the outcome as well: a row
is done once, by whichever process gets to it first, and a process that dies leaves the rest
pending for the next one.  The rules are the transition's; nothing here decides about a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.core import signing
from django.db import IntegrityError, transaction
from uuid_utils.compat import uuid7

from governance.console.models import BulkItem, BulkRun
from governance.core import audit, clock
from governance.core.errors import DomainError, NotFound, PermissionDenied

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: More rows than this are refused; the operator narrows the filter.
SELECTION_MAX = 1000
#: More rows than this ask for a typed phrase.
PHRASE_ABOVE = 20
#: A confirmation page that is older than this shows too old a world to act on.
SELECTION_VALID_SECONDS = 3600
#: How long one request works on a run before it shows how far it got.
SLICE_SECONDS = 2.0
#: A run that began this long ago is nobody's whose request still works on it.
ABANDONED_AFTER_SECONDS = 10
#: What the answers to a question of yes or no mean.
SAID = {"yes": True, "no": False}
YES_OR_NO = tuple((word, word) for word in SAID)
#: A question that may be left as it is.
TRISTATE = (("", "as it is"), *YES_OR_NO)
#: The key of an act that makes a row.
NEW = "new"
SELECTION_SALT = "fencepost.console.selection"
#: Refusals because of what the row is now; everything else is a failure of the act.
SKIPPING_CODES = frozenset({"FAILED_PRECONDITION", "ABORTED", "ALREADY_EXISTS", "NOT_FOUND"})


@dataclass(frozen=True)
class Act:
    """One verb on the rows of one model.

    :param name: unique per model, part of the page's path.
    :param model: lower-case label, `jobs.job`.
    :param effect: one sentence that tells what happens to each row.
    :param run: `run(key=, actor=, reason=, **fields)`, one transition; returns a word on the
        outcome.  Raises a `DomainError` where the row does not allow it.
    :param fits: `fits(row, actor)` tells why a row, as it is now, would not take the act from this
        actor; "" where it would.  A forecast for the page; the transition decides.
    :param fields: further questions of the confirmation page.  An empty answer is not passed on.
    """

    name: str
    model: str
    label: str
    permission: str
    effect: str
    run: Callable[..., str]
    fits: Callable[[Any, str], str] = lambda row, actor: ""
    fields: type[forms.Form] = forms.Form
    #: What the questions are filled with where the act is about one row.
    initial: Callable[[Any], dict[str, Any]] = lambda row: {}
    grave: bool = False
    bulk: bool = True
    #: It makes a row instead of acting on one: offered above the list, with `NEW` as its key.
    makes: bool = False
    #: It judges what the operator saw: `run` gets the row's `revision` of then as
    #: `expected_revision`, and a row that has moved on since is skipped.
    as_seen: bool = False


@dataclass(frozen=True)
class Selection:
    """The rows that an operator saw and meant, by key, and the id of the run they become.

    `revisions` holds those that the rows had then, where the act depends on it.
    """

    run_id: UUID
    model: str
    keys: tuple[str, ...]
    user_id: int
    revisions: dict[str, int]

    def sign(self) -> str:
        """Return the selection as a token that a form can carry and nobody can change."""
        value = {
            "r": str(self.run_id),
            "m": self.model,
            "k": self.keys,
            "u": self.user_id,
            "v": self.revisions,
        }
        return signing.dumps(value, salt=SELECTION_SALT, compress=True)


class SelectionInvalid(ValueError):
    """The selection is not one that this page was shown with, or it is too old."""


acts: dict[tuple[str, str], Act] = {}


def add_act(act: Act) -> None:
    """Make an act known. Called by the admin module of the app that owns the model."""
    acts[act.model, act.name] = act


def acts_on(model: str) -> list[Act]:
    """Return the acts on a model in the order in which they were added."""
    return [act for (of, _), act in acts.items() if of == model]


def permitted(user: Any, model: str, *, makes: bool = False) -> list[Act]:
    """Return the acts on rows of a model, or those that make one, that the user may do."""
    return [act for act in acts_on(model) if act.makes == makes and user.has_perm(act.permission)]


def freeze(
    *, model: str, keys: list[str], user_id: int, revisions: dict[str, int] | None = None
) -> Selection:
    """Return the selection of the rows of these keys, under a new run id.

    :raises ValueError: there are none or too many.
    """
    unique = tuple(dict.fromkeys(keys))
    if not 1 <= len(unique) <= SELECTION_MAX:
        raise ValueError(f"between 1 and {SELECTION_MAX} rows, got {len(unique)}")
    return Selection(uuid7(), model, unique, user_id, revisions or {})


def thaw(token: str, *, model: str, user_id: int) -> Selection:
    """Return the selection that `token` carries.

    :raises SelectionInvalid: it was changed, is too old, or is another user's or model's.
    """
    try:
        value = signing.loads(token, salt=SELECTION_SALT, max_age=SELECTION_VALID_SECONDS)
    except signing.BadSignature as error:
        raise SelectionInvalid("The page is too old or was changed. Select the rows again.") from (
            error
        )
    if value["m"] != model or value["u"] != user_id:
        raise SelectionInvalid("The page belongs to somebody else. Select the rows again.")
    return Selection(UUID(value["r"]), model, tuple(value["k"]), user_id, value.get("v", {}))


def meant(asked: dict[str, Any], *questions: str) -> dict[str, Any]:
    """Return the answers with what those to the questions of yes or no mean."""
    return asked | {name: SAID[asked[name]] for name in questions if name in asked}


def actor_of(user: Any) -> str:
    """Return the user as audit events name one."""
    return f"user:{user.get_username()}"


def phrase_for(act: Act, count: int) -> str:
    """Return what an operator must type to confirm, "" for a small selection."""
    return f"{act.name.replace('_', ' ')} {count}" if count > PHRASE_ABOVE else ""


def begin(
    *, act: Act, selection: Selection, user: User, reason: str, fields: dict[str, Any]
) -> BulkRun:
    """Record the run with one pending item per row; the same selection again is the same run.

    :raises PermissionDenied: the user may not do this.
    """
    if not user.has_perm(act.permission):
        raise PermissionDenied()
    try:
        with transaction.atomic():
            run = BulkRun.objects.create(
                run_id=selection.run_id,
                act=act.name,
                model=act.model,
                user=user,
                reason=reason,
                fields={name: _kept(value) for name, value in fields.items()},
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

    For acts whose answer must not be kept, like a token that is shown once.
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


def advance(*, run: BulkRun, seconds: float = SLICE_SECONDS) -> BulkRun:
    """Work on the run's pending items for a while; whoever does the last one ends the run."""
    until = time.monotonic() + seconds
    before = audit.current_request_id.set(str(run.run_id))
    try:
        while run.finished_at is None and time.monotonic() < until:
            if not _do_next(run=run):
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


def _kept(value: Any) -> Any:
    """Return a form's value as JSON keeps it: amounts as text."""
    return str(value) if isinstance(value, Decimal) else value


@transaction.atomic
def _do_next(*, run: BulkRun) -> bool:
    """Do the next item that nobody else is at. False when there is none."""
    item = (
        BulkItem.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(run=run, outcome=BulkItem.Outcome.PENDING)
        .order_by("position")
        .first()
    )
    if item is None:
        return False
    item.outcome, item.detail = _outcome(run=run, item=item)
    item.at = clock.now()
    item.save(update_fields=["outcome", "detail", "at"])
    return True


def _outcome(*, run: BulkRun, item: BulkItem) -> tuple[str, str]:
    """Run the act on one row in a savepoint and say what became of it."""
    outcomes = BulkItem.Outcome
    act = acts.get((run.model, run.act))
    user = run.user
    if act is None or not user.is_active or not user.has_perm(act.permission):
        return outcomes.FAILED, f"{run.actor} may not do this (any more)"
    try:
        with transaction.atomic():
            seen = {"expected_revision": item.revision} if act.as_seen else {}
            told = act.run(key=item.key, actor=run.actor, reason=run.reason, **seen, **run.fields)
    except DomainError as error:
        skipped = error.code in SKIPPING_CODES and not isinstance(error, NotFound)
        told = f"{error.detail} ({error.reason})"
        return (outcomes.SKIPPED if skipped else outcomes.FAILED), told
    except Exception:  # one row that breaks must not keep the rest of the run from its turn
        logger.exception("act %s failed on %s %s", act.name, act.model, item.key)
        return outcomes.FAILED, "an internal error; the log has it under this run's id"
    return outcomes.DONE, told or "done"


def _finish(*, run: BulkRun) -> None:
    """End the run unless another process is still at an item of it."""
    with transaction.atomic():
        if not BulkItem.objects.filter(run=run, outcome=BulkItem.Outcome.PENDING).exists():
            BulkRun.objects.filter(pk=run.pk, finished_at=None).update(finished_at=clock.now())
