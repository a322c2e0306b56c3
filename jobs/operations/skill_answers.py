"""Answers on skills, as JSON objects."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from governance.core.clock import instant
from governance.core.wire import Form, InstantText
from jobs.models import Skill
from jobs.transitions.skills import Extracted


class SkillOut(TypedDict):
    """A pattern that recurred, and how well it served; `confidence` is in [0, 1]."""

    skill_id: int
    task_type: str
    context_type: str
    pattern: str
    tool_sequence: Any
    occurrences: int
    successes: int
    failures: int
    confidence: Annotated[float, Form({"minimum": 0, "maximum": 1})]
    updated_at: InstantText


class SkillsOut(TypedDict):
    """Skills, most trusted first."""

    skills: list[SkillOut]


class ExtractedOut(SkillsOut):
    """The skills that an extraction found."""

    outcome: str
    created: int
    updated: int


class SkillAnswerOut(TypedDict):
    """The skill as it is now."""

    outcome: str
    skill: SkillOut


def skills(found: list[Skill]) -> SkillsOut:
    """Return a list of skills."""
    return {"skills": [_skill(row) for row in found]}


def extracted(extraction: Extracted) -> ExtractedOut:
    """Return what an extraction of skills is answered with."""
    return {
        "outcome": extraction.outcome,
        "created": extraction.created,
        "updated": extraction.updated,
        **skills(extraction.skills),
    }


def rated(row: Skill) -> SkillAnswerOut:
    """Return what a report on a skill is answered with."""
    return {"outcome": "recorded", "skill": _skill(row)}


def _skill(row: Skill) -> SkillOut:
    return {
        "skill_id": row.pk,
        "task_type": row.task_type,
        "context_type": row.context_type,
        "pattern": row.pattern,
        "tool_sequence": row.tool_sequence,
        "occurrences": row.occurrences,
        "successes": row.successes,
        "failures": row.failures,
        "confidence": row.confidence,
        "updated_at": instant(row.updated_at),
    }
