"""Rows that are enabled or disabled: models, budgets, sources."""

from __future__ import annotations

from typing import Any

from governance.core.errors import InvalidTransition


def switchable(row: Any, *, enabled: bool) -> InvalidTransition | None:
    """Return why a row cannot be enabled, or disabled: it is so already."""
    if row.enabled != enabled:
        return None
    return InvalidTransition(f"It is {'enabled' if enabled else 'disabled'} already.")
