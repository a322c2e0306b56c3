"""The worker over a real HTTP connection: claims, runs, reports, obeys."""

import hashlib
import json
import threading
from pathlib import Path

import pytest

from fencepost_worker import loop
from fencepost_worker.loop import NotAuthorized

SUCCEED = "answer(result={'text': 'done'})\n"
WAIT = "pathlib.Path('started').touch(); time.sleep(60)\n"


def refusal(status, code, reason, rule, after_seconds=None):
    retry = {"rule": rule, "after_seconds": after_seconds}
    return {"status": status, "code": code, "reason": reason, "retry": retry, "effect": "none"}


def files_of(running):
    return [path for path in running.data.rglob("*") if path.is_file()]


def test_a_claimed_job_is_run_and_its_result_completes_it(plane, start_worker, program):
    plane.add_job("task-1", inputs={"n": 1})
    running = start_worker(program("answer(result={'got': request['inputs']})\n"), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"
    assert body == {
        "worker_id": "hermes@test",
        "attempt": 1,
        "fencing_token": 1,
        "result": {"got": {"n": 1}, "artifacts": []},
        "needs_review": False,
    }
    assert not list((running.data / "journal").rglob("*.json"))


def test_inputs_are_taken_from_the_envelope_and_not_asked_for_beside_it(
    plane, start_worker, program
):
    plane.add_job("task-1", inputs={"n": 1})
    running = start_worker(program("answer(result=request['inputs'])"), max_jobs=1)
    _, body = plane.outcome_of("task-1")
    running.join()

    assert body["result"]["n"] == 1
    assert {call.body["include_inputs"] for call in plane.calls("/claims")} == {False}


def test_artifacts_are_kept_by_checksum_and_described_without_a_path(plane, start_worker, program):
    plane.add_job("task-1")
    running = start_worker(
        program(
            "folder = pathlib.Path(os.environ['FENCEPOST_ARTIFACTS'])\n"
            "(folder / 'spec.md').write_text('# Spec')\n"
            "answer(artifacts=[{'name': 'spec.md', 'media_type': 'text/markdown'}])\n"
        ),
        uploads=False,
        max_jobs=1,
    )
    _, body = plane.outcome_of("task-1")
    running.join()

    sha256 = hashlib.sha256(b"# Spec").hexdigest()
    described = {
        "name": "spec.md",
        "media_type": "text/markdown",
        "size_bytes": 6,
        "sha256": sha256,
        "pointer": f"sha256:{sha256}",
    }
    assert body["result"] == {"artifacts": [described]}
    kept = running.data / "artifacts" / "sha256" / sha256[:2] / sha256
    assert kept.read_text() == "# Spec"
    assert str(running.data) not in json.dumps(body)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "link", "folder", "missing"])
def test_an_artifact_outside_the_workspace_fails_the_attempt(plane, start_worker, program, name):
    plane.add_job("task-1")
    source = (
        "folder = pathlib.Path(os.environ['FENCEPOST_ARTIFACTS'])\n"
        "(folder / 'folder').mkdir(); os.symlink('/etc/passwd', folder / 'link')\n"
        f"answer(artifacts=[{{'name': {name!r}}}])\n"
    )
    running = start_worker(program(source), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("ARTIFACT_REFUSED", False)
    assert not [path for path in (running.data / "artifacts").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("source", "code", "retryable"),
    [
        ("sys.stderr.write('out of paper'); sys.exit(3)\n", "PROGRAM_EXIT_3", True),
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", "PROGRAM_SIGNAL_11", True),
        ("print('not json')\n", "RESULT_INVALID", False),
        ("answer(); answer()\n", "RESULT_INVALID", False),
        ("answer(surprise=1)\n", "RESULT_INVALID", False),
        ("answer(artifacts=[{'name': ''}])\n", "RESULT_INVALID", False),
        ("answer(attempt=True)\n", "RESULT_NOT_BOUND", False),
        ("answer(attempt='1')\n", "RESULT_NOT_BOUND", False),
        ("answer(attempt=2)\n", "RESULT_NOT_BOUND", False),
        ("answer(execution_digest='0' * 64)\n", "RESULT_NOT_BOUND", False),
        ("answer('failed', error_code='E1', error_message='no', retryable=True)\n", "E1", True),
        ("sys.stdout.write('x' * 9_000_000)\n", "OUTPUT_TOO_LARGE", False),
    ],
)
def test_what_is_not_a_result_fails_the_attempt(
    plane, start_worker, program, source, code, retryable
):
    plane.add_job("task-1")
    running = start_worker(program(source), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == (code, retryable)


def test_a_failure_tells_the_end_of_standard_error(plane, start_worker, program):
    plane.add_job("task-1")
    source = "sys.stderr.write('x' * 100_000 + 'the reason'); sys.exit(1)\n"
    running = start_worker(program(source), max_jobs=1)
    _, body = plane.outcome_of("task-1")
    running.join()

    assert body["error_message"].endswith("xthe reason")
    assert len(body["error_message"]) <= 4000


def test_an_escalation_is_told_as_one(plane, start_worker, program):
    plane.add_job("task-1")
    source = "answer(escalate={'reason': 'two owners', 'notify_to': 'ops'})\n"
    running = start_worker(program(source), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "escalate"
    assert (body["reason"], body["notify_to"]) == ("two owners", "ops")


def test_the_program_sees_no_secret_of_the_worker(plane, start_worker, program, monkeypatch):
    monkeypatch.setenv("FENCEPOST_TOKEN", "fp_secret")
    plane.add_job("task-1")
    running = start_worker(program("answer(result={'env': dict(os.environ)})\n"), max_jobs=1)
    _, body = plane.outcome_of("task-1")
    running.join()

    assert "fp_secret" not in json.dumps(body)


@pytest.mark.parametrize("lost", ["/claims", "/complete"])
def test_a_lost_answer_is_asked_for_again_with_the_same_identity(
    plane, start_worker, program, lost
):
    plane.add_job("task-1")
    plane.fail_next(lost, applied=True)
    running = start_worker(program(SUCCEED), max_jobs=1)
    plane.outcome_of("task-1")
    running.join()

    first, second = plane.calls(lost)[:2]
    assert first.body == second.body
    assert first.headers.get("idempotency-key") == second.headers.get("idempotency-key")
    assert len(plane.outcomes) == 1
    assert plane.jobs["task-1"]["attempt"] == 1


def test_a_tampered_envelope_is_refused_and_nothing_runs(plane, start_worker, program):
    job = plane.add_job("task-1")
    job["envelope"]["signatures"][0]["sig"] = job["envelope"]["signatures"][0]["sig"][::-1]
    running = start_worker(program(SUCCEED), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("ENVELOPE_UNVERIFIED", False)
    assert not list((running.data / "exchange").iterdir())


def test_a_stop_kills_the_program_and_reports_nothing(plane, start_worker, program):
    plane.add_job("task-1")
    running = start_worker(program(WAIT), max_jobs=1)
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    plane.controls["task-1"] = "stop"
    running.join()

    assert plane.outcomes == {}
    assert not plane.calls("/fail")


def test_a_superseded_attempt_stops_and_reports_nothing(plane, start_worker, program):
    plane.add_job("task-1")
    running = start_worker(program(WAIT), max_jobs=1)
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    plane.jobs["task-1"]["fencing_token"] += 1
    running.join()

    assert plane.outcomes == {}


def test_without_heartbeat_answers_the_program_is_stopped_at_the_trusted_time(
    plane, start_worker, program
):
    plane.ttl_seconds = 1.0
    plane.routes["/leases/heartbeat"] = lambda seen: (503, {})
    plane.add_job("task-1")
    running = start_worker(program(WAIT), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("OUTCOME_UNKNOWN", True)


def test_heartbeats_keep_a_job_alive_past_its_first_lease(plane, start_worker, program):
    plane.ttl_seconds = 0.6
    plane.add_job("task-1")
    running = start_worker(program("time.sleep(1.5); answer()\n"), max_jobs=1)
    verb, _ = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"
    assert len(plane.calls("/heartbeat")) >= 3


def test_heartbeats_carry_the_progress_that_the_program_writes(plane, start_worker, program):
    plane.add_job("task-1")
    source = "pathlib.Path(os.environ['FENCEPOST_PROGRESS']).write_text('{\"done\": 3}')\n" + WAIT
    running = start_worker(program(source), max_jobs=1)
    beat = {"task_id": "task-1", "attempt": 1, "fencing_token": 1, "progress": {"done": 3}}
    plane.wait_for(lambda: beat in [s.body["leases"][0] for s in plane.calls("/heartbeat")])
    running.worker.abort()
    _, body = plane.outcome_of("task-1")

    assert body["progress"] == {"done": 3}


def test_heartbeats_do_not_tell_what_is_secret(plane, start_worker, program, monkeypatch):
    monkeypatch.setenv("PLANT_PASSWORD", "open-sesame-42")
    plane.add_job("task-1")
    note = '{"note": "open-sesame-42"}'
    source = f"pathlib.Path(os.environ['FENCEPOST_PROGRESS']).write_text({note!r})\n" + WAIT
    start_worker(program(source), max_jobs=1)

    def beats():
        found = [beat for seen in plane.calls("/heartbeat") for beat in seen.body["leases"]]
        return [beat["progress"] for beat in found if "progress" in beat]

    assert plane.wait_for(beats)[0] == {"note": "[redacted]"}


def test_a_paused_program_stands_still_until_it_is_resumed(plane, start_worker, program):
    plane.add_job("task-1")
    source = (
        "path = pathlib.Path(os.environ['FENCEPOST_PROGRESS'])\n"
        "for n in range(100):\n"
        "    (path.parent / 'new').write_text(json.dumps({'n': n, 'pid': os.getpid()}))\n"
        "    (path.parent / 'new').rename(path); time.sleep(0.02)\n"
        "answer()\n"
    )
    running = start_worker(program(source), max_jobs=1)

    def beats():
        beats = [beat for seen in plane.calls("/heartbeat") for beat in seen.body["leases"]]
        return [beat["progress"] for beat in beats if "progress" in beat]

    pid = plane.wait_for(beats)[-1]["pid"]
    plane.controls["task-1"] = "pause"
    plane.wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T" or None)
    plane.controls["task-1"] = "continue"
    verb, _ = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"


def test_nothing_is_claimed_while_the_agent_drains(plane, start_worker, program, tmp_path):
    plane.controls["task-1"] = "drain"
    plane.add_job("task-1")
    go = tmp_path / "go"
    source = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nanswer()\n"
    running = start_worker(program(source), max_jobs=2, concurrency=2)
    plane.wait_for(lambda: len(plane.calls("/heartbeat")) >= 2)
    polls = len(plane.calls("/claims"))
    plane.wait_for(lambda: len(plane.calls("/heartbeat")) >= 12)
    assert len(plane.calls("/claims")) - polls <= 1

    go.touch()
    plane.outcome_of("task-1")
    plane.add_job("task-2")
    plane.outcome_of("task-2")
    running.join()


def test_a_drained_worker_finishes_what_it_holds_and_claims_no_more(
    plane, start_worker, program, tmp_path
):
    go = tmp_path / "go"
    source = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nanswer()\n"
    plane.add_job("task-1")
    running = start_worker(program(source))
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    running.worker.drain()
    plane.add_job("task-2")
    go.touch()
    running.join()

    assert plane.outcome_of("task-1")[0] == "complete"
    assert plane.jobs["task-2"]["state"] == "queued"


def test_an_aborted_worker_fails_what_it_holds_retryably(plane, start_worker, program):
    plane.add_job("task-1")
    running = start_worker(program(WAIT))
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    running.worker.abort()
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert (verb, body["retryable"]) == ("fail", True)


@pytest.mark.parametrize(
    ("status", "code", "reason", "rule"),
    [
        (409, "FAILED_PRECONDITION", "ADMISSION_DRAINING", "refresh"),
        (409, "FAILED_PRECONDITION", "ADMISSION_CLOSED", "refresh"),
        (503, "UNAVAILABLE", "MAINTENANCE_INHIBITED", "wait"),
        (503, "UNAVAILABLE", "CONTENTION", "same_key"),
        (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", "wait"),
    ],
)
def test_a_refused_claim_is_tried_again_later(
    plane, start_worker, program, status, code, reason, rule
):
    plane.fail_next("/claims", status=status, body=refusal(status, code, reason, rule))
    plane.add_job("task-1")
    running = start_worker(program(SUCCEED), max_jobs=1)
    verb, _ = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"
    first, second = plane.calls("/claims")[:2]
    same = first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert same == (rule != "refresh")


def test_a_worker_whose_clock_is_wrong_waits_for_somebody_to_set_it(
    plane, start_worker, program, monkeypatch
):
    """Its next key would be refused as well: it does not ask for one after the other."""
    reason = "IDEMPOTENCY_KEY_INVALID"
    plane.fail_next("/claims", status=400, body=refusal(400, "INVALID_ARGUMENT", reason, "never"))
    plane.add_job("task-1")
    waits = []
    monkeypatch.setattr(loop, "retry_delay_s", lambda idle, cap_s: waits.append(idle) or 0.0)
    monkeypatch.setattr(loop, "MAX_IDLE_SECONDS", 0.01)
    start_worker(program(SUCCEED), max_jobs=1).join()

    assert plane.outcome_of("task-1")[0] == "complete"
    assert waits == [1]
    keys = [seen.headers["idempotency-key"] for seen in plane.calls("/claims")]
    assert len(set(keys)) == len(keys) == 2


def test_a_worker_without_permission_ends(plane, start_worker, program, monkeypatch):
    body = refusal(403, "PERMISSION_DENIED", "PERMISSION_DENIED", "stop")
    plane.fail_next("/claims", status=403, body=body)
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(args.exc_type))
    start_worker(program(SUCCEED)).join()

    assert caught == [NotAuthorized]
    assert len(plane.calls("/claims")) == 1


def test_a_report_is_kept_while_another_holds_the_lease(plane, start_worker, program):
    body = refusal(409, "FAILED_PRECONDITION", "LEASE_HELD_BY_ANOTHER", "refresh")
    plane.fail_next("/complete", status=409, body=body)
    plane.add_job("task-1")
    start_worker(program(SUCCEED), max_jobs=1).join()
    assert not plane.outcomes

    start_worker(program("raise SystemExit(1)\n"), until_empty=True).join()

    refused, sent = plane.calls("/complete")
    assert sent.body == refused.body
    assert [verb for verb, _ in plane.outcomes.values()] == ["complete"]


def test_a_completion_that_cannot_be_taken_fails_the_attempt(plane, start_worker, program):
    body = refusal(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "never")
    plane.fail_next("/complete", status=400, body=body)
    plane.add_job("task-1")
    running = start_worker(program(SUCCEED), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("RESULT_REFUSED", False)


def test_several_jobs_run_at_a_time(plane, start_worker, program, tmp_path):
    source = (
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "(folder / ('here-' + request['task_id'])).touch()\n"
        "while len(list(folder.glob('here-*'))) < 3: time.sleep(0.01)\n"
        "answer()\n"
    )
    command = program(source)
    for number in range(3):
        plane.add_job(f"task-{number}")
    running = start_worker(command, concurrency=3, max_jobs=3)
    running.join()

    assert sorted(verb for verb, _ in plane.outcomes.values()) == ["complete"] * 3


def test_two_tasks_whose_names_look_alike_have_their_own_folders(plane, start_worker, program):
    for task_id in ("a b", "a_b", "..", "%2e%2e"):
        plane.add_job(task_id)
    plane.routes["/complete$"] = lambda seen: (200, {"outcome": "recorded"})
    running = start_worker(program("answer()\n"), until_empty=True)
    running.join()

    assert len(plane.calls("/complete$")) == 4
    assert all(running.data in path.resolve().parents for path in files_of(running))


def test_what_the_program_leaves_running_is_killed_with_it(plane, start_worker, program, tmp_path):
    pid_file = tmp_path / "pid"
    source = (
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid)); answer()\n"
    )
    plane.add_job("task-1")
    running = start_worker(program(source), max_jobs=1)
    verb, _ = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"
    stat = Path(f"/proc/{pid_file.read_text()}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"
