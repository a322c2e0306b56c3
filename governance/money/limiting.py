"""Set limits: make one, change what it bounds, switch it on and off.

Every move holds the money's lock exclusively, as whoever sets a budget: no call is decided by a
limit as it was, and one that is made or switched on misses no call that is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction

from governance.core import audit, clock, sql
from governance.core.errors import FieldFault, InvalidArgument, NotFound
from governance.core.reasons import required
from governance.core.switching import switchable
from governance.money import metering, room, scopes
from governance.money.budgets import TAKE_MONEY
from governance.money.caps import faults_of_key, faults_of_name
from governance.money.limits import Limit
from governance.money.pricing import TOKENS_MAX

#: Of each bound; more is a mistake, and moves no meter by an instant.
BOUND_MAX = {
    "requests_per_minute": 1_000_000,
    "tokens_per_minute": TOKENS_MAX,
    "open_calls": 1_000_000,
}


@transaction.atomic
def set_limit(
    *,
    scope: str,
    actor: str,
    reason: str,
    key: str = "",
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    open_calls: int | None = None,
    enabled: bool = True,
) -> Limit:
    """Make a limit, or change what the one of that scope and key bounds, from the next call on.

    :param key: as of a budget. The bounds: None for no such bound; at least one is stated.
    :raises InvalidArgument: scope, key or a bound is not valid, or nobody bears that name.
    """
    reason = required(reason)
    bounds = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "open_calls": open_calls,
    }
    if faults := [*faults_of_key(scope, key), *_wrong(bounds)]:
        raise InvalidArgument(errors=faults)
    sql.pipeline(TAKE_MONEY)
    limit = Limit.objects.select_for_update(no_key=True).filter(scope=scope, key=key).first()
    if limit is not None:
        return _changed(limit, bounds | {"enabled": enabled}, actor=actor, reason=reason)
    if key and not scopes.is_each(scope, key):
        # Of a limit that is there its name is not judged: it can always be changed, or ended.
        if faults := list(faults_of_name(scope, key)):
            raise InvalidArgument(errors=faults)
    limit = Limit.objects.create(scope=scope, key=key, enabled=enabled, **bounds)
    _record(limit, before=None, actor=actor, reason=reason)
    return limit


@transaction.atomic
def change_limit(
    *, limit_id: int, bounds: Mapping[str, int | None], actor: str, reason: str
) -> Limit:
    """Change the bounds of a limit that are given, and nothing else.

    :raises NotFound: there is no such limit.
    :raises InvalidArgument: a bound is not valid, or none would be left.
    """
    reason = required(reason)
    limit = _locked(limit_id)
    return _changed(limit, bounds, actor=actor, reason=reason)


@transaction.atomic
def switch_limit(*, limit_id: int, enabled: bool, actor: str, reason: str) -> Limit:
    """Let a limit refuse and meter calls again, or no more.

    :raises NotFound: there is no such limit.
    :raises InvalidTransition: it is so already.
    """
    reason = required(reason)
    limit = _locked(limit_id)
    if refusal := switchable(limit, enabled=enabled):
        raise refusal
    return _changed(limit, {"enabled": enabled}, actor=actor, reason=reason)


def _locked(limit_id: int) -> Limit:
    sql.pipeline(TAKE_MONEY)
    limit = Limit.objects.select_for_update(no_key=True).filter(pk=limit_id).first()
    if limit is None:
        raise NotFound("There is no such limit.")
    return limit


def _changed(limit: Limit, terms: Mapping[str, Any], *, actor: str, reason: str) -> Limit:
    before = terms_of(limit)
    for name, value in terms.items():
        setattr(limit, name, value)
    if faults := list(_wrong({name: getattr(limit, name) for name in Limit.BOUNDS})):
        raise InvalidArgument(errors=faults)
    limit.save(update_fields=list(terms))
    _record(limit, before=before, actor=actor, reason=reason)
    # Whatever it was that had no room is judged anew.
    room.clear_of_limits([limit.pk])
    return limit


def _record(limit: Limit, *, before: dict[str, Any] | None, actor: str, reason: str) -> None:
    """Chain the change, and hold what is open under a limit that counts from now on."""
    if limit.enabled and not (before and before["enabled"]):
        metering.hold_open(limit_id=limit.pk, scope=limit.scope, key=limit.key)
    audit.record(
        limit,
        action="limit.changed" if before else "limit.added",
        actor=actor,
        reason=reason,
        at=clock.now(),
        before=before,
        after=terms_of(limit) | {"scope": limit.scope, "key": limit.key},
        rows=[limit],
    )


def _wrong(bounds: Mapping[str, int | None]) -> Iterator[FieldFault]:
    for name, bound in bounds.items():
        if bound is not None and not 1 <= bound <= BOUND_MAX[name]:
            yield FieldFault(f"/{name}", f"1 to {BOUND_MAX[name]}, or none")
    if not any(bound is not None for bound in bounds.values()):
        yield FieldFault("/requests_per_minute", "one of the three bounds at least")


def terms_of(limit: Limit) -> dict[str, Any]:
    """Return what a limit bounds and whether it counts, as events and facts have them."""
    return {name: getattr(limit, name) for name in (*Limit.BOUNDS, "enabled")}
