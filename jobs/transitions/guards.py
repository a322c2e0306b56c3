"""What a worker's write is judged by, once its job is locked: token, state, lease, session."""

from __future__ import annotations

from governance.core.errors import (
    DispatcherEpochStale,
    FencingTokenRequired,
    InvalidTransition,
    LeaseExpired,
    LeaseHeldByAnother,
    SessionRequired,
    SessionSuperseded,
    StaleFencingToken,
)
from jobs.transitions.work import LockedJob, State, Work


def check_token(work: Work, locked: LockedJob, number: int, token: int) -> None:
    """Refuse a token, or an attempt, that is not the current one.

    An activated session's attempt is written for by an activated session, or by nobody that has
    been fenced: whoever leaves its session out of the request is judged by the attempt's.

    :raises StaleFencingToken: with what is current.
    :raises SessionSuperseded, DispatcherEpochStale: the session that made the attempt may no
        longer act, and the request names no other.
    """
    if token != locked.job.fencing_token or number != locked.job.attempt:
        raise StaleFencingToken(
            current={
                "fencing_token": locked.job.fencing_token,
                "attempt": locked.job.attempt,
                "state": locked.job.state,
                "revision": locked.job.revision,
            }
        )
    caller, session = work.caller, locked.sessions.get(number)
    if caller and session and session.activated and not caller.activated:
        if session.state != "current":
            raise SessionSuperseded()
        if session.dispatcher_epoch != caller.dispatcher_epoch:
            raise DispatcherEpochStale(current={"dispatcher_epoch": str(caller.dispatcher_epoch)})


def need_active(locked: LockedJob) -> None:
    """Refuse when the job is not at work.

    :raises InvalidTransition: with the state that it is in.
    """
    if locked.job.state != State.ACTIVE:
        raise InvalidTransition(
            f"The job is {locked.job.state}.", current={"state": locked.job.state}
        )


def need_lease(work: Work, locked: LockedJob) -> None:
    """Refuse without an unexpired lease, or under a session that does not hold it.

    :raises LeaseExpired: its time is over.
    :raises LeaseHeldByAnother: another activated session than the caller's holds it.
    """
    if locked.lease is None or locked.lease.expires_at <= work.now:
        raise LeaseExpired()
    if work.worker.activated and locked.lease.session_id != work.worker.session_pk:
        raise LeaseHeldByAnother()


def need_session(work: Work) -> None:
    """Refuse a caller of the older contract: a name authorizes no effects and no artifacts.

    :raises SessionRequired: the caller has no activated session.
    """
    if work.caller is None or not work.caller.activated:
        raise SessionRequired("This call is for activated sessions; activate.")


def implied_attempt(
    work: Work, locked: LockedJob, *, worker_id: str | None = None
) -> tuple[int, int]:
    """Return attempt and token of a write that names neither, where only one can be meant.

    :param worker_id: whom an item of a batch names; default the caller.
    """
    attempt, caller = locked.last_attempt, work.caller
    session = locked.sessions.get(locked.job.attempt)
    if (
        attempt is None
        or caller is None
        or caller.activated
        or session is None
        or session.activated
        or locked.job.attempt != 1
        or attempt.claim_answers != 1
        or attempt.worker_id != (worker_id or caller.worker_id)
    ):
        raise FencingTokenRequired()
    return attempt.number, attempt.fencing_token
