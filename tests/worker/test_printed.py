"""Whatever a program prints: its own work is delivered or told, and no other attempt is hurt."""

import json
import logging
import os
from contextlib import nullcontext

import pytest

from fencepost_worker import __main__ as program_of_worker
from fencepost_worker import assembly, heartbeats
from fencepost_worker.client import Answer, ControlPlane, Problem, Refused
from fencepost_worker.heartbeats import HeartbeatLoop
from fencepost_worker.lease import Lease, Terms
from fencepost_worker.progress import ProgressReader
from fencepost_worker.redaction import Secrets
from fencepost_worker.timing import steady_now
from fencepost_worker.workspace import Workspaces
from tests.worker.conftest import TOKEN, problem

SPOIL = (
    "import os, pathlib\n"
    "pathlib.Path(os.environ['FENCEPOST_PROGRESS']).write_text({progress!r})\n"
    "while request['inputs'].get('wait') and not pathlib.Path({go!r}).exists():\n"
    "    time.sleep(0.02)\n"
    "answer(result={{'task': request['task_id']}})\n"
)
SOUND = '{"step": 1}'


def beats_of(plane, task_id):
    """Return the beats of a task as they arrived."""
    calls = plane.calls("/leases/heartbeat")
    return [beat for call in calls for beat in call.body["leases"] if beat["task_id"] == task_id]


def delivered(plane, start_worker, program, source):
    """Run a program and return how its attempt ended, when nothing was refused as JSON."""
    plane.add_job("task-1")
    running = start_worker(program(source), max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()
    assert plane.refused == []
    return verb, body


@pytest.mark.parametrize(
    ("progress", "pointer"),
    [
        ('{"loss": NaN}', "/loss"),
        ('{"n": 9007199254740993}', "/n"),
        ('{"a": ["\\ud800"]}', "/a/0"),
        ('{"a": "\\u0000"}', "/a"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", ""),
        ("[" * 20_000, "the document"),
        ("[1]", "the document"),
        ("no json", "the document"),
        ('{"text": "' + "x" * 20_000 + '"}', "the document"),
    ],
)
def test_progress_that_is_not_valid_is_told_to_its_program_and_costs_no_lease(
    plane, start_worker, program, tmp_path, progress, pointer
):
    go = tmp_path / "go"
    plane.add_job("task-1", inputs={"wait": True})
    running = start_worker(program(SPOIL.format(progress=progress, go=str(go))), max_jobs=1)
    plane.wait_for(lambda: plane.jobs["task-1"]["state"] == "active")

    def told():
        return next(iter((running.data / "workspaces").rglob("fencepost.log")), None)

    plane.wait_for(lambda: told() and told().read_text())
    before = len(beats_of(plane, "task-1"))
    plane.wait_for(lambda: len(beats_of(plane, "task-1")) >= before + 3)
    [line] = told().read_text().splitlines()
    go.touch()
    verb, _ = plane.outcome_of("task-1")
    running.join()

    assert verb == "complete"
    assert plane.refused == []
    assert line.startswith("progress is not sent: " + (pointer or "/a"))
    assert all("progress" not in beat for beat in beats_of(plane, "task-1"))


def test_of_two_attempts_one_with_bad_progress_spoils_no_beat_of_the_other(
    plane, start_worker, program, tmp_path
):
    go = tmp_path / "go"
    plane.add_job("task-1", inputs={"wait": True, "progress": '{"loss": NaN}'})
    plane.add_job("task-2", inputs={"wait": True, "progress": SOUND})
    source = SPOIL.format(progress="", go=str(go)).replace("''", "request['inputs']['progress']")
    running = start_worker(program(source), max_jobs=2, concurrency=2)
    plane.wait_for(lambda: any("progress" in beat for beat in beats_of(plane, "task-2")))
    go.touch()
    assert {plane.outcome_of(task)[0] for task in ("task-1", "task-2")} == {"complete"}
    running.join()

    assert plane.refused == []
    assert not any("progress" in beat for beat in beats_of(plane, "task-1"))


def test_a_refused_progress_is_in_the_message_of_a_program_that_fails(
    plane, start_worker, program, tmp_path
):
    go = tmp_path / "go"
    source = SPOIL.format(progress='{"loss": Infinity}', go=str(go))
    source = source.replace("answer(", "sys.stderr.write('gave up'); sys.exit(4)\nanswer(")
    plane.add_job("task-1", inputs={"wait": True})
    running = start_worker(program(source), max_jobs=1)
    plane.wait_for(lambda: list((running.data / "workspaces").rglob("fencepost.log")))
    go.touch()
    _, body = plane.outcome_of("task-1")
    running.join()

    assert body["error_code"] == "PROGRAM_EXIT_4"
    assert (
        "fencepost: progress is not sent: /loss: a number that is not finite"
        in (body["error_message"])
    )
    assert "progress" not in body


@pytest.mark.parametrize(
    ("literal", "pointer", "got"),
    [
        ("1234567890123456789", "/result/n", "1234567890123456789"),
        ("5.972e24", "/result/n", "5.972e24"),
        ("NaN", "/result/n", "NaN"),
        ('"a\\u0000b"', "/result/n", "a\u2400b"),
        ('"half \\ud83d"', "/result/n", "half \ufffd"),
    ],
)
def test_a_result_that_is_no_i_json_is_delivered_as_text_with_its_fault_and_place(
    plane, start_worker, program, literal, pointer, got
):
    source = (
        "bound = json.dumps({name: request[name] for name in NAMES})[:-1]\n"
        f'print(bound + \', "outcome": "succeeded", "result": {{"n": \' + {literal!r} + \'}}}}\')'
    )
    verb, body = delivered(plane, start_worker, program, source)

    assert verb == "complete"
    assert body["result"]["n"] == got
    [fault] = body["result"]["delivery_faults"]
    assert fault["pointer"] == pointer
    assert fault["detail"]


def test_a_fact_with_a_number_that_nobody_keeps_costs_no_finished_work(
    plane, start_worker, program
):
    fact = {"fact_id": "f-1", "type": "com.example.done", "data": {"n": 2**60}}
    verb, body = delivered(plane, start_worker, program, f"answer(facts=[{fact!r}])")

    assert verb == "complete"
    assert body["result"]["delivery_faults"][0]["pointer"] == "/facts/0/data/n"
    [told] = plane.calls("/facts")
    assert told.body["data"] == {"n": str(2**60)}


def test_a_result_that_is_nested_too_deep_is_delivered_as_text(plane, start_worker, program):
    source = "deep = []\nfor _ in range(60): deep = [deep]\nanswer(result={'deep': deep})"
    verb, body = delivered(plane, start_worker, program, source)

    assert verb == "complete"
    assert body["result"]["delivery_faults"][0]["detail"] == "nested too deep"
    assert "[[[" in json.dumps(body["result"]["deep"])


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_a_result_that_is_too_large_for_a_request_is_delivered_as_an_artifact(
    plane, start_worker, program, letter
):
    count = 1_100_000 // len(letter.encode())
    source = (
        "folder = pathlib.Path(os.environ['FENCEPOST_ARTIFACTS'])\n"
        "(folder / 'result.json').write_text('mine')\n"
        f"answer(result={{'text': {letter!r} * {count}}}, artifacts=[{{'name': 'result.json'}}])"
    )
    verb, body = delivered(
        plane,
        start_worker,
        program,
        "_dumps = json.dumps\n"
        "json.dumps = lambda value: _dumps(value, ensure_ascii=False)\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n" + source,
    )

    assert verb == "complete"
    assert "text" not in body["result"]
    assert [a["name"] for a in body["result"]["artifacts"]] == ["result.json", "result-2.json"]
    assert "result-2.json" in body["result"]["delivery_faults"][0]["detail"]
    contents = {plane.uploads[k]["name"]: v for k, v in plane.objects.items()}
    assert contents["result.json"] == b"mine"
    assert json.loads(contents["result-2.json"]) == {"text": letter * count}


def test_a_result_of_letters_of_many_bytes_is_sent_as_they_are(plane, start_worker, program):
    # Escaped, every letter would take three times its bytes, and the body be too large.
    count = 300_000
    verb, body = delivered(
        plane, start_worker, program, f"answer(result={{'text': '\u8a9e' * {count}}})"
    )
    assert (verb, body["result"]["text"]) == ("complete", "\u8a9e" * count)


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (b"a\x00b", "a\u2400b"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"Ren\xe9", "Ren\ufffd"),
        (b"\x00", "\u2400"),
        (b"\x1b[0m", "PROGRAM_EXIT_3"),
    ],
)
def test_what_a_failing_program_prints_is_cleaned_and_told(
    plane, start_worker, program, printed, message
):
    source = f"sys.stderr.buffer.write({printed!r}); sys.exit(3)"
    verb, body = delivered(plane, start_worker, program, source)

    assert verb == "fail"
    assert (body["error_code"], body["error_message"]) == ("PROGRAM_EXIT_3", message)


def test_codes_and_words_of_a_failed_result_are_cleaned(plane, start_worker, program):
    source = "answer('failed', error_code='A\\x1b\\u202eB', error_message='no\\x00\\x07')"
    verb, body = delivered(plane, start_worker, program, source)

    assert verb == "fail"
    assert (body["error_code"], body["error_message"]) == ("A__B", "no␀␇")


def test_an_escalation_is_as_long_as_the_control_plane_takes_it(plane, start_worker, program):
    source = "answer(escalate={'reason': 'why\\x00' * 9000, 'notify_to': 'x' * 300})"
    verb, body = delivered(plane, start_worker, program, source)

    assert verb == "escalate"
    assert (len(body["reason"]), len(body["notify_to"])) == (20_000, 200)
    assert body["reason"].startswith("why\u2400why")


@pytest.mark.parametrize("verb", ["complete", "escalate"])
def test_an_end_that_is_refused_for_good_fails_the_attempt_with_what_is_wrong_with_it(
    plane, start_worker, program, verb
):
    never = problem(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "never")
    plane.fail_next(f"/{verb}", status=400, body=never)
    escalate = {"escalate": {"reason": "why", "notify_to": "x"}}
    said = repr(escalate if verb == "escalate" else {})
    got, body = delivered(plane, start_worker, program, f"answer(**{said})")

    assert got == "fail"
    assert (body["error_code"], body["retryable"]) == ("RESULT_REFUSED", False)
    assert body["error_message"] == never["detail"]


def test_a_failure_that_is_refused_for_good_is_told_in_fewer_words(plane, start_worker, program):
    never = problem(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "never")
    plane.fail_next("/fail", status=400, body=never)
    source = "pathlib.Path(os.environ['FENCEPOST_PROGRESS']).write_text('{}')\nsys.exit(3)"
    verb, body = delivered(plane, start_worker, program, source)

    assert verb == "fail"
    assert body["error_code"] == "PROGRAM_EXIT_3"
    assert body["error_message"] == f"its report was refused: {never['detail']}"
    assert "progress" not in body
    assert len(plane.calls("/fail")) == 2


def test_a_failure_that_is_refused_in_any_words_is_not_told_for_ever(plane, start_worker, program):
    never = problem(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "never")
    plane.routes["/fail$"] = lambda seen: (400, never)
    plane.add_job("task-1")
    start_worker(program("sys.exit(3)"), max_jobs=1).join()

    assert len(plane.calls("/fail")) == 2


def test_what_is_printed_and_is_no_json_says_where(plane, start_worker, program):
    _, body = delivered(plane, start_worker, program, "print('{\"a\": oops}')")

    assert body["error_code"] == "RESULT_INVALID"
    assert "line 1 column 7" in body["error_message"]


# Heartbeats ---------------------------------------------------------------------------------


class Recorder:
    """A control plane that keeps what it is sent and answers by a script."""

    def __init__(self, answer):
        self.sent, self._answer = [], answer
        self.session = self
        self.worker_id = "w"

    def headers(self):
        return {}

    def send(self, call, **options):
        self.sent.append(call.body["leases"])
        result = self._answer(call.body["leases"])
        return Answer(200, {"results": result}, False, steady_now())


def lease_of(task_id, progress=lambda: None):
    return Lease(
        task_id=task_id,
        attempt=1,
        fencing_token=1,
        terms=Terms(60.0, 0.05),
        requested_at=None,
        progress=progress,
    )


def renewed(beats):
    return [{"status": 200, "ttl_seconds": 60, "control": "continue"} for _ in beats]


def test_a_progress_that_cannot_be_read_is_left_out_and_the_others_are_renewed():
    plane = Recorder(renewed)

    def broken():
        raise RuntimeError("no")

    leases = [
        lease_of("a", broken),
        lease_of("b", lambda: {"n": float("nan")}),
        lease_of("c", lambda: {"n": 1}),
    ]
    assert HeartbeatLoop(plane=plane).beat(leases)

    [beats] = plane.sent
    assert [beat.get("progress") for beat in beats] == [None, None, {"n": 1}]
    assert all(lease.ended is None and lease._until is not None for lease in leases)


def test_beats_are_sent_in_as_many_calls_as_their_bytes_need(monkeypatch):
    monkeypatch.setattr(heartbeats, "MAX_BEATS_BYTES", 1000)
    plane = Recorder(renewed)
    leases = [lease_of(f"task-{n}", lambda: {"text": "x" * 300}) for n in range(5)]
    assert HeartbeatLoop(plane=plane).beat(leases)

    assert [len(beats) for beats in plane.sent] == [2, 2, 1]
    assert all(lease._until is not None for lease in leases)


@pytest.mark.parametrize("status", [400, 413])
def test_a_call_that_is_refused_as_a_whole_is_sent_again_without_progress(status):
    def strict(beats):
        if any("progress" in beat for beat in beats):
            raise Refused(
                Problem(status, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "", "never", "none")
            )
        return renewed(beats)

    plane = Recorder(strict)
    leases = [lease_of("a", lambda: {"n": 1}), lease_of("b")]
    assert HeartbeatLoop(plane=plane).beat(leases)

    assert len(plane.sent) == 2
    assert all(lease._until is not None for lease in leases)


def test_a_call_that_fails_here_costs_no_other_call(monkeypatch):
    monkeypatch.setattr(heartbeats, "MAX_BEATS_PER_CALL", 1)

    def fragile(beats):
        if beats[0]["task_id"] == "a":
            raise KeyError("unforeseen")
        return renewed(beats)

    leases = [lease_of("a"), lease_of("b")]
    assert not HeartbeatLoop(plane=Recorder(fragile)).beat(leases)
    assert [lease._until is not None for lease in leases] == [False, True]


def test_a_worker_whose_heartbeats_stop_takes_no_more_work_and_ends_with_a_code_of_its_own(
    plane, program, monkeypatch, tmp_path, capsys, caplog
):
    monkeypatch.setattr(
        HeartbeatLoop, "_wait_until", lambda self, due: (_ for _ in ()).throw(OSError("gone"))
    )
    monkeypatch.setattr(program_of_worker, "obeyed_signals", lambda *_, **options: nullcontext())
    monkeypatch.setattr(program_of_worker, "_log_as_json", lambda: None)
    options = ["--url", plane.url, "--token", TOKEN, "--agent", "hermes"]
    options += ["--data", str(tmp_path / "data"), "--wait-seconds", "1", "--", *program("answer()")]

    planes = []

    def made(**arguments):
        planes.append(ControlPlane(**arguments))
        return planes[-1]

    # A process closes its connections by ending; this one goes on.
    monkeypatch.setattr(assembly, "ControlPlane", made)
    code = program_of_worker.main(options)
    planes[0].close()
    assert code == program_of_worker.EXIT_STOPPED
    assert "gone" in capsys.readouterr().err
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)


def test_a_fault_of_progress_is_told_once_until_it_has_been_mended():
    class Source:
        value, lines = {"n": 2**60}, []

        def progress(self, *, task_id, attempt):
            return self.value

        def tell(self, *, task_id, attempt, line):
            self.lines.append(line)

    source = Source()
    read = ProgressReader(source, secrets=Secrets(["hush-hush"], environment={})).reading(
        task_id="a", attempt=1
    )
    assert [read(), read()] == [None, None]
    source.value = {"n": "hush-hush"}
    assert read() == {"n": "[redacted]"}
    source.value = {"n": 2**60}
    assert read() is None

    assert len(source.lines) == 2


def test_the_log_of_the_work_follows_no_link_and_waits_for_no_pipe(tmp_path):
    workspace = Workspaces(tmp_path).open(task_id="task-1", attempt=1)
    (tmp_path / "precious").write_text("as it was")
    workspace.log.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError):
        workspace.note("line")
    workspace.log.unlink()
    os.mkfifo(workspace.log)
    with pytest.raises(OSError):
        workspace.note("line")

    assert (tmp_path / "precious").read_text() == "as it was"
