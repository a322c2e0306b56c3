"""Reflections: what a worker learnt on a job, numbered under the job's lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import ReflectionConflict
from governance.core.redaction import cleaned
from jobs.models import Reflection
from jobs.transitions.preconditions import check_token, implied_attempt
from jobs.transitions.work import Outcome, digest, lock

FIELDS = (
    "what_worked",
    "what_failed",
    "pattern_observed",
    "context_type",
    "tool_sequence",
    "success_signal",
    "failure_signal",
    "sensitivity_level",
)


@dataclass(frozen=True)
class ReflectionOutcome(Outcome):
    """A reflection that is recorded, under which number."""

    sequence_number: int


@sql.move
def reflect(
    *,
    entry: Entry,
    task_id: str,
    attempt: int | None = None,
    fencing_token: int | None = None,
    sequence_number: int | None = None,
    content: dict[str, Any],
    unnamed: bool = False,
) -> ReflectionOutcome:
    """Append a reflection of the holder of the current token.

    :param sequence_number: counted per job from 1; given under the job's lock when absent.
    :param content: values for `FIELDS`.
    :param unnamed: as of `implied_attempt`.
    :raises ReflectionConflict: that number is taken by other content.
    :raises StaleFencingToken, LeaseHeldByAnother, FencingTokenRequired: not the current attempt's
        holder.
    """
    work = lock([task_id], entry=entry, numbers=[attempt], unnumbered=attempt is None)
    locked = work.get(task_id)
    sha = digest(**{name: content.get(name) for name in FIELDS})
    if sequence_number is not None:
        known = Reflection.objects.filter(job_id=locked.job.pk, number=sequence_number).first()
        if known is not None:
            if known.content_sha256 != sha:
                raise ReflectionConflict(current={"sequence_number": sequence_number})
            return ReflectionOutcome("already_recorded", locked, sequence_number)
    if attempt is None or fencing_token is None:
        attempt, fencing_token = implied_attempt(work, locked, unnamed=unnamed)
    check_token(work, locked, attempt, fencing_token)
    number = sequence_number or locked.job.reflection_count + 1
    locked.job.reflection_count = max(locked.job.reflection_count, number)
    given = {name: cleaned(content[name]) for name in FIELDS if content.get(name) is not None}
    work.add(
        Reflection(
            job_id=locked.job.pk,
            number=number,
            attempt=attempt,
            agent_id=work.worker.agent_id,
            content_sha256=sha,
            created_at=work.now,
            **given,
        )
    )
    work.note(
        locked,
        action="job.reflected",
        actor=work.worker.actor,
        details={"sequence_number": number, "content_sha256": sha},
    )
    work.save()
    return ReflectionOutcome("recorded", locked, number)
