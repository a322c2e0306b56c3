"""Job types and sources: what operators add and change of them.

None is ever deleted; what is no longer wanted is disabled. A change holds for tasks that come in
from then on; jobs that are there keep their agent, their limit and their deadlines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agents.models import RUNTIME, RUNTIME_FAULT, Agent
from governance.core import audit, clock
from governance.core.digests import canonical
from governance.core.errors import FieldFault, InvalidArgument, InvalidTransition, NotFound
from governance.core.models import ChainHead
from governance.core.reasons import required
from governance.core.switching import switchable
from jobs.models import Effects, JobType, ModelUse, Source
from jobs.transitions.claims import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
ATTEMPTS_MAX = 1000
DEFERRALS_MAX = 1000
OPEN_CALLS_MAX = 1000
DAY_SECONDS = 24 * 3600
TIMEOUT_SECONDS_MAX = 30 * DAY_SECONDS
BACKOFF_SECONDS_MAX = 7 * DAY_SECONDS
APPROVAL_SECONDS_MAX = 90 * DAY_SECONDS
SCHEMA_BYTES_MAX = 65_536
REFERENCES = ("$ref", "$dynamicRef")


@dataclass(frozen=True)
class TypeSettings:
    """Settings of a job type; None leaves one as it is.

    :param agent: name of the agent that gets tasks of this type.
    :param inputs_schema: JSON Schema (2020-12) of the inputs; `{}` takes anything.
    :param model_use: `none`, `allowed` or `required`.
    :param effects: `model_only` or `external`.
    :param attempt_timeout_seconds: 0 for none.
    """

    agent: str | None = None
    runtime: str | None = None
    model_use: str | None = None
    effects: str | None = None
    inputs_schema: dict[str, Any] | None = None
    max_attempts: int | None = None
    max_attempts_ceiling: int | None = None
    max_deferrals: int | None = None
    open_calls_max: int | None = None
    lease_seconds: int | None = None
    attempt_timeout_seconds: int | None = None
    backoff_base_seconds: int | None = None
    backoff_cap_seconds: int | None = None
    approval_valid_seconds: int | None = None
    enabled: bool | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings that are given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@transaction.atomic
def register_job_type(*, name: str, settings: TypeSettings, actor: str, reason: str) -> JobType:
    """Add a job type. What `settings` leaves open is as the model has it.

    :raises InvalidArgument: no agent is named, or a setting makes no sense; every fault is listed.
    :raises InvalidTransition: there is a type of this name.
    """
    reason = required(reason)
    _need_name(name)
    if settings.agent is None:
        raise _invalid(FieldFault("/agent", "Say which agent does this kind of task."))
    job_type = JobType(name=name, agent=_agent(settings.agent))
    if JobType.objects.filter(name=name).exists():
        raise InvalidTransition(f"There is a job type {name} already.")
    after = _set(job_type, settings)
    job_type.save(force_insert=True)
    _record(job_type, "job_type.registered", actor, reason, before=None, after=after)
    return job_type


@transaction.atomic
def configure_job_type(*, name: str, settings: TypeSettings, actor: str, reason: str) -> JobType:
    """Change settings of a job type, for tasks that come in from now on.

    :raises NotFound: there is no such type.
    :raises InvalidArgument: nothing would change, or a setting makes no sense.
    """
    reason = required(reason)
    rows = JobType.objects.select_for_update(no_key=True, of=("self",)).select_related("agent")
    job_type = rows.filter(name=name).first()
    if job_type is None:
        raise NotFound(f"There is no job type {name}.")
    before = _audited(job_type)
    after = _set(job_type, settings)
    changed = {key for key in after if after[key] != before[key]}
    if not changed:
        raise InvalidArgument("Nothing would change.")
    job_type.save(update_fields=sorted(changed))
    _record(
        job_type,
        "job_type.configured",
        actor,
        reason,
        before={key: before[key] for key in changed},
        after={key: after[key] for key in changed},
    )
    return job_type


@transaction.atomic
def register_source(*, name: str, actor: str, reason: str) -> Source:
    """Add a place where tasks come from.

    :raises InvalidArgument: it cannot be a name.
    :raises InvalidTransition: there is a source of this name.
    """
    reason = required(reason)
    _need_name(name)
    if Source.objects.filter(name=name).exists():
        raise InvalidTransition(f"There is a source {name} already.")
    source = Source.objects.create(name=name)
    _record(source, "source.registered", actor, reason, before=None, after={"enabled": True})
    return source


@transaction.atomic
def configure_source(*, name: str, enabled: bool, actor: str, reason: str) -> Source:
    """Let tasks come from a source, or no longer.

    :raises NotFound: there is no such source.
    :raises InvalidTransition: it is so already.
    """
    reason = required(reason)
    source = Source.objects.select_for_update(no_key=True).filter(name=name).first()
    if source is None:
        raise NotFound(f"There is no source {name}.")
    if refusal := switchable(source, enabled=enabled):
        raise refusal
    source.enabled = enabled
    source.save(update_fields=["enabled"])
    before, after = {"enabled": not enabled}, {"enabled": enabled}
    _record(source, "source.configured", actor, reason, before=before, after=after)
    return source


def _set(job_type: JobType, settings: TypeSettings) -> dict[str, Any]:
    """Set what is given on the row, unsaved, and return the row as it is audited.

    :raises InvalidArgument: with every fault.
    """
    given = settings.given()
    if "agent" in given:
        job_type.agent = _agent(given.pop("agent"))
    if given.get("attempt_timeout_seconds") == 0:
        given["attempt_timeout_seconds"] = None
    for key, value in given.items():
        setattr(job_type, key, value)
    if faults := list(_faults(job_type)):
        raise _invalid(*faults)
    return _audited(job_type)


def _audited(job_type: JobType) -> dict[str, Any]:
    names = (name for name in TypeSettings.__dataclass_fields__ if name != "agent")
    return {"agent": job_type.agent.name} | {name: getattr(job_type, name) for name in names}


def _agent(name: str) -> Agent:
    agent = Agent.objects.filter(name=name).first()
    if agent is None:
        raise _invalid(FieldFault("/agent", f"There is no agent {name}."))
    return agent


def _need_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise _invalid(
            FieldFault("/name", "1 to 60 of a-z, 0-9, _ and -, beginning with a letter or digit.")
        )


def _faults(job_type: JobType) -> Iterator[FieldFault]:
    """Yield every setting that makes no sense; the table's constraints say the same of numbers."""
    if not RUNTIME.fullmatch(job_type.runtime):
        yield FieldFault("/runtime", RUNTIME_FAULT)
    for name, words in (("model_use", ModelUse), ("effects", Effects)):
        if getattr(job_type, name) not in words.values:
            yield FieldFault(f"/{name}", f"one of {', '.join(words.values)}.")
    bounds = {
        "max_attempts": (1, ATTEMPTS_MAX),
        "max_attempts_ceiling": (job_type.max_attempts, ATTEMPTS_MAX),
        "max_deferrals": (0, DEFERRALS_MAX),
        "open_calls_max": (1, OPEN_CALLS_MAX),
        "lease_seconds": (LEASE_SECONDS_MIN, LEASE_SECONDS_MAX),
        "attempt_timeout_seconds": (1, TIMEOUT_SECONDS_MAX),
        "backoff_base_seconds": (0, job_type.backoff_cap_seconds),
        "backoff_cap_seconds": (0, BACKOFF_SECONDS_MAX),
        "approval_valid_seconds": (1, APPROVAL_SECONDS_MAX),
    }
    for name, (low, high) in bounds.items():
        value = getattr(job_type, name)
        if value is not None and not low <= value <= high:
            yield FieldFault(f"/{name}", f"{low} to {high}, not {value}.")
    if fault := schema_fault(job_type.inputs_schema):
        yield FieldFault("/inputs_schema", fault)


def schema_fault(schema: Any) -> str:
    """Return what is wrong with a JSON Schema of inputs; "" where nothing is.

    Intake must be able to check any task with it, and without asking another machine: references
    stay inside the schema, and lead somewhere.
    """
    if not isinstance(schema, dict):
        return "A JSON object is needed; {} takes any inputs."
    try:
        text = canonical(schema)
    except ValueError as error:
        return f"It is not JSON: {error}."
    if len(text) > SCHEMA_BYTES_MAX or b"\\u0000" in text:
        return f"At most {SCHEMA_BYTES_MAX} bytes, without U+0000."
    try:
        Draft202012Validator.check_schema(
            schema, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
        resource = DRAFT202012.create_resource(schema)
        resolver = (
            Registry().with_resource(resource.id() or "", resource).resolver(resource.id() or "")
        )
        for reference in _references(schema):
            if not reference.startswith("#"):
                return f"The reference {reference[:80]} leads out of the schema."
            resolver.lookup(reference)
        list(Draft202012Validator(schema).iter_errors({}))
    except SchemaError as error:
        place = "".join(f"/{part}" for part in error.absolute_path)
        return f"It is no JSON Schema: {place} {error.message[:300]}".strip()
    except Unresolvable as error:
        return f"The reference {str(error.ref)[:80]} leads nowhere."
    except RecursionError:
        return "Its references never end."
    return ""


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in REFERENCES and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for member in schema:
            yield from _references(member)


def _invalid(*faults: FieldFault) -> InvalidArgument:
    detail = "; ".join(f"{fault.pointer[1:]}: {fault.detail}" for fault in faults)
    return InvalidArgument(detail, errors=list(faults))


def _record(
    head: ChainHead, action: str, actor: str, reason: str, *, before: Any, after: Any
) -> None:
    audit.record(
        head,
        action=action,
        actor=actor,
        at=clock.now(),
        reason=reason,
        before=before,
        after=after,
        rows=[head],
    )
