"""The context of a function: what it tells, delivers and is given beside its job."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost_worker import Defer, Fail, ModelsUnavailable, Worker
from fencepost_worker.identity import sha256_hex
from tests.worker.functions.conftest import TYPE, beats, outcome


def test_progress_goes_with_the_heartbeats(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        ctx.progress({"step": "outline", "of": (1, 2)})
        plane.wait_for(lambda: any(b.get("progress") for b in beats(plane)))

    assert outcome(plane, worker)[0] == "complete"
    assert {"step": "outline", "of": [1, 2]} in [b.get("progress") for b in beats(plane)]


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
@pytest.mark.parametrize("fails", [False, True])
def test_how_a_skill_served_is_told_at_the_end(plane, worker, is_async, fails):
    def work(job, ctx):
        [skill] = job.skills
        ctx.rate_skill(skill, success=not fails, note="as it says")
        ctx.rate_skill(12, success=True)
        ctx.rate_skill(12, success=False)
        if fails:
            raise Fail("no header", code="E1", retryable=False)

    async def awaited(job, ctx):
        work(job, ctx)

    worker.job(TYPE)(awaited if is_async else work)
    plane.routes["/v1/hermes/skills/7/"] = lambda seen: (200, {"outcome": "rated"})
    plane.routes["/v1/hermes/skills/12/"] = lambda seen: (404, {})
    plane.routes["/v1/hermes/skills"] = plane.routes.pop("/v1/hermes/skills")

    # One that is gone holds up nothing.
    assert outcome(plane, worker)[0] == ("fail" if fails else "complete")

    told = [(seen.path.split("/")[4], seen.body) for seen in plane.calls("/feedback$")]
    worker_id = plane.calls("/v1/claims")[0].body["worker_id"]
    assert told == [
        ("7", {"success": not fails, "note": "as it says", "worker_id": worker_id}),
        ("12", {"success": False, "worker_id": worker_id}),
    ]
    keys = {seen.headers["idempotency-key"] for seen in plane.calls("/feedback$")}
    assert len(keys) == 2


def test_feedback_that_is_none_is_refused_where_it_is_given(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        for skill, over in (
            (0, {}), ("7", {}), (True, {}), (7, {"note": "x" * 2001}), (7, {"success": "yes"}),
        ):  # fmt: skip
            with pytest.raises(ValueError):
                ctx.rate_skill(skill, **{"success": True} | over)
        raise Defer("later", retry_after=1)

    assert outcome(plane, worker)[0] == "defer"
    assert not plane.calls("/feedback$")


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
