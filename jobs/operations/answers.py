"""The answers of the jobs API: what transitions and queries return, as JSON objects."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from governance.money.ledger import Resolved, Routed
from governance.money.models import Reservation
from governance.money.pricing import text_of
from jobs.executions import IssuedPermit, ResultOutcome, StartOutcome
from jobs.models import Execution, Lease, Permit, Priority, Skill, Upload
from jobs.queries import ExecutionRecord, JobRecord, heartbeat_interval_seconds, instant
from jobs.transitions.claims import ClaimOutcome, LeaseGrant
from jobs.transitions.facts import Receipt
from jobs.transitions.reflections import ReflectionOutcome
from jobs.transitions.skills import Extracted
from jobs.transitions.uploads import UploadGrant, UploadOutcome
from jobs.transitions.work import Outcome

# --- Jobs -------------------------------------------------------------------------------------


def job(record: JobRecord) -> dict[str, Any]:
    """Return the job; contract section 1, "Shapes"."""
    row, task, attempt = record.job, record.task, record.last_attempt
    return {
        "job_id": str(row.job_id),
        "task_id": row.task_id,
        "owner": record.owner,
        "state": row.state,
        "status": row.state,
        "paused": row.paused,
        "task_type": record.job_type,
        "risk_tier": row.risk_tier,
        "priority": Priority(row.priority).label,
        "source": task.source,
        "title": task.title,
        "goal": task.goal,
        "inputs": task.inputs,
        "labels": task.labels,
        "output_required": task.output_required,
        "rollback_required": task.rollback_required,
        "review_required": row.review_required,
        "execution_approval_required": row.execution_approval_required,
        "attempt": row.attempt,
        "attempt_number": row.attempt,
        "max_attempts": row.max_attempts,
        "revision": row.revision,
        "claimed_by": attempt.worker_id if attempt and row.state == "active" else None,
        "result": attempt.result if attempt else None,
        "result_pointer": (attempt.result_pointer or None) if attempt else None,
        "error_code": (attempt.error_code or None) if attempt else None,
        "error_message": (attempt.error_message or None) if attempt else None,
        "execution_digest": task.execution_digest,
        "available_at": instant(row.available_at),
        "hold_until": instant(row.hold_until),
        "deadline_at": instant(row.deadline_at),
        "expires_if_not_started_at": instant(row.expires_if_not_started_at),
        "created_at": instant(row.created_at),
        "state_since": instant(row.state_since),
        "finished_at": instant(row.finished_at),
    }


def moved(outcome: Outcome) -> dict[str, Any]:
    """Return what a move on one job is answered with."""
    return {"outcome": outcome.outcome, "job": job(outcome.record)}


def controlled(outcome: Outcome) -> dict[str, Any]:
    """Return what STOP, PAUSE and RESUME are answered with."""
    return moved(outcome) | {"result_code": "APPLIED"}


def claimed(outcome: ClaimOutcome) -> dict[str, Any]:
    """Return what a claim is answered with.

    What it grants stands in the job as well, which so is all that its worker needs.
    """
    if outcome.grant is None:
        return moved(outcome)
    granted = _granted(outcome.record, outcome.grant)
    return {"outcome": outcome.outcome, "job": job(outcome.record) | granted, **granted}


def reflected(outcome: ReflectionOutcome) -> dict[str, Any]:
    """Return what a reflection is answered with."""
    return moved(outcome) | {"sequence_number": outcome.sequence_number}


def _granted(record: JobRecord, grant: LeaseGrant) -> dict[str, Any]:
    rework = grant.rework
    return {
        "attempt": grant.attempt.number,
        "fencing_token": grant.attempt.fencing_token,
        "runtime": grant.attempt.runtime,
        "lease": _lease(grant.lease, at=grant.at),
        "envelope": record.task.envelope,
        "execution_digest": record.task.execution_digest,
        "attempt_deadline_at": instant(grant.attempt.deadline_at),
        "previous_progress": grant.previous_progress,
        "rework": {"reason": rework.reason, "attempt": rework.attempt} if rework else None,
    }


def _lease(lease: Lease, *, at: datetime) -> dict[str, Any]:
    """Return the lease; `ttl_seconds` is what its holder reckons with."""
    return {
        "ttl_seconds": _seconds_until(lease.expires_at, at),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(lease.lease_seconds),
        "expires_at": instant(lease.expires_at),
    }


def _seconds_until(end: datetime, at: datetime) -> int:
    """Return the whole seconds that are left, none where the end has passed."""
    return max(0, int((end - at) / timedelta(seconds=1)))


# --- Skills -----------------------------------------------------------------------------------


def skills(found: list[Skill]) -> dict[str, Any]:
    """Return a list of skills."""
    return {"skills": [_skill(row) for row in found]}


def extracted(extraction: Extracted) -> dict[str, Any]:
    """Return what an extraction of skills is answered with."""
    return {
        "outcome": extraction.outcome,
        "created": extraction.created,
        "updated": extraction.updated,
        **skills(extraction.skills),
    }


def rated(row: Skill) -> dict[str, Any]:
    """Return what a report on a skill is answered with."""
    return {"outcome": "recorded", "skill": _skill(row)}


def _skill(row: Skill) -> dict[str, Any]:
    return {
        "skill_id": row.pk,
        "task_type": row.task_type,
        "context_type": row.context_type,
        "pattern": row.pattern,
        "tool_sequence": row.tool_sequence,
        "occurrences": row.occurrences,
        "successes": row.successes,
        "failures": row.failures,
        "confidence": row.confidence,
        "updated_at": instant(row.updated_at),
    }


# --- Money ------------------------------------------------------------------------------------


def routed(route: Routed) -> dict[str, Any]:
    """Return a decision that was issued, and what it reserved; contract section 9."""
    decision, reservation = route.decision, route.reservation
    return {
        "decision": decision.decision,
        "decision_id": str(decision.decision_id),
        "reason": decision.reason or None,
        "provider": route.provider or None,
        "model": route.model or None,
        "price_version": decision.price_version or None,
        "position": decision.position,
        "policy_id": decision.policy_id,
        "reservation": _reservation(reservation) if reservation else None,
    }


def resolved(end: Resolved) -> dict[str, Any]:
    """Return how a reservation ended; contract section 9."""
    return {
        "outcome": end.outcome,
        "state": end.resolution.ended_as,
        "actual": text_of(end.resolution.cost),
        "overrun": end.resolution.overrun,
        "usage_missing": end.resolution.usage_missing,
    }


def _reservation(row: Reservation) -> dict[str, Any]:
    return {
        "reservation_id": str(row.reservation_id),
        "state": row.state,
        "amount": text_of(row.amount),
        "currency": row.currency,
    }


# --- Executions -------------------------------------------------------------------------------


def permit(issued: IssuedPermit) -> dict[str, Any]:
    """Return a permit; contract section 9."""
    row: Permit = issued.permit
    return {
        "permit_id": str(row.permit_id),
        "state": row.state,
        "mode": row.mode,
        "dispatcher_epoch": str(row.dispatcher_epoch),
        "session_generation": row.session_generation,
        "fencing_token": row.fencing_token,
        "reservation_id": str(row.reservation_id) if row.reservation_id else None,
        "deadline": instant(row.deadline_at),
        "deadline_seconds": _seconds_until(row.deadline_at, issued.at),
    }


def started(outcome: StartOutcome) -> dict[str, Any]:
    """Return what a start is answered with."""
    return _execution(outcome.execution, at=outcome.at)


def result(outcome: ResultOutcome) -> dict[str, Any]:
    """Return what the report of a result is answered with."""
    return {
        "outcome": outcome.outcome,
        "result_code": "ACCEPTED" if outcome.as_evidence else "APPLIED",
        "execution": _execution(outcome.execution, at=outcome.at),
    }


def execution(record: ExecutionRecord) -> dict[str, Any]:
    """Return an execution with its permit, reservations and evidence."""
    return {
        **_execution(record.execution, at=record.at),
        "permit_id": str(record.execution.permit.permit_id),
        "reservations": [
            _reservation(row) | {"route_request_id": row.route_request_id}
            for row in record.reservations
        ],
        "evidence": [
            {
                "given_by": row.given_by,
                "given_at": instant(row.given_at),
                "attempt": row.attempt,
                "outcome": row.outcome,
                "content_sha256": row.content_sha256,
            }
            for row in record.evidence
        ],
        "reconciliations": [
            {
                "verdict": row.verdict,
                "decided_by": row.decided_by,
                "decided_at": instant(row.decided_at),
                "reason": row.reason,
            }
            for row in record.reconciliations
        ],
    }


def _execution(row: Execution, *, at: datetime) -> dict[str, Any]:
    refused = row.state == Execution.State.REFUSED
    return {
        "decision": "refused" if refused else "issued",
        "external_request_id": row.external_request_id,
        "state": row.state,
        "result_code": "UNKNOWN" if row.state == "unknown" else "APPLIED",
        "attempt": row.attempt,
        "mode": row.mode,
        "runtime": row.runtime,
        "execution_digest": row.execution_digest,
        "request_sha256": row.request_sha256,
        "refusal_reason": row.refusal_reason or None,
        "result_sha256": row.result_sha256 or None,
        "result": row.result,
        "result_pointer": row.result_pointer or None,
        "usage": row.usage,
        "error_code": row.error_code or None,
        "decided_at": instant(row.decided_at),
        "resulted_at": instant(row.resulted_at),
        "deadline_seconds": _seconds_until(row.deadline_at, at),
    }


# --- Artifacts and facts ----------------------------------------------------------------------


def upload_grant(granted: UploadGrant) -> dict[str, Any]:
    """Return the grant to put one object."""
    grant = granted.grant
    return {
        "upload_id": str(granted.upload.upload_id),
        "method": grant.method,
        "url": grant.url,
        "headers": grant.headers,
        "object_key": grant.object_key,
        "expires_at": instant(granted.upload.expires_at),
        "max_bytes": grant.max_bytes,
    }


def uploaded(outcome: UploadOutcome) -> dict[str, Any]:
    """Return the receipt of an artifact."""
    row: Upload = outcome.upload
    return {
        "outcome": outcome.outcome,
        "artifact_id": str(row.artifact_id),
        "fact_id": row.fact_id,
        "result_code": "APPLIED",
    }


def receipt(fact: Receipt) -> dict[str, Any]:
    """Return the receipt of a fact."""
    return {
        "receipt_id": str(fact.receipt_id),
        "fact_id": fact.fact_id,
        "sequence": fact.sequence,
        "recorded_at": instant(fact.recorded_at),
        "result_code": "ACCEPTED",
    }
