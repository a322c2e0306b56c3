"""Agents and submitters are entered into the books."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.contrib.auth import get_user_model
from django.db import transaction

from agents import barrier, prefixes
from agents.models import (
    PREFIX,
    PREFIX_CHARS_MAX,
    PREFIX_CHARS_MIN,
    PREFIX_ENDS,
    Agent,
    RiskTier,
    Submitter,
    TaskPrefix,
)
from governance.core import audit, clock
from governance.core.errors import FieldFault, InvalidArgument, NotFound
from governance.core.reasons import required

STALE_SECONDS_MAX = 86_400
WORKERS_EXPECTED_MAX = 1000
#: Names stand in paths, in subjects of the audit trail, and on approval pages.
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


@transaction.atomic
def register_agent(
    *, name: str, actor: str, reason: str, max_risk_tier: str = RiskTier.MEDIUM
) -> Agent:
    """Enter an agent; one that is there already is returned as it is.

    :raises InvalidArgument: the name is not made of letters, digits, hyphens and underscores.
    """
    _check_name(name)
    now = clock.now()
    agent, made = Agent.objects.get_or_create(
        name=name, defaults={"max_risk_tier": max_risk_tier, "created_at": now}
    )
    if made:
        audit.record(
            agent,
            action="agent.registered",
            actor=actor,
            at=now,
            reason=reason,
            after={"max_risk_tier": str(max_risk_tier)},
            rows=[agent],
        )
    return agent


@dataclass(frozen=True)
class Settings:
    """What an operator may change of an agent; None leaves a setting as it is.

    `fresh_seconds` and `stale_seconds`: ages of the last heartbeat at which it is late and stale.
    `workers_expected`: how many of its workers the guard wants fresh, where the agent is expected.
    """

    enabled: bool | None = None
    expected: bool | None = None
    approve_cells: bool | None = None
    require_certificates: bool | None = None
    max_risk_tier: str | None = None
    fresh_seconds: int | None = None
    stale_seconds: int | None = None
    workers_expected: int | None = None


@transaction.atomic
def configure_agent(*, name: str, actor: str, reason: str, settings: Settings) -> Agent:
    """Change settings of an agent; from its commit on no worker acts under the old ones.

    :raises NotFound: there is no such agent.
    :raises InvalidArgument: there is nothing to change, or it makes no sense.
    """
    reason = required(reason)
    [agent] = barrier.hold([name])
    changes = {key: value for key, value in asdict(settings).items() if value is not None}
    before = {key: getattr(agent, key) for key in changes}
    if before == changes:
        raise InvalidArgument("Nothing would change.")
    for key, value in changes.items():
        setattr(agent, key, value)
    if agent.max_risk_tier not in RiskTier.values:
        raise InvalidArgument("There is no such risk tier.")
    if not 1 <= agent.fresh_seconds <= agent.stale_seconds <= STALE_SECONDS_MAX:
        raise InvalidArgument("An agent is late before it is stale, and stale within a day.")
    if not 1 <= agent.workers_expected <= WORKERS_EXPECTED_MAX:
        raise InvalidArgument(f"1 to {WORKERS_EXPECTED_MAX} workers can be expected.")
    agent.save(update_fields=sorted(changes))
    audit.record(
        agent,
        action="agent.configured",
        actor=actor,
        at=clock.now(),
        reason=reason,
        before=before,
        after=changes,
        rows=[agent],
    )
    return agent


@transaction.atomic
def register_submitter(*, name: str, actor: str, reason: str, owner: str = "") -> Submitter:
    """Enter a submitter; one that is there already is returned as it is.

    :param owner: username of the person who answers for it; may not approve its high risks.
    :raises NotFound: there is no such user.
    :raises InvalidArgument: the name is not made of letters, digits, hyphens and underscores.
    """
    _check_name(name)
    user = None
    if owner:
        user = get_user_model().objects.filter(username=owner).first()
        if user is None:
            raise NotFound(f"There is no user {owner}.")
    now = clock.now()
    submitter, made = Submitter.objects.get_or_create(
        name=name, defaults={"owner": user, "created_at": now}
    )
    if made:
        audit.record(
            submitter,
            action="submitter.registered",
            actor=actor,
            at=now,
            reason=reason,
            after={"owner": owner},
            rows=[submitter],
        )
    return submitter


@transaction.atomic
def configure_submitter(
    *,
    name: str,
    actor: str,
    reason: str,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> Submitter:
    """Give a submitter prefixes of task ids that nobody else may use, or take some away.

    Once it is done no intake that was judged by the older prefixes can still commit. Jobs that
    exist stay their submitters', whatever their ids. Source: contract section 5.

    :raises NotFound: there is no such submitter.
    :raises InvalidArgument: a prefix is too short, or ends no word; it contains another one, or is
        contained; one that is taken away is not the submitter's; nothing would change.
    """
    reason = required(reason)
    prefixes.hold()
    row = Submitter.objects.select_for_update(no_key=True, of=("self",)).filter(name=name).first()
    if row is None:
        raise NotFound("There is no such submitter.")
    now = clock.now()
    before = _prefixes_of(row)
    changed = []
    for prefix in remove:
        gone = TaskPrefix.objects.filter(submitter=row, prefix=prefix).first()
        if gone is None:
            raise _prefix_fault(f"{prefix} is no prefix of this submitter.")
        changed.append(TaskPrefix(pk=gone.pk))
        gone.delete()
    for prefix in add:
        if prefix not in before or prefix in remove:
            _check_prefix(prefix)
            made = TaskPrefix.objects.create(submitter=row, prefix=prefix, created_at=now)
            changed.append(made)
    after = _prefixes_of(row)
    if after == before:
        raise InvalidArgument("Nothing would change.")
    audit.record(
        row,
        action="submitter.configured",
        actor=actor,
        at=now,
        reason=reason,
        before={"task_prefixes": before},
        after={"task_prefixes": after},
        rows=changed,
    )
    return row


def _prefixes_of(submitter: Submitter) -> list[str]:
    return sorted(submitter.task_prefixes.values_list("prefix", flat=True))


def _check_prefix(prefix: str) -> None:
    """Refuse a prefix that is none, or that stands in the way of another. The trigger agrees.

    :raises InvalidArgument: as `configure_submitter`.
    """
    if not re.fullmatch(PREFIX.strip("^$"), prefix):
        raise _prefix_fault(
            f"{PREFIX_CHARS_MIN} to {PREFIX_CHARS_MAX} characters, ending in one of {PREFIX_ENDS}"
        )
    for other in TaskPrefix.objects.select_related("submitter").order_by("prefix"):
        if other.prefix.startswith(prefix) or prefix.startswith(other.prefix):
            raise _prefix_fault(f"{other.prefix} is a prefix of {other.submitter} already.")


def _prefix_fault(detail: str) -> InvalidArgument:
    fault = FieldFault("/task_id_prefix", detail)
    return InvalidArgument(f"The prefix cannot be used: {detail}", errors=[fault])


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        wanted = "1 to 60 letters without accents, digits, hyphens and underscores"
        raise InvalidArgument("The name cannot be used.", errors=[FieldFault("/name", wanted)])
