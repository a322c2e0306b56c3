"""A repeated claim: of its record's names, answered with the rows as they stand.

A record names what was claimed, and no time and no authority: whether the lease is there still, and
whose it is, is read at every repetition. Source: contract, section 3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from governance.core import sql
from jobs.models import Lease
from jobs.queries import JOB_ROWS, MODEL_TERMS, JobRecord, record_of
from jobs.transitions.claims import ClaimOutcome, LeaseGrant
from jobs.transitions.story import Past, past_statements, pasts_of

# No lock: one statement, and what it reads was so at one instant. Index: the unique one on task_id.
READ_AGAIN = (
    f"SELECT clock_timestamp() AS now, {MODEL_TERMS} AS model_terms, {JOB_ROWS}"
    "WHERE j.task_id = ANY(%s::text[])"
)


@dataclass(frozen=True)
class ClaimName:
    """What a claim was: its outcome, its task, and attempt and token where it granted a lease."""

    outcome: str
    task_id: str
    attempt: int | None = None
    fencing_token: int | None = None

    @classmethod
    def of(cls, outcome: ClaimOutcome) -> ClaimName:
        """Return the name of what a claim has just been answered with."""
        grant = outcome.grant
        if grant is None:
            return cls(outcome.outcome, outcome.job.task_id)
        attempt = grant.attempt
        return cls(outcome.outcome, outcome.job.task_id, attempt.number, attempt.fencing_token)


def names_in(kept: Mapping[str, Any]) -> list[ClaimName]:
    """Return the names that a record keeps; also of one of before, which kept the whole answer."""
    if "claims" in kept:
        return [ClaimName(**name) for name in kept["claims"]]
    answers = kept["results"] if "results" in kept else [kept]
    return [
        ClaimName(
            answer["outcome"],
            answer["job"]["task_id"],
            answer.get("attempt"),
            answer.get("fencing_token"),
        )
        for answer in answers
    ]


def read_and_commit(names: Sequence[ClaimName], *, session_pk: int | None) -> list[ClaimOutcome]:
    """Return what the named claims are answered with now, and commit, in one round trip.

    The last act of the transaction that found the record. Whose session holds the lease that was
    granted, and only while it has time left, is granted it again, with its token; nothing is
    renewed or counted. All others are told of the job as it stands.

    :param session_pk: the session that asks, as the gate has read it.
    """
    if not names:
        sql.commit_with()
        return []
    tasks = [name.task_id for name in names]
    tried = [name.task_id for name in names if (name.attempt or 1) > 1]
    rows, *pasts = sql.commit_with(sql.any_of(READ_AGAIN, tasks), *past_statements(tried))
    found = {row["j_task_id"]: row for row in rows}
    past = pasts_of(pasts)
    return [_outcome(name, found[name.task_id], past, session_pk) for name in names]


def _outcome(
    name: ClaimName, row: sql.Row, pasts: Mapping[int, Past], session_pk: int | None
) -> ClaimOutcome:
    record = record_of(row)
    if _held(name, row, session_pk):
        return ClaimOutcome(name.outcome, record, _grant(record, row, pasts))
    return ClaimOutcome(name.outcome, record, attempt=name.attempt)


def _held(name: ClaimName, row: sql.Row, session_pk: int | None) -> bool:
    """Return whether the session that asks holds the lease that was granted, with time left."""
    return (
        session_pk is not None
        and row["l_session_id"] == session_pk
        and (row["l_attempt"], row["l_fencing_token"]) == (name.attempt, name.fencing_token)
        and row["l_expires_at"] > row["now"]
    )


def _grant(record: JobRecord, row: sql.Row, pasts: Mapping[int, Past]) -> LeaseGrant:
    attempt = record.last_attempt
    assert attempt is not None
    return LeaseGrant(
        attempt=attempt,
        lease=sql.build(Lease, row, "l"),
        past=pasts.get(record.job.pk) or Past(),
        at=row["now"],
        model_terms=json.loads(row["model_terms"]),
    )


def as_kept(outcomes: Iterable[ClaimOutcome]) -> dict[str, Any]:
    """Return what a record keeps of the answer to a claim."""
    return {"claims": [_without_nulls(ClaimName.of(outcome)) for outcome in outcomes]}


def _without_nulls(name: ClaimName) -> dict[str, Any]:
    return {member: value for member, value in vars(name).items() if value is not None}
