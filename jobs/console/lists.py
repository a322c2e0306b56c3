"""Lists of jobs and of what belongs to them, and the job page."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from agents.models import Agent
from governance.console import registry, runs, wording
from governance.console.admins import OperatorAdmin
from governance.console.lists import MATCHES_MAX, Since
from governance.console.pages import ChainedPage, PlainPage
from governance.console.payloads import redacted, shown
from governance.console.registry import now_of
from governance.core import permissions
from governance.core.errors import SelfApproval
from governance.core.permissions import APPROVER, OPERATOR, Permission
from jobs import evidence, objects
from jobs.console import job_page
from jobs.models import (
    FINISHED_STATES,
    WAITING_STATES,
    Attempt,
    Escalation,
    Execution,
    Job,
    JobType,
    LiveAuthorization,
    Priority,
    Reflection,
    RetryExtension,
    SetAside,
    Skill,
    Source,
    Upload,
)
from jobs.queries import PAYLOAD
from jobs.transitions import preconditions
from jobs.verbs.job import APPROVE_EXECUTION
from jobs.waiting import RECONCILED

VIEW_PAYLOADS = Permission(
    "view_payloads", "Can see inputs, results and error texts", (OPERATOR, APPROVER)
)
EXPORT_EVIDENCE = Permission(
    "export_evidence", "Can export the evidence of a job", (OPERATOR, APPROVER)
)
permissions.register(VIEW_PAYLOADS, EXPORT_EVIDENCE)
#: A bundle up to this size is made in memory.
BUNDLE_BYTES_IN_MEMORY = 4 * 1024 * 1024
#: How audit subjects and fact streams name a job, by its job id.
SUBJECT = "job:"


class AgentFilter(admin.SimpleListFilter):
    """By the agent that a job goes to."""

    title = "agent"
    parameter_name = "agent"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        self.keys = dict(Agent.objects.order_by("name").values_list("name", "pk"))
        return [(name, name) for name in self.keys]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        # By key and not by name: so the planner sees which index is in list order.
        name = self.value()
        return queryset.filter(agent_id=self.keys.get(name, 0)) if name else None


class WaitsFilter(admin.SimpleListFilter):
    """Several states at once: what runs or will run, what waits for a person, what is over."""

    title = "stage"
    parameter_name = "stage"
    STAGES = {
        "moving": ("queued or active", ("queued", "active")),
        "waiting": ("waits for a person", WAITING_STATES),
        "over": ("over", FINISHED_STATES),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(key, name) for key, (name, _) in self.STAGES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if self.value() not in self.STAGES:
            return None
        return queryset.filter(state__in=self.STAGES[str(self.value())][1])


class HoldFilter(admin.SimpleListFilter):
    """Jobs that somebody holds back. Served by job_hold_idx."""

    title = "on hold"
    parameter_name = "on_hold"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "on hold")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if self.value() != "yes":
            return None
        return queryset.filter(hold_until__gt=now_of(request))


@admin.register(Job)
class JobAdmin(OperatorAdmin):
    """Jobs, newest first."""

    time_field = "created_at"
    prefix_search = ("task_id",)
    uuid_search = ("job_id",)
    search_help_text = "Beginning of a task id or of a job id"
    list_display = (
        "what", "state_mark", "tries", "agent_name", "type_name", "risk", "state_age",
    )  # fmt: skip
    list_filter = (WaitsFilter, "state", AgentFilter, "risk_tier", "paused", HoldFilter, Since)
    list_select_related = ("agent", "job_type", "task")
    export_columns = (
        "task_id", "job_id", "state", "paused", "agent__name", "job_type__name", "risk_tier",
        "priority", "attempt", "max_attempts", "deferrals", "revision", "submitted_by",
        "created_at", "state_since", "hold_until", "finished_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        heavy = ("goal", "inputs", "labels", "envelope", "content_sha256", "execution_digest")
        return super().get_queryset(request).defer(*(f"task__{name}" for name in heavy))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.now = now_of(request)
        return super().changelist_view(request, extra_context)

    @admin.display(description="state")
    def state_mark(self, job: Job) -> SafeString:
        beside = [(word,) for word in job_page.beside_the_state(job, at=self.now)]
        return format_html(
            "{}{}",
            wording.mark(job.state),
            format_html_join("", ' <span class="mark">{}</span>', beside),
        )

    @admin.display(description="task")
    def what(self, job: Job) -> SafeString:
        return format_html("{} <small>{}</small>", job.task_id, job.task.title[:80])

    @admin.display(description="attempt")
    def tries(self, job: Job) -> str:
        return job_page.tries_of(job)

    @admin.display(description="agent")
    def agent_name(self, job: Job) -> str:
        return job.agent.name

    @admin.display(description="type")
    def type_name(self, job: Job) -> str:
        return job.job_type.name

    @admin.display(description="in it for")
    def state_age(self, job: Job) -> Any:
        seconds = (self.now - job.state_since).total_seconds()
        return format_html(
            '<time datetime="{}">{}</time>',
            job.state_since.isoformat(),
            wording.duration(seconds),
        )

    @admin.display(description="risk, priority")
    def risk(self, job: Job) -> str:
        ordinary = job.priority == Priority.NORMAL
        return job.risk_tier if ordinary else f"{job.risk_tier}, {job.get_priority_display()}"

    # --- The job page -------------------------------------------------------------------------

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        job = self._whole(request, object_id)
        context = {
            **self.admin_site.each_context(request),
            "title": job.task_id,
            "opts": self.opts,
            **self._choices(request, job),
            "may_see_payloads": request.user.has_perm(VIEW_PAYLOADS.name),
            "may_export_evidence": request.user.has_perm(EXPORT_EVIDENCE.name),
            **job_page.load(job=job, payloads=request.user.has_perm(VIEW_PAYLOADS.name)),
        }
        return TemplateResponse(request, "console/job.html", context)

    def _choices(self, request: HttpRequest, job: Job) -> dict[str, Any]:
        """Return what the user may do to the job, and whether it is they who may not approve it."""
        refusal = preconditions.approvable(job, actor=runs.actor_of(request.user))
        may = request.user.has_perm(APPROVE_EXECUTION.name)
        return {
            "decisions": self.decisions(request, job),
            "own_request": may and isinstance(refusal, SelfApproval),
        }

    def live_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the head of the job page again."""
        if not self.admin_site.has_permission(request):
            return HttpResponse("Signed out.", status=401)
        job = self._whole(request, object_id, without=PAYLOAD)
        context = job_page.load_head(job=job) | self._choices(request, job)
        response = TemplateResponse(request, "console/job_head.html", context)
        response["Cache-Control"] = "no-store"
        return response

    def task_view(self, request: HttpRequest, task_id: str) -> HttpResponse:
        """Lead to a job by its task's id, for links from elsewhere."""
        pk = Job.objects.filter(task_id=task_id).values_list("pk", flat=True).first()
        if pk is None:
            raise Http404
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=(pk,)))

    def payload_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Send one payload as a whole, redacted, as a download."""
        if not request.user.has_perm(VIEW_PAYLOADS.name):
            raise PermissionDenied
        job = self._whole(request, object_id)
        payload = shown(name, job_page.payload(job=job, name=name), allowed=True, whole=True)
        if payload is None:
            raise Http404
        response = HttpResponse(payload.text, content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{job.job_id}-{name}.txt"'
        return response

    def evidence_view(self, request: HttpRequest, object_id: str) -> FileResponse:
        """Send the job's evidence as a ZIP file; payloads as on its page, redacted ones as digests.

        What redaction would change could not be compared with its digest any more.
        """
        with_payloads = request.POST.get("payloads") == "yes"
        needed = [EXPORT_EVIDENCE, *([VIEW_PAYLOADS] if with_payloads else [])]
        if not all(request.user.has_perm(permission.name) for permission in needed):
            raise PermissionDenied
        job = self._whole(request, object_id)
        out = SpooledTemporaryFile(BUNDLE_BYTES_IN_MEMORY)
        try:
            evidence.export(
                task_id=job.task_id,
                out=out,
                actor=runs.actor_of(request.user),
                with_payloads=with_payloads,
                showable=lambda value: redacted(value) == value,
            )
        except BaseException:
            out.close()
            raise
        out.seek(0)
        name = f"evidence-{job.job_id}.zip"
        return FileResponse(out, as_attachment=True, filename=name)

    def _whole(self, request: HttpRequest, object_id: str, *, without: tuple[str, ...] = ()) -> Job:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if not object_id.isdigit():
            raise Http404
        rows = Job.objects.select_related("task", "agent", "job_type")
        rows = rows.defer(*(f"task__{name}" for name in without))
        job = rows.filter(pk=int(object_id)).first()
        if job is None:
            raise Http404
        return job

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("task/<path:task_id>/", wrap(self.task_view), name="jobs_job_task"),
            path("<object_id>/live/", self.live_view, name="jobs_job_live"),
            path(
                "<object_id>/payload/<slug:name>/",
                wrap(self.payload_view),
                name="jobs_job_payload",
            ),
            path(
                "<object_id>/evidence/",
                wrap(require_POST(self.evidence_view)),
                name="jobs_job_evidence",
            ),
            *super().get_urls(),
        ]


def jobs_of(term: str) -> list[int]:
    """Return the keys of the jobs whose task id begins with `term`."""
    found = Job.objects.filter(task_id__startswith=term).values_list("pk", flat=True)
    return list(found[:MATCHES_MAX])


def subjects_of(term: str) -> list[str]:
    """Return the audit subjects of the jobs whose task id begins with `term`, and of its kind."""
    found = Job.objects.filter(task_id__startswith=term).values_list("job_id", flat=True)
    named = [f"job_type:{term}", f"source:{term}"]
    return [f"{SUBJECT}{job_id}" for job_id in found[:MATCHES_MAX]] + named


def pages_of(subjects: list[str]) -> dict[str, tuple[str, str]]:
    """Return task id and page of each subject that is a job."""
    ids = [subject[len(SUBJECT) :] for subject in subjects if subject.startswith(SUBJECT)]
    found = Job.objects.filter(job_id__in=ids).values_list("job_id", "task_id", "pk")
    return {
        f"{SUBJECT}{job_id}": (task_id, reverse("admin:jobs_job_change", args=(pk,)))
        for job_id, task_id, pk in found
    }


registry.add_link(
    registry.Link(
        name="Jobs",
        view="admin:jobs_job_changelist",
        key="j",
        permission="jobs.view_job",
        position=10,
    )
)
registry.subject_finders.append(subjects_of)
registry.subject_pages.append(pages_of)


class OfJobs(PlainPage):
    """Rows that belong to a job and are found by its task id."""

    list_select_related = ("job",)
    search_help_text = "Beginning of a task id"
    prefix_search = ("job__task_id",)

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        found = queryset.order_by().filter(job_id__in=jobs_of(term))
        return queryset.filter(pk__in=list(found.values_list("pk", flat=True)[:MATCHES_MAX]))

    @admin.display(description="task")
    def task_link(self, row: Any) -> SafeString:
        url = reverse("admin:jobs_job_change", args=(row.job_id,))
        return format_html('<a href="{}">{}</a>', url, row.job.task_id)


@admin.register(Attempt)
class AttemptAdmin(OfJobs):
    """Every official try of a job."""

    time_field = "claimed_at"
    list_display = (
        "name", "task_link", "number", "worker_id", "runtime", "outcome", "error_code", "claimed",
        "ended",
    )  # fmt: skip
    list_filter = (Since,)
    export_columns = (
        "job__task_id", "number", "fencing_token", "worker_id", "runtime", "claimed_at", "ended_at",
        "outcome", "error_code",
    )  # fmt: skip
    page_fields = (
        "task_link", "number", "fencing_token", "worker_id", "runtime", "lease_seconds",
        "claimed_at", "deadline_at", "ended_at", "outcome", "error_code", "needs_review",
        "retryable", "outcome_sha256",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        heavy = ("result", "progress", "error_message", "result_pointer")
        return super().get_queryset(request).defer(*heavy)

    @admin.display(description="attempt")
    def name(self, row: Attempt) -> str:
        return f"{row.number} of job {row.job_id}"

    @admin.display(description="claimed (UTC)")
    def claimed(self, row: Attempt) -> str:
        return wording.stamp(row.claimed_at)

    @admin.display(description="ended (UTC)")
    def ended(self, row: Attempt) -> str:
        return wording.stamp(row.ended_at) if row.ended_at else "runs"


@admin.register(Execution)
class ExecutionAdmin(OfJobs):
    """External effects, one per attempt at most."""

    time_field = "decided_at"
    list_display = (
        "short_id", "task_link", "attempt", "state_mark", "mode", "runtime", "decided_at",
        "error_code",
    )  # fmt: skip
    list_filter = ("state", Since)
    export_columns = (
        "external_request_id", "job__task_id", "attempt", "state", "mode", "runtime",
        "refusal_reason", "decided_at", "resulted_at", "result_sha256", "error_code",
    )  # fmt: skip
    page_fields = (
        "external_request_id", "task_link", "attempt", "fencing_token", "state_mark", "mode",
        "runtime", "refusal_reason", "execution_digest", "request_sha256", "decided_at",
        "deadline_at", "resulted_at", "result_sha256", "usage", "error_code",
    )  # fmt: skip
    page_template = "console/execution.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Execution]:
        rows = super().get_queryset(request).select_related("job")
        return rows.defer("result", "result_pointer").annotate(reconciled=RECONCILED)

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        named = queryset.filter(external_request_id=term)
        return named if term.startswith("xr_") else super().search(queryset, term)

    @admin.display(description="execution")
    def short_id(self, row: Execution) -> str:
        return f"{row.external_request_id[:14]}…"

    @admin.display(description="state")
    def state_mark(self, row: Execution) -> SafeString:
        return wording.mark(row.state)

    def page_context(self, request: HttpRequest, row: Execution) -> dict[str, Any]:
        allowed = request.user.has_perm(VIEW_PAYLOADS.name)
        return {
            "reconciliations": row.reconciliations.order_by("-id"),
            "evidence": [
                (given, shown(f"evidence {given.pk}", given.content, allowed=allowed))
                for given in row.evidence.order_by("-id")
            ],
            "money": job_page.money_of(job=row.job, external_request_id=row.external_request_id),
            "money_beside": job_page.money_beside(
                job=row.job, external_request_id=row.external_request_id
            ),
        }


@admin.register(LiveAuthorization)
class LiveAuthorizationAdmin(PlainPage):
    """Who may execute live."""

    time_field = "granted_at"
    list_display = ("agent", "runtime", "granted_by", "granted_at", "ends_at", "revoked_at")
    list_filter = (AgentFilter,)
    list_select_related = ("agent",)
    page_fields = (
        "agent", "runtime", "granted_by", "granted_at", "reason", "ends_at", "revoked_at",
        "revoked_by", "revoke_reason",
    )  # fmt: skip


@admin.register(Upload)
class UploadAdmin(OfJobs):
    """Artifacts, and grants to bring them."""

    time_field = "granted_at"
    uuid_search = ("upload_id",)
    list_display = (
        "name", "task_link", "attempt", "media_type", "size_bytes", "state", "stored_at",
    )  # fmt: skip
    list_filter = (Since,)
    export_columns = (
        "artifact_id", "job__task_id", "attempt", "name", "media_type", "size_bytes", "sha256",
        "state", "stored_at",
    )  # fmt: skip
    page_fields = (
        "name", "task_link", "attempt", "media_type", "size_bytes", "sha256", "state",
        "granted_at", "expires_at", "stored_at", "object_key",
    )  # fmt: skip
    page_template = "console/upload.html"

    def page_context(self, request: HttpRequest, row: Upload) -> dict[str, Any]:
        stored = row.state == Upload.State.STORED
        return {"may_download": stored and request.user.has_perm(VIEW_PAYLOADS.name)}

    def download_view(self, request: HttpRequest, object_id: str) -> Any:
        """Send the artifact's bytes, always as a download and never as a page of ours."""
        if not (self.has_view_permission(request) and request.user.has_perm(VIEW_PAYLOADS.name)):
            raise PermissionDenied
        row = self.get_object(request, object_id)
        if row is None or row.state != Upload.State.STORED:
            raise Http404
        response = StreamingHttpResponse(
            objects.store().read(key=row.object_key), content_type=objects.SENT_AS
        )
        disposition = content_disposition_header(as_attachment=True, filename=row.name)
        response["Content-Disposition"] = disposition or "attachment"
        response["Content-Length"] = str(row.size_bytes)
        return response

    def get_urls(self) -> list[URLPattern]:
        download = self.admin_site.admin_view(self.download_view)
        return [
            path("<object_id>/download/", download, name="jobs_upload_download"),
            *super().get_urls(),
        ]


@admin.register(Escalation)
class EscalationAdmin(OfJobs):
    """Calls for a human."""

    time_field = "raised_at"
    list_display = (
        "raised_at", "task_link", "attempt", "raised_by", "notify_to", "resolution", "resolved_by",
    )  # fmt: skip
    list_filter = (Since,)
    page_fields = (
        "task_link", "attempt", "raised_by", "raised_at", "reason", "notify_to", "resolution",
        "resolved_by", "resolved_at", "resolve_reason",
    )  # fmt: skip


@admin.register(RetryExtension)
class RetryExtensionAdmin(OfJobs):
    """Grants of further attempts."""

    time_field = "granted_at"
    list_display = ("granted_at", "task_link", "from_max", "to_max", "granted_by", "reason")
    list_filter = (Since,)
    export_columns = (
        "job__task_id", "from_max", "to_max", "ceiling", "granted_by", "granted_at", "reason",
    )  # fmt: skip
    page_fields = (
        "task_link", "from_max", "to_max", "ceiling", "granted_by", "granted_at", "reason",
    )  # fmt: skip


@admin.register(Reflection)
class ReflectionAdmin(OfJobs):
    """Workers' notes on jobs."""

    time_field = "created_at"
    list_display = ("created_at", "task_link", "number", "attempt", "agent", "context_type")
    list_select_related = ("job", "agent")  # type: ignore[assignment]
    list_filter = (Since,)
    page_fields = (
        "task_link", "number", "attempt", "what_worked", "what_failed", "pattern_observed",
        "context_type", "tool_sequence", "success_signal", "failure_signal", "sensitivity_level",
        "created_at",
    )  # fmt: skip


@admin.register(SetAside)
class SetAsideAdmin(ChainedPage):
    """Jobs whose rows spoil what is done with them."""

    prefix_search = ("task_id",)
    list_display = ("task_id", "set_at", "kind", "error_class", "count", "last_seen_at")
    page_fields = (
        "task_id", "set_at", "kind", "error_class", "count", "first_seen_at", "last_seen_at",
    )  # fmt: skip


@admin.register(JobType)
class JobTypeAdmin(ChainedPage):
    """Kinds of task, and who does them."""

    list_display = (
        "name", "agent", "runtime", "model_use", "effects", "max_attempts", "max_attempts_ceiling",
        "enabled",
    )  # fmt: skip
    list_select_related = ("agent",)
    page_fields = (
        "name", "agent", "runtime", "model_use", "effects", "inputs_schema", "max_attempts",
        "max_attempts_ceiling", "max_deferrals", "open_calls_max", "lease_seconds",
        "attempt_timeout_seconds",
        "backoff_base_seconds", "backoff_cap_seconds", "approval_valid_seconds", "enabled",
    )  # fmt: skip


@admin.register(Source)
class SourceAdmin(ChainedPage):
    """Where tasks come from."""

    list_display = ("name", "enabled")
    page_fields = ("name", "enabled")


@admin.register(Skill)
class SkillAdmin(PlainPage):
    """Patterns that recurred in reflections."""

    list_display = ("__str__", "agent", "task_type", "context_type", "occurrences", "confidence")
    list_select_related = ("agent",)
    list_filter = (AgentFilter,)
    page_fields = (
        "agent", "task_type", "context_type", "pattern", "tool_sequence", "occurrences",
        "successes", "failures", "confidence", "created_at", "updated_at",
    )  # fmt: skip
