"""Jobs and types for whose model calls no budget has room now: passed over, and woken for again."""

from __future__ import annotations

from collections.abc import Sequence

from governance.core import sql
from jobs import wakeups

# The types whose jobs the agent is not given. Usually there is no note, and nothing else is read.
TYPES_WITHOUT_ROOM = """SELECT t.id FROM governance_noroom n
   JOIN agents_agent a ON a.id = %(agent_id)s
   JOIN jobs_jobtype t ON t.model_use = 'required'
  WHERE n.until > statement_timestamp()
    AND (n.scope = 'global' OR (n.scope = 'agent' AND n.key = a.name)
         OR (n.scope = 'job_type' AND n.key = t.name))"""
TASKS_WITHOUT_ROOM = (
    "SELECT n.key FROM governance_noroom n"
    " WHERE n.scope = 'job' AND n.until > statement_timestamp()"
)
# Of the job `c`: whether no budget of its submitter or of one of its labels has room. Usually there
# is no such note, and no job is asked.
WITHOUT_ROOM_OF_ITS_OWN = """EXISTS (
     SELECT FROM governance_noroom n JOIN jobs_jobtype y ON y.id = c.job_type_id
      WHERE n.until > statement_timestamp() AND y.model_use = 'required'
        AND ((n.scope = 'submitter' AND c.submitted_by = 'submitter:' || n.key)
          OR (n.scope = 'label' AND EXISTS (
                SELECT FROM jobs_task t WHERE t.job_id = c.id
                   AND t.labels ->> split_part(n.key, '=', 1)
                       = substr(n.key, strpos(n.key, '=') + 1)))))"""
NOTED_OF_JOBS = """(SELECT EXISTS (SELECT FROM governance_noroom n
     WHERE n.scope IN ('submitter', 'label') AND n.until > statement_timestamp()))"""
# The agents that may have work again.
AGENTS_OF = """
SELECT a.id FROM agents_agent a
 WHERE a.enabled AND (%(all)s OR a.name = ANY(%(agents)s::text[])
    OR a.id IN (SELECT t.agent_id FROM jobs_jobtype t WHERE t.name = ANY(%(types)s::text[]))
    OR a.id IN (SELECT j.agent_id FROM jobs_job j WHERE j.task_id = ANY(%(jobs)s::text[])))
"""


def wake(scopes: Sequence[tuple[str, str]]) -> None:
    """Wake the workers that wait for jobs of these scopes: there may be room again.

    :param scopes: scope and key of each, as of a budget.
    """
    by_scope: dict[str, list[str]] = {}
    for scope, key in scopes:
        by_scope.setdefault(scope, []).append(key)
    [rows] = sql.pipeline(
        sql.Statement(
            AGENTS_OF,
            {
                # Whose jobs are of a submitter or have a label, nobody knows at once.
                "all": not by_scope.keys().isdisjoint(("global", "submitter", "label")),
                "agents": by_scope.get("agent", []),
                "types": by_scope.get("job_type", []),
                "jobs": by_scope.get("job", []),
            },
        )
    )
    for row in rows:
        wakeups.announce(row["id"])
