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


class ExtractedOut(TypedDict):
    """The skills that an extraction found."""

    skills: list[SkillOut]
    outcome: str
    created: int
    updated: int


class SkillAnswerOut(TypedDict):
    """The skill as it is now."""

    outcome: str
    skill: SkillOut


def skills(found: list[Skill]) -> list[SkillOut]:
    """Return skills, a bare list as older clients read it."""
    return [skill(row) for row in found]


def extracted(extraction: Extracted) -> ExtractedOut:
    """Return what an extraction of skills is answered with."""
    return {
        "outcome": extraction.outcome,
        "created": extraction.created,
        "updated": extraction.updated,
        "skills": skills(extraction.skills),
    }


def rated(row: Skill) -> SkillAnswerOut:
    """Return what a report on a skill is answered with."""
    return {"outcome": "recorded", "skill": skill(row)}


def skill(row: Skill) -> SkillOut:
    """Return a skill."""
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
