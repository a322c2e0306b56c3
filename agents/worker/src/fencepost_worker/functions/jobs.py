"""Jobs as functions see them: what is asked for, and what is known of it from before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from fencepost_worker.claim import Claim
from fencepost_worker.client import Call, ControlPlane, Refused, Unreachable
from fencepost_worker.exchange import Request
from fencepost_worker.timing import steady_now

log = logging.getLogger("fencepost_worker")

SKILLS_PATH = "/v1/hermes/skills"
#: The most trusted ones, of which a prompt can hold some.
SKILLS_MAX = 20
SKILLS_FRESH_SECONDS = 60.0
#: A job does not wait longer for advice.
SKILLS_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Skill:
    """A pattern that recurred in the agent's reflections; `confidence` is from 0 to 1."""

    skill_id: int
    pattern: str
    context_type: str
    tool_sequence: Any
    confidence: float

    @classmethod
    def from_document(cls, document: Any) -> Skill | None:
        """Read a skill of the control plane's list; None where it is not one."""
        try:
            return cls(
                skill_id=int(document["skill_id"]),
                pattern=str(document["pattern"]),
                context_type=str(document.get("context_type") or ""),
                tool_sequence=document.get("tool_sequence"),
                confidence=float(document.get("confidence") or 0.0),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Job:
    """One attempt of a job. What is asked for is what the signed envelope says.

    `story` tells of the attempts of before, oldest first (contract, section 1), `previous_progress`
    is the last progress that any of them told, `rework` what a person wants changed. `skills` are
    patterns that the agent has learnt for jobs of the type, the most trusted first; `models` are
    those that the policy allows, in order. `document` is the whole request.
    """

    task_id: str
    job_id: str
    attempt: int
    task_type: str
    risk_tier: str
    title: str
    goal: str
    inputs: dict[str, Any]
    external_request_id: str
    rework: Any = None
    story: Any = None
    previous_progress: dict[str, Any] | None = None
    skills: tuple[Skill, ...] = ()
    models: tuple[Mapping[str, Any], ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def answer(self) -> str:
        """Return what a person answered to the escalation of the attempt before, if to any."""
        story = self.story if isinstance(self.story, list) else []
        last = story[-1] if story and isinstance(story[-1], dict) else {}
        return str(last.get("answer") or "")

    @classmethod
    def of(cls, request: Request, claim: Claim, *, skills: tuple[Skill, ...] = ()) -> Job:
        """Read the job that a request asks to be done."""
        document = request.document
        return cls(
            task_id=request.task_id,
            job_id=document["job_id"],
            attempt=request.attempt,
            task_type=document["task_type"],
            risk_tier=document["risk_tier"],
            title=document["title"],
            goal=document["goal"],
            inputs=document["inputs"],
            external_request_id=request.external_request_id,
            rework=document.get("rework"),
            story=document.get("story"),
            previous_progress=document.get("previous_progress"),
            skills=skills,
            models=claim.models,
            document=document,
        )


class Skills:
    """The agent's skills by type of job, as of a minute ago at most. Thread-safe.

    They are advice: where they cannot be read, a job is done without.
    """

    def __init__(self, *, plane: ControlPlane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._read: dict[str, tuple[float, tuple[Skill, ...]]] = {}

    def of(self, task_type: str) -> tuple[Skill, ...]:
        """Return the skills for jobs of a type, the most trusted first."""
        with self._lock:
            read_at, found = self._read.get(task_type, (float("-inf"), ()))
            if steady_now() - read_at >= SKILLS_FRESH_SECONDS:
                found = self._fetched(task_type)
                self._read[task_type] = (steady_now(), found)
            return found

    def _fetched(self, task_type: str) -> tuple[Skill, ...]:
        query = urlencode({"task_type": task_type, "limit": SKILLS_MAX})
        try:
            answer = self._plane.send(
                Call("GET", f"{SKILLS_PATH}?{query}"),
                timeout_s=SKILLS_TIMEOUT_SECONDS,
                listed=True,
            )
        except (Refused, Unreachable) as error:
            log.warning("the skills for %s could not be read: %s", task_type, error)
            return ()
        listed = [Skill.from_document(row) for row in answer.body.get("items") or []]
        return tuple(skill for skill in listed if skill is not None)
