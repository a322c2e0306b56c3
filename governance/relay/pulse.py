"""The pulse of background processes: a row that says when each last finished a round."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from governance.core import clock
from governance.relay.models import Pulse


def beat(name: str, **details: Any) -> None:
    """Note that the process of that name has just finished a round."""
    Pulse.objects.update_or_create(name=name, defaults={"at": clock.now(), "details": details})


def last_beats() -> dict[str, datetime]:
    """Return when each background process last finished a round, by its name."""
    return dict(Pulse.objects.order_by("name").values_list("name", "at"))
