"""The story of a job: what an attempt is told of the ones before it; contract section 1."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from governance.core import sql

#: UTF-8 bytes of a text of the story, and of the whole as compact JSON.
TEXT_BYTES_MAX = 4 * 1024
STORY_BYTES_MAX = 64 * 1024
#: More could not be told, however little there is to say of each.
ATTEMPTS_MAX = 400

#: What is told of an attempt beside its number and outcome, in this order; what of it is JSON.
MEMBERS = (
    *("error_code", "error_message", "result", "result_pointer", "progress", "rework_reason"),
    "answer",
)
JSON_MEMBERS = frozenset({"result", "progress"})

# Texts are cut here, so that a large result does not travel: to so many characters, which are at
# least as many bytes.
_PUBLIC_COLUMNS = f"""p.job_id, p.number, p.outcome, p.error_code,
       left(p.error_message, {TEXT_BYTES_MAX + 1}) AS error_message"""
_COLUMNS = f"""{_PUBLIC_COLUMNS},
       left(p.result::text, {TEXT_BYTES_MAX + 1}) AS result, p.result_pointer,
       left(coalesce(p.progress, l.progress)::text, {TEXT_BYTES_MAX + 1}) AS progress,
       left(r.reason, {TEXT_BYTES_MAX + 1}) AS rework_reason,
       left(e.resolve_reason, {TEXT_BYTES_MAX + 1}) AS answer"""
_AROUND = """
  LEFT JOIN jobs_lease l ON l.job_id = p.job_id AND l.attempt = p.number
  LEFT JOIN LATERAL (
       SELECT reason FROM jobs_review WHERE job_id = p.job_id AND attempt = p.number
          AND verdict = 'needs_rework' ORDER BY id DESC LIMIT 1) r ON true
  LEFT JOIN LATERAL (
       SELECT resolve_reason FROM jobs_escalation WHERE job_id = p.job_id AND attempt = p.number
          AND resolution <> 'ended' ORDER BY id DESC LIMIT 1) e ON true"""
# No lock but that of the jobs, which the caller holds.
READ_STORY = f"""
SELECT {_COLUMNS}
  FROM jobs_job j
  JOIN jobs_attempt p ON p.job_id = j.id AND p.ended_at IS NOT NULL
       AND p.number > j.attempt - {ATTEMPTS_MAX}{_AROUND}
 WHERE j.task_id = ANY(%s::text[]) ORDER BY p.job_id, p.number
"""
# No lock. Index: attempt_number_once.
_READ_ATTEMPTS = """
SELECT {columns}, p.claimed_at, p.deadline_at, p.ended_at, p.worker_id, p.runtime,
       CASE WHEN s.kind = 'activated' THEN s.session_id END AS session_id
  FROM jobs_attempt p LEFT JOIN agents_session s ON s.id = p.session_id{around}
 WHERE p.job_id = %s AND p.number = ANY(%s) ORDER BY p.number
"""
READ_ATTEMPTS = _READ_ATTEMPTS.format(columns=_COLUMNS, around=_AROUND)
READ_ATTEMPTS_FOR_ALL = _READ_ATTEMPTS.format(columns=_PUBLIC_COLUMNS, around="")
READ_PROGRESS = (
    "SELECT DISTINCT ON (p.job_id) p.job_id, p.progress::text AS progress FROM jobs_attempt p"
    " JOIN jobs_job j ON j.id = p.job_id"
    " WHERE j.task_id = ANY(%s::text[]) AND p.ended_at IS NOT NULL"
    " AND p.progress <> 'null' ORDER BY p.job_id, p.number DESC"
)
READ_REWORK = (
    "SELECT DISTINCT ON (r.job_id) r.job_id, r.reason, r.attempt FROM jobs_review r"
    " JOIN jobs_job j ON j.id = r.job_id"
    " WHERE j.task_id = ANY(%s::text[]) AND r.verdict = 'needs_rework'"
    " ORDER BY r.job_id, r.id DESC"
)


@dataclass(frozen=True)
class Rework:
    """A reviewer's wish: the reason, and the attempt that it is about."""

    reason: str
    attempt: int


@dataclass
class Past:
    """What a job's attempts have left: the story, the last progress, and the last wish."""

    #: Oldest first, each as it is answered.
    story: list[dict[str, Any]] = field(default_factory=list)
    #: The last that was not null, whole.
    progress: Any = None
    rework: Rework | None = None
    #: Bytes that all of it takes as JSON, at most.
    size: int = 0


@dataclass(frozen=True)
class AttemptRow:
    """An attempt as its job's list has it: what is told of it, its times, and who made it.

    :param entry: an entry of the story, or so much of it as all may know.
    :param session_id: of an activated session.
    """

    entry: dict[str, Any]
    claimed_at: datetime
    deadline_at: datetime | None
    ended_at: datetime | None
    worker_id: str
    runtime: str
    session_id: UUID | None


def read_attempts(*, job_pk: int, numbers: list[int], whole: bool) -> list[AttemptRow]:
    """Return the attempts of these numbers, the running one among them, oldest first.

    :param whole: tell of each what the next attempt is told; else no more than its outcome, with
        code and message.
    """
    reading = READ_ATTEMPTS if whole else READ_ATTEMPTS_FOR_ALL
    [rows] = sql.pipeline(sql.Statement(reading, (job_pk, numbers)))
    beside = tuple(name for name in AttemptRow.__dataclass_fields__ if name != "entry")
    return [AttemptRow(_entry(row), **{name: row[name] for name in beside}) for row in rows]


def read_pasts(task_ids: list[str]) -> dict[int, Past]:
    """Return what the ended attempts of locked jobs have left, by job; in one round trip."""
    statements = past_statements(task_ids)
    return pasts_of(sql.pipeline(*statements)) if statements else {}


def past_statements(task_ids: list[str]) -> list[sql.Statement]:
    """Return the reads whose rows `pasts_of` takes; none for no jobs."""
    reads = (READ_STORY, READ_PROGRESS, READ_REWORK)
    return [sql.any_of(read, task_ids) for read in reads] if task_ids else []


def pasts_of(found: list[list[sql.Row]]) -> dict[int, Past]:
    """Return what the ended attempts of jobs have left, by job, of the rows of the reads."""
    attempts, progress, reworks = found or ([], [], [])
    pasts: dict[int, Past] = {}
    for row in attempts:
        pasts.setdefault(row["job_id"], Past()).story.append(_entry(row))
    for past in pasts.values():
        past.story = within_bounds(past.story)
        past.size = sum(map(_size, past.story))
    for row in progress:
        past = pasts.setdefault(row["job_id"], Past())
        past.progress = json.loads(row["progress"])
        past.size += len(row["progress"].encode())
    for row in reworks:
        past = pasts.setdefault(row["job_id"], Past())
        past.rework = Rework(row["reason"], row["attempt"])
        past.size += _size(row["reason"])
    return pasts


def _entry(row: sql.Row) -> dict[str, Any]:
    """Return what is told of an attempt: what there is of it, each text within its bound.

    Of a row that has not all of it, so much as it has.
    """
    entry: dict[str, Any] = {"attempt": row["number"], "outcome": row["outcome"]}
    truncated = False
    for name in MEMBERS:
        if name not in row:
            continue
        text = row[name]
        entry[name] = _cut(text or None)
        if entry[name] != (text or None):
            truncated = True
        elif name in JSON_MEMBERS and text is not None:
            # JSON is told as it is where it is whole, and else as the beginning of its text.
            entry[name] = json.loads(text)
    return entry | {"truncated": True} if truncated else entry


def shortened(value: Any) -> tuple[Any, bool]:
    """Return a text, or JSON, within the bound of a text of the story, and whether it was cut.

    JSON that is longer is the beginning of its text.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = _cut(text)
    return (value, False) if cut == text else (cut, True)


def _cut(text: str | None) -> str | None:
    """Return the text within its bound; cut between two characters."""
    if text is None or len(encoded := text.encode()) <= TEXT_BYTES_MAX:
        return text
    return encoded[:TEXT_BYTES_MAX].decode(errors="ignore")


def within_bounds(story: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the story within its bound: the oldest lose their texts, and then go."""
    room = STORY_BYTES_MAX - len("[]")
    kept: list[dict[str, Any]] = []
    for entry in reversed(list(story)):
        if (size := _size(entry)) > room:
            bare = dict.fromkeys(entry) | {
                "attempt": entry["attempt"],
                "outcome": entry["outcome"],
                "truncated": True,
            }
            entry, size = bare, _size(bare)
        if size > room:
            break
        room -= size
        kept.append(entry)
    kept.reverse()
    return kept


def _size(value: Any) -> int:
    """Return the bytes that an entry, or a text, takes in a compact JSON array."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) + len(",")
