"""What governors can do to job types and sources: what tasks may come in, from where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.models import Agent
from governance.core.fields import YES, Choice, Choices, Field, Flag, Json, Text, Whole
from governance.core.permissions import Permission
from governance.core.switching import switchable
from governance.core.verbs import Done, Target, Verb, of_row
from jobs import transitions
from jobs.models import JobType, Source
from jobs.transitions import TypeSettings, claims, job_types

CONFIGURE_INTAKE = Permission("configure_intake", "Can add and change job types and sources")

JOB_TYPE, SOURCE = Target(JobType, key="name"), Target(Source, key="name")


def _agents() -> Choices:
    names = Agent.objects.order_by("name").values_list("name", flat=True)
    return tuple((name, name) for name in names)


def _count(name: str, help: str) -> Whole:
    return Whole(name=name, least=1, most=job_types.ATTEMPTS_MAX, required=False, help=help)


NAME = Text(name="name", chars_max=60, help="a-z, 0-9, _ and -; it never changes.")
WHO = Choice(name="agent", choices=_agents, required=False, blank="as it is", help="Who does it.")
MODEL_USE = Choice(
    name="model_use",
    choices=(
        ("none", "No model is called: routes are refused."),
        ("allowed", "Models may be called."),
        ("required", "Nothing is completed without a call that was paid for."),
    ),
    meant=True,
    required=False,
    blank="as it is",
    help="Whether its work calls models.",
)
EFFECTS = Choice(
    name="effects",
    choices=(
        ("external", "Anything: what was started and has no result is in doubt."),
        ("model_only", "Models only: a lost attempt is booked, and the job goes on."),
    ),
    meant=True,
    required=False,
    blank="as it is",
    help="What an execution touches.",
)
ENABLED = Flag(
    name="enabled",
    required=False,
    blank="as it is",
    help="Whether new tasks of this type are taken.",
)
SETTINGS: tuple[Field, ...] = (
    Text(
        name="runtime",
        chars_max=40,
        required=False,
        help="For attempts whose worker names none.",
    ),
    MODEL_USE,
    EFFECTS,
    _count("max_attempts", "Where a task says nothing."),
    _count("max_attempts_ceiling", "Beyond it no task may ask and no extension may go."),
    Whole(
        name="max_deferrals",
        least=0,
        most=job_types.DEFERRALS_MAX,
        required=False,
        help="So often a job may be deferred for a cause that nobody here can confirm, until a "
        "person decides about it; the next one fails it.",
    ),
    Whole(
        name="open_calls_max",
        least=1,
        most=job_types.OPEN_CALLS_MAX,
        required=False,
        help="So many model calls of an attempt may be open at a time.",
    ),
    Whole(
        name="lease_seconds",
        least=claims.LEASE_SECONDS_MIN,
        most=claims.LEASE_SECONDS_MAX,
        required=False,
    ),
    Whole(
        name="attempt_timeout_seconds",
        least=0,
        most=job_types.TIMEOUT_SECONDS_MAX,
        required=False,
        help="0: none.",
    ),
    Whole(
        name="backoff_base_seconds",
        least=0,
        most=job_types.BACKOFF_SECONDS_MAX,
        required=False,
        help="The wait after the first failure; it doubles with each.",
    ),
    Whole(
        name="backoff_cap_seconds",
        least=0,
        most=job_types.BACKOFF_SECONDS_MAX,
        required=False,
        help="It grows no further than this.",
    ),
    Whole(
        name="approval_valid_seconds",
        least=1,
        most=job_types.APPROVAL_SECONDS_MAX,
        required=False,
        help="How long an approval holds where nobody says.",
    ),
    ENABLED,
)
#: What a new type must say, and is suggested.
DECIDED = {
    "model_use": replace(MODEL_USE, required=True, initial="allowed"),
    "effects": replace(EFFECTS, required=True, initial="external"),
    "enabled": replace(ENABLED, required=True, initial=YES),
}


def _add_type(*, name: str, actor: str, reason: str, **settings: Any) -> JobType:
    return transitions.register_job_type(
        name=name, settings=TypeSettings(**settings), actor=actor, reason=reason
    )


def _configure_type(*, key: str, actor: str, reason: str, **settings: Any) -> JobType:
    return transitions.configure_job_type(
        name=key, settings=TypeSettings(**settings), actor=actor, reason=reason
    )


def _enable_source(*, key: str, actor: str, reason: str) -> Source:
    return transitions.configure_source(name=key, enabled=True, actor=actor, reason=reason)


def _disable_source(*, key: str, actor: str, reason: str) -> Source:
    return transitions.configure_source(name=key, enabled=False, actor=actor, reason=reason)


def _type_changed(row: JobType) -> Done:
    return Done("changed", {"job_type": row.name})


def _source_switched(row: Source) -> Done:
    return Done("enabled" if row.enabled else "disabled", {"enabled": row.enabled})


ADD_TYPE = Verb(
    name="make",
    on=JOB_TYPE,
    label="Add a job type",
    permission=CONFIGURE_INTAKE,
    effect="Lets tasks of a new type come in. They go to the agent that you name; what is left "
    "empty is as for every new type.",
    fields=(
        NAME,
        replace(WHO, required=True),
        *(DECIDED.get(field.name, field) for field in SETTINGS),
    ),
    run=_add_type,
    done=lambda row: Done(f"{row} goes to {row.agent}", {"job_type": row.name}),
    makes=True,
    command="configure_job_type",
)
CONFIGURE_TYPE = Verb(
    name="configure",
    on=JOB_TYPE,
    label="Change settings",
    permission=CONFIGURE_INTAKE,
    effect="Changes settings of each type for tasks that come in from now on. Jobs that are "
    "there keep their agent and their limit of attempts.",
    fields=(WHO, *SETTINGS),
    run=_configure_type,
    done=_type_changed,
    command="configure_job_type",
)
SET_SCHEMA = Verb(
    name="set_schema",
    on=JOB_TYPE,
    label="Change the schema of inputs",
    permission=CONFIGURE_INTAKE,
    effect="Sets what the inputs of a task of this type must look like, from now on. Jobs that "
    "are there are not checked again.",
    fields=(
        Json(
            name="inputs_schema",
            lines=16,
            from_file=True,
            help="JSON Schema 2020-12; {} takes any inputs. References stay inside it.",
            rule=job_types.schema_fault,
        ),
    ),
    run=_configure_type,
    done=_type_changed,
    initial=lambda row: {"inputs_schema": row.inputs_schema},
    bulk=False,
    command="configure_job_type",
)
ADD_SOURCE = Verb(
    name="make",
    on=SOURCE,
    label="Add a source",
    permission=CONFIGURE_INTAKE,
    effect="Lets tasks name a new source.",
    fields=(NAME,),
    run=transitions.register_source,
    done=lambda row: Done(f"tasks may come from {row}", {"source": row.name}),
    makes=True,
    command="configure_source",
)
ENABLE_SOURCE = Verb(
    name="enable",
    on=SOURCE,
    label="Enable",
    permission=CONFIGURE_INTAKE,
    effect="Lets tasks come from each source again.",
    run=_enable_source,
    done=_source_switched,
    precondition=of_row(switchable, enabled=True),
    command="configure_source",
)
DISABLE_SOURCE = Verb(
    name="disable",
    on=SOURCE,
    label="Disable",
    permission=CONFIGURE_INTAKE,
    effect="Refuses new tasks from each source. Jobs that are there go on.",
    run=_disable_source,
    done=_source_switched,
    precondition=of_row(switchable, enabled=False),
    grave=True,
    command="configure_source",
)

#: What configures a job type, and a source, wherever it is asked for at once.
TYPE_FIELDS: tuple[Field, ...] = (
    *CONFIGURE_TYPE.fields,
    *(replace(field, required=False) for field in SET_SCHEMA.fields),
)
SOURCE_FIELDS: tuple[Field, ...] = (
    Flag(name="enabled", required=False, help="Whether tasks may come from it."),
)

VERBS: tuple[Verb[Any], ...] = (
    ADD_TYPE,
    CONFIGURE_TYPE,
    SET_SCHEMA,
    ADD_SOURCE,
    ENABLE_SOURCE,
    DISABLE_SOURCE,
)
