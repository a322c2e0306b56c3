"""Whose money a call is: the scopes that a budget may have, and who bears a name in each.

What the apps above know - agents, job types, submitters, and of a job its submitter and its labels
- they hand in: as the keys of a call, and as the SQL that reads them of calls of before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from governance.core import sql
from governance.core.errors import FieldFault

#: What counts each name of a scope by itself; of labels each value of a name, as `team=*`.
EACH = "*"
SCOPE_CHARS = 9
#: A label with its value, of 200 characters each, is the longest of what a budget is for.
KEY_CHARS_MAX = 401
#: The scopes whose budgets name somebody or something.
KEYED_SCOPES = ["agent", "job_type", "job", "submitter", "label", "model", "provider"]
#: The scopes that hang on the model that a call gets.
OF_MODEL = ("model", "provider")
#: Those that only the apps above can tell of a job.
OF_JOB = ("submitter", "label")

_known: dict[str, Callable[[str], bool]] = {}
# Of a job whose id is in the braces: rows of `scope, key, every`, as of `Keyed`.
_of_job: list[str] = []


class Keyed(NamedTuple):
    """The key that something has in a scope, and the key of the budgets for each that count it."""

    scope: str
    key: str
    every: str = EACH


Scopes = list[Keyed]


def know(scope: str, exists: Callable[[str], bool]) -> None:
    """Let the names of a scope be checked: `exists` tells whether there is one of that name."""
    _known[scope] = exists


def read_of_jobs(select: str) -> None:
    """Let the keys of `OF_JOB` be read of calls of before.

    :param select: SQL that gives `scope, key, every`, each pair once, of the job `{job_id}`.
    """
    if select not in _of_job:
        _of_job.append(select)


def unknown(scope: str, name: str, *, field: str) -> Iterator[FieldFault]:
    """Yield what is wrong with a name, under the name of its field: nobody bears it.

    A scope whose names nobody knows takes any: a job may have its budget before it comes.
    """
    exists = _known.get(scope)
    if exists is not None and not exists(name):
        yield FieldFault(f"/{field}", f"There is no {scope.replace('_', ' ')} {name}.")


def is_each(scope: str, key: str) -> bool:
    """Return whether a budget of that scope and key counts each by itself."""
    return key.endswith(f"={EACH}") if scope == "label" else key == EACH


def every_of(scope: str, key: str) -> str:
    """Return the key of the budgets that count each of a scope, and so also this key."""
    return f"{key.partition('=')[0]}={EACH}" if scope == "label" else EACH


def scopes_of(
    *,
    agent: str,
    job_type: str,
    task_id: str,
    submitter: str = "",
    labels: Iterable[str] = (),
    model: str = "",
) -> Scopes:
    """Return what a call counts as in each scope that a budget may have.

    :param submitter: empty: nobody who has a budget.
    :param labels: each as `name=value`, every name once.
    :param model: `provider/name`, where it is known.
    """
    keys = [
        ("global", ""),
        ("agent", agent),
        ("job_type", job_type),
        ("job", task_id),
        *([("submitter", submitter)] if submitter else []),
        *(("label", label) for label in labels),
    ]
    return [Keyed(scope, key, every_of(scope, key)) for scope, key in keys] + scopes_of_model(model)


def columns_of(scopes: Scopes) -> dict[str, list[str]]:
    """Return scopes as the parameters of statements, `scopes`, `keys` and `every`: arrays."""
    return {
        "scopes": [each.scope for each in scopes],
        "keys": [each.key for each in scopes],
        "every": [each.every for each in scopes],
    }


def scopes_of_model(model: str) -> Scopes:
    """Return what a call counts as by the model that it gets, `provider/name`; empty: by none."""
    if not model:
        return []
    return [Keyed("model", model), Keyed("provider", model.partition("/")[0])]


def scopes_of_models(models: Iterable[str]) -> Scopes:
    """Return what calls of these models count as, each scope and key once."""
    return list(dict.fromkeys(each for model in models for each in scopes_of_model(model)))


def keyed_of_use(
    *, agent: str, job_type: str, task_id: str, job_id: UUID, model_id: int | None
) -> Scopes:
    """Return what something that was used counts as, read of the rows of its job and its model."""
    keys = keys_in_sql(
        agent="%(agent)s::text",
        job_type="%(job_type)s::text",
        task_id="%(task_id)s::text",
        job_id="%(job_id)s",
        model="m",
    )
    whose = {
        "agent": agent,
        "job_type": job_type,
        "task_id": task_id,
        "job_id": job_id,
        "model": model_id,
    }
    found = (
        "SELECT s.scope, s.key, s.every FROM (SELECT 1) AS one"
        " LEFT JOIN governance_languagemodel m ON m.id = %(model)s"
        f" CROSS JOIN LATERAL ({keys}) AS s"
    )
    [rows] = sql.pipeline(sql.Statement(found, whose))
    return [Keyed(row["scope"], row["key"], row["every"]) for row in rows]


def keys_in_sql(
    *, agent: str, job_type: str, task_id: str, job_id: str, model: str, only: str = ""
) -> str:
    """Return the SQL that gives `scope, key, every` of something, as `scopes_of` does.

    :param model: the alias of the row of its model, or of none.  The others are columns.
    :param only: the one scope that is looked for.
    """
    values = (
        f"(VALUES ('global', ''), ('agent', {agent}), ('job_type', {job_type}), ('job', {task_id}),"
        f" ('model', {model}.provider || '/' || {model}.name), ('provider', {model}.provider))"
    )
    arms = [f"SELECT v.scope, v.key, '{EACH}' AS every FROM {values} AS v(scope, key)"]
    if only in ("", *OF_JOB):
        # Where all scopes are looked for, jobs are read only if a budget asks for it.
        named = " OR ".join(f"x.scope = '{scope}'" for scope in OF_JOB)
        if_needed = f" WHERE (SELECT EXISTS (SELECT FROM governance_budget x WHERE {named}))"
        arms += [
            f"SELECT o.scope, o.key, o.every FROM ({select.format(job_id=job_id)}) o"
            + ("" if only else if_needed)
            for select in _of_job
        ]
    narrowed = f" AND k.scope = '{only}'" if only else ""
    return f"SELECT k.* FROM ({' UNION ALL '.join(arms)}) k WHERE k.key IS NOT NULL{narrowed}"


def calls_in_sql(only: str = "") -> str:
    """Return the SQL of the calls `r`, with decision `d`, model `m`, and their keys `s`.

    :param only: as of `keys_in_sql`.
    """
    keys = keys_in_sql(
        agent="r.agent",
        job_type="d.job_type",
        task_id="r.task_id",
        job_id="r.job_id",
        model="m",
        only=only,
    )
    return (
        " FROM governance_reservation r"
        " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
        " JOIN governance_languagemodel m ON m.id = d.model_id"
        f" CROSS JOIN LATERAL ({keys}) AS s"
    )
