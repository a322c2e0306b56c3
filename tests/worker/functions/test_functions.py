"""Functions as the work of jobs: what they are given, and what becomes of what they come to."""

import asyncio
import json
import threading

import pytest

from fencepost_worker import (
    AttemptOver,
    Defer,
    Escalate,
    Fail,
    Unusable,
    Worker,
)
from fencepost_worker.adapters.function import FunctionAdapter
from tests.worker.conftest import PATIENCE_SECONDS
from tests.worker.functions.conftest import TYPE, beats, outcome


def test_a_plain_function_completes_its_job(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        return {"task": job.task_id, "pages": job.inputs["pages"], "attempt": job.attempt}

    verb, body = outcome(plane, worker)

    assert verb == "complete"
    assert body["result"] == {"task": "task-1", "pages": 3, "attempt": 1, "artifacts": []}


def test_an_async_function_completes_its_job(plane, worker):
    @worker.job(TYPE)
    async def work(job, ctx):
        await asyncio.sleep(0)
        return {"title": job.title}

    verb, body = outcome(plane, worker)

    assert (verb, body["result"]["title"]) == ("complete", "A title of some length")


def test_an_object_with_an_async_call_is_awaited(plane, worker):
    class Work:
        async def __call__(self, job, ctx):
            return {"awaited": True}

    worker.job(TYPE)(Work())

    assert outcome(plane, worker)[1]["result"]["awaited"] is True


def test_a_function_that_returns_nothing_has_delivered(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        return None

    verb, body = outcome(plane, worker)

    assert (verb, body["result"]) == ("complete", {"artifacts": []})


def test_only_registered_types_are_asked_for(plane, worker):
    worker.job(TYPE)(lambda job, ctx: {})
    worker.job("summary")(lambda job, ctx: {})

    outcome(plane, worker)

    [claim] = {json.dumps(seen.body["task_types"]) for seen in plane.calls("/v1/claims")}
    assert json.loads(claim) == [TYPE, "summary"]
    assert {seen.body["runtime"] for seen in plane.calls("/v1/claims")} == {"function"}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"summary": [{"tags": {1, 2}}]}, "/summary/0/tags: a set, which JSON does not have"),
        ({"n": float("nan")}, "/n: a number that is not finite"),
        ({"n": 2**60}, f"/n: an integer beyond {2**53 - 1} (2^53-1), {2**60}"),
        ({"a": {3: "x"}}, "/a: a key that is a int and no text"),
        ([1, 2], "a list and no dict"),
    ],
)
def test_a_result_that_is_no_json_fails_with_its_place(plane, worker, value, told):
    worker.job(TYPE)(lambda job, ctx: value)

    verb, body = outcome(plane, worker)

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("RESULT_INVALID", False)
    assert told in body["error_message"]


def test_a_result_too_large_for_a_request_is_an_artifact(plane, worker):
    worker.job(TYPE)(lambda job, ctx: {"text": "x" * 1_100_000})

    verb, body = outcome(plane, worker)

    assert verb == "complete"
    assert [a["name"] for a in body["result"]["artifacts"]] == ["result.json"]
    assert "result.json" in body["result"]["delivery_faults"][0]["detail"]
    assert len(plane.objects) == 1


def test_a_large_result_takes_no_name_of_another_artifact(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        ctx.artifact("result.json", b"mine")
        return {"text": "x" * 1_100_000}

    verb, body = outcome(plane, worker)

    assert verb == "complete"
    assert [a["name"] for a in body["result"]["artifacts"]] == ["result.json", "result-2.json"]
    contents = {plane.uploads[k]["name"]: v for k, v in plane.objects.items()}
    assert contents["result.json"] == b"mine"
    assert len(contents["result-2.json"]) > 1_100_000


def test_an_exception_fails_the_attempt_with_the_place_in_the_function(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        raise KeyError("heading")

    verb, body = outcome(plane, worker)

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("FUNCTION_RAISED", True)
    assert body["error_message"].endswith("KeyError: 'heading'")
    assert 'raise KeyError("heading")' in body["error_message"]
    assert "fencepost_worker" not in body["error_message"]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_cannot_end_the_worker(plane, worker, error, is_async):
    def plain(job, ctx):
        raise error

    async def awaited(job, ctx):
        raise error

    worker.job(TYPE)(awaited if is_async else plain)

    verb, body = outcome(plane, worker)

    assert (verb, body["error_code"]) == ("fail", "FUNCTION_RAISED")


def test_fail_says_why_and_whether_to_try_again(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        raise Fail("no such customer", code="NO_CUSTOMER", retryable=False)

    verb, body = outcome(plane, worker)

    assert verb == "fail"
    assert body["error_code"] == "NO_CUSTOMER"
    assert body["error_message"] == "no such customer"
    assert body["retryable"] is False


def test_defer_gives_the_job_back_for_the_asked_time(plane, worker):
    @worker.job(TYPE)
    async def work(job, ctx):
        raise Defer("the index is being built", retry_after=600)

    verb, body = outcome(plane, worker)

    assert verb == "defer"
    assert body["retry_after_seconds"] == 600
    assert "the index is being built" in body["reason"]


def test_deferring_again_and_again_does_not_end_the_asking(plane, worker):
    """Equal refusals of others end it after five."""

    @worker.job(TYPE)
    def work(job, ctx):
        raise Defer(retry_after=1)

    for number in range(7):
        plane.add_job(f"task-{number}")
    worker.run(max_jobs=7)

    assert {verb for verb, _ in plane.outcomes.values()} == {"defer"}
    assert len(plane.outcomes) == 7
    assert not any((seen.body or {}).get("not_asking") for seen in plane.calls("/heartbeat$"))


def test_escalate_asks_a_person(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        ctx.fact("com.example.read", {"pages": 3})
        raise Escalate("two owners claim it", notify_to="ops")

    verb, body = outcome(plane, worker)

    assert verb == "escalate"
    assert (body["reason"], body["notify_to"]) == ("two owners claim it", "ops")
    assert len(plane.calls("/v1/facts$")) == 1


def test_the_answer_of_a_person_is_the_jobs(plane, worker):
    grant = plane._grant
    story = [{"attempt": 1, "outcome": "escalated", "answer": "the second one"}]
    plane._grant = lambda job: grant(job) | {"story": story, "rework": {"reason": "shorter"}}
    worker.job(TYPE)(lambda job, ctx: {"answer": job.answer, "rework": job.rework["reason"]})

    _, body = outcome(plane, worker)

    assert (body["result"]["answer"], body["result"]["rework"]) == ("the second one", "shorter")


def test_a_job_has_the_skills_of_its_type(plane, worker):
    worker.job(TYPE)(lambda job, ctx: {"skills": [skill.pattern for skill in job.skills]})

    _, body = outcome(plane, worker)

    assert body["result"]["skills"] == ["read the header first"]
    [asked] = plane.calls("/v1/hermes/skills")
    assert f"task_type={TYPE}" in asked.path


def test_a_job_is_done_without_skills_that_cannot_be_read(plane, worker):
    plane.routes["/v1/hermes/skills"] = lambda seen: (503, {})
    worker.job(TYPE)(lambda job, ctx: {"skills": list(job.skills)})

    assert outcome(plane, worker)[1]["result"]["skills"] == []


# The end of an attempt --------------------------------------------------------------------------


def test_an_async_function_is_cancelled_when_the_attempt_is_stopped(plane, worker, running):
    ended = []

    @worker.job(TYPE)
    async def work(job, ctx):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(ctx.over)

    plane.add_job("task-1")
    thread = running(worker, max_jobs=1)
    plane.wait_for(lambda: beats(plane))
    plane.controls["task-1"] = "stop"
    thread.join(PATIENCE_SECONDS)

    assert ended == [True]
    assert not plane.outcomes


def test_a_plain_function_ends_at_its_next_word_to_the_context(plane, worker, running):
    ended, began = [], threading.Event()

    @worker.job(TYPE)
    def work(job, ctx):
        began.set()
        try:
            while True:
                ctx.progress({"at": 1})
                ctx.check()
        except Exception:
            ended.append("an exception")
        except AttemptOver:
            ended.append("over")
            raise

    plane.add_job("task-1")
    thread = running(worker, max_jobs=1)
    assert began.wait(PATIENCE_SECONDS)
    plane.controls["task-1"] = "stop"
    thread.join(PATIENCE_SECONDS)

    assert ended == ["over"]
    assert not plane.outcomes


@pytest.mark.parametrize("is_async", [False, True])
def test_a_paused_job_waits_at_check(plane, worker, running, is_async):
    began, passed = threading.Event(), threading.Event()

    def plain(job, ctx):
        ctx._place.lease.wait(lambda: ctx.paused)
        began.set()
        ctx.check()
        passed.set()

    async def awaited(job, ctx):
        while not ctx.paused:
            await asyncio.sleep(0.01)
        began.set()
        await ctx.check()
        passed.set()

    worker.job(TYPE)(awaited if is_async else plain)
    plane.add_job("task-1")
    running(worker, max_jobs=1)
    plane.wait_for(lambda: beats(plane))
    plane.controls["task-1"] = "pause"
    assert began.wait(PATIENCE_SECONDS)
    count = len(beats(plane))
    plane.wait_for(lambda: len(beats(plane)) > count + 2)

    assert not passed.is_set()
    plane.controls["task-1"] = "continue"
    assert passed.wait(PATIENCE_SECONDS)
    assert plane.outcome_of("task-1")[0] == "complete"


def test_draining_finishes_what_runs_and_takes_no_more(plane, worker, running):
    began, go = threading.Event(), threading.Event()

    @worker.job(TYPE)
    def work(job, ctx):
        began.set()
        assert go.wait(PATIENCE_SECONDS)
        return {"finished": True}

    plane.add_job("task-1")
    thread = running(worker)
    assert began.wait(PATIENCE_SECONDS)
    worker.drain()
    plane.add_job("task-2")
    go.set()
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert plane.outcome_of("task-1")[1]["result"]["finished"] is True
    assert plane.jobs["task-2"]["state"] == "queued"


def test_a_function_that_does_not_end_does_not_keep_the_worker(plane, worker, running, monkeypatch):
    monkeypatch.setitem(FunctionAdapter.__init__.__kwdefaults__, "stop_grace_s", 0.1)
    began, never = threading.Event(), threading.Event()

    @worker.job(TYPE)
    def work(job, ctx):
        began.set()
        never.wait()

    plane.add_job("task-1")
    thread = running(worker)
    assert began.wait(PATIENCE_SECONDS)
    worker.abort()
    thread.join(PATIENCE_SECONDS)
    never.set()

    assert not thread.is_alive()
    assert plane.jobs["task-1"]["state"] in ("active", "retry_later")


def test_jobs_run_beside_each_other(plane, worker):
    met = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    tasks = []

    @worker.job(TYPE)
    def work(job, ctx):
        met.wait()

    @worker.job("summary")
    async def awaited(job, ctx):
        tasks.append(asyncio.get_running_loop())
        while len(tasks) < 2:
            await asyncio.sleep(0.01)

    for number in range(2):
        plane.add_job(f"task-{number}")
        plane.add_job(f"summary-{number}", task_type="summary")
    worker.run(concurrency=4, max_jobs=4)

    assert [verb for verb, _ in plane.outcomes.values()] == ["complete"] * 4
    assert tasks[0] is tasks[1], "async functions share clients, and so a loop"


# The worker -------------------------------------------------------------------------------------


def test_nothing_is_needed_before_it_runs():
    worker = Worker()

    @worker.job("summary")
    def summary(job, ctx):
        return {}

    assert summary(None, None) == {}
    with pytest.raises(Unusable, match="--url is needed"):
        worker.run()


def test_options_come_from_the_environment(plane, options, monkeypatch):
    for name in ("url", "agent", "token", "data"):
        monkeypatch.setenv(f"FENCEPOST_{name.upper()}", str(options[name]))
    worker = Worker.from_env()
    worker.job(TYPE)(lambda job, ctx: {"from": "env"})

    assert outcome(plane, worker)[1]["result"]["from"] == "env"


def test_a_worker_without_functions_does_not_run(worker):
    with pytest.raises(Unusable, match="no function"):
        worker.run()


def test_a_type_has_one_function(worker):
    worker.job("summary")(lambda job, ctx: {})
    with pytest.raises(ValueError, match="already"):
        worker.job("summary")(lambda job, ctx: {})
    with pytest.raises(ValueError, match="no type"):
        worker.job("a,b")(lambda job, ctx: {})


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="cells"):
        Worker(cells="x")


def test_a_data_folder_is_one_workers(plane, worker, options, running):
    worker.job(TYPE)(lambda job, ctx: {})
    running(worker)
    plane.wait_for(lambda: plane.calls("/v1/claims"))

    second = Worker(**options)
    second.job(TYPE)(lambda job, ctx: {})
    with pytest.raises(Unusable):
        second.run()
