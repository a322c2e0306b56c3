"""The story: what a claim tells of the attempts before it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.entry import Entry
from jobs import transitions
from jobs.models import Job
from jobs.operations import answers
from jobs.transitions.story import STORY_BYTES_MAX, TEXT_BYTES_MAX, within_bounds
from tests.work import ANNA, make_available

EMPTY: dict[str, Any] = {
    "error_code": None,
    "error_message": None,
    "result": None,
    "result_pointer": None,
    "progress": None,
    "rework_reason": None,
    "answer": None,
}


@pytest.fixture
def told(worker: Entry) -> Any:
    """Claim a job, by its id or as the next, and return what the answer tells beside it."""

    def claim(job: Job, *, by_id: bool = True) -> dict[str, Any]:
        make_available(job)
        outcome: Any = (
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")
            if by_id
            else transitions.claim_next(entry=worker)[0]
        )
        answer = answers.claimed(outcome)
        # As large as it may be, it is there once.
        assert "story" not in answer["job"]
        return dict(answer)

    return claim


@pytest.mark.parametrize("by_id", [True, False])
class TestAClaim:
    def test_of_a_first_attempt_has_no_story(self, make_job: Any, told: Any, by_id: bool) -> None:
        assert told(make_job(), by_id=by_id)["story"] == []

    def test_tells_what_a_person_answered_to_an_escalation(
        self, escalated: Any, told: Any, by_id: bool
    ) -> None:
        job = escalated()
        transitions.resolve(
            task_id=job.task_id, actor="user:anna", resolution="requeue", reason="Use eu-west."
        )

        assert told(job, by_id=by_id)["story"] == [
            EMPTY | {"attempt": 1, "outcome": "escalated", "answer": "Use eu-west."}
        ]

    def test_tells_what_was_delivered_and_what_a_reviewer_wants_changed(
        self, delivered: Any, told: Any, by_id: bool
    ) -> None:
        job = delivered()
        transitions.review(
            task_id=job.task_id, actor="user:anna", verdict="needs_rework", reason="Shorter."
        )

        answer = told(job, by_id=by_id)

        assert answer["story"] == [
            EMPTY
            | {
                "attempt": 1,
                "outcome": "completed",
                "result": {"n": 1},
                "rework_reason": "Shorter.",
            }
        ]
        assert answer["rework"] == {"reason": "Shorter.", "attempt": 1}

    def test_tells_errors_and_the_last_progress_that_was_not_null(
        self, running: Any, claim: Any, fail: Any, told: Any, by_id: bool
    ) -> None:
        held = running()
        fail(held, progress={"page": 7})
        make_available(held.job)
        fail(claim(held.job), error_message="Worse.", error_code="WORSE")

        answer = told(held.job, by_id=by_id)

        first = {"error_code": "BROKE", "error_message": "It broke.", "progress": {"page": 7}}
        second = {"error_code": "WORSE", "error_message": "Worse."}
        assert answer["story"] == [
            EMPTY | {"attempt": 1, "outcome": "failed"} | first,
            EMPTY | {"attempt": 2, "outcome": "failed"} | second,
        ]
        assert answer["previous_progress"] == {"page": 7}


def test_an_escalation_that_the_job_outlived_has_no_answer(escalated: Any, told: Any) -> None:
    job = escalated()
    transitions.rework(task_id=job.task_id, **ANNA)

    [entry] = told(job)["story"]

    assert entry["answer"] is None


def test_texts_are_cut_between_characters_and_json_to_the_beginning_of_its_text(
    running: Any, fail: Any, told: Any
) -> None:
    held = running()
    fail(held, error_message="€" * 5000, progress={"text": "x" * 5000})

    answer = told(held.job)

    [entry] = answer["story"]
    assert entry["truncated"] is True
    assert entry["error_message"] == "€" * (TEXT_BYTES_MAX // 3)
    assert entry["progress"] == '{"text": "' + "x" * (TEXT_BYTES_MAX - 10)
    assert answer["previous_progress"] == {"text": "x" * 5000}


def test_the_whole_is_bounded_and_the_oldest_are_cut_first() -> None:
    full = EMPTY | {"outcome": "failed", "error_message": "x" * TEXT_BYTES_MAX}
    story = [full | {"attempt": number} for number in range(1, 1001)]

    kept = within_bounds(story)

    assert len(json.dumps(kept, separators=(",", ":")).encode()) <= STORY_BYTES_MAX
    assert [entry["attempt"] for entry in kept] == list(range(1001 - len(kept), 1001))
    whole = [entry["attempt"] for entry in kept if entry["error_message"]]
    assert len(whole) >= 14
    assert all(entry.get("truncated") for entry in kept if not entry["error_message"])
    assert kept[-1] == story[-1]
    assert within_bounds(story[:14]) == story[:14]
