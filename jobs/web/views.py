"""The jobs API: each view reads, makes one move, and answers what the move returned."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django.db import connection
from django.http import HttpResponse
from rest_framework.request import Request

from agents.entry import Entry, enter
from agents.principals import Principal
from governance.core import audit, sql
from governance.core.errors import (
    DomainError,
    FencingTokenRequired,
    FieldFault,
    InvalidArgument,
    NotFound,
    PreconditionFailed,
    WrongOwner,
)
from governance.core.idempotency import Answer
from governance.core.models import AuditEvent
from governance.core.precedence import first_of
from governance.web.api import Call, WorkerView, etag, respond
from jobs import metrics, queries, transitions, wakeups
from jobs.filters import JobFilter
from jobs.models import Job
from jobs.operations import answers, shapes
from jobs.transitions import ClaimOutcome, Outcome, skills
from jobs.transitions.intake import INTAKE_LIMIT_MAX
from jobs.transitions.leases import HEARTBEATS_MAX
from jobs.verbs import CONTROLS

COMPLETIONS_MAX = 500
SKILLS_PAGE = 50
#: Outcomes that say what was there before, and move nothing.
REPETITIONS = frozenset({"already_recorded", "already_running", "already_completed"})

# Locks: the job; after the advisory lock of its agent, before the move that locks it again.
LOCK_REVISION = "SELECT agent_id, revision FROM jobs_job WHERE task_id = %s FOR NO KEY UPDATE"

_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
#: What says that a write is one of the attempt's holder.
AUTHORITY = ("attempt", "fencing_token")

#: Outcomes of intake that say that there is a new job.
QUEUED = frozenset({"queued", "held"})

Move = Callable[[], Outcome | DomainError]
Render = Callable[[Any], dict[str, Any]]


def answer(
    outcome: Outcome | DomainError,
    render: Render = answers.moved,
    *,
    created: frozenset[str] = frozenset(),
) -> Answer:
    """Return a move's outcome as the answer of a call on one job.

    A refusal that was returned, not raised, has written something that is to be committed.

    :param created: the outcomes that say that something new is there: 201.
    """
    if isinstance(outcome, DomainError):
        return refused(outcome)
    status = 201 if outcome.outcome in created else 200
    return Answer(status, render(outcome), {"ETag": etag(outcome.job.revision)})


def refused(refusal: DomainError) -> Answer:
    """Return a refusal that has recorded something, which so is to be committed, as the answer.

    It is kept under the request's key by the same rule as one that is raised.
    """
    told = refusal.as_problem(instance=audit.request_urn())
    after = refusal.after_seconds
    headers = {} if after is None else {"Retry-After": str(after)}
    return Answer(refusal.status, told, headers, recorded=refusal.stored)


def results(
    outcomes: list[Any],
    render: Render = answers.moved,
    *,
    created: frozenset[str] = frozenset(),
) -> Answer:
    """Return the outcomes of a batch, in its order. :param created: as of `answer`."""

    def item(outcome: Any) -> dict[str, Any]:
        if isinstance(outcome, DomainError):
            return outcome.as_problem(instance=audit.request_urn())
        rendered = render(outcome)
        return {"status": 201 if rendered["outcome"] in created else 200, **rendered}

    return Answer(200, {"results": [item(outcome) for outcome in outcomes]})


def claimed(outcome: ClaimOutcome) -> dict[str, Any]:
    """Return what a claim is answered with, and count it."""
    if outcome.outcome == "claimed":
        metrics.CLAIMS.labels(outcome.record.owner).inc()
    return answers.claimed(outcome)


class AgentView(WorkerView):
    """A call of a worker: it acts under a session, or under the name of its `worker_id`."""

    def entry(self, worker_id: str | None = None) -> Entry:
        """Return who calls, as the request says it."""
        session_id, epoch = self.session_headers()
        return Entry(self.principal, worker_id or "", session_id, epoch)

    def named_entry(self, body: dict[str, Any]) -> Entry:
        """Return who calls, where a lease is asked for: it must be somebody.

        :raises InvalidArgument: neither a session nor a `worker_id`.
        """
        entry = self.entry(body.get("worker_id"))
        if entry.session_id is None and not entry.worker_id:
            fault = FieldFault("/worker_id", "required without an activated session")
            raise InvalidArgument(errors=[fault])
        return entry

    def move(
        self,
        entry: Entry,
        run: Move,
        render: Render = answers.moved,
        *,
        task_id: str,
        created: frozenset[str] = frozenset(),
    ) -> HttpResponse:
        """Make the one move of this request and answer its outcome."""
        revision = self.if_match()
        if revision is None:
            return self.once(lambda: answer(run(), render, created=created), gate=self.gate(entry))
        # The revision and the move are judged in one transaction, which the gate makes.
        return self.once(
            lambda: answer(_if_at(revision, entry, task_id, run), render, created=created),
            gate=lambda: admit(entry),
        )

    def gate(self, entry: Entry) -> Callable[[], None] | None:
        """Return what is judged before a stored answer is given; None where nothing needs it.

        Without a key there is no stored answer, and the move itself admits the caller.
        """
        return None if self.key is None else lambda: admit(entry)


def admit(entry: Entry) -> None:
    """Refuse whoever may not act (any more)."""
    enter(entry)


def _if_at(revision: int, entry: Entry, task_id: str, run: Move) -> Outcome | DomainError:
    """Make the move if the job is at the revision, or has been moved by this very request before.

    What is raised undoes the move. Source: RFC 9110, 13.1.1.

    :raises PreconditionFailed: it has moved on, with its revision as `current`.
    """
    caller, [rows] = enter(entry, also=(sql.Statement(LOCK_REVISION, (task_id,)),))
    # Whose job it is, is judged by the move; others' revisions are nobody's business.
    found = [row["revision"] for row in rows if row["agent_id"] == caller.agent_id]
    if not found or found == [revision]:
        return run()
    stale = PreconditionFailed(current={"revision": found[0]})
    try:
        outcome = run()
    except DomainError as refusal:
        raise first_of(refusal, stale) from None
    if isinstance(outcome, DomainError) or outcome.outcome not in REPETITIONS:
        raise stale
    return outcome


def need_revision(revision: int | None, task_id: str) -> None:
    """Refuse a job that is not at the revision of If-Match, if there is one; locks it.

    :raises PreconditionFailed: it has moved on, with its revision as `current`.
    """
    if revision is None:
        return
    [[job]] = sql.pipeline(sql.Statement(LOCK_REVISION, (task_id,)))
    if job["revision"] != revision:
        raise PreconditionFailed(current={"revision": job["revision"]})


class Jobs(WorkerView):
    """Tasks in, jobs out."""

    calls: ClassVar = {
        "get": Call(
            "list_jobs",
            scopes=("read", "submit"),
            answers={200: shapes.JobPageOut},
            filters=JobFilter,
            paged=True,
        ),
        "post": Call(
            "queue_job",
            scopes=("submit",),
            reads=shapes.EnvelopeIn,
            answers={201: shapes.JobAnswerOut, 200: shapes.JobAnswerOut},
            key="honoured",
        ),
    }

    def get(self, request: Request) -> HttpResponse:
        """List one's own jobs, newest first."""
        jobs = self.filtered(visible_jobs(self.principal)).only("pk")
        return self.page(jobs, job_views)

    def post(self, request: Request) -> HttpResponse:
        """Queue a task; the same envelope again answers its job."""
        envelope = self.read(shapes.EnvelopeIn)

        def run() -> Answer:
            [outcome] = transitions.intake(principal=self.principal, envelopes=[envelope])
            if isinstance(outcome, DomainError):
                raise outcome
            return answer(outcome, created=QUEUED)

        return self.once(run)


class IntakeTask(Jobs):
    """The older path of intake."""

    calls: ClassVar = {"post": replace(Jobs.calls["post"], operation="intake_task")}


class JobsBatch(WorkerView):
    """Many tasks in one request."""

    calls: ClassVar = {
        "post": Call(
            "queue_jobs",
            scopes=("submit",),
            reads=shapes.EnvelopeIn,
            answers={200: shapes.BatchOut},
            key="honoured",
            batch_max=INTAKE_LIMIT_MAX,
            batch_name="tasks",
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Queue up to 500 tasks, each by itself."""
        items = self.read_batch(shapes.EnvelopeIn)

        def run() -> Answer:
            good = [item for item in items if not isinstance(item, DomainError)]
            outcomes = transitions.intake(principal=self.principal, envelopes=good) if good else []
            return results(merged(items, outcomes), created=QUEUED)

        return self.once(run)


class JobDetail(WorkerView):
    """One job."""

    calls: ClassVar = {
        "get": Call("get_job", scopes=("read", "submit"), answers={200: shapes.JobOut})
    }

    def get(self, request: Request, task_id: str) -> HttpResponse:
        """Read a job; its ETag is its revision."""
        found = queries.read_job(principal=self.principal, task_id=task_id)
        return respond(Answer(200, answers.job(found), {"ETag": etag(found.job.revision)}))


class JobEvents(WorkerView):
    """What happened to a job."""

    calls: ClassVar = {
        "get": Call(
            "list_job_events",
            scopes=("read", "submit"),
            answers={200: shapes.EventPageOut},
            paged=True,
        )
    }

    def get(self, request: Request, task_id: str) -> HttpResponse:
        """List the audit events of a job, oldest first."""
        found = queries.read_job(principal=self.principal, task_id=task_id)
        events = AuditEvent.objects.filter(subject=found.job.audit_subject)
        return self.page(events, event_views, ordering="seq")


class ClaimJob(AgentView):
    """The lease of one task."""

    calls: ClassVar = {
        "post": Call(
            "claim_job",
            scopes=("work",),
            reads=shapes.ClaimIn,
            answers={200: shapes.ClaimAnswerOut},
            key="honoured",
            sessions=True,
            if_match=True,
        )
    }

    def post(self, request: Request, task_id: str) -> HttpResponse:
        """Claim a task: its next attempt, a lease, and a new fencing token."""
        body = self.read(shapes.ClaimIn)
        entry, key = self.named_entry(body), self.key

        def run() -> Outcome | DomainError:
            return transitions.claim(
                entry=entry,
                task_id=task_id,
                owner=body.get("owner") or "",
                lease_seconds=body.get("lease_seconds"),
                runtime=body.get("runtime"),
                key=key,
            )

        return self.move(entry, run, claimed, task_id=task_id)


class Claims(AgentView):
    """Leases of the next jobs."""

    calls: ClassVar = {
        "post": Call(
            "claim_jobs",
            scopes=("work",),
            reads=shapes.ClaimsIn,
            answers={200: shapes.ClaimsOut},
            key="required",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Claim the next jobs, highest priority first; waits for one if asked to.

        The wait lies before the transaction. The answer is kept under the key only when a lease
        was granted.
        """
        key = self.key
        body = self.read(shapes.ClaimsIn)
        if body.get("owner") and body["owner"] != self.principal.name:
            raise WrongOwner("owner must be the agent of the credential.")
        entry = self.named_entry(body)

        def run() -> Answer:
            outcomes = transitions.claim_next(
                entry=entry,
                limit=body["limit"],
                task_types=body.get("task_types"),
                runtime=body.get("runtime"),
                lease_seconds=body.get("lease_seconds"),
                key=key,
            )
            return claims([{"status": 200, **claimed(outcome)} for outcome in outcomes])

        return respond(self._wait(entry, body["wait_seconds"], run))

    def _wait(self, entry: Entry, seconds: int, run: Callable[[], Answer]) -> Answer:
        deadline = time.monotonic() + seconds
        found = self._try(entry, run)
        if found.recorded or not seconds:
            return found
        worker = str(entry.session_id or entry.worker_id)
        with wakeups.waiting(agent_id=entry.principal.id, worker=worker) as ticket:
            if ticket is None:
                return claims([], retry_after_seconds=wakeups.BUSY_RETRY_SECONDS)
            while not ticket.ended:
                # Looked at once more after the ticket is in place: no announcement falls between.
                found = self._try(entry, run)
                left = deadline - time.monotonic()
                if found.recorded or left <= 0:
                    return found
                release_connection()
                ticket.wait(min(left, wakeups.POLL_SECONDS))
        return claims([])

    def _try(self, entry: Entry, run: Callable[[], Answer]) -> Answer:
        return self.once_answer(run, gate=self.gate(entry))


class Heartbeat(AgentView):
    """The life signs of leases."""

    calls: ClassVar = {
        "post": Call(
            "heartbeat_leases",
            scopes=("work",),
            reads=shapes.BeatIn,
            answers={200: shapes.BatchOut},
            sessions=True,
            batch_max=HEARTBEATS_MAX,
            batch_name="leases",
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Renew up to 500 leases, and learn for each what is wanted of its holder."""
        items = self.read_batch(shapes.BeatIn)
        session_id, epoch = self.session_headers()
        good = [item for item in items if not isinstance(item, DomainError)]
        outcomes = (
            transitions.heartbeat(
                principal=self.principal, beats=good, session_id=session_id, epoch=epoch
            )
            if good
            else []
        )
        renewed = sum(
            not isinstance(outcome, DomainError) and outcome["outcome"] == "renewed"
            for outcome in outcomes
        )
        metrics.HEARTBEATS.labels(self.principal.name).inc(renewed)
        return respond(results(merged(items, outcomes), dict))


class CompleteJob(AgentView):
    """The delivery of an attempt."""

    calls: ClassVar = {
        "post": Call(
            "complete_job",
            scopes=("work",),
            reads=shapes.CompleteIn,
            answers={200: shapes.JobAnswerOut},
            key="honoured",
            sessions=True,
            if_match=True,
        )
    }

    def post(self, request: Request, task_id: str) -> HttpResponse:
        """Record what the attempt delivered."""
        body = self.read(shapes.CompleteIn) | {"task_id": task_id}
        check_authority(body)
        entry = self.entry(body.get("worker_id"))

        def run() -> Outcome:
            [outcome] = transitions.complete(entry=entry, completions=[body])
            if isinstance(outcome, DomainError):
                raise outcome
            return outcome

        return self.move(entry, run, task_id=task_id)


class CompleteBatch(AgentView):
    """The deliveries of many attempts."""

    calls: ClassVar = {
        "post": Call(
            "complete_jobs",
            scopes=("work",),
            reads=shapes.CompletionIn,
            answers={200: shapes.BatchOut},
            key="honoured",
            sessions=True,
            batch_max=COMPLETIONS_MAX,
            batch_name="completions",
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Record what up to 500 attempts delivered, each by itself."""
        items = [authorized(item) for item in self.read_batch(shapes.CompletionIn)]
        good = [item for item in items if not isinstance(item, DomainError)]
        workers = {item["worker_id"] for item in good if item.get("worker_id")}
        entry = self.entry(workers.pop() if len(workers) == 1 else None)

        def run() -> Answer:
            outcomes = transitions.complete(entry=entry, completions=good) if good else []
            return results(merged(items, outcomes))

        return self.once(run, gate=self.gate(entry))


class AttemptView(AgentView):
    """A write of whoever holds a job, in the name of its attempt."""

    def write(
        self,
        run: Callable[..., Outcome],
        task_id: str,
        body: dict[str, Any],
        render: Render = answers.moved,
        *,
        created: frozenset[str] = frozenset(),
    ) -> HttpResponse:
        """Make the move `run`, whose other arguments are the members of the body."""
        check_authority(body)
        entry = self.entry(body.pop("worker_id", None))
        said = body | {name: body.get(name) for name in AUTHORITY}
        return self.move(
            entry,
            lambda: run(entry=entry, task_id=task_id, **said),
            render,
            task_id=task_id,
            created=created,
        )

    def reflect(self, task_id: str, body: dict[str, Any]) -> HttpResponse:
        """Append the reflection of a body."""
        created = frozenset({"recorded"})
        return self.write(
            transitions.reflect, task_id, reflection(body), answers.reflected, created=created
        )


class FailJob(AttemptView):
    """The failure of an attempt."""

    calls: ClassVar = {
        "post": Call(
            "fail_job",
            scopes=("work",),
            reads=shapes.FailIn,
            answers={200: shapes.JobAnswerOut},
            key="honoured",
            sessions=True,
            if_match=True,
        )
    }

    def post(self, request: Request, task_id: str) -> HttpResponse:
        """Record why the attempt failed; retried when it may be and attempts are left."""
        return self.write(transitions.fail, task_id, self.read(shapes.FailIn))


class EscalateJob(AttemptView):
    """The call for a human."""

    calls: ClassVar = {
        "post": Call(
            "escalate_job",
            scopes=("work",),
            reads=shapes.EscalateIn,
            answers={200: shapes.JobAnswerOut},
            key="honoured",
            sessions=True,
            if_match=True,
        )
    }

    def post(self, request: Request, task_id: str) -> HttpResponse:
        """Hand the job to a human; the attempt ends."""
        return self.write(transitions.escalate, task_id, self.read(shapes.EscalateIn))


class ReflectOnJob(AttemptView):
    """What a worker learnt on a job."""

    calls: ClassVar = {
        "post": Call(
            "reflect_on_job",
            scopes=("work",),
            reads=shapes.ReflectionIn,
            answers={201: shapes.ReflectionAnswerOut, 200: shapes.ReflectionAnswerOut},
            key="honoured",
            sessions=True,
            if_match=True,
        )
    }

    def post(self, request: Request, task_id: str) -> HttpResponse:
        """Append a reflection; the server gives the number when there is none."""
        return self.reflect(task_id, self.read(shapes.ReflectionIn))


class HermesReflections(AttemptView):
    """The older path of reflections."""

    calls: ClassVar = {
        "post": replace(
            ReflectOnJob.calls["post"], operation="reflect", reads=shapes.TaskReflectionIn
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Append a reflection to the named task."""
        body = self.read(shapes.TaskReflectionIn)
        return self.reflect(body.pop("task_id"), body)


class Skills(WorkerView):
    """What the agent has learnt so far."""

    calls: ClassVar = {
        "get": Call(
            "list_skills",
            scopes=("work", "read"),
            answers={200: shapes.SkillsOut},
            query={
                "task_type": "Only skills of this task type.",
                "context_type": "Only skills of this context.",
                "min_confidence": "Only skills of at least this confidence, 0 to 1.",
                "limit": "At most so many, 1 to 200.",
            },
        )
    }

    def get(self, request: Request) -> HttpResponse:
        """List the agent's skills for a type and a context, the most trusted first."""
        if self.principal.kind != "agent":
            raise NotFound("Only agents have skills.")
        asked = request.query_params
        found = skills.find_skills(
            agent_id=self.principal.id,
            task_type=asked.get("task_type", ""),
            context_type=asked.get("context_type", ""),
            min_confidence=number(asked, "min_confidence", 0, least=0, most=1),
            limit=int(number(asked, "limit", SKILLS_PAGE, least=1, most=skills.SKILLS_MAX)),
        )
        return respond(Answer(200, answers.skills(found)))


class ExtractSkills(AgentView):
    """What recurs in reflections."""

    calls: ClassVar = {
        "post": Call(
            "extract_skills",
            scopes=("work",),
            reads=shapes.ExtractSkillsIn,
            answers={200: shapes.ExtractedOut},
            key="honoured",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Make skills of the patterns that recur in the agent's reflections."""
        body = self.read(shapes.ExtractSkillsIn)
        entry = self.entry(body.pop("worker_id", None))

        def run() -> Answer:
            return Answer(200, answers.extracted(skills.extract_skills(entry=entry, **body)))

        return self.once(run, gate=self.gate(entry))


class SkillFeedback(AgentView):
    """How a skill served."""

    calls: ClassVar = {
        "post": Call(
            "rate_skill",
            scopes=("work",),
            reads=shapes.SkillFeedbackIn,
            answers={200: shapes.SkillAnswerOut},
            key="honoured",
            sessions=True,
        )
    }

    def post(self, request: Request, skill_id: int) -> HttpResponse:
        """Record how a skill served; its confidence follows."""
        body = self.read(shapes.SkillFeedbackIn)
        entry = self.entry(body.pop("worker_id", None))

        def run() -> Answer:
            rated = skills.rate_skill(entry=entry, skill_id=skill_id, **body)
            return Answer(200, answers.rated(rated))

        return self.once(run, gate=self.gate(entry))


class ControlJob(WorkerView):
    """Steering a job from outside."""

    calls: ClassVar = {
        "post": Call(
            "control_job",
            scopes=("control",),
            reads=shapes.ControlIn,
            answers={200: shapes.ControlAnswerOut},
            key="required",
            if_match=True,
        )
    }

    def post(self, request: Request, task_id: str) -> HttpResponse:
        """Stop, pause or resume one's own job, if it is as the caller saw it."""
        body = self.read(shapes.ControlIn)
        revision = self.if_match()

        def run() -> Answer:
            # Whose job it is never changes, so that it may be judged before the lock.
            queries.read_job(principal=self.principal, task_id=task_id)
            need_revision(revision, task_id)
            outcome = CONTROLS[body["action"]].run(
                key=task_id,
                actor=self.principal.text,
                reason=body["reason"],
                expected_revision=body["expected_task_revision"],
                **body["values"],
            )
            return answer(outcome, answers.controlled)

        return self.once(run)


def visible_jobs(principal: Principal) -> Any:
    """Return the jobs that the caller may see: those of its agent, or those that it submitted."""
    if principal.kind == "agent":
        return Job.objects.filter(agent_id=principal.id)
    return Job.objects.filter(submitted_by=principal.text)


def job_views(jobs: list[Job]) -> list[dict[str, Any]]:
    """Return the API shapes of a page of jobs, in its order."""
    pks = [job.pk for job in jobs]
    found = queries.read_jobs(job_pks=pks) if pks else {}
    return [answers.job(found[pk]) for pk in pks]


def event_views(events: list[AuditEvent]) -> list[dict[str, Any]]:
    """Return audit events as they were hashed, with their hashes."""
    return [
        {
            **json.loads(bytes(event.body)),
            "prev_hash": bytes(event.prev_hash).hex(),
            "hash": bytes(event.hash).hex(),
        }
        for event in events
    ]


def claims(items: list[dict[str, Any]], *, retry_after_seconds: int | None = None) -> Answer:
    """Return the answer of a claim of the next jobs; kept under the key if there are any."""
    body = {"results": items, "retry_after_seconds": retry_after_seconds}
    return Answer(200, body, recorded=bool(items))


def merged(items: list[Any], outcomes: list[Any]) -> list[Any]:
    """Return the outcomes of the good items in the places of these, the refused as they are."""
    rest = iter(outcomes)
    return [item if isinstance(item, DomainError) else next(rest) for item in items]


def reflection(body: dict[str, Any]) -> dict[str, Any]:
    """Return a reflection's body with what the worker learnt in one member, `content`."""
    around = ("worker_id", "sequence_number", *AUTHORITY)
    content = {name: value for name, value in body.items() if name not in around}
    return {name: body[name] for name in around if name in body} | {"content": content}


def check_authority(body: dict[str, Any]) -> None:
    """Refuse a write that names its attempt without the token, or the other way round.

    :raises FencingTokenRequired: half an authority is none, and not the older contract either.
    """
    if (body.get("attempt") is None) != (body.get("fencing_token") is None):
        raise FencingTokenRequired("attempt and fencing_token go together.")


def authorized(item: dict[str, Any] | InvalidArgument) -> dict[str, Any] | DomainError:
    """Return an item of a batch, or what is wrong with its authority."""
    if isinstance(item, DomainError):
        return item
    try:
        check_authority(item)
    except FencingTokenRequired as refusal:
        return refusal
    return item


def number(asked: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    """Return a number of the query string.

    :raises InvalidArgument: it is none, or outside of its range.
    """
    text = asked.get(name)
    if text is None:
        return default
    if _DECIMAL.fullmatch(text) and least <= (value := float(text)) <= most:
        return value
    fault = FieldFault(f"/{name}", f"a number from {least} to {most}")
    raise InvalidArgument("A query parameter is not valid.", errors=[fault])


def release_connection() -> None:
    """Give the database connection back while the request waits."""
    if not connection.in_atomic_block:
        connection.close()
