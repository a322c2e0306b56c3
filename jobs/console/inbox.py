"""What of the jobs waits for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject, Now
from django.urls import reverse

from governance.console.apart import CANNOT_BE_READ
from governance.console.registry import (
    INBOX_COUNT_MAX,
    InboxKind,
    Waiting,
    add_inbox_kind,
    inbox_counters,
)
from governance.console.wording import stamp
from governance.core.isolation import of_a_row
from governance.relay.models import Pulse
from jobs.console.job_page import beside_the_state, tries_of
from jobs.models import Approval, Escalation, Job
from jobs.waiting import (
    SWEEPER,
    count_waiting,
    jobs_above_risk,
    set_aside,
    unresolved,
    waiting,
)

State = Job.State
SHOWN = (
    "task_id", "state", "state_since", "risk_tier", "attempt", "max_attempts", "deferrals",
    "submitted_by", "asked_again_by", "paused", "available_at", "hold_until", "task__title",
    "agent__name", "agent__max_risk_tier", "job_type__name",
)  # fmt: skip


#: Read with the held jobs themselves: the inbox must not need a query more for it.
LAST_APPROVAL = Subquery(
    Approval.objects.filter(job=OuterRef("pk"))
    .order_by("-id")
    .values(
        content=JSONObject(
            decision="decision", decided_by="decided_by", reason="reason", valid_until="valid_until"
        )
    )[:1]
)


def _kind(*, name: str, title: str, position: int, empty: str, permission: str) -> InboxKind:
    state = KINDS[name]

    def rows(limit: int) -> Iterator[Waiting]:
        jobs = waiting(state)
        if state == State.HELD:
            jobs = jobs.annotate(last_approval=LAST_APPROVAL)
        found = _read(jobs, limit)
        reasons = _reasons(found) if state == State.ESCALATED else {}
        yield from _shown(found, lambda job: reasons.get(job.pk) or _note(job))

    return InboxKind(
        name=name,
        title=title,
        permission=permission,
        position=position,
        rows=rows,
        empty=empty,
    )


def _read(jobs: QuerySet[Job], limit: int) -> list[Any]:
    """Return the first of the jobs, with what a row of the inbox shows and the time `as_of`."""
    beside = jobs.select_related("task", "agent", "job_type").annotate(as_of=Now())
    return list(beside.only(*SHOWN)[:limit])


def _shown(jobs: Sequence[Any], note: Callable[[Any], str]) -> Iterator[Waiting]:
    for job in jobs:
        try:
            yield _row(job, note)
        except Exception as error:
            if not of_a_row(error):
                raise
            url = reverse("admin:jobs_job_change", args=(job.pk,))
            yield Waiting(job.task_id, note=CANNOT_BE_READ, url=url, since=job.as_of)


def _row(job: Any, note: Callable[[Any], str]) -> Waiting:
    return Waiting(
        title=f"{job.task_id}: {job.task.title}",
        note=note(job),
        url=reverse("admin:jobs_job_change", args=(job.pk,)),
        since=job.state_since,
        marks=(
            job.risk_tier,
            job.agent.name,
            job.job_type.name,
            *beside_the_state(job, at=job.as_of),
        ),
    )


def _note(job: Job) -> str:
    if last := getattr(job, "last_approval", None):
        return _approval_words(last)
    asker = job.asked_again_by or job.submitted_by
    return f"attempt {tries_of(job)}, asked by {asker}"


def _reasons(jobs: Sequence[Job]) -> dict[int, str]:
    """Return why each of the escalated jobs was escalated."""
    opened = Escalation.objects.filter(job__in=[job.pk for job in jobs], resolved_at=None)
    return {
        row.job_id: f"{row.raised_by}: {row.reason[:160]}" for row in opened.order_by("raised_at")
    }


def _approval_words(last: dict[str, str]) -> str:
    """Say what became of the approval that a held job had before."""
    if last["decision"] == Approval.Decision.EXPIRED:
        return f"approval expired {stamp(datetime.fromisoformat(last['valid_until']))}"
    if last["decision"] == Approval.Decision.APPROVED:
        return f"approved before by {last['decided_by']}; to be approved anew"
    return f"approval {last['decision']} by {last['decided_by']}: {last['reason'][:160]}"


def count() -> dict[str, int]:
    """Return how many jobs wait, by the kind of the inbox."""
    states = count_waiting(up_to=INBOX_COUNT_MAX + 1)
    counts = {name: states[state] for name, state in KINDS.items()}
    counts |= {"above-risk": states["above_risk"], "unswept": states.get("unswept", 0)}
    counts["set-aside"] = states["set_aside"]
    return counts | {"in-doubt": unresolved().values("pk")[: INBOX_COUNT_MAX + 1].count()}


def above_risk(limit: int) -> Iterator[Waiting]:
    """Yield the jobs that no worker may claim, for their agent is allowed less risk by now."""
    yield from _shown(
        _read(jobs_above_risk(limit), limit),
        lambda job: f"{job.agent.name} is allowed {job.agent.max_risk_tier} at most",
    )


def in_doubt(limit: int) -> Iterator[Waiting]:
    """Yield the executions that wait to be reconciled, whatever became of their job."""
    rows = unresolved().select_related("job__agent").defer("result", "usage")
    for row in rows[:limit]:
        yield Waiting(
            title=f"{row.job.task_id}: attempt {row.attempt}",
            note=f"{row.mode} under {row.runtime}; the job is {row.job.state.replace('_', ' ')}",
            url=reverse("admin:jobs_execution_change", args=(row.pk,)),
            since=row.decided_at,
            marks=(row.job.risk_tier, row.job.agent.name),
        )


def unswept(limit: int) -> Iterator[Waiting]:
    """Yield the jobs that the sweeper could not end, and the chores that it could not do."""
    found = Pulse.objects.filter(name=SWEEPER).first()
    if found is None:
        return
    failed = sorted(found.details.get("failures", {}).items(), key=lambda item: item[1]["since"])
    pks = dict(
        Job.objects.filter(task_id__in=[name for name, _ in failed[:limit]]).values_list(
            "task_id", "pk"
        )
    )
    for task_id, failure in failed[:limit]:
        url = reverse("admin:jobs_job_change", args=(pks[task_id],)) if task_id in pks else ""
        yield Waiting(
            title=task_id,
            note=failure["error"],
            url=url,
            since=datetime.fromisoformat(failure["since"]),
        )
    for chore in found.details.get("chores", []):
        yield Waiting(title=f"chore: {chore}", note="see its log", url="", since=found.at)


def aside(limit: int) -> Iterator[Waiting]:
    """Yield the jobs whose rows spoil what is done with them."""
    for row in set_aside()[:limit]:
        yield Waiting(
            title=row.task_id,
            note=f"{row.error_class} at {row.kind}, {row.count} times",
            url=reverse("admin:jobs_setaside_change", args=(row.pk,)),
            since=row.set_at or row.last_seen_at,
        )


#: The state in which a job is, for each kind.
KINDS = {
    "approvals": State.HELD,
    "reviews": State.REVIEW_REQUIRED,
    "escalations": State.ESCALATED,
    "extensions": State.NEEDS_REWORK,
}
inbox_counters.append(count)

for kind in (
    _kind(
        name="approvals",
        title="Approvals",
        position=10,
        permission="jobs.view_job",
        empty="No job is held for approval.",
    ),
    _kind(
        name="reviews",
        title="Reviews",
        position=20,
        permission="jobs.view_job",
        empty="No result waits for a review.",
    ),
    _kind(
        name="escalations",
        title="Escalations",
        position=30,
        permission="jobs.view_escalation",
        empty="Nobody has called for a human.",
    ),
    InboxKind(
        name="in-doubt",
        title="In doubt",
        permission="jobs.view_execution",
        position=40,
        rows=in_doubt,
        empty="No execution's outcome is unknown.",
    ),
    _kind(
        name="extensions",
        title="Waiting for an extension",
        position=50,
        permission="jobs.view_job",
        empty="No job waits for attempts.",
    ),
    InboxKind(
        name="above-risk",
        title="Above their agent's highest risk",
        permission="jobs.view_job",
        position=55,
        rows=above_risk,
        empty="No job waits for an agent that is allowed more risk.",
    ),
    InboxKind(
        name="set-aside",
        title="Set aside",
        permission="jobs.view_job",
        position=85,
        rows=aside,
        empty="Every job can be read.",
    ),
    InboxKind(
        name="unswept",
        title="The sweeper failed at",
        permission="jobs.view_job",
        position=90,
        rows=unswept,
        empty="The sweeper ends what runs out.",
    ),
):
    add_inbox_kind(kind)
