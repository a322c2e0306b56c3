"""Heartbeats: one thread renews all leases of the worker and applies the answers' controls."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fencepost_worker import rules
from fencepost_worker.client import (
    Answer,
    Call,
    ControlPlane,
    GaveUp,
    Problem,
    Refused,
    Unreachable,
)
from fencepost_worker.lease import MIN_INTERVAL_SECONDS, Ended, Lease
from fencepost_worker.network import Complaints
from fencepost_worker.timing import retry_delay_s, steady_now

log = logging.getLogger("fencepost_worker")

MAX_BEATS_PER_CALL = 500
#: A body that says whose leases they are has this beside them.
MAX_BEATS_BYTES = rules.BATCH_BYTES_MAX - 64 * 1024
#: By these the control plane says that it took none of a call, for what one of its beats carries.
WHOLE_REFUSED_STATUSES = frozenset({400, 413})
RETRY_CAP_SECONDS = 5.0

#: Refusals after which the attempt is no longer ours.
LOST_REASONS = frozenset(
    {
        "STALE_FENCING_TOKEN",
        "INVALID_TRANSITION",
        "NOT_FOUND",
        "WRONG_OWNER",
    }
)


#: Refusals after which it is no longer ours to do, and still ours to tell: the next start does.
FENCED_REASONS = frozenset({"LEASE_HELD_BY_ANOTHER", "SESSION_SUPERSEDED"})


Beat = dict[str, Any]


class HeartbeatsStopped(Exception):
    """The thread that keeps the leases has failed; they end by themselves."""


class HeartbeatLoop:
    """Beats for all leases of the worker on a thread of its own, in batches.

    One attempt's fault costs no other its lease, and the thread does not end unnoticed.
    """

    def __init__(
        self, *, plane: ControlPlane, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        """Make a loop.

        :param on_failure: called once, on its thread, if that thread fails.
        """
        self._plane = plane
        self._on_failure = on_failure
        self._complaints = Complaints()
        self._failure: BaseException | None = None
        self._leases: dict[tuple[str, int], Lease] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def close(self) -> None:
        """Stop to beat, and wait for the beat that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Return if the thread has not failed.

        :raises HeartbeatsStopped: it has.
        """
        if self._failure is not None:
            raise HeartbeatsStopped(repr(self._failure)) from self._failure

    def add(self, lease: Lease) -> None:
        """Keep this lease alive from now on; one of an earlier attempt is not ours any more."""
        with self._changed:
            for other in self._leases.values():
                if other.task_id == lease.task_id and other.attempt < lease.attempt:
                    other.end(Ended.LOST)
            self._leases[lease.task_id, lease.attempt] = lease
            self._changed.notify_all()

    def drop(self, lease: Lease) -> None:
        """Let this lease go."""
        with self._changed:
            self._leases.pop((lease.task_id, lease.attempt), None)

    @property
    def draining(self) -> bool:
        """Return whether the control plane said that the agent takes no new work for now."""
        return any(lease.draining for lease in self._current())

    def end_all(self, why: Ended) -> None:
        """End every lease, so that all work stops."""
        for lease in self._current():
            lease.end(why)

    def beat(self, leases: Iterable[Lease]) -> bool:
        """Send heartbeats for these leases and apply what is answered. Never raises.

        :returns: whether an answer came to each call.
        """
        beats = ((lease, _beat_of(lease)) for lease in leases if lease.ended is None)
        return all([self._beat_safely(batch) for batch in _batches(beats)])

    def _beat_safely(self, batch: list[tuple[Lease, Beat]]) -> bool:
        try:
            return self._beat_batch(batch)
        except Exception:  # the next beat tries again; the other batches are sent now
            log.exception("a heartbeat failed here")
            return False

    def _beat_batch(self, batch: list[tuple[Lease, Beat]]) -> bool:
        live = [lease for lease, _ in batch]
        session = self._plane.session
        body = {"worker_id": session.worker_id, "leases": [beat for _, beat in batch]}
        sent_with = session.headers()
        timeout_s = max(MIN_INTERVAL_SECONDS, min(lease.interval_seconds for lease in live))
        try:
            answer = self._plane.send(
                Call("POST", "/v1/leases/heartbeat", body),
                timeout_s=timeout_s,
                sent_with=sent_with,
            )
        except Unreachable as error:
            if (line := self._complaints.of(str(error))) is not None:
                log.warning("heartbeat without an answer: %s", line)
            return False
        except Refused as error:
            log.warning("heartbeat refused: %s", error)
            carries = [(lease, _without_progress(beat)) for lease, beat in batch]
            if error.problem.status in WHOLE_REFUSED_STATUSES and carries != batch:
                return self._beat_batch(carries)
            self._refused(live, error.problem, sent_with=sent_with)
            return False
        self._complaints.settle()
        self._apply(live, answer)
        return True

    def _apply(self, leases: list[Lease], answer: Answer) -> None:
        results = answer.body.get("results")
        for lease, result in zip(
            leases, results if isinstance(results, list) else [], strict=False
        ):
            if isinstance(result, dict):
                self._apply_one(lease, result, requested_at=answer.requested_at)

    def _apply_one(self, lease: Lease, result: dict[str, Any], *, requested_at: float) -> None:
        if _number(result.get("status"), 200) >= 400:
            self._refuse(lease, result)
            return
        control = result.get("control", "continue")
        if control == "stop":
            lease.end(Ended.STOPPED)
            return
        lease.renew(
            requested_at=requested_at,
            ttl_seconds=_number(result.get("ttl_seconds"), 0.0),
            control=str(control),
        )

    def _refused(self, leases: list[Lease], problem: Problem, *, sent_with: dict[str, str]) -> None:
        if (why := _end_of(problem.reason)) is not None:
            for lease in leases:
                lease.end(why)
            return
        try:
            # No waiting here: the next beat tries again.
            self._plane.session.mend(
                self._plane, problem, sent_with=sent_with, wait=lambda seconds: False
            )
        except (Refused, GaveUp) as error:
            log.warning("the session could not be mended: %s", error)

    def _refuse(self, lease: Lease, problem: dict[str, Any]) -> None:
        reason = problem.get("reason", "")
        log.warning("lease of %s refused: %s", lease.task_id, reason)
        if reason == "LEASE_EXPIRED":
            lease.end(Ended.EXPIRED)
        elif (why := _end_of(reason)) is not None:
            lease.end(why)

    def _current(self) -> list[Lease]:
        with self._changed:
            return list(self._leases.values())

    def _run(self) -> None:
        try:
            self._beat_until_closed()
        except BaseException as error:  # the thread's edge: whoever claims must hear of it
            log.critical("the heartbeats have stopped", exc_info=error)
            self._failure = error
            self._on_failure()

    def _beat_until_closed(self) -> None:
        failures, due = 0, steady_now()
        while (leases := self._wait_until(due)) is not None:
            answered = self.beat(leases)
            pause_s = min(lease.interval_seconds for lease in leases)
            if answered:
                failures = 0
            else:
                failures += 1
                cap_s = min(RETRY_CAP_SECONDS, pause_s)
                pause_s = retry_delay_s(failures, base_s=cap_s, cap_s=cap_s)
            due = steady_now() + pause_s

    def _wait_until(self, due: float) -> list[Lease] | None:
        """Return the leases to beat for once it is time and there are any; None at the end."""
        with self._changed:
            while not self._closed:
                leases = list(self._leases.values())
                if leases:
                    # A lease that has just come may want to be heard of before the others do.
                    soonest = steady_now() + min(lease.interval_seconds for lease in leases)
                    left_s = min(due, soonest) - steady_now()
                    if left_s <= 0:
                        return leases
                    self._changed.wait(left_s)
                else:
                    self._changed.wait()
            return None


def _batches(beats: Iterable[tuple[Lease, Beat]]) -> Iterator[list[tuple[Lease, Beat]]]:
    """Yield the beats by as many as one call carries, by their number and their bytes."""
    batch: list[tuple[Lease, Beat]] = []
    room = MAX_BEATS_BYTES
    for lease, beat in beats:
        size = len(rules.encoded(beat)) + 1
        if batch and (size > room or len(batch) == MAX_BEATS_PER_CALL):
            yield batch
            batch, room = [], MAX_BEATS_BYTES
        batch.append((lease, beat))
        room -= size
    if batch:
        yield batch


def _without_progress(beat: Beat) -> Beat:
    return {name: value for name, value in beat.items() if name != "progress"}


def _beat_of(lease: Lease) -> Beat:
    beat: Beat = {
        "task_id": lease.task_id,
        "attempt": lease.attempt,
        "fencing_token": lease.fencing_token,
    }
    try:
        progress = lease.progress()
        if progress is None or rules.progress_fault(progress) is not None:
            return beat
    except Exception:  # its reading is no reason to lose a lease, least of all another's
        log.exception("the progress of %s cannot be read", lease.task_id)
        return beat
    return beat | {"progress": progress}


def _number(value: Any, default: float) -> float:
    return float(value) if type(value) in (int, float) else default


def _end_of(reason: str) -> Ended | None:
    """Return what a refusal does to a lease; None where it goes on."""
    if reason in FENCED_REASONS:
        return Ended.FENCED
    return Ended.LOST if reason in LOST_REASONS else None
