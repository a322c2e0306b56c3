"""What operators can do about executions: find out what became of one, and let agents act live."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from governance.core.errors import DomainError
from governance.core.fields import Choice, Span, Text, Whole
from governance.core.permissions import OPERATOR, Permission
from governance.core.verbs import Done, Target, Together, Verb, of_row
from governance.money.pricing import TOKENS_MAX
from jobs import executions
from jobs.models import Execution, LiveAuthorization
from jobs.transitions import Outcome, live, preconditions

RECONCILE_EXECUTION = Permission(
    "reconcile_execution", "Can reconcile an execution whose outcome is unknown", (OPERATOR,)
)
AUTHORIZE_LIVE = Permission("authorize_live", "Can authorize live execution")

EXECUTION, LIVE = Target(Execution, key="external_request_id"), Target(LiveAuthorization)


def _reconcile(
    *,
    key: str,
    actor: str,
    reason: str,
    verdict: str,
    evidence: str,
    result_pointer: str = "",
    input_tokens: int | None = None,
    output_tokens: int | None = None,
) -> Outcome:
    usage = None
    if input_tokens is not None and output_tokens is not None:
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return executions.reconcile(
        external_request_id=key,
        actor=actor,
        verdict=verdict,
        reason=reason,
        evidence={"told_by_operator": evidence},
        result_pointer=result_pointer,
        usage=usage,
    )


def reconcilable(row: Any, /, *, actor: str, now: datetime) -> DomainError | None:
    """Return why an execution is not reconciled; None where a person has to find out about it.

    :param row: an execution with its job, and `reconciled` of `jobs.waiting.RECONCILED`.
    """
    return preconditions.reconcilable(row, job=row.job, reconciled=row.reconciled)


def _reconciled(outcome: Outcome) -> Done:
    return Done(
        f"{outcome.outcome.replace('_', ' ')}, the job is now {outcome.job.state}",
        {"outcome": outcome.outcome, "state": outcome.job.state},
    )


RECONCILE = Verb(
    name="reconcile",
    on=EXECUTION,
    label="Reconcile",
    permission=RECONCILE_EXECUTION,
    effect="Says what became of an effect that was started and never reported. Job and "
    "reservation follow in the same transaction.",
    fields=(
        Choice(
            name="verdict",
            choices=(
                ("happened", "It happened: the job has its result, the reservation is settled"),
                (
                    "not_happened",
                    "It did not happen: try again if attempts are left, hold no money",
                ),
                ("undetermined", "Not to be found out yet: keep the evidence, move nothing"),
            ),
            meant=True,
        ),
        Text(
            name="evidence",
            chars_max=4000,
            lines=3,
            help="Where you looked and what you found: a provider's log, a request id, a ticket.",
        ),
        Text(
            name="result_pointer",
            chars_max=1000,
            required=False,
            help="Where the result is, if it happened.",
        ),
        Whole(
            name="input_tokens",
            least=0,
            most=TOKENS_MAX,
            required=False,
            help="As the provider billed. Empty: the estimate.",
        ),
        Whole(name="output_tokens", least=0, most=TOKENS_MAX, required=False),
    ),
    rules=(Together(("input_tokens", "output_tokens")),),
    run=_reconcile,
    done=_reconciled,
    precondition=reconcilable,
    bulk=False,
    command="reconcile",
)


def _revoke_live(*, key: int, actor: str, reason: str) -> LiveAuthorization:
    return live.revoke_live(authorization_id=key, actor=actor, reason=reason)


def _authorized(row: LiveAuthorization) -> Done:
    until = f"{row.ends_at:%Y-%m-%d %H:%M:%SZ}"
    return Done(
        f"{row.agent} may execute live under {row.runtime} until {until}",
        {"authorization_id": row.pk, "ends_at": row.ends_at},
    )


AUTHORIZE = Verb(
    name="make",
    on=LIVE,
    label="Authorize live execution",
    permission=AUTHORIZE_LIVE,
    effect="Lets the agent execute live under the runtime until the end that you give.",
    fields=(
        Text(name="agent", chars_max=60),
        Text(name="runtime", chars_max=40),
        Span(
            name="valid_seconds",
            given_as="hours",
            unit="hours",
            least=1,
            most=live.AUTHORIZED_SECONDS_MAX,
            initial=8,
        ),
    ),
    run=live.authorize_live,
    done=_authorized,
    makes=True,
    grave=True,
    command="authorize_live",
)
REVOKE = Verb(
    name="revoke",
    on=LIVE,
    label="Revoke",
    permission=AUTHORIZE_LIVE,
    effect="Takes each authorization back at once: later starts are refused.",
    run=_revoke_live,
    done=lambda row: Done("revoked", {"authorization_id": row.pk, "revoked_at": row.revoked_at}),
    precondition=of_row(live.revoked),
    grave=True,
    command="revoke_live",
)

VERBS: tuple[Verb[Any], ...] = (
    RECONCILE,
    AUTHORIZE,
    REVOKE,
)
