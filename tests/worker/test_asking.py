"""A worker asks for what it can serve, gives back what it cannot, and says what it leaves out."""

import json

import pytest

from tests.worker.conftest import problem

SUCCEED = "answer(result={'done': True})\n"


def type_row(name, model_use="none"):
    return {"task_type": name, "model_use": model_use, "effects": "external"}


def said_of(plane):
    """Return what presence said last of what is not asked for."""
    beats = plane.calls("/v1/agents/hermes/heartbeat$")
    return [row["task_type"] for row in beats[-1].body.get("not_asking", [])] if beats else []


def test_what_needs_a_model_is_left_to_others_and_said(plane, start_worker, program):
    plane.job_types = [type_row("needy", "required"), type_row("plain")]
    plane.add_job("task-1")
    running = start_worker(program(SUCCEED), max_jobs=1)
    plane.outcome_of("task-1")
    plane.wait_for(lambda: said_of(plane) == ["needy"])
    running.join()

    assert plane.calls("/v1/claims$")[0].body["task_types"] == ["plain"]
    [beat, *_] = plane.calls("/v1/agents/hermes/heartbeat$")
    assert beat.body["worker_ids"] == ["hermes@test"]


def test_a_worker_that_can_serve_nothing_claims_nothing(plane, start_worker, program):
    plane.job_types = [type_row("needy", "required")]
    plane.add_job("task-1")
    running = start_worker(program(SUCCEED), until_empty=True)
    running.join()

    assert not plane.calls("/v1/claims$")


def test_a_job_that_came_all_the_same_is_given_back(plane, start_worker, program, tmp_path):
    ran = tmp_path / "ran"
    plane.add_job("task-1")
    grant = plane._grant
    plane._grant = lambda job: grant(job) | {"model_use": "required", "effects": "external"}
    running = start_worker(program(f"open({str(ran)!r}, 'w')\n" + SUCCEED), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "defer"
    assert body["reason"] == "NOT_SERVED_HERE: this worker has no providers of models"
    assert not ran.exists()


@pytest.mark.parametrize("command", ["allowed", "none"])
def test_work_that_may_call_a_model_and_need_not_is_done_without(
    plane, start_worker, program, command
):
    plane.job_types = [type_row("artifact_production", command)]
    plane.add_job("task-1")
    running = start_worker(program("answer(result={'env': sorted(os.environ)})\n"), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"
    assert "OPENAI_BASE_URL" not in json.dumps(body)
    assert "task_types" not in plane.calls("/v1/claims$")[0].body


def test_after_equal_refusals_in_a_row_the_type_is_not_asked_for(plane, spawn_worker, program):
    plane.job_types = [type_row("artifact_production"), type_row("plain")]
    for number in range(4):
        plane.add_job(f"task-{number}")
    refusal = problem(403, "PERMISSION_DENIED", "LIVE_EXECUTION_NOT_AUTHORIZED", "stop")
    plane.routes["/executions/permits$"] = lambda seen: (403, refusal)
    plane.routes["/activate$"] = lambda seen: (
        200,
        {"session_id": "s", "dispatcher_epoch": "e", "state": "current"},
    )
    spawn_worker(program(SUCCEED), "--governed", "--refusals-max", "2")
    plane.wait_for(lambda: said_of(plane) == ["artifact_production"])
    # Once it is asked again, the other type alone is.
    plane.wait_for(lambda: plane.calls("/v1/claims$")[-1].body.get("task_types") == ["plain"])

    [row] = plane.calls("/v1/agents/hermes/heartbeat$")[-1].body["not_asking"]
    assert row["reason"].startswith("LIVE_EXECUTION_NOT_AUTHORIZED")
    given_back = {task for (task, _, _), (verb, _) in plane.outcomes.items() if verb == "defer"}
    assert len(given_back) >= 2
    assert not [verb for verb, _ in plane.outcomes.values() if verb == "fail"]
