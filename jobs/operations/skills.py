"""Operations on skills: find them, extract them from reflections, say how one served."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from agents.operations.callers import entry_of
from governance.core.errors import FieldFault, InvalidArgument, NotFound
from governance.core.idempotency import Answer
from governance.core.isolation import in_any_case
from governance.operations.operation import DONE, Call, operation
from jobs.operations import shapes
from jobs.operations import skill_answers as answers
from jobs.transitions import skills

SKILLS_PAGE = 50
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@operation(
    scopes=("work", "read"),
    answers=list[answers.SkillOut],
    query={
        "task_type": "Only skills of this task type.",
        "context_type": "Only skills of this context.",
        "min_confidence": "Only skills of at least this confidence, 0 to 1.",
        "limit": "At most so many, 1 to 200.",
    },
)
def list_skills(call: Call) -> Answer:
    """List the agent's skills for a type and a context, the most trusted first."""
    query = call.query
    find = partial(
        skills.find_skills,
        agent_id=_agent_of(call),
        task_type=query.get("task_type", ""),
        context_type=query.get("context_type", ""),
        min_confidence=_number(query, "min_confidence", 0, least=0, most=1),
        limit=int(_number(query, "limit", SKILLS_PAGE, least=1, most=skills.SKILLS_MAX)),
    )
    return Answer(DONE, in_any_case(lambda: answers.skills(find())))


@operation(
    scopes=("work",),
    reads=shapes.ExtractSkillsIn,
    answers=answers.ExtractedOut,
    key="honoured",
    moment=(),
    sessions=True,
)
def extract_skills(call: Call) -> Answer:
    """Make skills of the patterns that recur in the agent's reflections."""
    wanted = dict(call.body)
    entry = entry_of(call, wanted.pop("worker_id", None))

    def move() -> Answer:
        return Answer(DONE, answers.extracted(skills.extract_skills(entry=entry, **wanted)))

    return call.once(move)


@operation(
    scopes=("work",),
    identity={"skill_id": int},
    reads=shapes.SkillFeedbackIn,
    answers=answers.SkillAnswerOut,
    key="honoured",
    moment=(),
    sessions=True,
)
def rate_skill(call: Call) -> Answer:
    """Record how a skill served; its confidence follows."""
    report = dict(call.body)
    entry = entry_of(call, report.pop("worker_id", None))

    def move() -> Answer:
        rated = skills.rate_skill(entry=entry, **call.identity, **report)
        return Answer(DONE, answers.rated(rated))

    return call.once(move)


@operation(
    scopes=("work", "read"),
    identity={"skill_id": int},
    answers=answers.SkillOut,
)
def get_skill(call: Call) -> Answer:
    """Read a skill of the agent."""
    found = skills.find_skill(agent_id=_agent_of(call), **call.identity)
    return Answer(DONE, answers.skill(found))


def _agent_of(call: Call) -> int:
    """Return the primary key of the agent that asks.

    :raises NotFound: it is none.
    """
    if call.principal.kind != "agent":
        raise NotFound("Only agents have skills.")
    return call.principal.id


def _number(
    query: Mapping[str, str], name: str, default: float, least: float, most: float
) -> float:
    """Return a number of the query.

    :raises InvalidArgument: it is none, or outside of its range.
    """
    text = query.get(name)
    if text is None:
        return default
    if _DECIMAL.fullmatch(text) and least <= (value := float(text)) <= most:
        return value
    fault = FieldFault(f"/{name}", f"a number from {least} to {most}")
    raise InvalidArgument("A query parameter is not valid.", errors=[fault])
