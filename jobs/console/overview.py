"""The jobs' sections of the overview: queues, and what happened lately."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from governance.console import activity
from governance.console.drawing import Series, bars
from governance.console.registry import Section, add_section, now_of
from jobs.waiting import DEPTH_MAX, queues

#: What the charts count, by the audit actions that say it.
CHARTS = (
    ("claims", "plain", ("job.claimed",)),
    ("finished", "good", ("job.completed", "job.accepted", "job.delivered")),
    (
        "failed",
        "bad",
        ("job.attempt_failed", "job.timed_out", "job.deadline_exceeded", "job.review_rejected"),
    ),
    ("leases lost", "bad", ("job.lease_expired", "job.superseded")),
)
HOUR = {"buckets": 60, "bucket_minutes": 1}
DAY = {"buckets": 96, "bucket_minutes": 15}


def load_queues(request: HttpRequest) -> dict[str, Any]:
    """Return the queue of every agent, with links to its list."""
    jobs = reverse("admin:jobs_job_changelist")
    return {"queues": queues(), "jobs_url": jobs, "depth_max": DEPTH_MAX}


def load_activity(request: HttpRequest) -> dict[str, Any]:
    """Return the charts of the last hour and day, counting first what is not yet counted."""
    activity.count_if_due(now=now_of(request))
    now = now_of(request)
    groups: dict[str, tuple[str, ...]] = {name: actions for name, _, actions in CHARTS}
    spans = {
        span: activity.series(groups=groups, until=now, **scale)
        for span, scale in (("hour", HOUR), ("day", DAY))
    }
    return {
        "charts": [
            {"name": name, "spans": [_chart(name, tone, s, v[name]) for s, v in spans.items()]}
            for name, tone, _ in CHARTS
        ]
    }


def _chart(name: str, tone: str, span: str, values: list[int]) -> dict[str, Any]:
    line = Series(name, values, tone)
    label = f"{name} over the last {span}: {line.total}"
    return {"span": span, "total": line.total, "svg": bars(line, label=label)}


add_section(
    Section(
        name="queues",
        title="Queues",
        template="console/sections/queues.html",
        load=load_queues,
        permission="jobs.view_job",
        position=30,
    )
)
add_section(
    Section(
        name="activity",
        title="Lately",
        template="console/sections/activity.html",
        load=load_activity,
        permission="jobs.view_job",
        position=40,
        wide=True,
    )
)
