"""Skills: patterns that recur in an agent's reflections, and how well they have served since.

All of it is on the chain of the agent, whose row is the lock that orders it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agents.entry import Caller, Entry, enter
from agents.models import Agent
from governance.core import audit, sql
from governance.core.errors import NotFound
from jobs.models import Skill
from jobs.transitions.claims import READ_TYPE_NAMES, need_types

#: The newest reflections that one extraction looks through.
REFLECTIONS_MAX = 20_000
#: Skills that one extraction keeps, those that recurred most.
EXTRACTED_MAX = 200
SKILLS_MAX = 200

# No lock. Walks the reflections of the agent from the newest, through the index of its key.
# Patterns are the same when they read the same: case and spacing do not count.
RECURRING = """
SELECT task_type, context_type, pattern_key, count(*) AS occurrences,
       (array_agg(pattern_observed ORDER BY id DESC))[1] AS pattern,
       (array_agg(tool_sequence ORDER BY id DESC))[1] AS tool_sequence
  FROM (SELECT r.id, y.name AS task_type, r.context_type, r.pattern_observed, r.tool_sequence,
               lower(regexp_replace(btrim(r.pattern_observed), '\\s+', ' ', 'g')) AS pattern_key
          FROM jobs_reflection r
          JOIN jobs_job j ON j.id = r.job_id
          JOIN jobs_jobtype y ON y.id = j.job_type_id
         WHERE r.agent_id = %(agent)s AND btrim(r.pattern_observed) <> ''
           AND (%(task_type)s::text IS NULL OR y.name = %(task_type)s)
           AND (%(context_type)s::text IS NULL OR r.context_type = %(context_type)s)
         ORDER BY r.id DESC LIMIT %(looked_at)s) recent
 GROUP BY task_type, context_type, pattern_key
HAVING count(*) >= %(least)s
 ORDER BY count(*) DESC, pattern_key
 LIMIT %(kept)s
"""


@dataclass(frozen=True)
class Extracted:
    """The outcome of an extraction: how many skills are new, how many renewed, and all it found."""

    created: int
    updated: int
    skills: list[Skill]

    @property
    def outcome(self) -> str:
        return "extracted" if self.created or self.updated else "already_extracted"


def confidence(*, occurrences: int, successes: int, failures: int) -> float:
    """Return how far a skill is to be trusted, in (0, 1).

    Each recurrence and each good report speaks for it, each bad report against it; the estimate
    starts at one half.  Source: Laplace's rule of succession.
    """
    for_it = occurrences + successes
    return (for_it + 1) / (for_it + failures + 2)


@sql.move
def extract_skills(
    *,
    entry: Entry,
    min_occurrences: int = 2,
    task_type: str | None = None,
    context_type: str | None = None,
) -> Extracted:
    """Make a skill of each pattern that recurs in the caller's reflections; renew known ones.

    Running it again without new reflections changes nothing, and says so.

    :raises InvalidArgument: there is no job type of that name.
    """
    also = [sql.any_of(READ_TYPE_NAMES, [task_type])] if task_type is not None else []
    caller, known_types = enter(entry, also=also)
    for rows in known_types:
        need_types({"/task_type": task_type or ""}, known=rows)
    agent = _locked(caller)
    [found] = sql.pipeline(
        sql.Statement(
            RECURRING,
            {
                "agent": agent.pk,
                "task_type": task_type,
                "context_type": context_type,
                "looked_at": REFLECTIONS_MAX,
                "least": min_occurrences,
                "kept": EXTRACTED_MAX,
            },
        )
    )
    known = {
        (skill.task_type, skill.context_type, skill.pattern_sha256): skill
        for skill in Skill.objects.filter(agent=agent)
    }
    skills, created, updated = [], 0, 0
    for row in found:
        sha = hashlib.sha256(row["pattern_key"].encode()).hexdigest()
        skill = known.get((row["task_type"], row["context_type"], sha))
        if skill is None:
            skill = Skill(
                agent=agent,
                task_type=row["task_type"],
                context_type=row["context_type"],
                pattern=row["pattern"],
                pattern_sha256=sha,
                created_at=caller.now,
            )
            created += 1
        elif skill.occurrences == row["occurrences"]:
            skills.append(skill)
            continue
        else:
            updated += 1
        skill.occurrences = row["occurrences"]
        skill.tool_sequence = _loaded(row["tool_sequence"])
        _renew(skill, caller)
        skill.save()
        skills.append(skill)
    if created or updated:
        audit.record(
            agent,
            action="skills.extracted",
            actor=caller.actor,
            at=caller.now,
            details=caller.named()
            | {"created": created, "updated": updated, "least": min_occurrences},
        )
    return Extracted(created, updated, skills)


@sql.move
def rate_skill(*, entry: Entry, skill_id: int, success: bool, note: str = "") -> Skill:
    """Record how a skill of the caller's agent served, and what that makes of its confidence.

    :raises NotFound: the agent has no such skill.
    """
    caller, _ = enter(entry)
    agent = _locked(caller)
    skill = find_skill(agent_id=agent.pk, skill_id=skill_id)
    before = skill.confidence
    if success:
        skill.successes += 1
    else:
        skill.failures += 1
    _renew(skill, caller)
    skill.save(update_fields=["successes", "failures", "confidence", "updated_at"])
    audit.record(
        agent,
        action="skill.rated",
        actor=caller.actor,
        at=caller.now,
        reason=note,
        before={"confidence": before},
        after={"confidence": skill.confidence},
        details=caller.named() | {"skill_id": skill.pk, "success": success},
    )
    return skill


def find_skills(
    *,
    agent_id: int,
    task_type: str = "",
    context_type: str = "",
    min_confidence: float = 0.0,
    limit: int = 50,
) -> list[Skill]:
    """Return an agent's skills for a type and a context, the most trusted first."""
    skills = Skill.objects.filter(agent_id=agent_id, confidence__gte=min_confidence)
    if task_type:
        skills = skills.filter(task_type=task_type)
    if context_type:
        skills = skills.filter(context_type=context_type)
    return list(skills.order_by("-confidence", "-occurrences", "id")[: min(limit, SKILLS_MAX)])


def find_skill(*, agent_id: int, skill_id: int) -> Skill:
    """Return a skill of an agent.

    :raises NotFound: the agent has no such skill.
    """
    skill = Skill.objects.filter(pk=skill_id, agent_id=agent_id).first()
    if skill is None:
        raise NotFound("The agent has no such skill.")
    return skill


def _locked(caller: Caller) -> Agent:
    return Agent.objects.select_for_update(no_key=True).get(pk=caller.agent_id)


def _renew(skill: Skill, caller: Caller) -> None:
    skill.updated_at = caller.now
    skill.confidence = confidence(
        occurrences=skill.occurrences, successes=skill.successes, failures=skill.failures
    )


def _loaded(value: Any) -> Any:
    # Raw cursors give JSON as text where Django has taken its loader away.
    return json.loads(value) if isinstance(value, str) else value
