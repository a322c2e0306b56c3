"""Functions as the work of jobs: what they are given, and what becomes of what they come to."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fencepost_worker import (
    AttemptOver,
    Defer,
    Escalate,
    Fail,
    ModelsUnavailable,
    Unusable,
    Worker,
)
from fencepost_worker.adapters.function import FunctionAdapter
from fencepost_worker.identity import sha256_hex
from tests.worker.conftest import PATIENCE_SECONDS

TYPE = "artifact_production"


def outcome(plane, worker, *, task_id="task-1"):
    """Run the worker on one job and return how the attempt ended."""
    plane.add_job(task_id, inputs={"pages": 3})
    worker.run(max_jobs=1)
    return plane.outcome_of(task_id)


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


# The context ------------------------------------------------------------------------------------


def test_progress_goes_with_the_heartbeats(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        ctx.progress({"step": "outline", "of": (1, 2)})
        plane.wait_for(lambda: any(b.get("progress") for b in beats(plane)))

    assert outcome(plane, worker)[0] == "complete"
    assert {"step": "outline", "of": [1, 2]} in [b.get("progress") for b in beats(plane)]


def beats(plane):
    return [beat for seen in plane.calls("/v1/leases/heartbeat") for beat in seen.body["leases"]]


def test_progress_that_cannot_be_sent_is_refused_with_its_place(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        with pytest.raises(ValueError, match="/step/0: a number that is not finite"):
            ctx.progress({"step": [float("inf")]})
        with pytest.raises(ValueError, match="a list and no dict"):
            ctx.progress([1])
        return {"refused": True}

    assert outcome(plane, worker)[1]["result"]["refused"] is True
    assert not any("progress" in beat for beat in beats(plane))


def test_facts_and_a_reflection_are_told_before_the_end(plane, worker):
    @worker.job(TYPE)
    async def work(job, ctx):
        ctx.fact("com.example.made", {"pages": 3}, fact_id="made-1")
        ctx.fact("com.example.read", {})
        ctx.reflect(what_worked="reading first", tool_sequence=["read"])
        ctx.ask_review()

    _, body = outcome(plane, worker)

    made, read = (seen.body for seen in plane.calls("/v1/facts$"))
    assert (made["fact_id"], made["data"]) == ("made-1", {"pages": 3})
    assert read["fact_id"].startswith("xr_") and read["fact_id"].endswith("-2")
    assert plane.calls("/reflections$")[0].body["what_worked"] == "reading first"
    assert body["needs_review"] is True


def test_a_fact_or_reflection_that_is_none_is_refused_where_it_is_made(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        ctx.fact("a", {}, fact_id="one")
        for wrong in (
            lambda: ctx.fact("no type", {}),
            lambda: ctx.fact("a", {}, fact_id="x" * 121),
            lambda: ctx.fact("a", {}, fact_id="one"),
            lambda: ctx.fact("a", {"n": float("nan")}),
            lambda: ctx.fact("a", {"n": "x" * 300_000}),
            lambda: ctx.reflect(lesson="none of its members"),
            lambda: ctx.reflect(what_worked="x" * 20_001),
        ):
            with pytest.raises(ValueError):
                wrong()
        return {"refused": True}

    assert outcome(plane, worker)[1]["result"]["refused"] is True
    assert len(plane.calls("/v1/facts$")) == 1
    assert not plane.calls("/reflections$")


@pytest.mark.parametrize("is_async", [False, True])
def test_an_artifact_is_confirmed_before_the_function_goes_on(plane, worker, tmp_path, is_async):
    path = tmp_path / "draft.txt"
    path.write_text("# A draft\n")
    seen = []

    def plain(job, ctx):
        seen.append(ctx.artifact("draft.md", path))
        seen.append([u["artifact_id"] for u in plane.uploads.values()])
        ctx.artifact("notes/raw.bin", b"\0\1", media_type="application/x-raw")

    async def awaited(job, ctx):
        seen.append(await ctx.artifact("draft.md", path))
        seen.append([u["artifact_id"] for u in plane.uploads.values()])
        await ctx.artifact("notes/raw.bin", b"\0\1", media_type="application/x-raw")

    worker.job(TYPE)(awaited if is_async else plain)

    verb, body = outcome(plane, worker)

    artifact, confirmed = seen
    assert verb == "complete"
    assert confirmed == [artifact.pointer.removeprefix("artifact:")]
    assert artifact.sha256 == sha256_hex(b"# A draft\n")
    assert artifact.media_type == "text/markdown"
    listed = body["result"]["artifacts"]
    assert [each["name"] for each in listed] == ["draft.md", "notes/raw.bin"]
    assert listed[0]["pointer"] == artifact.pointer
    assert len(plane.calls("/v1/uploads$")) == 2
    assert len(plane.objects) == 2


def test_an_artifact_that_the_store_did_not_take_is_tried_again_at_the_end(plane, worker):
    # The lease of one second is what an upload may take.
    plane.ttl_seconds = 1
    refuse = [lambda seen: (503, {})]
    plane.routes["/objects/"] = lambda seen: refuse[0](seen)[0:2]

    @worker.job(TYPE)
    def work(job, ctx):
        with pytest.raises(Exception, match="time for uploads"):
            ctx.artifact("a.txt", b"a")
        refuse[0] = lambda seen: (plane._put(seen), {})

    verb, body = outcome(plane, worker)

    assert verb == "complete"
    [artifact] = body["result"]["artifacts"]
    assert artifact["pointer"].startswith("artifact:")


def test_artifacts_that_are_none_are_refused(plane, worker, tmp_path):
    told = []

    @worker.job(TYPE)
    def work(job, ctx):
        ctx.artifact("a.txt", b"a")
        for name, content in (
            ("../a.txt", b"a"),
            ("/a.txt", b"a"),
            ("", b"a"),
            ("b.txt", tmp_path / "none"),
            ("b.txt", tmp_path),
            ("a.txt", b"another"),
        ):
            with pytest.raises(Exception) as refused:
                ctx.artifact(name, content)
            told.append(type(refused.value).__name__)
        assert ctx.artifact("a.txt", b"a").pointer.startswith("artifact:")

    verb, body = outcome(plane, worker)

    assert verb == "complete", body
    assert told == ["ArtifactRefused"] * 5 + ["ArtifactNamedTwice"]
    assert len(body["result"]["artifacts"]) == 1


def test_an_artifact_refused_ends_the_attempt_for_good(plane, worker):
    worker.job(TYPE)(lambda job, ctx: ctx.artifact("../a", b"a"))

    verb, body = outcome(plane, worker)

    assert (verb, body["error_code"], body["retryable"]) == ("fail", "ARTIFACT_REFUSED", False)


def test_without_uploads_artifacts_stay_in_the_data_folder(plane, options):
    worker = Worker(**options, no_uploads=True)
    worker.job(TYPE)(lambda job, ctx: {"pointer": ctx.artifact("a.txt", b"a").pointer})

    _, body = outcome(plane, worker)

    assert body["result"]["pointer"] == f"sha256:{sha256_hex(b'a')}"
    assert not plane.calls("/v1/uploads")


def test_a_child_process_gets_the_coordinates_and_no_secret(plane, worker, monkeypatch):
    monkeypatch.setenv("FENCEPOST_TOKEN", "fp_secret")
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    code = "import json, os; print(json.dumps(dict(os.environ)))"

    @worker.job(TYPE)
    def work(job, ctx):
        ran = subprocess.run(
            [sys.executable, "-c", code], env=ctx.environment, capture_output=True, check=True
        )
        return {"variables": json.loads(ran.stdout), "here": str(ctx.workspace)}

    _, body = outcome(plane, worker)

    variables = body["result"]["variables"]
    assert variables["FENCEPOST_TASK_ID"] == "task-1"
    assert variables["FENCEPOST_WORKSPACE"] == body["result"]["here"]
    assert variables.keys() & {"FENCEPOST_TOKEN", "SOME_KEY"} == set()
    assert not Path(body["result"]["here"]).exists()


def test_models_are_refused_in_plain_words_where_there_are_no_providers(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        with pytest.raises(ModelsUnavailable, match=r"no \[providers.NAME\]"):
            _ = ctx.model
        return {"refused": True}

    assert outcome(plane, worker)[1]["result"]["refused"] is True


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
