"""A worker process that is killed: the next one reports or resumes, and repeats no effect."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from fencepost_worker import durable
from fencepost_worker.adapters.command import CommandAdapter
from fencepost_worker.envelopes import verified_job
from fencepost_worker.exchange import ExternalAgentExchange, Request, Result
from fencepost_worker.executor import ExternalAgentExecutor
from fencepost_worker.journal import Journal
from fencepost_worker.reports import of_result
from fencepost_worker.workspace import Workspaces

PATIENCE_SECONDS = 20


def counting(path: Path, then: str) -> str:
    """Return a program that counts its runs in `path` before it goes on."""
    return f"open({str(path)!r}, 'a').write('run\\n')\n" + then


def runs(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)


@pytest.fixture
def exchange_of(keys, tmp_path):
    """Return a function that opens the exchange that the worker will open for a claim."""

    def open_exchange(claim):
        job = verified_job(claim, agent="hermes", keys=keys, wait=lambda seconds: False)
        request = Request.of(job, runtime="command", attempt=claim.attempt)
        return ExternalAgentExchange(tmp_path / "data" / "exchange").open(request)

    return open_exchange


def succeeded(request: Request, text: str) -> Result:
    bound = request.binding | {"outcome": "succeeded", "result": {"text": text}}
    return Result.of(request, bound)


def test_a_program_whose_worker_was_killed_is_not_run_again(plane, spawn_worker, program, tmp_path):
    counter, pid_file = tmp_path / "runs", tmp_path / "pid"
    source = f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
    command = program(counting(counter, source))
    plane.add_job("task-1")
    first = spawn_worker(command)
    plane.wait_for(lambda: plane.calls("/heartbeat") and pid_file.exists() and runs(counter))
    kill(first)

    second = spawn_worker(command, "--once")
    verb, body = plane.outcome_of("task-1")
    assert second.wait(PATIENCE_SECONDS) == 0

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("OUTCOME_UNKNOWN", True)
    assert (body["attempt"], body["fencing_token"]) == (1, 1)
    assert runs(counter) == 1
    stat = Path(f"/proc/{pid_file.read_text()}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_finished_result_is_reported_after_a_kill(plane, spawn_worker, program, tmp_path):
    counter = tmp_path / "runs"
    command = program(counting(counter, "answer(result={'text': 'once'})\n"))
    plane.add_job("task-1")
    plane.routes["/complete"] = lambda seen: (503, {})
    first = spawn_worker(command)
    plane.wait_for(lambda: plane.calls("/complete"))
    kill(first)
    del plane.routes["/complete"]

    second = spawn_worker(command, "--once")
    verb, body = plane.outcome_of("task-1")
    assert second.wait(PATIENCE_SECONDS) == 0

    assert (verb, body["result"]["text"]) == ("complete", "once")
    assert runs(counter) == 1


def test_a_claim_whose_answer_was_lost_with_the_worker_is_not_orphaned(
    plane, spawn_worker, program, tmp_path
):
    command = program("answer()\n")
    plane.add_job("task-1")
    plane.fail_next("/claims", applied=True)
    plane.fail_next("/claims", status=503)
    first = spawn_worker(command)
    plane.wait_for(lambda: plane.calls("/claims"))
    kill(first)
    plane.faults.clear()

    second = spawn_worker(command, "--once")
    verb, _ = plane.outcome_of("task-1")
    assert second.wait(PATIENCE_SECONDS) == 0

    assert verb == "complete"
    assert plane.jobs["task-1"]["attempt"] == 1
    keys = {seen.headers["idempotency-key"] for seen in plane.calls("/claims")[:2]}
    assert len(keys) == 1


def test_a_claim_whose_answer_was_lost_for_longer_than_its_lease_is_dropped(
    plane, spawn_worker, program
):
    """It is told of again without token and lease, and the worker goes on to other work."""
    command = program("answer()\n")
    plane.add_job("task-1")
    plane.fail_next("/claims", applied=True)
    plane.fail_next("/claims", status=503)
    first = spawn_worker(command)
    plane.wait_for(lambda: plane.replays)
    kill(first)
    plane.faults.clear()
    [(key, (status, answer))] = plane.replays.items()
    [item] = answer["results"]
    job = item["job"] | {"state": "failed", "lease": None}
    gone = {"outcome": "claimed", "job": job, "attempt": 1, "lease": None, "status": 200}
    plane.replays[key] = (status, {"results": [gone]})
    plane.add_job("task-2")

    second = spawn_worker(command, "--max-jobs", "1")
    verb, _ = plane.outcome_of("task-2")
    assert second.wait(PATIENCE_SECONDS) == 0

    assert verb == "complete"
    assert not plane.calls("/task-1/")


def test_a_claimed_job_that_never_began_is_resumed_under_its_lease(
    plane, make_claim, start_worker, program, tmp_path
):
    counter = tmp_path / "runs"
    Journal(tmp_path / "data" / "journal").settle_claim([make_claim("task-1")])
    running = start_worker(program(counting(counter, "answer()\n")), until_empty=True)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert (verb, body["attempt"]) == ("complete", 1)
    assert runs(counter) == 1
    assert plane.calls("/heartbeat"), "trust in a lease of unknown age comes from a heartbeat"


def test_a_claimed_job_whose_lease_is_gone_is_dropped(
    plane, make_claim, start_worker, program, tmp_path
):
    counter = tmp_path / "runs"
    Journal(tmp_path / "data" / "journal").settle_claim([make_claim("task-1")])
    plane.jobs["task-1"] |= {"state": "elsewhere", "fencing_token": 9}
    running = start_worker(program(counting(counter, "answer()\n")), until_empty=True)
    running.join()

    assert runs(counter) == 0
    assert plane.outcomes == {}
    assert not list((running.data / "journal").rglob("claim.json"))


def test_an_expired_lease_with_a_current_token_is_failed_honestly(
    plane, make_claim, start_worker, program, tmp_path
):
    counter = tmp_path / "runs"
    Journal(tmp_path / "data" / "journal").settle_claim([make_claim("task-1")])
    expired = {"status": 409, "code": "FAILED_PRECONDITION", "reason": "LEASE_EXPIRED"}
    plane.routes["/heartbeat"] = lambda seen: (200, {"results": [expired]})
    running = start_worker(program(counting(counter, "answer()\n")), until_empty=True)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert (verb, body["error_code"], body["retryable"]) == ("fail", "LEASE_EXPIRED", True)
    assert runs(counter) == 0


def test_a_recorded_result_is_reported_even_when_the_lease_has_expired(
    plane, make_claim, exchange_of, start_worker, program, tmp_path
):
    claim, counter = make_claim("task-1"), tmp_path / "runs"
    Journal(tmp_path / "data" / "journal").settle_claim([claim])
    expired = {"status": 409, "code": "FAILED_PRECONDITION", "reason": "LEASE_EXPIRED"}
    plane.routes["/heartbeat"] = lambda seen: (200, {"results": [expired]})
    exchange = exchange_of(claim)
    exchange.begin()
    exchange.record(succeeded(exchange.request, "kept"))
    running = start_worker(program(counting(counter, "answer()\n")), until_empty=True)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert (verb, body["result"]["text"]) == ("complete", "kept")
    assert runs(counter) == 0


def test_a_recorded_report_is_sent_as_it_was(
    plane, make_claim, exchange_of, start_worker, program, tmp_path
):
    claim = make_claim("task-1")
    journal = Journal(tmp_path / "data" / "journal")
    journal.settle_claim([claim])
    result = succeeded(exchange_of(claim).request, "before")
    report = of_result(claim, result, worker_id="hermes@test", governed=False)
    journal.record_report(claim, report)
    running = start_worker(program("answer(result={'text': 'again'})\n"), until_empty=True)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert (verb, body["result"]["text"]) == ("complete", "before")


def test_an_orphaned_program_is_killed_by_its_recorded_identity(make_claim, tmp_path, program):
    claim = make_claim("task-1")
    adapter = CommandAdapter(
        executor=ExternalAgentExecutor(exchange=ExternalAgentExchange(tmp_path / "exchange")),
        workspaces=Workspaces(tmp_path),
        program=program(""),
    )
    orphan = subprocess.Popen(["sleep", "60"], start_new_session=True)
    record = Workspaces(tmp_path).of(task_id="task-1", attempt=1).process
    ticks = int(Path(f"/proc/{orphan.pid}/stat").read_text().rpartition(")")[2].split()[19])

    durable.replace(record, durable.encode({"pid": orphan.pid, "started": ticks + 1}))
    adapter.recover(task_id="task-1", attempt=claim.attempt)
    assert orphan.poll() is None, "another process with the same pid must be left alone"

    durable.replace(record, durable.encode({"pid": orphan.pid, "started": ticks}))
    adapter.recover(task_id="task-1", attempt=claim.attempt)
    assert orphan.wait(PATIENCE_SECONDS) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_finish_and_ends_the_worker(
    plane, spawn_worker, program, tmp_path, number
):
    go = tmp_path / "go"
    source = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nanswer()\n"
    plane.add_job("task-1")
    process = spawn_worker(program(source))
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    process.send_signal(number)
    go.touch()

    assert process.wait(PATIENCE_SECONDS) == 0
    assert plane.outcome_of("task-1")[0] == "complete"


def test_a_second_signal_stops_the_running_job_and_says_so(plane, spawn_worker, program):
    plane.add_job("task-1")
    process = spawn_worker(program("time.sleep(60)\n"))
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    verb, body = plane.outcome_of("task-1")

    assert process.wait(PATIENCE_SECONDS) == 0
    assert (verb, body["retryable"]) == ("fail", True)


def test_two_workers_never_share_a_data_folder(plane, spawn_worker, program, capfd):
    plane.add_job("task-1")
    first = spawn_worker(program("time.sleep(60)\n"))
    plane.wait_for(lambda: plane.calls("/heartbeat"))
    second = spawn_worker(program("answer()\n"))

    assert second.wait(PATIENCE_SECONDS) == 2
    assert first.poll() is None
    assert "another worker uses" in capfd.readouterr().err


def test_a_worker_killed_over_and_over_completes_every_job_once(
    plane, spawn_worker, program, tmp_path
):
    """Each kill costs at most the attempt that ran; no effect of an attempt happens twice."""
    effects = tmp_path / "effects"
    effects.mkdir()
    source = (
        "name = f\"{request['task_id']}.{request['attempt']}\"\n"
        f"os.close(os.open(os.path.join({str(effects)!r}, name), os.O_CREAT | os.O_EXCL))\n"
        "time.sleep(0.05); answer()\n"
    )
    command = program(source)
    for number in range(6):
        plane.add_job(f"task-{number}")
    for round_number in range(4):
        process = spawn_worker(command)
        seen = len(plane.seen)
        plane.wait_for(lambda seen=seen, n=round_number: len(plane.seen) >= seen + 4 + 3 * n)
        kill(process)
        for job in plane.jobs.values():
            if job["state"] == "retry_later":
                job["state"] = "queued"
    while any(job["state"] != "completed" for job in plane.jobs.values()):
        for job in plane.jobs.values():
            if job["state"] == "retry_later":
                job["state"] = "queued"
        assert spawn_worker(command, "--once").wait(PATIENCE_SECONDS) == 0

    completed = [key for key, (verb, _) in plane.outcomes.items() if verb == "complete"]
    assert sorted(task for task, _, _ in completed) == [f"task-{n}" for n in range(6)]
    codes = {body.get("error_code") for verb, body in plane.outcomes.values() if verb == "fail"}
    assert codes <= {"OUTCOME_UNKNOWN"}, "an effect that ran twice would fail with an exit code"
    assert os.listdir(effects)
