"""The worker: claims jobs, runs each under its lease, and reports how it ended."""

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from uuid_utils.compat import uuid7

from fencepost_worker import reports
from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.asking import Asking, TypeKnown, unserved
from fencepost_worker.breaker import Breaker
from fencepost_worker.claim import Claim, ClaimUnreadable, Job
from fencepost_worker.client import (
    Answer,
    Call,
    ControlPlane,
    GaveUp,
    NoRoom,
    Problem,
    Refused,
)
from fencepost_worker.envelopes import (
    EnvelopeUnverified,
    KeyRing,
    KeysUnavailable,
    verified_job,
)
from fencepost_worker.exchange import ExchangeConflict, Result, ResultRefused
from fencepost_worker.executor import OutcomeUnknown, replayed
from fencepost_worker.heartbeats import FENCED_REASONS, HeartbeatLoop
from fencepost_worker.journal import Journal, Report
from fencepost_worker.lease import Ended, Lease, LeaseEnded
from fencepost_worker.model_access import refuses_all
from fencepost_worker.presence import Presence
from fencepost_worker.progress import ProgressReader
from fencepost_worker.redaction import Secrets
from fencepost_worker.timing import retry_delay_s, steady_now
from fencepost_worker.uploads import Postponed, Undelivered, Uploads

log = logging.getLogger("fencepost_worker")

#: Over the poll's own wait, what an answer may take.
POLL_GRACE_SECONDS = 15.0
IDLE_SECONDS = 1.0
MAX_IDLE_SECONDS = 60.0
#: Until it is looked at again whether there is a type to ask for.
UNASKED_SECONDS = 5.0
#: Refusals of a claim that an operator's act ends: come back later, with a new request.
CLOSED_REASONS = frozenset(
    {"ADMISSION_DRAINING", "ADMISSION_CLOSED", "MAINTENANCE_INHIBITED", "SESSION_NOT_APPROVED"}
)
#: Refusals that say nothing of the job: what is missing is an operator's to give.
UNAUTHORIZED_REASONS = frozenset({"LIVE_EXECUTION_NOT_AUTHORIZED"})
#: With these an attempt that still runs cannot be deferred; an older control plane knows no way to.
NOT_DEFERRED_CODES = frozenset({"FAILED_PRECONDITION", "INVALID_ARGUMENT", "NOT_FOUND"})
#: What ends an attempt with something delivered or asked; refused for good, the attempt fails.
ENDS = ("/complete", "/escalate")


class NotAuthorized(Exception):
    """The control plane does not let this worker claim; only an operator can mend that."""


@dataclass(frozen=True)
class Plan:
    """The options of a worker's claims, and when it ends."""

    agent: str
    lease_seconds: int = 900
    task_types: tuple[str, ...] = ()
    wait_seconds: int = 5
    concurrency: int = 1
    #: End after so many jobs; None: never.
    max_jobs: int | None = None
    #: End when a poll comes back empty.
    until_empty: bool = False


class Worker:
    """One worker process. `run` blocks; `drain` and `abort` may be called from elsewhere."""

    def __init__(
        self,
        *,
        plane: ControlPlane,
        journal: Journal,
        adapter: RuntimeAdapter,
        keys: KeyRing,
        plan: Plan,
        uploads: Uploads | None = None,
        secrets: Secrets | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        """Make a worker. Without `uploads` artifacts stay in its data folder.

        :param secrets: what it must not say; default what its environment names so.
        :param breaker: which types of job it does not ask for, after how many refusals.
        """
        self._plane = plane
        self._journal = journal
        self._adapter = adapter
        self._keys = keys
        self._plan = plan
        self._uploads = uploads
        self._secrets = secrets or Secrets()
        self._progress = ProgressReader(adapter, secrets=self._secrets)
        self._heartbeats = HeartbeatLoop(plane=plane, on_failure=self.drain)
        self._asking = Asking(
            plane=plane,
            agent=plan.agent,
            named=plan.task_types,
            unserved=adapter.unserved,
            breaker=breaker,
        )
        self._presence = Presence(plane=plane, agent=plan.agent, not_asking=self._asking.not_asking)
        self._asking.on_change = self._presence.poke
        self._draining = threading.Event()
        self._aborting = threading.Event()
        self._running: set[Future[None]] = set()
        self._slot_freed = threading.Condition()
        self._claimed = 0

    @property
    def calls_models(self) -> bool:
        """Return whether its work may call models, with keys that are this process's."""
        return self._adapter.calls_models

    def drain(self) -> None:
        """Take no more jobs; finish those that run, then end."""
        self._draining.set()
        with self._slot_freed:
            self._slot_freed.notify_all()

    def abort(self) -> None:
        """Stop what runs and end; what could not be reported stays in the journal."""
        self.drain()
        self._heartbeats.end_all(Ended.ABORTED)
        self._aborting.set()
        self._adapter.abort()

    def run(self) -> None:
        """Finish what an earlier process left, then claim and run until told to end.

        :raises NotAuthorized: the control plane refuses our claims for good.
        :raises HeartbeatsStopped: no lease can be kept any more; what ran was finished first.
        """
        try:
            self._plane.session.open(self._plane, wait=self._patience)
        except GaveUp:
            return
        except Refused as error:
            raise NotAuthorized(str(error)) from error
        self._adapter.start()
        self._heartbeats.start()
        self._presence.start()
        pool = ThreadPoolExecutor(self._plan.concurrency, thread_name_prefix="job")
        try:
            for claim in list(self._journal.open_claims()):
                self._recover(claim, pool)
            self._claim_until_told(pool)
        finally:
            pool.shutdown(wait=True)
            self._heartbeats.close()
            self._presence.close()
            self._adapter.close()
        self._heartbeats.check()

    def close(self) -> None:
        """Close its connections, once `run` has returned; a process closes them by ending."""
        self._plane.close()

    # Claims ---------------------------------------------------------------------------------

    def _claim_until_told(self, pool: ThreadPoolExecutor) -> None:
        idle = 0
        while (room := self._wait_for_room()) > 0:
            try:
                granted, wait_s = self._claim(room)
            except GaveUp:
                return
            for claim, lease in granted:
                self._start(pool, self._work, claim, lease)
            self._claimed += len(granted)
            if granted:
                idle = 0
                continue
            if self._plan.until_empty:
                return
            if wait_s > 0:
                idle += 1
                self._draining.wait(wait_s + retry_delay_s(idle, cap_s=IDLE_SECONDS))

    def _wait_for_room(self) -> int:
        """Return how many jobs may be claimed now; 0 when the worker should end."""
        with self._slot_freed:
            while True:
                left = self._plan.concurrency
                if self._plan.max_jobs is not None:
                    left = min(left, self._plan.max_jobs - self._claimed)
                if self._draining.is_set() or left <= 0:
                    return 0
                room = min(left, self._plan.concurrency - len(self._running))
                if room > 0 and not self._heartbeats.draining:
                    return room
                self._slot_freed.wait(IDLE_SECONDS if room > 0 else None)

    def _claim(self, room: int) -> tuple[list[tuple[Claim, Lease]], float]:
        """Return granted claims, and the seconds to wait before the next poll.

        :raises GaveUp: the worker is to end, and no answer came; the request is kept on disk.
        :raises NotAuthorized: the control plane refuses for good.
        """
        intended = self._journal.intended_claim()
        task_types = None if intended else self._asking.task_types()
        if task_types == []:
            return [], UNASKED_SECONDS
        call = intended or self._new_claim(room, task_types)
        self._journal.intend_claim(call)
        timeout_s = POLL_GRACE_SECONDS + (call.body or {}).get("wait_seconds", 0)
        try:
            answer = self._plane.deliver(call, wait=self._patience, timeout_s=timeout_s)
        except Refused as error:
            self._journal.settle_claim([])
            return [], self._refused_claim(error.problem)
        granted = [
            (claim, self._lease_of(claim, None if intended else answer.requested_at))
            for claim in _claims_in(answer)
        ]
        self._journal.settle_claim([claim for claim, _ in granted])
        for claim, lease in granted:
            log.info("claimed %s attempt %s", claim.task_id, claim.attempt)
            self._heartbeats.add(lease)
        # A full server answers an empty poll at once, whatever wait was asked for.
        at_once = steady_now() - answer.requested_at < IDLE_SECONDS
        pause = answer.body.get("retry_after_seconds") or (IDLE_SECONDS if at_once else 0.0)
        return granted, min(MAX_IDLE_SECONDS, float(pause))

    def _new_claim(self, room: int, task_types: list[str] | None) -> Call:
        body: dict[str, Any] = {
            "worker_id": self._plane.session.worker_id,
            "limit": room,
            "runtime": self._adapter.runtime,
            "lease_seconds": self._plan.lease_seconds,
            "wait_seconds": 0 if self._plan.until_empty else self._plan.wait_seconds,
            # They are taken from the envelope, where they are signed.
            "include_inputs": False,
        }
        if task_types is not None:
            body["task_types"] = task_types
        return Call("POST", "/v1/claims", body, key=str(uuid7()))

    def _refused_claim(self, problem: Problem) -> float:
        if problem.reason in CLOSED_REASONS or problem.code == "FAILED_PRECONDITION":
            log.warning("no new work for now: %s", problem.reason)
            return min(MAX_IDLE_SECONDS, problem.after_seconds or IDLE_SECONDS)
        if problem.reason == "IDEMPOTENCY_KEY_INVALID":
            # The next key would be as wrong, until somebody sets the clock that it is made from.
            log.error("no work for now: %s", problem.detail)
            return MAX_IDLE_SECONDS
        if problem.reason.startswith("IDEMPOTENCY_"):
            log.warning("a claim of long ago cannot be asked for again: %s", problem.reason)
            return 0.0
        raise NotAuthorized(f"{problem.code} {problem.reason}: {problem.detail}")

    def _patience(self, seconds: float) -> bool:
        return not self._draining.wait(seconds)

    def _lease_of(self, claim: Claim, requested_at: float | None) -> Lease:
        reading = self._progress.reading(task_id=claim.task_id, attempt=claim.attempt)
        return claim.lease(requested_at=requested_at, progress=reading)

    # Jobs -----------------------------------------------------------------------------------

    def _start(self, pool: ThreadPoolExecutor, work: Any, claim: Claim, lease: Lease) -> None:
        future = pool.submit(work, claim, lease)
        with self._slot_freed:
            self._running.add(future)
        future.add_done_callback(self._freed)

    def _freed(self, future: Future[None]) -> None:
        with self._slot_freed:
            self._running.discard(future)
            self._slot_freed.notify_all()
        if not future.cancelled() and future.exception() is not None:
            log.error("a job's thread failed", exc_info=future.exception())

    def _work(self, claim: Claim, lease: Lease) -> None:
        try:
            report = self.process_claim(claim, lease)
            if report is None:
                log.info("%s attempt %s is no longer ours", claim.task_id, claim.attempt)
                self._forget(claim)
            else:
                # Before it is kept: what is sent again after a restart is what was sent first.
                report = reports.without_secrets(report, self._secrets)
                self._deliver(claim, self._journal.record_report(claim, report))
        except Postponed:
            log.warning("what is known of %s waits for the next start", claim.task_id)
        finally:
            self._heartbeats.drop(lease)

    def process_claim(self, claim: Claim, lease: Lease) -> Report | None:
        """Run the claimed job and return what to report; None when nobody wants to hear of it."""
        try:
            job = verified_job(claim, agent=self._plan.agent, keys=self._keys, wait=lease.carry_on)
            self._adapter.book_calls(job, attempt=claim.attempt)
            # What is known already needs no lease to be reported: the token is enough.
            result = replayed(self._adapter.exchange(job, attempt=claim.attempt))
            if result is None:
                if why := self._adapter.unserved(TypeKnown.of(claim)):
                    return self._deferral(claim, unserved(why))
                lease.wait_until_granted()
                result = self._adapter.execute(job, attempt=claim.attempt, lease=lease)
            return self._report(claim, result, job=job, lease=lease)
        except Postponed:
            raise
        except EnvelopeUnverified as error:
            return self._failure(claim, "ENVELOPE_UNVERIFIED", str(error), retryable=False)
        except KeysUnavailable as error:
            return self._failure(claim, "KEYS_UNAVAILABLE", str(error), retryable=True)
        except (ExchangeConflict, ResultRefused) as error:
            return self._failure(claim, "EXCHANGE_CONFLICT", str(error), retryable=False)
        except NoRoom as error:
            return self._deferral(claim, error.problem)
        except Refused as error:
            return self._refusal(claim, error.problem)
        except GaveUp as error:
            return self._ended(claim, lease.ended, str(error))
        except LeaseEnded as error:
            return self._ended(claim, error.why, str(error))
        except OutcomeUnknown as error:
            return self._ended(claim, lease.ended, str(error), code="OUTCOME_UNKNOWN")
        except Exception as error:  # the thread's edge: an unforeseen fault must be reported, too
            log.exception("%s attempt %s failed here", claim.task_id, claim.attempt)
            return self._failure(claim, "WORKER_ERROR", repr(error), retryable=True)

    def _report(self, claim: Claim, result: Result, *, job: Job, lease: Lease) -> Report:
        exchange = self._adapter.exchange(job, attempt=claim.attempt)
        governed = exchange.asked_to_start
        if (problem := exchange.no_room()) is not None:
            return self._deferral(claim, problem, result=result if governed else None)
        self._asking.served(claim.task_type)
        if self._uploads is not None and reports.completes(result):
            try:
                result = self._uploads.deliver(
                    claim,
                    result,
                    exchange=exchange,
                    path_of=self._adapter.kept_artifact,
                    lease=lease,
                )
            except Undelivered as error:
                failure = self._failure(
                    claim, "UPLOAD_FAILED", str(error), retryable=error.retryable
                )
                return reports.of_undelivered(claim, result, failure, governed=governed)
        return reports.of_result(
            claim,
            result,
            worker_id=self._plane.session.worker_id,
            governed=governed,
            progress=self._progress.of(task_id=claim.task_id, attempt=claim.attempt),
        )

    def _deferral(self, claim: Claim, problem: Problem, result: Result | None = None) -> Report:
        log.warning("%s attempt %s: no room: %s", claim.task_id, claim.attempt, problem.detail)
        self._asking.refused(claim.task_type, problem, for_all=refuses_all(problem))
        return reports.of_deferral(
            claim, problem, worker_id=self._plane.session.worker_id, result=result
        )

    def _failure(self, claim: Claim, code: str, message: str, *, retryable: bool) -> Report:
        log.warning("%s attempt %s: %s: %s", claim.task_id, claim.attempt, code, message)
        return reports.of_failure(
            claim,
            worker_id=self._plane.session.worker_id,
            code=code,
            message=message,
            retryable=retryable,
            progress=self._progress.of(task_id=claim.task_id, attempt=claim.attempt),
        )

    def _ended(
        self, claim: Claim, why: Ended | None, message: str, *, code: str = ""
    ) -> Report | None:
        if why in (Ended.STOPPED, Ended.LOST):
            return None
        if why is Ended.FENCED:
            raise Postponed(message)
        default = "WORKER_STOPPED" if why is Ended.ABORTED else "LEASE_EXPIRED"
        return self._failure(claim, code or default, message, retryable=True)

    def _refusal(self, claim: Claim, problem: Problem) -> Report | None:
        if problem.reason == "STALE_FENCING_TOKEN":
            return None
        if problem.reason in FENCED_REASONS:
            raise Postponed(problem.reason)
        if problem.reason in UNAUTHORIZED_REASONS:
            return self._deferral(claim, problem)
        self._asking.refused(claim.task_type, problem)
        stop = problem.rule in ("stop", "never", "read")
        return self._failure(
            claim, problem.reason or "REFUSED", problem.detail or "refused", retryable=not stop
        )

    # Reports --------------------------------------------------------------------------------

    def _deliver(self, claim: Claim, report: Report) -> None:
        """Send the report's calls in order; what cannot be sent now stays in the journal."""
        try:
            for call in report.calls:
                self._send(claim, call)
        except GaveUp:
            log.warning("the report of %s waits for the next start", claim.task_id)
            return
        self._forget(claim)

    def _send(self, claim: Claim, call: Call) -> None:
        try:
            answer = self._plane.report(call, wait=lambda s: not self._aborting.wait(s))
            outcome = answer.body.get("outcome") or answer.body.get("result_code")
            verb = call.path.rpartition("/")[2]
            code = (call.body or {}).get("error_code") or ""
            log.info("%s attempt %s: %s %s %s", claim.task_id, claim.attempt, verb, outcome, code)
        except Refused as error:
            log.warning("%s attempt %s: %s: %s", claim.task_id, claim.attempt, call.path, error)
            if (
                error.problem.code in ("UNAUTHENTICATED", "PERMISSION_DENIED")
                or error.problem.reason == "LEASE_HELD_BY_ANOTHER"
            ):
                # Nothing is wrong with the report; it is sent when the session is renewed, or to
                # be kept as evidence once the attempt has ended.
                raise GaveUp(call.path) from error
            if call.path.endswith(ENDS) and _ends_the_attempt(error.problem):
                self._fail_unacceptable(claim, error.problem)
            if (plainer := reports.in_fewer_words(call, error.problem)) is not None:
                self._send(claim, plainer)
            if call.path.endswith("/defer") and error.problem.code in NOT_DEFERRED_CODES:
                self._fail_undeferred(claim, error.problem)

    def _fail_unacceptable(self, claim: Claim, problem: Problem) -> None:
        """End an attempt whose completion the control plane cannot take, as failed."""
        unknown = problem.rule == "reconcile"
        code = "OUTCOME_UNKNOWN" if unknown else "RESULT_REFUSED"
        self._fail_now(claim, code, problem.detail or code, retryable=unknown)

    def _fail_undeferred(self, claim: Claim, problem: Problem) -> None:
        """End an attempt that the control plane does not let us defer, as failed."""
        self._fail_now(claim, "DEFERRAL_REFUSED", str(problem.detail), retryable=True)

    def _fail_now(self, claim: Claim, code: str, message: str, *, retryable: bool) -> None:
        failure = self._failure(claim, code, message, retryable=retryable)
        for call in reports.without_secrets(failure, self._secrets).calls:
            self._send(claim, call)

    def _forget(self, claim: Claim) -> None:
        self._journal.close(claim)
        self._progress.forget(task_id=claim.task_id, attempt=claim.attempt)
        self._adapter.discard(task_id=claim.task_id, attempt=claim.attempt)

    # Recovery -------------------------------------------------------------------------------

    def _recover(self, claim: Claim, pool: ThreadPoolExecutor) -> None:
        """Take up an earlier process's attempt: report what is known, resume what never began."""
        self._adapter.recover(task_id=claim.task_id, attempt=claim.attempt)
        report = self._journal.report_of(claim)
        lease = self._lease_of(claim, None)
        if report is not None:
            log.info("reporting %s attempt %s of before", claim.task_id, claim.attempt)
            self._start(pool, lambda c, _: self._deliver(c, report), claim, lease)
            return
        log.info("taking up %s attempt %s again", claim.task_id, claim.attempt)
        self._heartbeats.add(lease)
        self._start(pool, self._work, claim, lease)


def _ends_the_attempt(problem: Problem) -> bool:
    """Return whether a completion that was refused so will never be taken."""
    return problem.rule in ("never", "reconcile") or problem.reason == "MODEL_CALL_REQUIRED"


def _claims_in(answer: Answer) -> list[Claim]:
    """Return the claimed jobs of an answer. One that cannot be read is left to expire."""
    claims = []
    for item in answer.body.get("results") or []:
        # An answer that was lost is given again, to whom the lease may be gone meanwhile.
        if "lease" in item and item["lease"] is None:
            log.warning("attempt %s of a claim of before is no longer ours", item.get("attempt"))
            continue
        try:
            claims.append(Claim.from_answer(item))
        except (ClaimUnreadable, KeyError, TypeError) as error:
            log.error("a claim could not be read: %s", error)
    return claims
