"""Permits: the single-use right to start an attempt's execution."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from uuid_utils.compat import uuid7

from agents.entry import Caller, Entry
from governance.core import clock, sql
from governance.core.errors import (
    ExecutionConflict,
    ExecutionPaused,
    LiveExecutionNotAuthorized,
    NotFound,
    PermitSpent,
)
from jobs.executions.binding import (
    Binding,
    lock_bound,
    mark_governed,
    need_acting,
    need_held_reservation,
)
from jobs.models import ExecutionMode, LiveAuthorization, Permit
from jobs.transitions.preconditions import need_session
from jobs.transitions.work import LockedJob, Work

#: A permit is short: it is asked for when the worker is about to act.
PERMIT_SECONDS = 300


@dataclass(frozen=True)
class IssuedPermit:
    """A permit, at the instant from which its deadline is reckoned."""

    permit: Permit
    at: datetime


@sql.move
def permit(
    *,
    entry: Entry,
    binding: Binding,
    reservation_id: UUID | None,
    mode: str,
    expected_revision: int,
) -> IssuedPermit:
    """Issue the single-use right to start the attempt's execution.

    :param reservation_id: see `need_held_reservation`.
    :raises SessionRequired: the caller has no activated session.
    :raises StaleFencingToken, RevisionMismatch, InvalidTransition, LeaseExpired, BindingMismatch:
        the attempt may not act, or its job has moved on since `expected_revision`.
    :raises PermitSpent: the attempt's execution has been started.
    :raises ExecutionConflict: a permit of the attempt is still good.
    :raises EffectsClosed: the agent is closed.
    :raises ExecutionPaused: the job is paused.
    :raises ModelReservationStateInvalid: the reservation is not held for this attempt.
    :raises LiveExecutionNotAuthorized: mode `live` without a recorded authorization.
    """
    work, locked = lock_bound(entry, binding)
    need_session(work)
    need_acting(work, locked, binding, expected_revision=expected_revision)
    _end_lapsed(work, locked)
    if locked.job.paused:
        raise ExecutionPaused()
    need_held_reservation(locked, binding, reservation_id)
    if mode == ExecutionMode.LIVE and not live_authorized(locked, at=work.now):
        raise LiveExecutionNotAuthorized()
    caller = work.worker
    assert caller.session_pk is not None  # whoever holds a lease has one
    issued = Permit(
        permit_id=uuid7(),
        job_id=locked.job.pk,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        external_request_id=binding.external_request_id,
        session_id=caller.session_pk,
        session_generation=caller.generation,
        dispatcher_epoch=caller.dispatcher_epoch,
        mode=mode,
        reservation_id=reservation_id,
        issued_at=work.now,
        deadline_at=_deadline(work, locked),
    )
    mark_governed(work, locked)
    work.add(issued)
    work.note(
        locked,
        action="permit.issued",
        actor=caller.actor,
        details={"permit_id": str(issued.permit_id), "mode": mode},
    )
    work.save()
    return IssuedPermit(issued, work.now)


def issued_before(*, permit_id: UUID) -> IssuedPermit:
    """Return a permit as it stands now. One whose deadline has passed is `expired`, noted or not.

    :raises NotFound: there is none.
    """
    found = Permit.objects.filter(permit_id=permit_id).first()
    if found is None:
        raise NotFound("There is no permit of that id.")
    now = clock.now()
    if found.state == Permit.State.ISSUED and found.deadline_at <= now:
        found.state = Permit.State.EXPIRED
    return IssuedPermit(found, now)


def live_authorized(locked: LockedJob, *, at: datetime) -> bool:
    """Return whether a governor's word lets the attempt execute live at that instant."""
    attempt = locked.last_attempt
    return (
        attempt is not None
        and LiveAuthorization.objects.filter(
            agent_id=locked.job.agent_id,
            runtime=attempt.runtime,
            revoked_at=None,
            ends_at__gt=at,
        ).exists()
    )


def of_present_epoch(caller: Caller, permit: Permit) -> bool:
    """Return whether the permit was issued since the caller's session was bound to its epoch."""
    bound = (permit.session_generation, permit.dispatcher_epoch)
    return bound == (caller.generation, caller.dispatcher_epoch)


def _deadline(work: Work, locked: LockedJob) -> datetime:
    """Return when a permit issued now ends: with its own time, the lease or the attempt."""
    lease, attempt = locked.lease, locked.last_attempt
    assert lease is not None and attempt is not None
    ends = [lease.expires_at, attempt.deadline_at, work.now + timedelta(seconds=PERMIT_SECONDS)]
    return min(end for end in ends if end is not None)


def _end_lapsed(work: Work, locked: LockedJob) -> None:
    """Make room for a new permit: a lapsed one has expired, one that nobody can use is revoked.

    :raises PermitSpent: the attempt's execution has been started.
    :raises ExecutionConflict: a permit is still good.
    """
    caller = work.worker
    found = (
        Permit.objects.select_for_update(no_key=True)
        .filter(job_id=locked.job.pk, attempt=locked.job.attempt, state__in=["issued", "spent"])
        .first()
    )
    if found is None:
        return
    if found.state == Permit.State.SPENT:
        raise PermitSpent()
    lapsed = found.deadline_at <= work.now
    # Bound to a session as it was before it was bound to a new epoch, or to one that is gone.
    usable = found.session_id == caller.session_pk and of_present_epoch(caller, found)
    if usable and not lapsed:
        raise ExecutionConflict(
            "A permit of this attempt is open; repeat its request with the same key to read it.",
            current={"permit_id": str(found.permit_id)},
        )
    found.state = Permit.State.EXPIRED if lapsed else Permit.State.REVOKED
    found.ended_at = work.now
    found.save(update_fields=["state", "ended_at"])
