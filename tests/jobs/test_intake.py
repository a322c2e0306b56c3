"""Intake: a task becomes a job once and for ever, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from unittest import mock

import pytest
from django.db import IntegrityError
from uuid_utils.compat import uuid7

from agents.models import Agent, Submitter
from agents.principals import Principal
from governance.core import clock
from governance.core.errors import InvalidArgument, TaskContentMismatch, TaskIdTaken
from governance.core.fields import INSTANT_MAX, INSTANT_MIN
from governance.core.models import AuditEvent, Fact
from governance.evidence.envelopes import payload_of
from jobs import wakeups
from jobs.models import Job, JobType, Source, Task
from jobs.transitions import Outcome, intake, job_types
from jobs.transitions.intake import _content_sha256
from tests.evidence import actions, facts, is_refusal, untouched


def envelope(**over: Any) -> dict[str, Any]:
    return {
        "task_id": f"task-{uuid7()}",
        "source": "manual",
        "title": "Sort the mail",
        "goal": "Every letter has one of the five labels.",
        "task_type": "classification",
        "risk_tier": "low",
        "priority": "normal",
        "inputs": {},
    } | over


@pytest.fixture
def take(submitter: Principal) -> Callable[..., Any]:
    def one(**over: Any) -> Any:
        [answer] = intake(principal=submitter, envelopes=[envelope(**over)])
        return answer

    return one


def pointers(refusal: Any) -> list[str]:
    return [fault.pointer for fault in refusal.errors]


def nothing_stored() -> bool:
    subjects = AuditEvent.objects.filter(subject__startswith="job:")
    return not (Job.objects.exists() or subjects.exists() or Fact.objects.exists())


def test_a_task_becomes_a_queued_job_with_its_event_and_its_fact(take: Any) -> None:
    answer = take(task_id="t-1")

    job = Job.objects.get(task_id="t-1")
    assert (answer.outcome, answer.job.state) == ("queued", "queued")
    assert (job.attempt, job.fencing_token, job.revision, job.audit_seq) == (0, 0, 1, 1)
    assert actions(job) == ["job.queued"]
    assert facts(job) == [(1, "dev.fencepost.job.queued")]


def test_a_task_that_needs_approval_is_held(take: Any) -> None:
    answer = take(task_id="t-1", execution_approval_required=True)

    assert (answer.outcome, answer.job.state) == ("held", "held")
    assert actions(Job.objects.get()) == ["job.held"]


@pytest.mark.parametrize(
    ("task_type", "owner"),
    [
        ("classification", "openclaw"),
        ("rewrite", "openclaw"),
        ("content_prep", "hermes"),
        ("artifact_production", "hermes"),
        ("skill_extraction", "hermes"),
        ("healthcheck", "hermes"),
        ("implementation", "agent_zero"),
    ],
)
def test_the_job_type_names_the_agent(take: Any, task_type: str, owner: str) -> None:
    assert take(task_type=task_type).record.owner == owner


def test_the_job_type_gives_what_the_envelope_leaves_out(take: Any) -> None:
    JobType.objects.filter(name="classification").update(max_attempts=5)

    assert take().job.max_attempts == 5
    assert take(max_attempts=2).job.max_attempts == 2


def test_the_signed_envelope_binds_exactly_what_the_contract_lists(take: Any) -> None:
    answer = take(inputs={"letters": 3}, labels={"team": "mail"}, max_attempts=2)

    task = Task.objects.get()
    payload = json.loads(payload_of(task.envelope))
    assert sorted(payload) == sorted(
        "task_id job_id agent task_type risk_tier title goal inputs output_required "
        "review_required execution_approval_required rollback_required issued_at".split()
    )
    assert payload["inputs"] == {"letters": 3}
    assert answer.record.task.execution_digest == task.execution_digest


@pytest.mark.parametrize(("text", "required"), [("a page", False), ("", True)])
def test_the_words_of_an_output_agree_with_whether_there_is_one(
    take: Any, text: str, required: bool
) -> None:
    task = take().record.task
    task.pk, task.output_text, task.output_required = task.pk + 1, text, required

    with pytest.raises(IntegrityError, match="task_output_text_requires_output"):
        task.save(force_insert=True)


@pytest.mark.parametrize("at", [INSTANT_MAX, INSTANT_MIN - timedelta(microseconds=1)])
@pytest.mark.parametrize("column", ["available_at", "deadline_at", "expires_if_not_started_at"])
def test_the_database_keeps_no_instant_of_a_job_that_cannot_be_read(
    take: Any, column: str, at: datetime
) -> None:
    take()

    with pytest.raises(IntegrityError, match="job_instants_are_bounded"):
        Job.objects.update(**{column: at})


@pytest.mark.parametrize("at", [INSTANT_MAX, INSTANT_MIN - timedelta(microseconds=1)])
def test_the_database_keeps_no_time_of_a_submitter_that_cannot_be_read(
    take: Any, at: datetime
) -> None:
    task = take().record.task
    task.pk, task.submitted_at = task.pk + 1, at

    with pytest.raises(IntegrityError, match="task_instant_is_bounded"):
        task.save(force_insert=True)


def test_the_same_envelope_again_answers_the_existing_job(take: Any, submitter: Principal) -> None:
    first = take(task_id="t-1")
    job = Job.objects.get()

    with untouched(job):
        second = take(task_id="t-1")

    assert second.outcome == "already_queued"
    assert second.job.job_id == first.job.job_id


def test_an_envelope_of_before_is_known_by_the_offsets_in_which_it_was_given(
    take: Any, submitter: Principal
) -> None:
    berlin = datetime(2100, 1, 31, 9, 30, tzinfo=timezone(timedelta(hours=1)))
    given = {"deadline_at": berlin}
    # What the first release kept of it.
    of_before = partial(_content_sha256, in_utc=False)
    with mock.patch("jobs.transitions.intake._content_sha256", of_before):
        take(task_id="t-1", **given)

    assert take(task_id="t-1", **given).outcome == "already_queued"


def test_the_time_of_the_submitter_is_not_part_of_the_content(take: Any) -> None:
    take(task_id="t-1", created_at=clock.now())

    assert take(task_id="t-1", created_at=clock.now()).outcome == "already_queued"


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Sort the parcels"},
        {"inputs": {"letters": 4}},
        {"priority": "urgent"},
        {"max_attempts": 2},
        {"labels": {"team": "post"}},
        {"execution_approval_required": True},
    ],
)
def test_another_envelope_for_a_known_task_is_refused(take: Any, change: dict[str, Any]) -> None:
    take(task_id="t-1")
    job = Job.objects.get()

    with untouched(job):
        answer = take(task_id="t-1", **change)

    assert is_refusal(answer, TaskContentMismatch)
    assert (answer.code, answer.status, answer.retry) == ("ALREADY_EXISTS", 409, "read")


@pytest.mark.parametrize("change", [{}, {"title": "Sort the parcels"}, {"source": "rumour"}])
def test_the_task_id_of_another_submitter_is_taken_whatever_the_envelope(
    take: Any, change: dict[str, Any]
) -> None:
    take(task_id="t-1")
    job = Job.objects.get()
    other = Submitter.objects.create(name="rival", created_at=clock.now())
    rival = Principal("submitter", other.pk, "rival", 1, frozenset({"submit"}))

    with untouched(job):
        [answer] = intake(principal=rival, envelopes=[envelope(task_id="t-1", **change)])

    assert is_refusal(answer, TaskIdTaken)
    assert (answer.code, answer.status, answer.current) == ("ALREADY_EXISTS", 409, {})


def test_a_known_task_is_answered_even_when_the_rules_have_changed_since(take: Any) -> None:
    take(task_id="t-1")
    JobType.objects.filter(name="classification").update(enabled=False)

    assert take(task_id="t-1").outcome == "already_queued"


def test_every_broken_rule_is_listed_and_nothing_is_stored(take: Any) -> None:
    answer = take(
        source="rumour",
        risk_tier="high",
        preferred_owner="hermes",
        max_attempts=99,
        deadline_at=clock.now() - timedelta(days=1),
        expires_if_not_started_at=clock.now() - timedelta(days=1),
    )

    assert is_refusal(answer, InvalidArgument)
    assert sorted(pointers(answer)) == [
        "/deadline_at",
        "/execution_approval_required",
        "/expires_if_not_started_at",
        "/max_attempts",
        "/preferred_owner",
        "/review_required",
        "/risk_tier",
        "/source",
    ]
    assert nothing_stored()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"task_type": "sorcery"}, "/task_type"),
        ({"source": "rumour"}, "/source"),
        ({"preferred_owner": "nobody"}, "/preferred_owner"),
        ({"preferred_owner": "hermes"}, "/preferred_owner"),
        ({"risk_tier": "high", "review_required": True, "execution_approval_required": True},
         "/risk_tier"),
        ({"max_attempts": 11}, "/max_attempts"),
    ],
)  # fmt: skip
def test_one_broken_rule_is_named_by_its_pointer(
    take: Any, change: dict[str, Any], pointer: str
) -> None:
    answer = take(**change)

    assert is_refusal(answer, InvalidArgument)
    assert pointers(answer) == [pointer]
    assert nothing_stored()


@pytest.mark.parametrize("missing", ["review_required", "execution_approval_required"])
def test_a_high_risk_needs_review_and_approval(take: Any, missing: str) -> None:
    asked = {"review_required": True, "execution_approval_required": True} | {missing: False}

    answer = take(task_type="implementation", risk_tier="high", **asked)

    assert pointers(answer) == [f"/{missing}"]
    assert nothing_stored()


def test_a_source_or_type_or_agent_that_is_disabled_takes_nothing_new(take: Any) -> None:
    Source.objects.filter(name="proof").update(enabled=False)
    JobType.objects.filter(name="rewrite").update(enabled=False)
    Agent.objects.filter(name="hermes").update(enabled=False)

    assert pointers(take(source="proof")) == ["/source"]
    assert pointers(take(task_type="rewrite")) == ["/task_type"]
    assert pointers(take(task_type="healthcheck")) == ["/task_type"]
    assert nothing_stored()


def test_inputs_are_judged_by_the_schema_of_the_type(take: Any) -> None:
    schema = {
        "type": "object",
        "required": ["letters"],
        "properties": {"letters": {"type": "array", "items": {"type": "integer"}}},
        "additionalProperties": False,
    }
    JobType.objects.filter(name="classification").update(inputs_schema=schema)

    assert take(inputs={"letters": [1, 2]}).outcome == "queued"
    assert pointers(take(inputs={"letters": [1, "x"]})) == ["/inputs/letters/1"]
    assert pointers(take(inputs={})) == ["/inputs"]


@pytest.mark.parametrize(
    "loop",
    [
        {"$ref": "#/$defs/loop"},
        {"$id": "https://example.org/part", "$ref": "#/$defs/loop"},
    ],
)
def test_inputs_that_the_schema_of_the_type_cannot_judge_are_not_taken(
    take: Any, loop: dict[str, Any]
) -> None:
    schema = {"properties": {"a": loop}, "$defs": {"loop": {"$ref": "#/$defs/loop"}}}
    assert job_types.schema_fault(schema) == ""
    JobType.objects.filter(name="classification").update(inputs_schema=schema)

    assert pointers(take(inputs={"a": 1})) == ["/inputs"]
    assert nothing_stored()
    assert take(inputs={"b": 1}).outcome == "queued"


def test_a_task_may_be_made_available_later_but_never_earlier_than_now(take: Any) -> None:
    later, earlier = clock.now() + timedelta(hours=1), clock.now() - timedelta(hours=1)

    take(task_id="later", available_at=later)
    take(task_id="earlier", available_at=earlier)

    assert Job.objects.get(task_id="later").available_at == later
    assert Job.objects.get(task_id="earlier").available_at > earlier


class TestABatch:
    def test_answers_in_the_asked_order_and_one_bad_item_spoils_no_other(
        self, submitter: Principal
    ) -> None:
        good, bad, late = envelope(), envelope(task_type="sorcery"), envelope()

        answers = intake(principal=submitter, envelopes=[late, bad, good])

        assert isinstance(answers[0], Outcome) and isinstance(answers[2], Outcome)
        assert answers[0].job.task_id == late["task_id"]
        assert answers[2].job.task_id == good["task_id"]
        assert is_refusal(answers[1], InvalidArgument)
        assert Job.objects.count() == 2

    def test_a_task_named_twice_is_answered_the_second_time_as_its_repetition(
        self, submitter: Principal
    ) -> None:
        task = envelope()

        first, second, third = intake(
            principal=submitter, envelopes=[task, task, task | {"title": "Something else"}]
        )

        assert first.outcome == "queued"
        assert second.outcome == "already_queued"
        assert is_refusal(third, TaskContentMismatch)
        assert Job.objects.count() == 1

    def test_a_bad_envelope_does_not_take_the_name_from_a_good_one(
        self, submitter: Principal
    ) -> None:
        task = envelope()

        bad, good = intake(principal=submitter, envelopes=[task | {"source": "rumour"}, task])

        assert is_refusal(bad, InvalidArgument)
        assert good.outcome == "queued"

    def test_known_and_new_tasks_mix(self, submitter: Principal) -> None:
        known = envelope()
        intake(principal=submitter, envelopes=[known])

        old, new = intake(principal=submitter, envelopes=[known, envelope()])

        assert (old.outcome, new.outcome) == ("already_queued", "queued")

    def test_of_500_costs_no_more_round_trips_than_of_one(
        self, submitter: Principal, django_assert_max_num_queries: Any
    ) -> None:
        with django_assert_max_num_queries(6):
            answers = intake(principal=submitter, envelopes=[envelope() for _ in range(500)])

        assert {answer.outcome for answer in answers} == {"queued"}
        assert Job.objects.count() == 500
        assert Fact.objects.count() == 500

    def test_tells_each_agent_once_that_work_has_come_and_only_after_the_commit(
        self,
        submitter: Principal,
        django_capture_on_commit_callbacks: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        told: list[int] = []
        monkeypatch.setattr(wakeups, "announce", told.append)
        held = envelope(task_type="healthcheck", execution_approval_required=True)

        with django_capture_on_commit_callbacks(execute=True):
            intake(
                principal=submitter,
                envelopes=[envelope(), envelope(), held, envelope(source="rumour")],
            )
            assert told == []

        assert told == [Agent.objects.get(name="openclaw").pk]
