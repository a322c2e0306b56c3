"""Preconditions of people's verbs: pure forecasts, and the same as what the verb then does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from agents.entry import Entry
from governance.core.errors import DomainError, InvalidTransition, OutcomeUnknown, SelfApproval
from jobs import transitions
from jobs.models import Execution, Job
from jobs.transitions import preconditions as of
from tests.jobs.governed import Governed
from tests.work import ANNA

State = Job.State
ASKER = "user:bert"

#: What each verb says of a job that it could be done to, and how it is done.
VERBS: dict[str, tuple[Callable[[Job], DomainError | None], Callable[..., Any]]] = {
    "approve": (lambda job: of.approvable(job, actor=ANNA["actor"]), transitions.approve),
    "reject": (of.rejectable, transitions.reject),
    "withdraw_approval": (of.withdrawable, transitions.withdraw_approval),
    "accept": (
        lambda job: of.reviewable(job, verdict="accepted"),
        lambda **said: transitions.review(verdict="accepted", **said),
    ),
    "send back": (
        lambda job: of.reviewable(job, verdict="needs_rework"),
        lambda **said: transitions.review(verdict="needs_rework", **said),
    ),
    "rework": (of.reworkable, transitions.rework),
    "extend": (of.extendable, lambda **said: transitions.extend(extra=1, **said)),
    "requeue": (
        lambda job: of.resolvable(job, resolution="requeue"),
        lambda **said: transitions.resolve(resolution="requeue", **said),
    ),
    "end": (
        lambda job: of.resolvable(job, resolution="stop"),
        lambda **said: transitions.resolve(resolution="stop", **said),
    ),
    "stop": (of.stoppable, transitions.stop),
    "pause": (of.pausable, transitions.pause),
    "resume": (of.resumable, transitions.resume),
}
LIVE = frozenset(State.values) - Job.FINISHED
ALLOWED: dict[str, frozenset[str]] = {
    "approve": frozenset({State.HELD}),
    "reject": frozenset({State.HELD}),
    "withdraw_approval": frozenset({State.QUEUED}),
    "accept": frozenset({State.REVIEW_REQUIRED}),
    "send back": frozenset({State.REVIEW_REQUIRED}),
    "rework": frozenset({State.FAILED, State.REVIEW_REQUIRED, State.ESCALATED}),
    "extend": LIVE - {State.IN_DOUBT},
    "requeue": frozenset({State.ESCALATED}),
    "end": frozenset({State.ESCALATED}),
    "stop": LIVE,
    "pause": LIVE,
    "resume": LIVE,
}


def job(**over: Any) -> Job:
    values = {"state": State.QUEUED, "execution_approval_required": True, "submitted_by": ASKER}
    return Job(**values | over)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_for_jobs_in_the_states_that_the_contract_names(verb: str) -> None:
    forecast, _ = VERBS[verb]

    fit = {s for s in State.values if forecast(job(state=s, paused=verb == "resume")) is None}

    assert fit == ALLOWED[verb]


@pytest.mark.parametrize("verb", ["send back", "rework", "extend", "requeue"])
def test_an_unresolved_execution_comes_before_the_state(verb: str) -> None:
    forecast, _ = VERBS[verb]

    for state in State.values:
        assert type(forecast(job(state=state, unresolved_executions=1))) is OutcomeUnknown


@pytest.mark.parametrize("verb", ["accept", "end", "stop", "pause"])
def test_what_sends_nothing_on_does_not_wait_for_an_unresolved_execution(verb: str) -> None:
    forecast, _ = VERBS[verb]

    [state] = sorted(ALLOWED[verb])[:1]
    assert forecast(job(state=state, unresolved_executions=1)) is None


@pytest.mark.parametrize("actor", ["user:bert", "command:bert", "bert"])
@pytest.mark.parametrize("role", ["submitted_by", "requested_by", "asked_again_by"])
def test_nobody_approves_what_they_asked_for(role: str, actor: str) -> None:
    held = job(state=State.HELD, **{"submitted_by": "submitter:ops", role: ASKER})

    assert type(of.approvable(held, actor=actor)) is SelfApproval
    assert of.approvable(held, actor="user:carl") is None


def test_a_pause_is_set_once_and_taken_back_once() -> None:
    assert of.pausable(job(paused=True)) is not None
    assert of.resumable(job(paused=False)) is not None


def test_a_verdict_is_for_an_unknown_execution_of_an_attempt_that_has_ended() -> None:
    unknown = Execution(state="unknown", attempt=2)
    running, ended = job(state=State.ACTIVE, attempt=2), job(state=State.IN_DOUBT, attempt=2)

    again = job(state=State.ACTIVE, attempt=3)
    for of_job in (ended, again):
        assert of.reconcilable(unknown, job=of_job, reconciled=False) is None
    for fault in (
        of.reconcilable(unknown, job=running, reconciled=False),
        of.reconcilable(unknown, job=ended, reconciled=True),
        of.reconcilable(Execution(state="failed", attempt=2), job=ended, reconciled=False),
    ):
        assert type(fault) is InvalidTransition


@pytest.fixture
def jobs(
    make_job: Any, running: Any, delivered: Any, escalated: Any, failed: Any, worker: Entry
) -> list[Job]:
    """A job in each state that a worker and people lead it to without an execution."""
    done = running()
    transitions.complete(entry=worker, completions=[done.binding | {"result": 1}])
    stopped, paused = make_job(), make_job()
    transitions.stop(task_id=stopped.task_id, **ANNA)
    transitions.pause(task_id=paused.task_id, **ANNA)
    approved = make_job(execution_approval_required=True)
    transitions.approve(task_id=approved.task_id, **ANNA)
    waiting = delivered(max_attempts=1)
    transitions.review(task_id=waiting.task_id, verdict="needs_rework", **ANNA)
    found = [
        make_job(),
        make_job(execution_approval_required=True),
        running().job,
        delivered(),
        escalated(),
        failed(),
        done.job,
        stopped,
        paused,
        approved,
        waiting,
    ]
    for row in found:
        row.refresh_from_db()
    return found


@pytest.fixture
def in_doubt(governed: Governed, make_job: Any) -> list[Job]:
    """Jobs with an execution that nobody has resolved: one in doubt, escalated, stopped each."""
    found = []
    for _ in range(3):
        one = make_job()
        governed.begin(one)
        found.append(one)
    lost, escalated, stopped = (
        {"task_id": row.task_id, "attempt": 1, "fencing_token": row.fencing_token} for row in found
    )
    transitions.fail(entry=governed.entry, **lost, error_message="Lost.")
    transitions.escalate(entry=governed.entry, **escalated, reason="Undecided.")
    transitions.stop(task_id=str(stopped["task_id"]), **ANNA)
    for row in found:
        row.refresh_from_db()
    assert [row.state for row in found] == ["in_doubt", "escalated", "stopped"]
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_forecast_is_what_the_verb_then_does(
    verb: str, jobs: list[Job], in_doubt: list[Job], django_assert_num_queries: Any
) -> None:
    forecast, move = VERBS[verb]
    with django_assert_num_queries(0):
        forecasts = [forecast(row) for row in (*jobs, *in_doubt)]

    for row, fault in zip((*jobs, *in_doubt), forecasts, strict=True):
        refusal = None
        try:
            with transaction.atomic():
                move(task_id=row.task_id, **ANNA)
                transaction.set_rollback(True)
        except DomainError as error:
            refusal = error
        assert (type(refusal), str(refusal)) == (type(fault), str(fault)), row.state

    assert None in forecasts and any(forecasts)
