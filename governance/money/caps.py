"""Set budgets: make one, change its caps, switch it on and off.

Every move holds the money's lock exclusively: calls that hold or post share it, so that a budget
that is made or switched on misses none of them, and none is decided by a cap that has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.db import transaction

from governance.core import audit, clock, sql
from governance.core.errors import FieldFault, InvalidArgument, NotFound
from governance.core.reasons import required
from governance.core.switching import switchable
from governance.money import room, scopes
from governance.money.budgets import TAKE_MONEY, caps_of
from governance.money.models import Budget, LanguageModel
from governance.money.openings import open_windows
from governance.money.pricing import is_amount, text_of


@transaction.atomic
def set_budget(
    *,
    scope: str,
    window: str,
    cap: Decimal | None,
    actor: str,
    reason: str,
    key: str = "",
    soft_cap: Decimal | None = None,
    enabled: bool = True,
) -> Budget:
    """Make a budget, or change its caps. A new one counts what its window has already seen.

    Takes effect on the next reservation; what is held already stays held.

    :param key: agent, job type, submitter, provider or `task_id`, a model as `provider/name`, a
        label as `name=value`; `*` (of a label `name=*`) for each by itself; empty for the global
        scope.
    :param cap: None for no cap, 0 for nothing at all.
    :param soft_cap: at most the cap.
    :raises InvalidArgument: scope, key, window or an amount is not valid, or there is no agent,
        job type, submitter, model or provider of that name.
    """
    reason = required(reason)
    faults = [*faults_of_key(scope, key), *_wrong_window(window)]
    faults = faults or list(_wrong_caps(cap, soft_cap))
    if faults:
        raise InvalidArgument(errors=faults)
    sql.pipeline(TAKE_MONEY)
    named = {"scope": scope, "key": key, "window": window}
    terms = {"cap": cap, "soft_cap": soft_cap, "enabled": enabled}
    budget = Budget.objects.filter(**named).first()
    if budget is not None:
        return _changed(budget, terms, actor=actor, reason=reason)
    if key and not scopes.is_each(scope, key):
        # Of a budget that is there its name is not judged: it can always be changed, or ended.
        faults = list(faults_of_name(scope, key))
    if faults:
        raise InvalidArgument(errors=faults)
    budget = Budget.objects.create(**named, **terms)
    _opened(budget, actor=actor, reason=reason, before=None)
    return budget


@transaction.atomic
def set_caps(*, budget_id: int, caps: dict[str, Decimal | None], actor: str, reason: str) -> Budget:
    """Change the caps of a budget that are given, and nothing else.

    :param caps: by name, `cap` and `soft_cap`; None for none.
    :raises NotFound: there is no such budget.
    :raises InvalidArgument: an amount is not valid, or the soft cap is above the cap.
    """
    reason = required(reason)
    sql.pipeline(TAKE_MONEY)
    return _changed(_found(budget_id), caps, actor=actor, reason=reason)


@transaction.atomic
def switch_budget(*, budget_id: int, enabled: bool, actor: str, reason: str) -> Budget:
    """Let a budget refuse calls again, or no more. It counts them in either case.

    :raises NotFound: there is no such budget.
    :raises InvalidTransition: it is so already.
    """
    reason = required(reason)
    sql.pipeline(TAKE_MONEY)
    budget = _found(budget_id)
    if refusal := switchable(budget, enabled=enabled):
        raise refusal
    return _changed(budget, {"enabled": enabled}, actor=actor, reason=reason)


def disable_budget(*, budget_id: int, actor: str, reason: str) -> Budget:
    """Let calls be made without regard to a budget, which goes on counting.

    :raises NotFound: there is no such budget.
    :raises InvalidTransition: it is disabled already.
    """
    return switch_budget(budget_id=budget_id, enabled=False, actor=actor, reason=reason)


def _found(budget_id: int) -> Budget:
    budget = Budget.objects.filter(pk=budget_id).first()
    if budget is None:
        raise NotFound("There is no such budget.")
    return budget


def _changed(budget: Budget, terms: dict[str, Any], *, actor: str, reason: str) -> Budget:
    """Give a budget other terms. One that is enabled again counts what its window has seen."""
    before, was_enabled = _terms(budget), budget.enabled
    for name, value in terms.items():
        setattr(budget, name, value)
    if faults := list(_wrong_caps(budget.cap, budget.soft_cap)):
        raise InvalidArgument(errors=faults)
    if budget.enabled and not was_enabled:
        _opened(budget, actor=actor, reason=reason, before=before, terms=terms)
    else:
        _record(budget, before=before, terms=terms, actor=actor, reason=reason)
    # Whatever it was that had no room is judged anew.
    room.clear_of_budget(budget.pk)
    return budget


def _opened(
    budget: Budget,
    *,
    actor: str,
    reason: str,
    before: dict[str, Any] | None,
    terms: dict[str, Any] | None = None,
) -> None:
    """Count what the window has seen, before the budget itself is locked, and audit both."""
    at = clock.now()
    opened = open_windows(budget, actor=actor, at=at)
    _record(budget, before=before, terms=terms or {}, actor=actor, reason=reason)
    if before is None or opened.windows:
        audit.record(
            budget,
            action="budget.opened",
            actor=actor,
            reason=reason,
            at=at,
            after={
                "windows": opened.windows,
                "spent": text_of(opened.spent),
                "held": text_of(opened.held),
                "openings": len(opened.rows),
                "openings_sha256": opened.sha256,
            },
        )


def _record(
    budget: Budget,
    *,
    before: dict[str, Any] | None,
    terms: dict[str, Any],
    actor: str,
    reason: str,
) -> None:
    """Write the terms on the locked row, with their event."""
    locked = Budget.objects.select_for_update(no_key=True).get(pk=budget.pk)
    # A call may have noted on the chain that a cap was passed before the lock was taken.
    budget.audit_seq, budget.audit_head = locked.audit_seq, locked.audit_head
    if terms:
        budget.save(update_fields=list(terms))
    named = {"scope": budget.scope, "key": budget.key, "window": budget.window}
    audit.record(
        budget,
        action="budget.changed" if before else "budget.added",
        actor=actor,
        reason=reason,
        at=clock.now(),
        before=before,
        after=_terms(budget) | named,
        rows=[budget],
    )


def faults_of_key(scope: str, key: str) -> Iterator[FieldFault]:
    """Yield what is wrong with the scope and the key of a budget or a limit."""
    if scope not in Budget.Scope.values:
        yield FieldFault("/scope", "one of " + ", ".join(Budget.Scope.values))
    if (key == "") != (scope == Budget.Scope.GLOBAL) or len(key) > scopes.KEY_CHARS_MAX:
        yield FieldFault("/key", "empty for the global scope, else named")
    elif scope == Budget.Scope.LABEL and not all(key.partition("=")):
        yield FieldFault("/key", "a label and its value, name=value; name=* for each value")


def _wrong_window(window: str) -> Iterator[FieldFault]:
    if window not in Budget.Window.values:
        yield FieldFault("/window", "one of " + ", ".join(Budget.Window.values))


def faults_of_name(scope: str, key: str) -> Iterator[FieldFault]:
    """Yield that there is nobody, or no model, of that name."""
    provider, _, name = key.partition("/")
    models = LanguageModel.objects.filter(provider=provider)
    if scope == Budget.Scope.MODEL and not models.filter(name=name).exists():
        yield FieldFault("/key", f"There is no model {key}.")
    elif scope == Budget.Scope.PROVIDER and not models.exists():
        yield FieldFault("/key", f"There is no provider {key}.")
    yield from scopes.unknown(scope, key, field="key")


def _wrong_caps(cap: Decimal | None, soft_cap: Decimal | None) -> Iterator[FieldFault]:
    amounts = {"cap": cap, "soft_cap": soft_cap}
    wrong = [name for name, amount in amounts.items() if not is_amount(amount)]
    yield from (FieldFault(f"/{name}", "an amount, not negative") for name in wrong)
    if not wrong and cap is not None and soft_cap is not None and soft_cap > cap:
        yield FieldFault("/soft_cap", f"at most the cap, {text_of(cap)}")


def _terms(budget: Budget) -> dict[str, Any]:
    return caps_of(budget) | {"enabled": budget.enabled}
