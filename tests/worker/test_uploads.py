"""What an attempt leaves beside its result: artifacts in the store, facts, a reflection."""

import signal
import threading

import pytest

from fencepost_worker.identity import canonical, sha256_hex
from fencepost_worker.uploads import stored_name

PATIENCE_SECONDS = 20
SESSION = {
    "session_id": "0190aaaa-0000-7000-8000-000000000001",
    "dispatcher_epoch": "0190eeee-0000-7000-8000-000000000001",
    "state": "current",
}
TEXT = "# A specification\n"
WRITES = f"""
folder = pathlib.Path(os.environ['FENCEPOST_ARTIFACTS'])
(folder / 'spec.md').write_text({TEXT!r})
"""
LISTS = "answer(artifacts=[{'name': 'spec.md', 'media_type': 'Text/Markdown; charset=utf-8'}])\n"
TELLS = """
answer(
    facts=[{'fact_id': 'f-1', 'type': 'com.example.published', 'data': {'pages': 3}}],
    reflection={'what_worked': 'reading first', 'tool_sequence': ['read', 'write']},
)
"""


@pytest.fixture
def writer(program):
    """A program that leaves one artifact."""
    return program(WRITES + LISTS)


def ends(plane):
    """Return the paths of the calls that the attempt ended with, in order."""
    reported = ("/v1/facts", "/reflections", "/complete", "/fail", "/escalate", "/objects/")
    return [seen.path for seen in plane.seen if any(part in seen.path for part in reported)]


def test_an_artifact_is_stored_before_its_job_is_completed(plane, start_worker, writer):
    plane.add_job("task-1")
    start_worker(writer, max_jobs=1).join()
    verb, body = plane.outcome_of("task-1")

    [(upload_id, upload)] = plane.uploads.items()
    assert verb == "complete"
    assert body["result"]["artifacts"] == [
        {
            "name": "spec.md",
            "media_type": "Text/Markdown; charset=utf-8",
            "size_bytes": len(TEXT),
            "sha256": sha256_hex(TEXT.encode()),
            "pointer": f"artifact:{upload['artifact_id']}",
        }
    ]
    [grant] = plane.calls("/v1/uploads$")
    assert grant.body == {
        "task_id": "task-1",
        "attempt": 1,
        "fencing_token": 1,
        "name": "spec.md",
        "media_type": "text/markdown",
        "size_bytes": len(TEXT),
        "sha256": sha256_hex(TEXT.encode()),
    }
    assert plane.objects == {upload_id: TEXT.encode()}
    assert ends(plane) == [
        f"/objects/{upload_id}",
        f"/v1/uploads/{upload_id}/complete",
        "/v1/jobs/task-1/complete",
    ]


def test_the_store_is_sent_the_granted_headers_and_no_others(plane, start_worker, writer):
    plane.add_job("task-1")
    start_worker(writer, max_jobs=1).join()

    [put] = plane.calls("/objects/")
    assert put.method == "PUT"
    assert put.headers.pop("host")
    assert put.headers == {
        "content-length": str(len(TEXT)),
        "content-type": "text/markdown",
        "if-none-match": "*",
    }


def test_a_grant_that_gives_no_address_any_more_is_asked_for_anew(plane, start_worker, writer):
    """So it is answered again after a restart, when its time or its attempt is over."""

    def without_an_address(seen):
        del plane.routes["/uploads$"]
        status, body = plane._upload(seen)
        return status, body | {"url": None, "headers": {}}

    plane.routes["/uploads$"] = without_an_address
    plane.add_job("task-1")
    start_worker(writer, max_jobs=1).join()

    assert plane.outcome_of("task-1")[0] == "complete"
    keys = [seen.headers["idempotency-key"] for seen in plane.calls("/uploads$")]
    assert len(set(keys)) == len(keys) == 2
    assert len(plane.objects) == len(plane.calls("/objects/")) == 1


def test_an_empty_artifact_is_stored_too(plane, start_worker, program):
    plane.add_job("task-1")
    empty = "(folder / 'none').write_bytes(b'')\nanswer(artifacts=[{'name': 'none'}])\n"
    start_worker(program(WRITES + empty), max_jobs=1).join()

    assert plane.outcome_of("task-1")[0] == "complete"
    assert list(plane.objects.values()) == [b""]


def test_without_uploads_artifacts_stay_in_the_data_folder(plane, start_worker, writer):
    plane.add_job("task-1")
    running = start_worker(writer, uploads=False, max_jobs=1)
    running.join()
    verb, body = plane.outcome_of("task-1")

    [artifact] = body["result"]["artifacts"]
    assert (verb, artifact["pointer"]) == ("complete", f"sha256:{artifact['sha256']}")
    assert not plane.calls("/v1/uploads")
    kept = running.data / "artifacts/sha256" / artifact["sha256"][:2] / artifact["sha256"]
    assert kept.read_text() == TEXT


@pytest.mark.parametrize("options", [(), ("--cell-id", "cell-1", "--no-uploads")])
def test_a_worker_without_a_session_or_told_not_to_asks_for_no_grant(
    plane, spawn_worker, writer, options
):
    plane.routes["/activate$"] = lambda seen: (200, SESSION)
    plane.add_job("task-1")
    worker = spawn_worker(writer, *options, "--once")
    verb, body = plane.outcome_of("task-1")
    assert worker.wait(PATIENCE_SECONDS) == 0

    [artifact] = body["result"]["artifacts"]
    assert (verb, artifact["pointer"]) == ("complete", f"sha256:{artifact['sha256']}")
    assert not plane.calls("/v1/uploads")


@pytest.mark.parametrize(
    "fault",
    [
        {"path": "/v1/uploads$", "applied": True},
        {"path": "/objects/"},
        {"path": "/objects/", "applied": True},
        {"path": "/objects/", "status": 503},
        {"path": "/v1/uploads/.*/complete", "applied": True},
        {"path": "/v1/uploads/.*/complete", "status": 503},
    ],
)
def test_an_upload_that_got_no_answer_is_tried_again(plane, start_worker, writer, fault):
    plane.add_job("task-1")
    plane.fail_next(**fault)
    start_worker(writer, max_jobs=1).join()
    verb, body = plane.outcome_of("task-1")

    [upload] = plane.uploads.values()
    [artifact] = body["result"]["artifacts"]
    assert (verb, artifact["pointer"]) == ("complete", f"artifact:{upload['artifact_id']}")


def test_a_grant_that_the_store_turns_down_is_asked_for_anew(plane, start_worker, writer):
    plane.add_job("task-1")
    plane.fail_next("/objects/", status=403)
    start_worker(writer, max_jobs=1).join()

    assert plane.outcome_of("task-1")[0] == "complete"
    assert [u["artifact_id"] is None for u in plane.uploads.values()] == [True, False]


def test_a_store_that_takes_nothing_fails_the_attempt_for_another_try(plane, start_worker, writer):
    plane.add_job("task-1")
    for _ in range(3):
        plane.fail_next("/objects/", status=403)
    start_worker(writer, max_jobs=1).join()
    verb, body = plane.outcome_of("task-1")

    assert (verb, body["error_code"], body["retryable"]) == ("fail", "UPLOAD_FAILED", True)
    assert len(plane.uploads) == 3


def test_a_store_that_never_answers_is_tried_for_one_lease_only(plane, start_worker, writer):
    plane.ttl_seconds = 1
    plane.routes["/v1/uploads$"] = lambda seen: (503, {})
    plane.add_job("task-1")
    start_worker(writer, max_jobs=1).join()
    verb, body = plane.outcome_of("task-1")

    assert (verb, body["error_code"], body["retryable"]) == ("fail", "UPLOAD_FAILED", True)
    assert len({seen.headers["idempotency-key"] for seen in plane.calls("/v1/uploads$")}) == 1


def test_an_attempt_that_lost_its_job_while_uploading_ends_nothing(plane, start_worker, writer):
    plane.add_job("task-1")
    lost = {"code": "ABORTED", "reason": "STALE_FENCING_TOKEN", "retry": {"rule": "refresh"}}

    def refuse(seen):
        plane.jobs["task-1"] |= {"state": "completed", "fencing_token": 9}
        return 409, lost

    plane.routes["/v1/uploads$"] = refuse
    running = start_worker(writer, max_jobs=1)
    running.join()

    assert plane.outcomes == {}
    assert plane.objects == {}
    assert not list((running.data / "journal").rglob("claim.json"))


@pytest.mark.parametrize("point", ["/v1/uploads$", "/objects/", "/v1/uploads/.*/complete"])
def test_a_worker_killed_while_uploading_leaves_one_artifact(plane, spawn_worker, writer, point):
    plane.add_job("task-1")
    hold = threading.Event()
    reached = []

    def answer_late(seen):
        # The request has its effect, and the worker never hears of it.
        answer = {
            "/v1/uploads$": lambda: plane._upload(seen),
            "/objects/": lambda: (plane._put(seen), {}),
            "/v1/uploads/.*/complete": lambda: plane._accept(seen),
        }[point]()
        reached.append(point)
        with plane.changed:
            plane.changed.notify_all()
        hold.wait(PATIENCE_SECONDS)
        return answer

    plane.routes[point] = answer_late
    plane.routes["/activate$"] = lambda seen: (200, SESSION)
    first = spawn_worker(writer, "--cell-id", "cell-1")
    plane.wait_for(lambda: reached)
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE_SECONDS)
    del plane.routes[point]
    hold.set()

    second = spawn_worker(writer, "--cell-id", "cell-1", "--once")
    verb, body = plane.outcome_of("task-1")
    assert second.wait(PATIENCE_SECONDS) == 0

    [upload] = plane.uploads.values()
    [artifact] = body["result"]["artifacts"]
    assert (verb, artifact["pointer"]) == ("complete", f"artifact:{upload['artifact_id']}")
    assert list(plane.objects.values()) == [TEXT.encode()]
    assert len(plane.calls("/objects/")) == 1, "what is stored is not sent again"


def test_a_worker_stopped_while_uploading_goes_on_at_its_next_start(plane, start_worker, writer):
    plane.add_job("task-1")
    plane.routes["/v1/uploads$"] = lambda seen: (503, {})
    running = start_worker(writer)
    plane.wait_for(lambda: plane.calls("/v1/uploads$"))
    running.worker.abort()
    running.join()
    assert plane.outcomes == {}
    del plane.routes["/v1/uploads$"]

    start_worker(writer, until_empty=True).join()

    assert plane.outcome_of("task-1")[0] == "complete"
    assert plane.jobs["task-1"]["attempt"] == 1


@pytest.mark.parametrize(
    ("name", "stored"),
    [("a.md", "a.md"), ("a/b.md", "a-b.md"), ("a\\b", "a-b"), ("a\nb", "a_b")],
)
def test_the_store_knows_an_artifact_by_a_name_without_a_folder(name, stored):
    assert stored_name(name) == stored


def test_facts_and_reflection_are_told_before_the_end(plane, start_worker, program):
    plane.add_job("task-1")
    start_worker(program(TELLS), max_jobs=1).join()

    authority = {"attempt": 1, "fencing_token": 1}
    assert ends(plane) == ["/v1/facts", "/v1/jobs/task-1/reflections", "/v1/jobs/task-1/complete"]
    [fact], [reflection] = plane.calls("/v1/facts"), plane.calls("/reflections")
    assert fact.body == {
        "fact_id": "f-1",
        "type": "com.example.published",
        "data": {"pages": 3},
        "content_sha256": sha256_hex(canonical({"pages": 3})),
        "subject": {"task_id": "task-1", "worker_id": "hermes@test"} | authority,
    }
    assert reflection.body == authority | {
        "worker_id": "hermes@test",
        "what_worked": "reading first",
        "tool_sequence": ["read", "write"],
    }


@pytest.mark.parametrize("lost", ["/v1/facts", "/reflections"])
def test_a_fact_or_reflection_without_an_answer_is_told_again_with_its_key(
    plane, start_worker, program, lost
):
    plane.add_job("task-1")
    plane.fail_next(lost, applied=True)
    start_worker(program(TELLS), max_jobs=1).join()

    first, second = plane.calls(lost)
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body
    assert plane.outcome_of("task-1")[0] == "complete"


def test_a_refused_fact_does_not_keep_the_job_from_its_end(plane, start_worker, program):
    plane.add_job("task-1")
    conflict = {"code": "ABORTED", "reason": "FACT_DIGEST_CONFLICT", "retry": {"rule": "refresh"}}
    plane.fail_next("/v1/facts", status=409, body=conflict)
    start_worker(program(TELLS), max_jobs=1).join()

    assert plane.outcome_of("task-1")[0] == "complete"
    assert len(plane.calls("/v1/facts")) == 1


def test_a_failed_attempt_tells_what_it_learnt(plane, start_worker, program):
    plane.add_job("task-1")
    source = "answer('failed', error_code='E', reflection={'what_failed': 'all of it'})\n"
    start_worker(program(source), max_jobs=1).join()

    assert ends(plane) == ["/v1/jobs/task-1/reflections", "/v1/jobs/task-1/fail"]
    assert plane.outcome_of("task-1")[1]["error_code"] == "E"
