"""The fleet on the overview, and the maintenance banner on every page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse

from agents import guard, workload
from agents.console.pages import freshness_words
from agents.models import Agent, MaintenanceInhibit, Session
from agents.transitions import operators
from governance.console.registry import (
    Banner,
    ExportBook,
    InboxKind,
    Section,
    Waiting,
    add_banner_source,
    add_inbox_kind,
    add_section,
    export_books,
    inbox_counters,
)
from governance.console.wording import stamp
from governance.core import sql

# No lock. What waits is little, and so are the two tables.
WAITING = """
SELECT (SELECT count(*) FROM agents_session WHERE state = 'pending') AS cells,
       (SELECT count(*) FROM agents_maintenanceinhibit
         WHERE lifted_at IS NULL AND ends_at IS NULL) AS inhibits
"""


def load_fleet(request: HttpRequest) -> dict[str, Any]:
    """Return the guard's verdict, and every agent that it rests on."""
    look = guard.look()
    agents = {agent.name: agent for agent in Agent.objects.filter(enabled=True)}
    leases = workload.ask().active_leases(agent_ids=[agent.pk for agent in agents.values()])
    rows = [
        {
            "agent": agents[watch.agent],
            "watch": watch,
            "freshness": freshness_words(watch),
            "leases": leases.get(agents[watch.agent].pk, 0),
            "not_asking": watch.not_asking,
        }
        for watch in look.agents
        if watch.agent in agents
    ]
    return {"guard": look, "rows": rows}


def inhibit_banners(request: HttpRequest) -> Iterator[Banner]:
    """Yield one line per inhibit in force: what, who, why, until when."""
    open_ended = Q(ends_at=None) | Q(ends_at__gt=Now())
    rows = MaintenanceInhibit.objects.filter(open_ended, lifted_at=None, starts_at__lte=Now())
    for row in rows.select_related("agent").order_by("starts_at"):
        what = row.agent.name if row.agent else "the whole fleet"
        until = f"until {stamp(row.ends_at)}" if row.ends_at else "until it is lifted"
        yield Banner(
            text=f"Maintenance: no new work for {what}, {until}. {row.owner}: {row.reason}",
            url=reverse("admin:agents_maintenanceinhibit_change", args=(row.pk,)),
        )


def pending_cells(limit: int) -> Iterator[Waiting]:
    """Yield the sessions that wait for the approval of their cell."""
    rows = Session.objects.filter(state=Session.State.PENDING).select_related("agent")
    for row in rows.order_by("created_at")[:limit]:
        yield Waiting(
            title=f"{row.agent.name}: cell {row.cell_id}",
            note=f"boot {row.boot_id}",
            url=reverse("admin:agents_session_change", args=(row.pk,)),
            since=row.created_at,
        )


def endless_inhibits(limit: int) -> Iterator[Waiting]:
    """Yield the inhibits that only an operator ends."""
    rows = MaintenanceInhibit.objects.filter(lifted_at=None, ends_at=None).select_related("agent")
    for row in rows.order_by("starts_at")[:limit]:
        yield Waiting(
            title=str(row),
            note=f"set by {row.owner}",
            url=reverse("admin:agents_maintenanceinhibit_change", args=(row.pk,)),
            since=row.starts_at,
        )


def count() -> dict[str, int]:
    """Return how many cells and inhibits wait for a person."""
    [[counts]] = sql.pipeline(sql.Statement(WAITING))
    return counts


inbox_counters.append(count)
export_books.append(ExportBook(begin=operators.begin_export, end=operators.end_export))
add_inbox_kind(
    InboxKind(
        name="cells",
        title="Cells to approve",
        permission="agents.view_session",
        position=60,
        rows=pending_cells,
        empty="No cell waits for approval.",
    )
)
add_inbox_kind(
    InboxKind(
        name="inhibits",
        title="Inhibits to lift",
        permission="agents.view_maintenanceinhibit",
        position=70,
        rows=endless_inhibits,
        empty="No inhibit waits to be lifted.",
    )
)
add_banner_source("inhibits", inhibit_banners)
add_section(
    Section(
        name="fleet",
        title="Fleet",
        template="console/sections/fleet.html",
        load=load_fleet,
        permission="agents.view_agent",
        position=10,
        wide=True,
    )
)
