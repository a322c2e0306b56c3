"""The closing side of the gate that `agents.entry` opens.

Every worker write holds the shared advisory lock of its agent until it commits.  Who holds the
exclusive one knows that no write that was admitted before is still under way, and that what it
changes now is seen by every later one.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.entry import AGENT_LOCK
from agents.models import Agent
from governance.core import sql
from governance.core.errors import NotFound

LOCK_EXCLUSIVE = "SELECT pg_advisory_xact_lock(%s, %s)"


def hold(names: Iterable[str] | None = None) -> list[Agent]:
    """Close the gate of the named agents (None: of all) until the end of the transaction.

    Takes the advisory locks in key order, each in a statement of its own, and reads and locks the
    agents' rows in the statement after: what was read before is stale by now.

    :raises NotFound: one of the names is no agent's.
    """
    wanted = None if names is None else set(names)
    found = Agent.objects.all() if wanted is None else Agent.objects.filter(name__in=wanted)
    pks = sorted(found.values_list("pk", flat=True))
    if wanted is not None and len(pks) != len(wanted):
        raise NotFound("There is no such agent.")
    if pks:
        sql.pipeline(*(sql.Statement(LOCK_EXCLUSIVE, (AGENT_LOCK, pk)) for pk in pks))
    rows = Agent.objects.select_for_update(no_key=True, of=("self",))
    return list(rows.filter(pk__in=pks).order_by("pk"))
