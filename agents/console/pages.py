"""Lists and pages of agents, submitters, sessions, credentials, inhibits and switches."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents import guard
from agents.models import (
    Agent,
    Credential,
    Fleet,
    MaintenanceInhibit,
    RuntimeSwitch,
    Scope,
    Session,
    Submitter,
)
from agents.transitions import credentials
from agents.verbs import MANAGE_CREDENTIALS
from governance.console import registry, runs, selections, wording
from governance.console.chains import read_chain
from governance.console.forms import ReasonForm
from governance.console.pages import PlainPage
from governance.core import clock
from governance.core.errors import DomainError

#: Rows of one kind that an agent's page shows.
SHOWN_MAX = 30


def subjects_of(term: str) -> list[str]:
    """Return the audit subjects that an agent's or submitter's name stands for."""
    return [f"agent:{term}", f"submitter:{term}"]


registry.subject_finders.append(subjects_of)
registry.add_link(
    registry.Link(
        name="Agents",
        view="admin:agents_agent_changelist",
        key="a",
        permission="agents.view_agent",
        position=20,
    )
)


@admin.register(Agent)
class AgentAdmin(PlainPage):
    """Named worker identities."""

    list_display = ("name", "admission_mark", "heard", "runtime", "max_risk_tier", "enabled")
    page_fields = (
        "admission_mark", "admission_generation", "runtime", "max_risk_tier", "expected",
        "workers_expected",
        "approve_cells", "require_certificates", "fresh_seconds", "stale_seconds", "enabled",
        "created_at",
    )  # fmt: skip
    page_template = "console/agent.html"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.watches = {watch.agent: watch for watch in guard.look().agents}
        return super().changelist_view(request, extra_context)

    @admin.display(description="admission")
    def admission_mark(self, agent: Agent) -> SafeString:
        return wording.mark(agent.admission)

    @admin.display(description="last heard of")
    def heard(self, agent: Agent) -> Any:
        watch = self.watches.get(agent.name)
        return freshness_words(watch) if watch else "disabled"

    def page_context(self, request: HttpRequest, row: Agent) -> dict[str, Any]:
        look = guard.look()
        sessions = row.sessions.select_related("presence").order_by("-id")[:SHOWN_MAX]
        return {
            "as_of": look.at,
            "watch": next((w for w in look.agents if w.agent == row.name), None),
            "sessions": sessions,
            "credentials": row.credentials.order_by("-id")[:SHOWN_MAX],
            "inhibits": [i for i in look.inhibits if i.agent_id in (None, row.pk)],
            "switches": row.runtime_switches.order_by("-id")[:5],
            "changes": row.admission_changes.order_by("-id")[:10],
            "chain": read_chain(row, subject=row.audit_subject),
            "may_manage_credentials": request.user.has_perm(MANAGE_CREDENTIALS.name),
        }


def freshness_words(watch: guard.Watch) -> SafeString:
    """Return how fresh an agent is, and how far it is from the next threshold."""
    if watch.age_seconds is None:
        words = "never heard of"
    elif watch.age_seconds < watch.stale_seconds:
        left = watch.stale_seconds - watch.age_seconds
        words = f"{wording.duration(watch.age_seconds)} ago, stale in {wording.duration(left)}"
    else:
        over = watch.age_seconds - watch.stale_seconds
        words = f"{wording.duration(watch.age_seconds)} ago, stale for {wording.duration(over)}"
    if watch.expected and watch.workers_expected > 1:
        words += f", {watch.workers_fresh} of {watch.workers_expected} workers fresh"
    return format_html("{} {}", wording.mark(watch.freshness), words)


@admin.register(Fleet)
class FleetAdmin(PlainPage):
    """The control plane as a whole."""

    list_display = ("__str__", "dispatcher_epoch", "epoch_rotated_at")
    page_fields = ("dispatcher_epoch", "epoch_rotated_at")
    page_template = "console/fleet.html"

    def page_context(self, request: HttpRequest, row: Fleet) -> dict[str, Any]:
        return {
            "chain": read_chain(row, subject=row.audit_subject),
            "inhibits": guard.inhibits_in_force(clock.now()),
            "as_of": clock.now(),
        }


@admin.register(Submitter)
class SubmitterAdmin(PlainPage):
    """Named systems that queue work."""

    list_display = ("name", "owner", "created_at")
    list_select_related = ("owner",)
    page_fields = ("name", "owner", "task_prefixes", "created_at")
    page_template = "console/submitter.html"

    @admin.display(description="prefixes that it owns")
    def task_prefixes(self, row: Submitter) -> str:
        return ", ".join(row.task_prefixes.order_by("prefix").values_list("prefix", flat=True))

    def page_context(self, request: HttpRequest, row: Submitter) -> dict[str, Any]:
        return {
            "as_of": clock.now(),
            "credentials": row.credentials.order_by("-id")[:SHOWN_MAX],
            "chain": read_chain(row, subject=row.audit_subject),
            "may_manage_credentials": request.user.has_perm(MANAGE_CREDENTIALS.name),
        }


@admin.register(Session)
class SessionAdmin(PlainPage):
    """Agent processes."""

    time_field = "created_at"
    uuid_search = ("session_id",)
    list_display = (
        "session_id", "agent", "kind", "state_mark", "cell_id", "generation", "worker_id", "heard",
    )  # fmt: skip
    list_filter = ("kind", "state")
    list_select_related = ("agent", "presence")
    page_fields = (
        "session_id", "agent", "kind", "state_mark", "worker_id", "cell_id", "boot_id",
        "lineage", "certificate_sha256", "generation", "dispatcher_epoch", "protocol_version",
        "runtime", "capabilities", "created_at", "superseded_at",
    )  # fmt: skip

    @admin.display(description="state")
    def state_mark(self, session: Session) -> SafeString:
        return wording.mark(session.state)

    @admin.display(description="last heard of (UTC)")
    def heard(self, session: Session) -> str:
        presence = getattr(session, "presence", None)
        return wording.stamp(presence.last_heartbeat_at) if presence else "-"


@admin.register(MaintenanceInhibit)
class MaintenanceInhibitAdmin(PlainPage):
    """Named stops of new work."""

    time_field = "starts_at"
    list_display = ("__str__", "owner", "starts_at", "ends_at", "lifted_at", "lifted_by")
    list_select_related = ("agent",)
    page_fields = (
        "agent", "owner", "reason", "starts_at", "ends_at", "lifted_at", "lifted_by",
        "lift_reason",
    )  # fmt: skip


@admin.register(RuntimeSwitch)
class RuntimeSwitchAdmin(PlainPage):
    """Switches of an agent to another runtime."""

    list_display = ("__str__", "state", "step", "started_by", "started_at", "finished_at")
    list_select_related = ("agent",)
    page_fields = (
        "agent", "from_runtime", "to_runtime", "state", "step", "steps", "inhibit", "started_by",
        "reason", "started_at", "switched_at", "finished_at", "error",
    )  # fmt: skip


class CredentialForm(forms.Form):
    """What a new credential may do, and for how long."""

    scopes = forms.MultipleChoiceField(
        choices=Scope.choices, widget=forms.CheckboxSelectMultiple, required=False
    )
    expires_days = forms.IntegerField(
        required=False, min_value=1, max_value=3650, initial=90, help_text="Empty: never."
    )
    certificate_sha256 = forms.CharField(
        required=False,
        max_length=95,
        label="Client certificate",
        help_text="SHA-256 fingerprint that it is bound to; empty: none.",
    )
    note = forms.CharField(required=False, max_length=200)


class RotationForm(forms.Form):
    """How long the old token works beside the new one, and with which certificates."""

    overlap_seconds = forms.IntegerField(min_value=0, max_value=30 * 86_400, initial=3600)
    certificate_sha256 = forms.CharField(
        required=False,
        max_length=95,
        label="Further client certificate",
        help_text="SHA-256 fingerprint, taken beside the one of before; empty: none.",
    )


@admin.register(Credential)
class CredentialAdmin(PlainPage):
    """Bearer tokens: of each only the prefix is known here."""

    time_field = "created_at"
    prefix_search = ("prefix",)
    search_help_text = "Beginning of the prefix"
    list_display = ("prefix", "of", "scopes", "life", "created_by", "last_used_at")
    list_select_related = ("agent", "submitter")
    page_fields = (
        "prefix", "of", "lineage", "scopes", "life", "created_at", "created_by", "expires_at",
        "revoked_at", "revoked_by", "last_used_at", "certificate_sha256",
        "former_certificate_sha256", "note",
    )  # fmt: skip
    page_template = "console/credential.html"

    @admin.display(description="of")
    def of(self, row: Credential) -> str:
        return row.agent.principal if row.agent else cast(Submitter, row.submitter).principal

    @admin.display(description="state")
    def life(self, row: Credential) -> str:
        if row.revoked_at:
            return "revoked"
        if row.expires_at and row.expires_at <= clock.now():
            return "expired"
        return f"until {wording.stamp(row.expires_at)}" if row.expires_at else "no end"

    def page_context(self, request: HttpRequest, row: Credential) -> dict[str, Any]:
        return {"may_rotate": request.user.has_perm(MANAGE_CREDENTIALS.name) and not row.revoked_at}

    def new_view(self, request: HttpRequest, kind: str, name: str) -> HttpResponse:
        """Make a credential; its token is shown on this answer and nowhere else."""
        owners: dict[str, Any] = {"agent": Agent, "submitter": Submitter}
        if kind not in owners or not owners[kind].objects.filter(name=name).exists():
            raise Http404

        def make(*, scopes: list[str], expires_days: int | None, **terms: Any) -> Any:
            return credentials.create(
                **{kind: name}, scopes=scopes or None, expires_days=expires_days, **terms
            )

        allowed = credentials.AGENT_SCOPES if kind == "agent" else credentials.SUBMITTER_SCOPES
        return self._token(
            request, form=CredentialForm, make=make, title=f"New credential of {kind} {name}",
            key=f"{kind}:{name}", scopes=allowed,
        )  # fmt: skip

    def rotate_view(self, request: HttpRequest, prefix: str) -> HttpResponse:
        """Make the successor of a credential; its token is shown once."""
        if not Credential.objects.filter(prefix=prefix).exists():
            raise Http404

        def make(**terms: Any) -> Any:
            return credentials.rotate(prefix=prefix, **terms)

        return self._token(
            request, form=RotationForm, make=make, title=f"Rotate {prefix}", key=prefix
        )

    def _token(
        self,
        request: HttpRequest,
        *,
        form: type[forms.Form],
        make: Any,
        title: str,
        key: str,
        scopes: Any = None,
    ) -> HttpResponse:
        if not request.user.has_perm(MANAGE_CREDENTIALS.name):
            raise PermissionDenied
        user_id = cast(int, request.user.pk)
        sent = request.method == "POST"
        reason = ReasonForm(request.POST if sent else None)
        fields = form(request.POST if sent else None)
        if scopes is not None:
            choices = [choice for choice in Scope.choices if choice[0] in scopes]
            fields.fields["scopes"].choices = choices  # type: ignore[attr-defined]
        context = {
            **self.admin_site.each_context(request), "title": title, "opts": self.opts,
            "form": reason, "fields": fields,
        }  # fmt: skip
        if sent and all([reason.is_valid(), fields.is_valid()]):
            try:
                selection = selections.thaw(
                    request.POST.get("selection", ""), model=self.label, user_id=user_id
                )
                issued = runs.once(
                    selection=selection,
                    name="issue",
                    user=cast(User, request.user),
                    reason=reason.cleaned_data["reason"],
                    make=lambda: make(
                        actor=runs.actor_of(request.user),
                        reason=reason.cleaned_data["reason"],
                        **fields.cleaned_data,
                    ),
                )
            except (selections.SelectionInvalid, DomainError) as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                return self._shown_once(request, context, issued)
        frozen = selections.freeze(model=self.label, keys=[key], user_id=user_id)
        context["selection"] = frozen.sign()
        return TemplateResponse(request, "console/credential_new.html", context)

    def _shown_once(
        self, request: HttpRequest, context: dict[str, Any], issued: Any
    ) -> HttpResponse:
        if issued is None:
            text = "That form was sent before: its credential was made, its token shown once."
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(reverse("admin:agents_credential_changelist"))
        context |= {"issued": issued, "title": "The token, this once"}
        response = TemplateResponse(request, "console/token.html", context)
        response["Cache-Control"] = "no-store"
        return response

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("new/<slug:kind>/<slug:name>/", wrap(self.new_view), name="agents_credential_new"),
            path("rotate/<slug:prefix>/", wrap(self.rotate_view), name="agents_credential_rotate"),
            *super().get_urls(),
        ]
