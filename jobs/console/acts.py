"""What operators can do to jobs: each act asks, then calls one transition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms

from agents.models import Agent
from governance.console.acts import TRISTATE, YES_OR_NO, Act, add_act, meant
from governance.console.wording import stamp
from jobs import executions, transitions
from jobs.models import Execution, Job, LiveAuthorization
from jobs.transitions import claims, job_types, preconditions

State = Job.State
MODEL = "jobs.job"
INTAKE_PERMISSION = "agents.configure_intake"
HOUR_SECONDS = 3600
APPROVAL_HOURS_MAX = 24 * 30
Fits = Callable[[Job, str], str]


class ApprovalForm(forms.Form):
    """Until when an approval holds."""

    valid_hours = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=APPROVAL_HOURS_MAX,
        help_text="Empty: as the job type says. After that the job is held again.",
    )


class ExtensionForm(forms.Form):
    """How many attempts more: "+N" or "set to N"."""

    extra = forms.IntegerField(
        required=False, min_value=1, max_value=1000, label="+N attempts", initial=1
    )
    to_max = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=100_000,
        label="or set the limit to",
        help_text="Never below the attempts used, never above the job type's ceiling.",
    )
    needed = True

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or {}
        given = [name for name in ("extra", "to_max") if asked.get(name) is not None]
        if len(given) > 1:
            # "+1" is only what the form suggests; who sets a limit means the limit.
            asked["extra"] = None
        if self.needed and not given and not self.errors:
            self.add_error("extra", "Say how many attempts more, or which limit.")
        return asked


class ReworkForm(ExtensionForm):
    """A retry extension on the way back, where attempts are used up."""

    extra = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=1000,
        label="+N attempts",
        help_text="Needed where no attempt is left; without, the job waits for an extension.",
    )
    needed = False


class ResolutionForm(forms.Form):
    """Where an escalated job goes."""

    resolution = forms.ChoiceField(
        choices=[
            ("requeue", "Queue it again"),
            ("complete", "It is done: complete it"),
            ("fail", "It failed"),
            ("stop", "Stop it"),
        ],
        widget=forms.RadioSelect,
    )


def in_states(*states: str, unpaused: bool | None = None) -> Fits:
    """Return the forecast of an act that needs one of these states."""

    def fits(job: Job, actor: str) -> str:
        if job.state not in states:
            return f"it is {job.get_state_display().lower()}"
        if unpaused is not None and job.paused == unpaused:
            return "it is paused already" if job.paused else "it is not paused"
        return ""

    return fits


def _by_another(job: Job, actor: str) -> str:
    if job.state != State.HELD:
        return f"it is {job.get_state_display().lower()}"
    if preconditions.asked_for(job, actor=actor):
        return "you asked for it yourself"
    return ""


def _approved(job: Job, actor: str) -> str:
    if job.state != State.QUEUED:
        return f"it is {job.get_state_display().lower()}"
    return "" if job.execution_approval_required else "it has no approval"


def _resolved(fits: Fits) -> Fits:
    def and_resolved(job: Job, actor: str) -> str:
        why = fits(job, actor)
        return why or ("an execution is unresolved" if job.unresolved_executions else "")

    return and_resolved


def _extendable(job: Job, actor: str) -> str:
    if job.state == State.FAILED:
        return "it failed: send it back for rework, with the extension"
    return in_states(*preconditions.EXTENDABLE)(job, actor)


def _run(move: Callable[..., transitions.Outcome], **fixed: Any) -> Callable[..., str]:
    def run(*, key: str, actor: str, reason: str, **fields: Any) -> str:
        outcome = move(task_id=key, actor=actor, reason=reason, **fixed, **fields)
        return f"{outcome.outcome.replace('_', ' ')}, now {outcome.job.state}"

    return run


def _approve(
    *, key: str, actor: str, reason: str, valid_hours: int | None = None, **seen: Any
) -> str:
    seconds = valid_hours * HOUR_SECONDS if valid_hours else None
    outcome = transitions.approve(
        task_id=key, actor=actor, reason=reason, valid_seconds=seconds, **seen
    )
    return f"approved, now {outcome.job.state}"


class ReconciliationForm(forms.Form):
    """What became of an execution, and how that is known."""

    verdict = forms.ChoiceField(
        choices=[
            ("happened", "It happened: the job has its result, the reservation is settled"),
            (
                "not_happened",
                "It did not happen: try again if attempts are left, hold no money",
            ),
            ("undetermined", "Not to be found out yet: keep the evidence, move nothing"),
        ],
        widget=forms.RadioSelect,
    )
    evidence = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        max_length=4000,
        help_text="Where you looked and what you found: a provider's log, a request id, a ticket.",
    )
    result_pointer = forms.CharField(
        required=False, max_length=1000, help_text="Where the result is, if it happened."
    )
    input_tokens = forms.IntegerField(
        required=False, min_value=0, help_text="As the provider billed. Empty: the estimate."
    )
    output_tokens = forms.IntegerField(required=False, min_value=0)

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or {}
        if (asked.get("input_tokens") is None) != (asked.get("output_tokens") is None):
            self.add_error("output_tokens", "Give both token counts, or none.")
        return asked


class LiveForm(forms.Form):
    """Who may execute live, and for how long."""

    agent = forms.CharField(max_length=60)
    runtime = forms.CharField(max_length=40)
    hours = forms.IntegerField(min_value=1, max_value=24 * 90, initial=8)


def _reconcile(
    *, key: str, actor: str, reason: str, verdict: str, evidence: str, result_pointer: str = "",
    input_tokens: int | None = None, output_tokens: int | None = None,
) -> str:  # fmt: skip
    usage = None
    if input_tokens is not None and output_tokens is not None:
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    outcome = executions.reconcile(
        external_request_id=key,
        actor=actor,
        verdict=verdict,
        reason=reason,
        evidence={"told_by_operator": evidence},
        result_pointer=result_pointer,
        usage=usage,
    )
    return f"{outcome.outcome.replace('_', ' ')}, the job is now {outcome.job.state}"


def _unresolved(execution: Execution, actor: str) -> str:
    if execution.state != Execution.State.UNKNOWN:
        return f"it is {execution.get_state_display().lower()}"
    if execution.reconciliations.exclude(verdict="undetermined").exists():
        return "it is reconciled already"
    running = execution.job.state == State.ACTIVE and execution.job.attempt == execution.attempt
    return "its attempt is still running" if running else ""


def _authorize_live(
    *, key: str, actor: str, reason: str, agent: str, runtime: str, hours: int
) -> str:
    grant = transitions.authorize_live(
        agent=agent,
        runtime=runtime,
        actor=actor,
        reason=reason,
        valid_seconds=hours * HOUR_SECONDS,
    )
    return f"{agent} may execute live under {runtime} until {stamp(grant.ends_at)}"


def _revoke_live(*, key: str, actor: str, reason: str) -> str:
    transitions.revoke_live(authorization_id=int(key), actor=actor, reason=reason)
    return "revoked"


def _unrevoked(grant: LiveAuthorization, actor: str) -> str:
    return "it is revoked already" if grant.revoked_at else ""


COUNT: dict[str, Any] = {"required": False, "min_value": 1, "max_value": job_types.ATTEMPTS_MAX}
SECONDS: dict[str, Any] = {"required": False, "min_value": 0}


def _agents() -> list[tuple[str, str]]:
    return [(name, name) for name in Agent.objects.order_by("name").values_list("name", flat=True)]


class TypeForm(forms.Form):
    """Settings of a job type; what is left empty stays as it is."""

    agent = forms.ChoiceField(
        choices=lambda: [("", "as it is"), *_agents()], required=False, help_text="Who does it."
    )
    runtime = forms.CharField(
        max_length=40, required=False, help_text="For attempts whose worker names none."
    )
    uses_model = forms.ChoiceField(
        choices=TRISTATE, required=False, help_text="Whether an execution needs a reservation."
    )
    max_attempts = forms.IntegerField(**COUNT, help_text="Where a task says nothing.")
    max_attempts_ceiling = forms.IntegerField(
        **COUNT, help_text="Beyond it no task may ask and no extension may go."
    )
    lease_seconds = forms.IntegerField(
        required=False, min_value=claims.LEASE_SECONDS_MIN, max_value=claims.LEASE_SECONDS_MAX
    )
    attempt_timeout_seconds = forms.IntegerField(**SECONDS, help_text="0: none.")
    backoff_base_seconds = forms.IntegerField(
        **SECONDS, help_text="The wait after the first failure; it doubles with each."
    )
    backoff_cap_seconds = forms.IntegerField(**SECONDS, help_text="It grows no further than this.")
    approval_valid_seconds = forms.IntegerField(
        required=False, min_value=1, help_text="How long an approval holds where nobody says."
    )
    enabled = forms.ChoiceField(
        choices=TRISTATE, required=False, help_text="Whether new tasks of this type are taken."
    )


class SchemaForm(forms.Form):
    """The schema of a job type's inputs."""

    inputs_schema = forms.JSONField(
        widget=forms.Textarea(attrs={"rows": 16, "cols": 80, "spellcheck": "false"}),
        help_text="JSON Schema 2020-12; {} takes any inputs. References stay inside it.",
    )

    def clean_inputs_schema(self) -> Any:
        schema = self.cleaned_data["inputs_schema"]
        if fault := job_types.schema_fault(schema):
            raise forms.ValidationError(fault)
        return schema


class NewTypeForm(TypeForm):
    """A new job type."""

    name = forms.CharField(max_length=60, help_text="a-z, 0-9, _ and -; it never changes.")
    agent = forms.ChoiceField(choices=lambda: _agents(), help_text="Who does it.")
    uses_model = forms.ChoiceField(
        choices=YES_OR_NO, help_text="Whether an execution needs a reservation.", initial="no"
    )
    enabled = forms.ChoiceField(
        choices=YES_OR_NO, help_text="Whether tasks of this type are taken.", initial="yes"
    )
    field_order = ("name", "agent")


class NewSourceForm(forms.Form):
    """A new source."""

    name = forms.CharField(max_length=60, help_text="a-z, 0-9, _ and -; it never changes.")


def _type_settings(asked: dict[str, Any]) -> job_types.TypeSettings:
    return job_types.TypeSettings(**meant(asked, "uses_model", "enabled"))


def _add_type(*, key: str, actor: str, reason: str, name: str, **asked: Any) -> str:
    row = transitions.register_job_type(
        name=name, settings=_type_settings(asked), actor=actor, reason=reason
    )
    return f"{row} goes to {row.agent}"


def _configure_type(*, key: str, actor: str, reason: str, **asked: Any) -> str:
    transitions.configure_job_type(
        name=key, settings=_type_settings(asked), actor=actor, reason=reason
    )
    return "changed"


def _add_source(*, key: str, actor: str, reason: str, name: str) -> str:
    row = transitions.register_source(name=name, actor=actor, reason=reason)
    return f"tasks may come from {row}"


def _switch_source(*, enabled: bool) -> Callable[..., str]:
    def run(*, key: str, actor: str, reason: str) -> str:
        transitions.configure_source(name=key, enabled=enabled, actor=actor, reason=reason)
        return "enabled" if enabled else "disabled"

    return run


LIVE = tuple(state for state in State.values if state not in Job.FINISHED)

for act in (
    Act(
        name="approve",
        model=MODEL,
        label="Approve",
        permission="agents.approve_execution",
        effect="Lets each held job be executed, once, for exactly the envelope that it has; it is "
        "queued. Automatic retries are covered until the approval ends.",
        run=_approve,
        fits=_by_another,
        fields=ApprovalForm,
        as_seen=True,
    ),
    Act(
        name="reject",
        model=MODEL,
        label="Reject",
        permission="agents.approve_execution",
        effect="Refuses the execution of each held job: it is stopped for good.",
        run=_run(transitions.reject),
        fits=in_states(State.HELD),
        grave=True,
        as_seen=True,
    ),
    Act(
        name="withdraw_approval",
        model=MODEL,
        label="Withdraw approval",
        permission="agents.approve_execution",
        effect="Takes the approval of each queued job back: it is held again. A job that runs "
        "already is not touched.",
        run=_run(transitions.withdraw_approval),
        fits=_approved,
    ),
    Act(
        name="accept",
        model=MODEL,
        label="Accept",
        permission="agents.review_job",
        effect="Accepts what each job delivered: it is completed.",
        run=_run(transitions.review, verdict="accepted"),
        fits=in_states(State.REVIEW_REQUIRED),
        as_seen=True,
    ),
    Act(
        name="send_back",
        model=MODEL,
        label="Needs rework",
        permission="agents.review_job",
        effect="Sends what each job delivered back, with your reason for its worker. With attempts "
        "left it is queued at once (high risk: held); else it waits for a retry extension.",
        run=_run(transitions.review, verdict="needs_rework"),
        fits=_resolved(in_states(State.REVIEW_REQUIRED)),
        as_seen=True,
    ),
    Act(
        name="review_reject",
        model=MODEL,
        label="Reject the result",
        permission="agents.review_job",
        effect="Refuses what each job delivered: it has failed.",
        run=_run(transitions.review, verdict="rejected"),
        fits=in_states(State.REVIEW_REQUIRED),
        grave=True,
        as_seen=True,
    ),
    Act(
        name="rework",
        model=MODEL,
        label="Rework",
        permission="agents.extend_retries",
        effect="Sends each failed or escalated job back to be done again, and grants the attempts "
        "that it needs, each grant with its own record.",
        run=_run(transitions.rework),
        fits=_resolved(in_states(State.FAILED, State.ESCALATED)),
        fields=ReworkForm,
        as_seen=True,
    ),
    Act(
        name="extend",
        model=MODEL,
        label="Extend retries",
        permission="agents.extend_retries",
        effect="Raises the number of attempts that each job may make; one that waits for attempts "
        "is queued. A job of high risk needs a new approval then: one that waits is held, one that "
        "runs goes on, and is held before its next attempt.",
        run=_run(transitions.extend),
        fits=_resolved(_extendable),
        fields=ExtensionForm,
    ),
    Act(
        name="resolve",
        model=MODEL,
        label="Resolve escalation",
        permission="agents.resolve_escalation",
        effect="Decides where each escalated job goes.",
        run=_run(transitions.resolve),
        fits=in_states(State.ESCALATED),
        fields=ResolutionForm,
        as_seen=True,
    ),
    Act(
        name="pause",
        model=MODEL,
        label="Pause",
        permission="agents.pause_job",
        effect="Pauses each job: it is not claimed and starts no execution. One that runs keeps "
        "its lease, and its worker is told at the next heartbeat.",
        run=_run(transitions.pause),
        fits=in_states(*LIVE, unpaused=True),
    ),
    Act(
        name="resume",
        model=MODEL,
        label="Resume",
        permission="agents.pause_job",
        effect="Takes the pause of each job back.",
        run=_run(transitions.resume),
        fits=in_states(*LIVE, unpaused=False),
    ),
    Act(
        name="stop",
        model=MODEL,
        label="Stop",
        permission="agents.stop_job",
        effect="Stops each job for good. A running attempt is fenced at once, and its worker is "
        "told at the next heartbeat; an effect that has begun outside is not undone by this.",
        run=_run(transitions.stop),
        fits=in_states(*LIVE),
        grave=True,
    ),
    Act(
        name="reconcile",
        model="jobs.execution",
        label="Reconcile",
        permission="agents.reconcile_execution",
        effect="Says what became of an effect that was started and never reported. Job and "
        "reservation follow in the same transaction.",
        run=_reconcile,
        fits=_unresolved,
        fields=ReconciliationForm,
        bulk=False,
    ),
    Act(
        name="make",
        model="jobs.liveauthorization",
        label="Authorize live execution",
        permission="agents.authorize_live",
        effect="Lets the agent execute live under the runtime until the end that you give.",
        run=_authorize_live,
        fields=LiveForm,
        makes=True,
        grave=True,
    ),
    Act(
        name="revoke",
        model="jobs.liveauthorization",
        label="Revoke",
        permission="agents.authorize_live",
        effect="Takes each authorization back at once: later starts are refused.",
        run=_revoke_live,
        fits=_unrevoked,
        grave=True,
    ),
    Act(
        name="make",
        model="jobs.jobtype",
        label="Add a job type",
        permission=INTAKE_PERMISSION,
        effect="Lets tasks of a new type come in. They go to the agent that you name; what is left "
        "empty is as for every new type.",
        run=_add_type,
        fields=NewTypeForm,
        makes=True,
    ),
    Act(
        name="configure",
        model="jobs.jobtype",
        label="Change settings",
        permission=INTAKE_PERMISSION,
        effect="Changes settings of each type for tasks that come in from now on. Jobs that are "
        "there keep their agent and their limit of attempts.",
        run=_configure_type,
        fields=TypeForm,
    ),
    Act(
        name="set_schema",
        model="jobs.jobtype",
        label="Change the schema of inputs",
        permission=INTAKE_PERMISSION,
        effect="Sets what the inputs of a task of this type must look like, from now on. Jobs that "
        "are there are not checked again.",
        run=_configure_type,
        fields=SchemaForm,
        initial=lambda kind: {"inputs_schema": kind.inputs_schema},
        bulk=False,
    ),
    Act(
        name="make",
        model="jobs.source",
        label="Add a source",
        permission=INTAKE_PERMISSION,
        effect="Lets tasks name a new source.",
        run=_add_source,
        fields=NewSourceForm,
        makes=True,
    ),
    Act(
        name="enable",
        model="jobs.source",
        label="Enable",
        permission=INTAKE_PERMISSION,
        effect="Lets tasks come from each source again.",
        run=_switch_source(enabled=True),
        fits=lambda source, actor: "it is enabled already" if source.enabled else "",
    ),
    Act(
        name="disable",
        model="jobs.source",
        label="Disable",
        permission=INTAKE_PERMISSION,
        effect="Refuses new tasks from each source. Jobs that are there go on.",
        run=_switch_source(enabled=False),
        fits=lambda source, actor: "" if source.enabled else "it is disabled already",
        grave=True,
    ),
):
    add_act(act)
