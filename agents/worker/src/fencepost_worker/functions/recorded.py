"""What a function tells while it runs: progress, artifacts, facts, and what it learnt."""

from __future__ import annotations

import threading
from typing import Any

from fencepost_worker import rules
from fencepost_worker.documents import MAX_MESSAGE_CHARS, result_fault
from fencepost_worker.exchange import MAX_FACT_BYTES

#: A result to which one member is added, to judge that member.
BLANK = {
    "external_request_id": "xr_" + "0" * 64,
    "attempt": 1,
    "execution_digest": "0" * 64,
    "outcome": "succeeded",
}


class ArtifactNamedTwice(ValueError):
    """Another artifact of the attempt has this name."""


class Recorded:
    """What a function has told so far. Thread-safe: tasks and threads of one may tell at once."""

    def __init__(self, *, external_request_id: str) -> None:
        self._external_request_id = external_request_id
        self._lock = threading.Lock()
        self._progress: dict[str, Any] | None = None
        self._artifacts: list[dict[str, Any]] = []
        self._facts: list[dict[str, Any]] = []
        self._feedback: dict[int, dict[str, Any]] = {}
        self._members: dict[str, Any] = {}

    @property
    def progress(self) -> dict[str, Any] | None:
        """Return the last progress."""
        with self._lock:
            return self._progress

    @property
    def members(self) -> dict[str, Any]:
        """Return the members of the result document that it comes to."""
        with self._lock:
            lists = {
                "artifacts": list(self._artifacts),
                "facts": list(self._facts),
                "skill_feedback": list(self._feedback.values()),
            }
            return lists | self._members

    def tell_progress(self, progress: dict[str, Any]) -> None:
        """Keep the progress for the next heartbeat.

        :raises NotStrict: the control plane would not take it; says where.
        """
        copy = judged_copy(progress, progress=True)
        with self._lock:
            self._progress = copy

    def add_artifact(self, described: dict[str, Any]) -> int:
        """Add an artifact and return its number; the same again is the one of before.

        :raises ArtifactNamedTwice: its name has another content.
        """
        with self._lock:
            for number, other in enumerate(self._artifacts, 1):
                if other["name"] != described["name"]:
                    continue
                if other["sha256"] != described["sha256"]:
                    raise ArtifactNamedTwice(f"{described['name']} is another artifact already")
                return number
            self._artifacts.append(described)
            return len(self._artifacts)

    def note_stored(self, number: int, described: dict[str, Any]) -> None:
        """Note that the store has an artifact."""
        with self._lock:
            self._artifacts[number - 1] = described

    def add_fact(self, fact_type: str, data: dict[str, Any], fact_id: str) -> None:
        """Add a fact. Without an id it has one of this attempt.

        :raises ValueError: its type or id is none.
        :raises NotStrict: the control plane would not take its data; says where.
        """
        copy = judged_copy(data)
        if len(rules.encoded(copy)) > MAX_FACT_BYTES:
            raise ValueError(f"the data of a fact is larger than {MAX_FACT_BYTES} bytes")
        with self._lock:
            named = fact_id or f"{self._external_request_id}-{len(self._facts) + 1}"
            if any(fact["fact_id"] == named for fact in self._facts):
                raise ValueError(f"{named} is another fact of the attempt already")
            facts = [*self._facts, {"fact_id": named, "type": fact_type, "data": copy}]
            _need_valid("facts", facts)
            self._facts = facts

    def reflect(self, reflection: dict[str, Any]) -> None:
        """Keep what was learnt; the last word stands.

        :raises ValueError: a member is none of a reflection's.
        :raises NotStrict: the control plane would not take it; says where.
        """
        copy = judged_copy(reflection)
        _need_valid("reflection", copy)
        self._set("reflection", copy)

    def rate_skill(self, skill_id: int, success: bool, note: str) -> None:
        """Keep how a skill served; of one skill the last word stands.

        :raises ValueError: it cannot be sent; says where.
        """
        words = {"note": note} if note else {}
        copy = judged_copy({"skill_id": skill_id, "success": success} | words)
        with self._lock:
            feedback = self._feedback | {skill_id: copy}
            _need_valid("skill_feedback", list(feedback.values()))
            self._feedback = feedback

    def ask_review(self) -> None:
        """Ask a person to accept the result before it counts."""
        self._set("needs_review", True)

    def without_model(self, reason: str) -> None:
        """Say why no model was called where the type demands a call."""
        self._set("no_model_reason", rules.message(reason, chars_max=MAX_MESSAGE_CHARS) or None)

    def _set(self, name: str, value: Any) -> None:
        with self._lock:
            self._members[name] = value


def _need_valid(member: str, value: Any) -> None:
    """Refuse a member of the result that its schema refuses.

    :raises ValueError: says where and why.
    """
    if (fault := result_fault(BLANK | {member: value})) is not None:
        raise ValueError(fault)


def judged_copy(document: Any, *, progress: bool = False) -> dict[str, Any]:
    """Return a copy of a JSON object that its maker changes no more.

    :raises NotStrict: it is none that the control plane takes; says where.
    """
    if not isinstance(document, dict):
        detail = f"a {type(document).__name__} and no dict"
        raise rules.NotStrict(rules.Fault("", detail))
    judge = rules.progress_fault if progress else rules.fault_of
    if (fault := judge(document)) is not None:
        raise rules.NotStrict(fault)
    copy: dict[str, Any] = rules.read(rules.encoded(document))
    return copy
