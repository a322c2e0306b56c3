"""What the job page shows, read in a bounded number of queries."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from governance.console.chains import Chain, read_chain
from governance.console.corrections import OF, standing_of
from governance.console.drawing import Span, lifeline
from governance.console.payloads import Payload, shown
from governance.console.wording import duration, stamp
from governance.core import clock
from governance.core.digests import execution_digest
from governance.evidence import envelopes
from governance.money import ledger
from governance.money.corrections import Adjustment
from governance.money.uses import UnreservedUse
from jobs.models import Attempt, Job, Lease

ATTEMPTS_MAX = 100
REFLECTIONS_MAX = 50
UPLOADS_MAX = 50
DECISIONS_MAX = 200
SPACED = str.maketrans("._", "  ")


@dataclass(frozen=True)
class Edge:
    """One step of a job's life. `before` and `after` are states; equal where it did not move."""

    at: datetime
    action: str
    actor: str
    reason: str
    attempt: int | None
    before: str
    after: str
    seq: int

    @property
    def moved(self) -> bool:
        return self.before != self.after or self.seq == 1


@dataclass(frozen=True)
class Try:
    """An attempt with what may be shown of its payloads."""

    row: Attempt
    seconds: float
    payloads: list[Payload]


def tries_of(job: Job) -> str:
    """Return in words which attempt is the job's last, of how many; those that count beside."""
    words = f"{job.attempt} of {job.max_attempts}"
    return f"{words}, {job.deferrals} not counted" if job.deferrals else words


def beside_the_state(job: Job, *, at: datetime) -> list[str]:
    """Return, in words, what keeps a job back whatever its state."""
    words = ["paused"] if job.paused else []
    if job.hold_until is not None and job.on_hold(at=at):
        words.append(f"on hold until {stamp(job.hold_until)}")
    # After a failure, or deferred.
    if job.state == Job.State.QUEUED and job.attempt and job.available_at > at:
        words.append(f"waits until {stamp(job.available_at)}")
    return words


def load_head(*, job: Job) -> dict[str, Any]:
    """Return what the head of the page shows: the part that is live."""
    now = clock.now()
    lease = Lease.objects.filter(job=job).first()
    decided = job.approvals.order_by("-id").first() if job.execution_approval_required else None
    return {
        "job": job,
        "decided": decided,
        "as_of": now,
        "beside": beside_the_state(job, at=now),
        "tries_of": tries_of(job),
        "lease": lease,
        "lease_seconds_left": (lease.expires_at - now).total_seconds() if lease else None,
    }


def load(*, job: Job, payloads: bool) -> dict[str, Any]:
    """Return everything that the page shows. `payloads`: whether the reader may see them."""
    head = load_head(job=job)
    chain = read_chain(job, subject=job.audit_subject)
    edges = edges_of(chain)
    return head | {
        "task": job.task,
        "chain": chain,
        "edges": edges,
        "life": draw_life(edges, until=job.finished_at or head["as_of"]),
        "tries": _tries(job, head["as_of"], payloads=payloads),
        "attempts_max": ATTEMPTS_MAX,
        "approvals": job.approvals.order_by("-id"),
        "reviews": job.reviews.order_by("-id"),
        "escalations": job.escalations.order_by("-id"),
        "extensions": job.extensions.order_by("-id"),
        "reflections": job.reflections.select_related("agent").order_by("-number")[
            :REFLECTIONS_MAX
        ],
        "executions": job.executions.defer("result", "usage").order_by("-attempt"),
        "money": money_of(job=job),
        "money_beside": money_beside(job=job),
        "uploads": job.uploads.order_by("-id")[:UPLOADS_MAX],
        "goal": shown("goal", job.task.goal, allowed=payloads),
        "inputs": shown("inputs", job.task.inputs, allowed=payloads),
        "labels": job.task.labels,
        "signature": _signature(job),
        "envelope": shown("envelope", job.task.envelope, allowed=payloads),
    }


def money_of(*, job: Job, external_request_id: str = "") -> list[dict[str, Any]]:
    """Return the job's route decisions with their reservation and its end, newest attempt first.

    :param external_request_id: only those of one execution.
    """
    decisions = ledger.money_of_job(job_id=job.job_id)
    if external_request_id:
        decisions = decisions.filter(external_request_id=external_request_id)
    rows = []
    for decision in decisions.reverse()[:DECISIONS_MAX]:
        held = getattr(decision, "reservation", None)
        end = getattr(held, "resolution", None) if held else None
        rows.append({"decision": decision, "reservation": held, "resolution": end})
    return rows


def money_beside(*, job: Job, external_request_id: str = "") -> dict[str, Any]:
    """Return what was booked of a job beside its calls: `uses` and `corrections`, newest first.

    :param external_request_id: only those of one execution.
    """
    of: dict[str, Any] = {"job_id": job.job_id}
    if external_request_id:
        of["external_request_id"] = external_request_id
    uses = UnreservedUse.objects.filter(**of).select_related("model").order_by("-recorded_at")
    corrections = Adjustment.objects.filter(
        Q(**{f"resolution__reservation__{name}": value for name, value in of.items()})
        | Q(**{f"use__{name}": value for name, value in of.items()})
    ).select_related("verdict", *OF)
    return {
        "uses": uses[:DECISIONS_MAX],
        "corrections": [
            (row, standing_of(row)) for row in corrections.order_by("-made_at")[:DECISIONS_MAX]
        ],
    }


def _signature(job: Job) -> dict[str, str]:
    """Say whether the envelope's signature verifies and whether it is the digest's."""
    try:
        body = envelopes.verify(job.task.envelope)
    except envelopes.EnvelopeInvalid as error:
        return {"state": "failed", "words": f"signature does not verify: {error}"}
    if execution_digest(body) != job.task.execution_digest:
        return {"state": "failed", "words": "signed, but not what the digest says"}
    return {"state": "completed", "words": "signature verified"}


def payload(*, job: Job, name: str) -> Any:
    """Return one payload by its name on the page: `inputs`, `result-2` ...; None if unknown."""
    if name in {"goal", "inputs", "envelope"}:
        return getattr(job.task, name)
    kind, _, number = name.rpartition("-")
    if kind in {"result", "progress", "error"} and number.isdigit():
        attempt = Attempt.objects.filter(job=job, number=int(number)).first()
        field = {"error": "error_message"}.get(kind, kind)
        return getattr(attempt, field) if attempt else None
    return None


def _tries(job: Job, now: datetime, *, payloads: bool) -> list[Try]:
    rows = Attempt.objects.filter(job=job).order_by("-number")[:ATTEMPTS_MAX]
    return [
        Try(
            row=row,
            seconds=((row.ended_at or now) - row.claimed_at).total_seconds(),
            payloads=[
                found
                for kind, value in (
                    ("result", row.result),
                    ("progress", row.progress),
                    ("error", row.error_message),
                )
                if (found := shown(f"{kind}-{row.number}", value, allowed=payloads))
            ],
        )
        for row in rows
    ]


def edges_of(chain: Chain) -> list[Edge]:
    """Return the steps that the audit events tell, oldest first."""
    edges = []
    for event in chain.events:
        body = json.loads(bytes(event.body))
        details = body.get("details") or {}
        after = (body.get("after") or {}).get("state", "")
        edges.append(
            Edge(
                at=event.at,
                action=_done(event.action, details),
                actor=_who(event.actor, details),
                reason=event.reason,
                attempt=details.get("attempt"),
                before=(body.get("before") or {}).get("state", ""),
                after=after,
                seq=event.seq,
            )
        )
    return edges


def _who(actor: str, details: dict[str, Any]) -> str:
    """Return who acted, and at a shell who ran the command: `user:anna, by command:root`."""
    ran_by = details.get("ran_by")
    return f"{actor}, by {ran_by}" if ran_by else actor


def _done(action: str, details: dict[str, Any]) -> str:
    """Return in words what an event did: `put on hold until ...`, `deferred for 10 min ...`."""
    words = action.removeprefix("job.").translate(SPACED)
    if until := details.get("hold_until"):
        words += f" until {stamp(datetime.fromisoformat(until).astimezone(UTC))}"
    if seconds := details.get("retry_after_seconds"):
        counted = "counted" if details.get("counted") else "not counted"
        words += f" for {duration(seconds)} ({details.get('cause')}, {counted})"
    return words


def draw_life(edges: list[Edge], *, until: datetime) -> Any:
    """Return the job's life as a band, one stretch per state.

    A stretch's length grows with the logarithm of its duration: a lease of seconds and a hold of
    days are both to be seen.
    """
    turns = [edge for edge in edges if edge.moved]
    if not turns:
        return ""
    ends = [edge.at for edge in turns[1:]] + [max(until, turns[-1].at)]
    seconds = [(end - edge.at).total_seconds() for edge, end in zip(turns, ends, strict=True)]
    weights = [1 + math.log1p(max(0.0, value)) for value in seconds]
    total, start, spans = sum(weights), 0.0, []
    for edge, weight, value in zip(turns, weights, seconds, strict=True):
        words = f"{edge.after.replace('_', ' ')} for {duration(value)}, from {stamp(edge.at)}"
        spans.append(Span(edge.after, start, start + weight / total, words))
        start += weight / total
    states = ", then ".join(span.state.replace("_", " ") for span in spans)
    return lifeline(spans, label=f"The job's life: {states}")
