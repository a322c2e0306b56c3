"""The order of what is judged, and the refusals of each stage.

The stages are judged one after another, so that the refusal of an earlier one is answered.  Where
two stages of one request are judged at once, on one row under its lock, either may be.

Source: docs/reference/contract.md, section 4.  The one exception: a call that names no session and
needs one is refused for that after `WrongOwner` and `NotFound`, since another agent's job is a 403
however it is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from governance.core import errors
from governance.core.errors import DomainError


class Stage(NamedTuple):
    """Something that is judged, and the refusals of it, the first to be judged first."""

    about: str
    refusals: tuple[type[DomainError], ...]


STAGES = (
    Stage(
        "the request",
        (
            errors.InvalidArgument,
            errors.MethodNotAllowed,
            errors.NotAcceptable,
            errors.PayloadTooLarge,
            errors.UnsupportedMediaType,
            errors.ProtocolUnsupported,
            errors.IdempotencyKeyRequired,
            errors.IdempotencyKeyInvalid,
        ),
    ),
    Stage(
        "who calls",
        (
            errors.Unauthenticated,
            errors.ClientCertificateMismatch,
            errors.ClientCertificateRequired,
            errors.PermissionDenied,
        ),
    ),
    Stage(
        "its session",
        (
            errors.SessionOfAnother,
            errors.SessionSuperseded,
            errors.SessionRequired,
            errors.SessionNotApproved,
        ),
    ),
    Stage("the epoch", (errors.DispatcherEpochStale,)),
    Stage(
        "the stored answer",
        (
            errors.IdempotencyKeyReused,
            errors.IdempotencyKeyExpired,
            errors.IdempotencyInFlight,
        ),
    ),
    Stage("whose job it is", (errors.WrongOwner, errors.NotFound)),
    Stage(
        "the recorded outcome",
        (
            errors.TaskIdReserved,
            errors.TaskIdTaken,
            errors.TaskContentMismatch,
            errors.OutcomeConflict,
            errors.ResultDigestConflict,
            errors.FactDigestConflict,
            errors.ReflectionConflict,
            errors.ArtifactExists,
            errors.ExecutionConflict,
            errors.RouteContentMismatch,
            errors.BarrierConflict,
        ),
    ),
    Stage("the fencing token", (errors.FencingTokenRequired, errors.StaleFencingToken)),
    Stage(
        "revision and generation",
        (errors.RevisionMismatch, errors.PreconditionFailed, errors.GenerationMismatch),
    ),
    Stage("the holder", (errors.LeaseHeldByAnother,)),
    Stage("the job's state", (errors.OutcomeUnknown, errors.InvalidTransition)),
    Stage("the lease", (errors.LeaseExpired,)),
    Stage("the attempts left", (errors.AttemptsExhausted, errors.RetryCeilingReached)),
    Stage(
        "inhibit and admission",
        (
            errors.MaintenanceInhibited,
            errors.AdmissionDraining,
            errors.AdmissionClosed,
            errors.EffectsClosed,
        ),
    ),
    Stage(
        "approval and risk",
        (errors.SelfApproval, errors.RiskNotAllowed, errors.ApprovalRequired),
    ),
    Stage(
        "permit and execution",
        (
            errors.BindingMismatch,
            errors.PermitSpent,
            errors.PermitRevoked,
            errors.PermitExpired,
            errors.ExecutionPaused,
        ),
    ),
    Stage(
        "model, reservation and budget",
        (
            errors.ModelCallRequired,
            errors.ModelNotAllowed,
            errors.NoModelInForce,
            errors.ModelUnpriced,
            errors.LiveExecutionNotAuthorized,
            errors.ModelReservationStateInvalid,
            errors.BudgetExhausted,
            errors.RateLimited,
            errors.CallRateLimited,
        ),
    ),
    Stage("the artifact", (errors.ChecksumMismatch, errors.GrantExpired)),
    Stage(
        "the service itself",
        (
            errors.JobUnreadable,
            errors.Contention,
            errors.DeadlineExceeded,
            errors.DeadlineExceededUnknown,
            errors.Unavailable,
            errors.Internal,
        ),
    ),
)

PRECEDENCE = tuple(refusal for stage in STAGES for refusal in stage.refusals)
