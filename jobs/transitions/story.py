"""The story of a job: what an attempt is told of the ones before it; contract section 1."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from governance.core import sql

#: UTF-8 bytes of a text of the story, and of the whole as compact JSON.
TEXT_BYTES_MAX = 4 * 1024
STORY_BYTES_MAX = 64 * 1024
#: More could not be told, however little there is to say of each.
ATTEMPTS_MAX = 400

# No lock but that of the jobs, which the caller holds. Texts are cut here, so that a large result
# does not travel: to so many characters, which are at least as many bytes.
READ_STORY = f"""
SELECT p.job_id, p.number, p.outcome, p.error_code,
       left(p.error_message, {TEXT_BYTES_MAX + 1}) AS error_message,
       left(p.result::text, {TEXT_BYTES_MAX + 1}) AS result, p.result_pointer,
       left(p.progress::text, {TEXT_BYTES_MAX + 1}) AS progress,
       left(r.reason, {TEXT_BYTES_MAX + 1}) AS rework_reason,
       left(e.resolve_reason, {TEXT_BYTES_MAX + 1}) AS answer
  FROM jobs_job j
  JOIN jobs_attempt p ON p.job_id = j.id AND p.ended_at IS NOT NULL
       AND p.number > j.attempt - {ATTEMPTS_MAX}
  LEFT JOIN LATERAL (
       SELECT reason FROM jobs_review WHERE job_id = j.id AND attempt = p.number
          AND verdict = 'needs_rework' ORDER BY id DESC LIMIT 1) r ON true
  LEFT JOIN LATERAL (
       SELECT resolve_reason FROM jobs_escalation WHERE job_id = j.id AND attempt = p.number
          AND resolution <> 'ended' ORDER BY id DESC LIMIT 1) e ON true
 WHERE j.task_id = ANY(%s::text[]) ORDER BY p.job_id, p.number
"""
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
    for row in progress:
        pasts.setdefault(row["job_id"], Past()).progress = json.loads(row["progress"])
    for row in reworks:
        rework = Rework(row["reason"], row["attempt"])
        pasts.setdefault(row["job_id"], Past()).rework = rework
    return pasts


def _entry(row: sql.Row) -> dict[str, Any]:
    """Return what is told of an attempt: what there is of it, each text within its bound."""
    texts = {name: row[name] or None for name in ("error_message", "rework_reason", "answer")}
    values = {name: row[name] for name in ("result", "progress")}
    cut = {name: _cut(text) for name, text in (texts | values).items()}
    truncated = any(cut[name] != text for name, text in (texts | values).items())
    # JSON is told as it is where it is whole, and else as the beginning of its text.
    for name, text in values.items():
        if text is not None and cut[name] == text:
            cut[name] = json.loads(text)
    entry = {
        "attempt": row["number"],
        "outcome": row["outcome"],
        "error_code": row["error_code"] or None,
        "error_message": cut["error_message"],
        "result": cut["result"],
        "result_pointer": row["result_pointer"] or None,
        "progress": cut["progress"],
        "rework_reason": cut["rework_reason"],
        "answer": cut["answer"],
    }
    return entry | {"truncated": True} if truncated else entry


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


def _size(entry: dict[str, Any]) -> int:
    """Return the bytes that an entry takes in a compact JSON array."""
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) + len(",")
