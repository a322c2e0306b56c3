"""What governors can do about limits of calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from governance.core.fields import Choice, Whole
from governance.core.switching import switchable
from governance.core.verbs import Done, Target, Verb, of_row
from governance.money import limiting
from governance.money.limits import Limit
from governance.money.models import Budget
from governance.money.verbs import ADJUST_BUDGET, COUNTED_FOR, key_as_counted_for

LIMIT = Target(Limit)
BOUNDS = tuple(
    Whole(name=name, least=1, most=most, required=False, help="Empty: no such bound.")
    for name, most in limiting.BOUND_MAX.items()
)
#: What changes bounds that are there: what is left open stays as it is.
NEW_BOUNDS = (
    *(replace(bound, help="Empty: as it is.") for bound in BOUNDS),
    Choice(
        name="without",
        choices=tuple((name, f"no {name.replace('_', ' ')} any more") for name in Limit.BOUNDS),
        required=False,
        blank="as above",
        help="Takes a bound away.",
    ),
)


def _set_limit(
    *,
    actor: str,
    reason: str,
    scope: str,
    counted_for: str = "",
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    open_calls: int | None = None,
) -> Limit:
    with key_as_counted_for():
        return limiting.set_limit(
            scope=scope,
            key=counted_for,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            open_calls=open_calls,
            actor=actor,
            reason=reason,
        )


def _change_limit(*, key: int, actor: str, reason: str, without: str = "", **given: int) -> Limit:
    bounds: dict[str, int | None] = dict(given)
    if without:
        bounds[without] = None
    return limiting.change_limit(limit_id=key, bounds=bounds, actor=actor, reason=reason)


def _enable_limit(*, key: int, actor: str, reason: str) -> Limit:
    return limiting.switch_limit(limit_id=key, enabled=True, actor=actor, reason=reason)


def _disable_limit(*, key: int, actor: str, reason: str) -> Limit:
    return limiting.switch_limit(limit_id=key, enabled=False, actor=actor, reason=reason)


def _bounds_of(limit: Limit) -> dict[str, Any]:
    """Return what a form about one limit shows: its bounds as they are."""
    stated = {name: getattr(limit, name) for name in Limit.BOUNDS}
    return {name: str(bound) for name, bound in stated.items() if bound is not None}


def _of_limit(limit: Limit) -> Done:
    return Done("changed", {"limit_id": limit.pk} | limiting.terms_of(limit))


VERBS: tuple[Verb[Any], ...] = (
    Verb(
        name="make",
        on=LIMIT,
        label="Set a limit",
        permission=ADJUST_BUDGET,
        effect="Makes a limit of requests and tokens per minute and of open calls, or changes the "
        "one of that scope and key. It counts from now on, and what is open.",
        fields=(
            Choice(name="scope", choices=tuple(Budget.Scope.choices)),
            replace(COUNTED_FOR, help="As of a budget; empty for the global scope."),
            *BOUNDS,
        ),
        run=_set_limit,
        done=_of_limit,
        makes=True,
    ),
    Verb(
        name="change",
        on=LIMIT,
        label="Change",
        permission=ADJUST_BUDGET,
        effect="Changes the bounds of each limit that you give, from the next call on, and nothing "
        "else.",
        fields=NEW_BOUNDS,
        run=_change_limit,
        done=_of_limit,
        initial=_bounds_of,
        edits=True,
    ),
    Verb(
        name="enable",
        on=LIMIT,
        label="Enable",
        permission=ADJUST_BUDGET,
        effect="Lets each limit refuse and count calls again, with all that are open.",
        run=_enable_limit,
        done=_of_limit,
        precondition=of_row(switchable, enabled=True),
    ),
    Verb(
        name="disable",
        on=LIMIT,
        label="Disable",
        permission=ADJUST_BUDGET,
        effect="Lets calls be made without regard to each limit, which counts them no more.",
        run=_disable_limit,
        done=_of_limit,
        precondition=of_row(switchable, enabled=False),
        grave=True,
    ),
)
