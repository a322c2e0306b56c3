"""Every refusal that the service can answer with, one class each.

The codes, statuses and retry rules are the published interface: none is renamed or reused.
In which order they are judged, `precedence` says; what a refusal is, `refusals`.
`docs/reference/errors.md` is generated from all.
"""

from __future__ import annotations

from governance.core.refusals import CODES as CODES
from governance.core.refusals import CONFLICTING_CODES as CONFLICTING_CODES
from governance.core.refusals import DEFER as DEFER
from governance.core.refusals import DEFER_SECONDS as DEFER_SECONDS
from governance.core.refusals import EFFECTS as EFFECTS
from governance.core.refusals import RESULT_CODES as RESULT_CODES
from governance.core.refusals import RETRY_RULES as RETRY_RULES
from governance.core.refusals import STORED_RULES as STORED_RULES
from governance.core.refusals import DomainError as DomainError
from governance.core.refusals import FaultOut as FaultOut
from governance.core.refusals import FieldFault as FieldFault
from governance.core.refusals import Problem as Problem
from governance.core.refusals import RetryOut as RetryOut
from governance.core.refusals import type_base as type_base

# --- INVALID_ARGUMENT: the request itself is wrong -------------------------------------------


class InvalidArgument(DomainError):
    """The request is not valid."""

    uses_key = False
    code, reason, status, retry = "INVALID_ARGUMENT", "INVALID_ARGUMENT", 400, "never"


class MethodNotAllowed(InvalidArgument):
    """This path does not know that method."""

    reason, status = "METHOD_NOT_ALLOWED", 405


class NotAcceptable(InvalidArgument):
    """The service answers in JSON only."""

    reason, status = "NOT_ACCEPTABLE", 406


class PayloadTooLarge(InvalidArgument):
    """The request body is larger than the service takes."""

    reason, status = "PAYLOAD_TOO_LARGE", 413


class UnsupportedMediaType(InvalidArgument):
    """The request body must be application/json."""

    reason, status = "UNSUPPORTED_MEDIA_TYPE", 415


class ProtocolUnsupported(InvalidArgument):
    """The protocol version is not one that this service speaks."""

    reason = "PROTOCOL_UNSUPPORTED"


class IdempotencyKeyRequired(InvalidArgument):
    """This call needs an Idempotency-Key header."""

    reason = "IDEMPOTENCY_KEY_REQUIRED"


class IdempotencyKeyInvalid(InvalidArgument):
    """The Idempotency-Key must be a UUID; of version 7, with a time that can be right."""

    reason = "IDEMPOTENCY_KEY_INVALID"


# --- UNAUTHENTICATED, PERMISSION_DENIED: before anything is looked at -------------------------


class Unauthenticated(DomainError):
    """A valid bearer token is required."""

    code, reason, status, retry = (
        "UNAUTHENTICATED",
        "UNAUTHENTICATED",
        401,
        "reauthenticate",
    )


class ClientCertificateMismatch(Unauthenticated):
    """The credential is bound to another client certificate."""

    reason = "CLIENT_CERTIFICATE_MISMATCH"


class ClientCertificateRequired(Unauthenticated):
    """The agent demands client certificates; this credential is bound to none."""

    reason = "CLIENT_CERTIFICATE_REQUIRED"


class PermissionDenied(DomainError):
    """The credential may not do that."""

    code, reason, status, retry = "PERMISSION_DENIED", "PERMISSION_DENIED", 403, "stop"


# --- Sessions and epochs ----------------------------------------------------------------------


class SessionOfAnother(Unauthenticated):
    """The session, or the cell, belongs to another lineage of credentials or certificate."""

    reason = "SESSION_OF_ANOTHER"


class SessionSuperseded(Unauthenticated):
    """A newer boot has taken the session's place, or an operator or a revocation has ended it."""

    reason = "SESSION_SUPERSEDED"


class SessionRequired(Unauthenticated):
    """This call needs an activated session."""

    reason = "SESSION_REQUIRED"


class SessionNotApproved(PermissionDenied):
    """An operator has not approved this cell of the agent."""

    reason = "SESSION_NOT_APPROVED"


class DispatcherEpochStale(DomainError):
    """The control plane has a newer epoch; activate again."""

    code, reason = "ABORTED", "DISPATCHER_EPOCH_STALE"


# --- Idempotency ------------------------------------------------------------------------------


class IdempotencyKeyReused(DomainError):
    """The idempotency key was used with other content."""

    uses_key = False
    code, reason, status, retry = "ABORTED", "IDEMPOTENCY_KEY_REUSED", 422, "never"


class IdempotencyKeyExpired(DomainError):
    """The idempotency key is older than the service remembers keys."""

    code, reason, status, retry = "ABORTED", "IDEMPOTENCY_KEY_EXPIRED", 422, "reconcile"
    effect = "unknown"


class IdempotencyInFlight(DomainError):
    """The same request is being executed right now."""

    code, reason, retry, effect = (
        "ABORTED",
        "IDEMPOTENCY_IN_FLIGHT",
        "same_key",
        "unknown",
    )


# --- What the call is about: looked at only for a caller who may act --------------------------


class WrongOwner(PermissionDenied):
    """The job belongs to another agent."""

    reason = "WRONG_OWNER"


class NotFound(DomainError):
    """There is no such thing, or not for this caller."""

    code, reason, status, retry = "NOT_FOUND", "NOT_FOUND", 404, "never"


# --- Recorded outcomes ------------------------------------------------------------------------


class TaskIdReserved(PermissionDenied):
    """Another submitter owns the prefix of this task id; choose another."""

    reason = "TASK_ID_RESERVED"


class TaskIdTaken(DomainError):
    """Another submitter has used this task id; choose another."""

    code, reason, retry = "ALREADY_EXISTS", "TASK_ID_TAKEN", "read"


class TaskContentMismatch(DomainError):
    """A task of this id exists with another envelope."""

    code, reason, retry = "ALREADY_EXISTS", "TASK_CONTENT_MISMATCH", "read"


class OutcomeConflict(DomainError):
    """This attempt has already recorded another outcome."""

    code, reason = "ABORTED", "OUTCOME_CONFLICT"


class ResultDigestConflict(DomainError):
    """This execution has already recorded another result."""

    code, reason = "ABORTED", "RESULT_DIGEST_CONFLICT"


class FactDigestConflict(DomainError):
    """A fact of this id is recorded with other content."""

    code, reason = "ABORTED", "FACT_DIGEST_CONFLICT"


class ReflectionConflict(DomainError):
    """A reflection of this number is recorded with other content."""

    code, reason, retry = "ALREADY_EXISTS", "REFLECTION_CONTENT_MISMATCH", "read"


class ArtifactExists(DomainError):
    """The attempt has delivered an artifact of that name already."""

    code, reason, retry = "ALREADY_EXISTS", "ARTIFACT_EXISTS", "read"


class ExecutionConflict(DomainError):
    """This execution was started under another permit or request."""

    code, reason, retry = "ALREADY_EXISTS", "EXECUTION_CONFLICT", "read"


class RouteContentMismatch(DomainError):
    """This model call was decided for another request."""

    code, reason, retry = "ALREADY_EXISTS", "ROUTE_CONTENT_MISMATCH", "read"


class BarrierConflict(DomainError):
    """This barrier id was used for another admission change."""

    code, reason, retry = "ALREADY_EXISTS", "BARRIER_CONFLICT", "read"


# --- Tokens, states, leases -------------------------------------------------------------------


class FencingTokenRequired(DomainError):
    """The write is ambiguous without attempt and fencing_token."""

    reason = "FENCING_TOKEN_REQUIRED"


class StaleFencingToken(DomainError):
    """The fencing token is not the current one."""

    code, reason = "ABORTED", "STALE_FENCING_TOKEN"


class RevisionMismatch(DomainError):
    """The job has moved on since the revision that was expected."""

    code, reason = "ABORTED", "REVISION_MISMATCH"


class PreconditionFailed(RevisionMismatch):
    """The job has moved on since the revision in If-Match."""

    status = 412


class GenerationMismatch(DomainError):
    """The admission generation has moved on."""

    code, reason = "ABORTED", "GENERATION_MISMATCH"


class OutcomeUnknown(DomainError):
    """An execution was started and its outcome is not known."""

    reason, retry, effect = "OUTCOME_UNKNOWN", "reconcile", "unknown"


class InvalidTransition(DomainError):
    """The job's state does not allow that."""

    reason = "INVALID_TRANSITION"


class LeaseExpired(DomainError):
    """The lease has expired."""

    reason = "LEASE_EXPIRED"


class LeaseHeldByAnother(DomainError):
    """Another worker holds the lease."""

    reason = "LEASE_HELD_BY_ANOTHER"


class AttemptsExhausted(DomainError):
    """No attempts are left; an operator can extend them."""

    reason = "ATTEMPTS_EXHAUSTED"


class RetryCeilingReached(DomainError):
    """The job type's ceiling does not allow that many attempts."""

    reason = "RETRY_CEILING_REACHED"


# --- Admission, inhibit -----------------------------------------------------------------------


class MaintenanceInhibited(DomainError):
    """New work is stopped for maintenance."""

    code, reason, status, retry = "UNAVAILABLE", "MAINTENANCE_INHIBITED", 503, "wait"


class AdmissionDraining(DomainError):
    """The agent is draining and takes no new work."""

    reason = "ADMISSION_DRAINING"


class AdmissionClosed(DomainError):
    """The agent is closed: it begins nothing, neither a job nor an effect."""

    reason = "ADMISSION_CLOSED"


class EffectsClosed(AdmissionClosed):
    """The agent is closed: what it has claimed begins no effect; defer it."""

    retry = DEFER


# --- Approval, risk ---------------------------------------------------------------------------


class SelfApproval(PermissionDenied):
    """Nobody approves what they asked for themselves."""

    reason = "SELF_APPROVAL"


class RiskNotAllowed(PermissionDenied):
    """The agent is not allowed work of this risk tier."""

    reason = "RISK_NOT_ALLOWED"


class ApprovalRequired(PermissionDenied):
    """The job needs a valid approval first."""

    reason = "APPROVAL_REQUIRED"


# --- Permits, executions, models, money -------------------------------------------------------


class PermitSpent(DomainError):
    """The permit has been used."""

    reason = "PERMIT_SPENT"


class PermitRevoked(DomainError):
    """The permit was revoked."""

    reason = "PERMIT_REVOKED"


class PermitExpired(DomainError):
    """The permit's deadline has passed."""

    reason = "PERMIT_EXPIRED"


class ExecutionPaused(DomainError):
    """The job is paused; no execution starts until it is resumed."""

    reason = "EXECUTION_PAUSED"


class BindingMismatch(InvalidArgument):
    """The request id is not the one of this task, job, execution, runtime and attempt."""

    uses_key = True
    reason = "BINDING_MISMATCH"


class ModelNotAllowed(PermissionDenied):
    """No allowed model fits the request."""

    reason = "MODEL_NOT_ALLOWED"


class NoModelInForce(ModelNotAllowed):
    """No policy in force allows this kind of work any model; defer it."""

    retry = DEFER


class ModelUnpriced(PermissionDenied):
    """The model has no known price, so no cap could hold."""

    reason = "MODEL_UNPRICED"


class ModelCallRequired(DomainError):
    """Work of this type is not complete without a call of a model that was paid for."""

    reason = "MODEL_CALL_REQUIRED"


class LiveExecutionNotAuthorized(PermissionDenied):
    """Live execution is not authorized for this agent and runtime."""

    reason = "LIVE_EXECUTION_NOT_AUTHORIZED"


class ModelReservationStateInvalid(DomainError):
    """The reservation has ended in another way."""

    reason = "MODEL_RESERVATION_STATE_INVALID"


class BudgetExhausted(DomainError):
    """A budget has no room for this reservation."""

    code, reason, status, retry = "RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", 429, DEFER


class RateLimited(DomainError):
    """Too many requests."""

    code, reason, status, retry = "RESOURCE_EXHAUSTED", "RATE_LIMITED", 429, "wait"


class CallRateLimited(RateLimited):
    """A limit of requests, tokens or open calls has no room for this call now; defer it."""

    retry = DEFER


class ChecksumMismatch(DomainError):
    """The stored object is not the one that was announced."""

    reason = "CHECKSUM_MISMATCH"


class GrantExpired(DomainError):
    """The upload grant has expired."""

    reason = "GRANT_EXPIRED"


# --- The service itself -----------------------------------------------------------------------


class JobUnreadable(DomainError):
    """What is stored of this job cannot be read; it is as it was, and an operator is told.

    Others go on. Keep what you have to say of it, and send it again later.
    """

    code, reason, status, retry = "UNAVAILABLE", "JOB_UNREADABLE", 503, "wait"


class Contention(DomainError):
    """The service is busy with the same rows; send the same request again."""

    code, reason, status, retry = "UNAVAILABLE", "CONTENTION", 503, "same_key"


class Unavailable(DomainError):
    """The service cannot answer now; ask for the outcome before any retry."""

    code, reason, status, retry = "UNAVAILABLE", "UNAVAILABLE", 503, "reconcile"
    effect = "unknown"


class DeadlineExceeded(DomainError):
    """The time that the caller has set was over before the call was done."""

    code, reason, status, retry = "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", 504, "reconcile"


class DeadlineExceededUnknown(DeadlineExceeded):
    """The time that the caller has set was over when a part of the call had been committed."""

    effect = "unknown"


class Internal(DomainError):
    """Something went wrong on our side; ask for the outcome before any retry."""

    code, reason, status, retry = "UNAVAILABLE", "INTERNAL", 500, "reconcile"
    effect = "unknown"
