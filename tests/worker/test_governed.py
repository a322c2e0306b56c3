"""Effects that leave the machine: leave first, then the effect once, then its result."""

import json
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fencepost_worker.adapters.http import Endpoint, HttpAdapter
from fencepost_worker.client import ControlPlane
from fencepost_worker.envelopes import KeyRing, verified_job
from fencepost_worker.exchange import MAX_ANSWER_BYTES, ExternalAgentExchange, Request
from fencepost_worker.executor import ExternalAgentExecutor
from fencepost_worker.governed import ControlPlaneAuthority
from fencepost_worker.identity import canonical, external_request_id, sha256_hex
from fencepost_worker.journal import Journal
from fencepost_worker.loop import Plan, Worker
from fencepost_worker.session import ActivatedSession
from fencepost_worker.uploads import Uploads
from fencepost_worker.workspace import Workspaces

PATIENCE_SECONDS = 20
SESSION, EPOCH = "0190aaaa-0000-7000-8000-000000000001", "0190eeee-0000-7000-8000-000000000001"
PERMIT = "0190cccc-0000-7000-8000-000000000001"


class OtherSide:
    """An HTTP server whose answers a test writes."""

    def __init__(self):
        self.requests = []
        self.changed = threading.Condition()
        self.answer = lambda handler, document: say(handler, 200, bound(document))
        side = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with side.changed:
                    side.requests.append((dict(self.headers), document))
                    side.changed.notify_all()
                side.answer(self, document)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/act"

    def wait_until_asked(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.requests, PATIENCE_SECONDS)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def say(handler, status, document, kind="application/json"):
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def bound(document, **over):
    names = ("external_request_id", "attempt", "execution_digest")
    answer = {"outcome": "succeeded", "result": {"text": "from outside"}}
    return {name: document[name] for name in names} | answer | over


def problem(status, code, reason, rule, **current):
    retry = {"rule": rule, "after_seconds": None}
    body = {"status": status, "code": code, "reason": reason, "retry": retry, "current": current}
    return status, body | {"detail": f"told by the test: {reason}"}


@pytest.fixture
def other_side():
    side = OtherSide()
    yield side
    side.close()


@pytest.fixture
def governing(plane):
    """Teach the scripted control plane the governed calls."""
    plane.routes["/activate$"] = lambda seen: (
        200,
        {"session_id": SESSION, "dispatcher_epoch": EPOCH, "state": "current"},
    )
    plane.routes["/executions/permits$"] = lambda seen: (
        201,
        {"permit_id": PERMIT, "state": "issued", "deadline_seconds": 60},
    )
    plane.routes["/v1/executions$"] = lambda seen: (
        201,
        {"decision": "issued", "state": "unknown", "may_begin": True, "deadline_seconds": 60},
    )
    plane.routes["/result$"] = lambda seen: (200, {"outcome": "recorded"})
    return plane


@pytest.fixture
def start_governed(governing, tmp_path, other_side):
    """Return a function that runs a governed worker until there is no more work."""
    planes = []

    def start(url="", silence_s=5.0, **plan):
        data = tmp_path / "data"
        session = ActivatedSession(
            worker_id="hermes@test",
            agent="hermes",
            cell_id="cell-1",
            runtime="http",
            path=data / "session.json",
            token="fp_test.secret",
        )
        client = ControlPlane(url=governing.url, session=session)
        planes.append(client)
        authority = ControlPlaneAuthority(plane=client, mode="mock")
        executor = ExternalAgentExecutor(
            exchange=ExternalAgentExchange(data / "exchange"), authority=authority
        )
        endpoint = Endpoint(url=url or other_side.url, silence_s=silence_s)
        adapter = HttpAdapter(executor=executor, endpoint=endpoint, workspaces=Workspaces(data))
        worker = Worker(
            plane=client,
            journal=Journal(data / "journal"),
            adapter=adapter,
            keys=KeyRing(plane=client),
            uploads=Uploads(plane=client),
            plan=Plan(**({"agent": "hermes", "until_empty": True} | plan)),
        )
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        return worker, thread

    yield start
    for client in planes:
        client.close()


def finish(started):
    _, thread = started
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def paths(plane):
    reported = ("/v1/routes", "/v1/executions", "/complete", "/fail")
    return [seen.path for seen in plane.seen if any(part in seen.path for part in reported)]


def test_an_outside_effect_happens_between_its_start_and_its_result(
    governing, start_governed, other_side
):
    job = governing.add_job("task-1")
    order = []
    started = governing.routes["/v1/executions$"]
    governing.routes["/v1/executions$"] = lambda seen: order.append("start") or started(seen)

    def act(handler, document):
        order.append("effect")
        say(handler, 200, bound(document))

    other_side.answer = act
    recorded = governing.routes["/result$"]
    governing.routes["/result$"] = lambda seen: order.append("result") or recorded(seen)
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    request_id = external_request_id(
        task_id="task-1",
        job_id=job["job_id"],
        execution_digest=job["execution_digest"],
        runtime="http",
        attempt=1,
    )
    assert order == ["start", "effect", "result"]
    assert verb == "complete"
    headers, document = other_side.requests[0]
    assert headers["Idempotency-Key"] == document["external_request_id"] == request_id
    binding = {
        "task_id": "task-1",
        "attempt": 1,
        "fencing_token": 1,
        "external_request_id": request_id,
    }
    [permit] = governing.calls("/executions/permits$")
    assert permit.body == binding | {
        "reservation_id": None,
        "mode": "mock",
        "expected_revision": 2,
    }
    [start] = governing.calls("/v1/executions$")
    assert start.body == binding | {
        "permit_id": PERMIT,
        "execution_digest": job["execution_digest"],
        "runtime": "http",
        "request_sha256": sha256_hex(canonical(document)),
    }
    [result] = governing.calls("/result$")
    assert result.path == f"/v1/executions/{request_id}/result"
    assert result.body == {
        "task_id": "task-1",
        "attempt": 1,
        "fencing_token": 1,
        "execution_digest": job["execution_digest"],
        "outcome": "succeeded",
        "result_sha256": sha256_hex(canonical(body["result"])),
        "result": body["result"],
    }
    for seen in (permit, start, result):
        assert seen.headers["fencepost-session"] == SESSION
        assert seen.headers["fencepost-epoch"] == EPOCH
        assert seen.headers["idempotency-key"]


@pytest.mark.parametrize("lost", ["/permits$", "/v1/executions$", "/result$"])
def test_a_lost_governed_answer_is_asked_for_again_with_the_same_key(
    governing, start_governed, other_side, lost
):
    governing.add_job("task-1")
    governing.fail_next(lost, applied=True)
    finish(start_governed())

    first, second = governing.calls(lost)
    assert (first.body, first.headers["idempotency-key"]) == (
        second.body,
        second.headers["idempotency-key"],
    )
    assert len(other_side.requests) == 1
    assert governing.outcome_of("task-1")[0] == "complete"


@pytest.mark.parametrize(
    ("call", "refusal", "retryable"),
    [
        (
            "/executions/permits$",
            problem(403, "PERMISSION_DENIED", "RISK_NOT_ALLOWED", "stop"),
            False,
        ),
        ("/v1/executions$", problem(409, "FAILED_PRECONDITION", "PERMIT_EXPIRED", "refresh"), True),
    ],
)
def test_a_refused_grant_means_no_effect(
    governing, start_governed, other_side, call, refusal, retryable
):
    governing.add_job("task-1")
    governing.routes[call] = lambda seen: refusal
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert other_side.requests == []
    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == (refusal[1]["reason"], retryable)
    assert not governing.calls("/result$")


@pytest.mark.parametrize(
    ("step", "reason", "rule", "after", "seconds"),
    [
        ("/permits$", "ADMISSION_CLOSED", "defer", 900_000, 86_400),
        ("/permits$", "ADMISSION_CLOSED", "defer", 60, 60),
        ("/v1/executions$", "ADMISSION_CLOSED", "defer", 0, 300),
        # Nobody's job is at fault where an operator has not let the agent act.
        ("/permits$", "LIVE_EXECUTION_NOT_AUTHORIZED", "stop", None, 300),
    ],
)
def test_where_there_is_no_room_the_attempt_is_deferred(
    governing, start_governed, other_side, step, reason, rule, after, seconds
):
    governing.add_job("task-1")
    status, body = problem(409, "FAILED_PRECONDITION", reason, rule)
    body["retry"]["after_seconds"] = after
    governing.fail_next(step, status=status, body=body)
    finish(start_governed())
    verb, said = governing.outcome_of("task-1")

    assert other_side.requests == []
    assert (verb, said["retry_after_seconds"]) == ("defer", seconds)
    assert said["reason"] == f"{reason}: told by the test: {reason}"
    assert said["attempt"] == 1 and said["fencing_token"] == 1
    assert not governing.calls("/fail$")


def test_an_attempt_that_cannot_be_deferred_has_failed(governing, start_governed, other_side):
    governing.add_job("task-1")
    status, body = problem(429, "RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", "defer")
    governing.fail_next("/permits$", status=status, body=body)
    # As a control plane of an earlier release answers.
    governing.routes["/defer$"] = lambda seen: problem(404, "NOT_FOUND", "NOT_FOUND", "never")
    finish(start_governed())
    verb, said = governing.outcome_of("task-1")

    assert (verb, said["error_code"], said["retryable"]) == ("fail", "DEFERRAL_REFUSED", True)


def test_a_start_that_says_refused_or_ended_means_no_effect(governing, start_governed, other_side):
    governing.add_job("task-1")
    governing.routes["/v1/executions$"] = lambda seen: (
        200,
        {"decision": "issued", "state": "succeeded", "may_begin": True, "deadline_seconds": 60},
    )
    finish(start_governed())

    assert other_side.requests == []
    assert governing.outcome_of("task-1")[0] == "fail"


def test_an_effect_never_begins_without_the_authority_of_its_start(
    governing, start_governed, other_side
):
    governing.add_job("task-1")
    governing.routes["/v1/executions$"] = lambda seen: (
        200,
        {
            "decision": "issued",
            "state": "unknown",
            "may_begin": False,
            "repeated": True,
            "deadline_seconds": 60,
        },
    )
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert other_side.requests == []
    [result] = governing.calls("/result$")
    assert result.body["outcome"] == "not_started"
    assert (verb, body["error_code"], body["retryable"]) == ("fail", "NOT_STARTED", True)


def test_a_repeated_start_lets_who_has_not_marked_its_beginning_begin(
    governing, start_governed, other_side
):
    governing.add_job("task-1")
    governing.routes["/v1/executions$"] = lambda seen: (
        200,
        {
            "decision": "issued",
            "state": "unknown",
            "may_begin": True,
            "repeated": True,
            "deadline_seconds": 60,
        },
    )
    finish(start_governed())

    assert len(other_side.requests) == 1
    assert governing.outcome_of("task-1")[0] == "complete"


def test_an_effect_never_begins_past_its_deadline(governing, start_governed, other_side):
    governing.add_job("task-1")
    governing.routes["/v1/executions$"] = lambda seen: (
        201,
        {"decision": "issued", "state": "unknown", "may_begin": True, "deadline_seconds": 0},
    )
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert other_side.requests == []
    [result] = governing.calls("/result$")
    assert result.body["outcome"] == "not_started"
    assert (verb, body["error_code"], body["retryable"]) == ("fail", "NOT_STARTED", True)


def test_a_permit_is_asked_for_anew_when_the_job_has_moved_on(
    governing, start_governed, other_side
):
    governing.add_job("task-1")
    moved = problem(409, "ABORTED", "REVISION_MISMATCH", "refresh", revision=7)
    governing.fail_next("/permits$", status=409, body=moved[1])
    finish(start_governed())

    first, second = governing.calls("/permits$")
    assert second.body["expected_revision"] == 7
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert governing.outcome_of("task-1")[0] == "complete"


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (401, False), (404, False), (429, True), (503, True)]
)
def test_an_answer_that_declines_is_a_failed_execution(
    governing, start_governed, other_side, status, retryable
):
    governing.add_job("task-1")
    other_side.answer = lambda handler, document: say(handler, status, {"no": "thanks"})
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    [result] = governing.calls("/result$")
    assert result.body["outcome"] == "failed"
    assert (verb, body["retryable"]) == ("fail", retryable)
    assert body["error_code"] == f"AGENT_ANSWERED_{status}"
    assert len(other_side.requests) == 1


@pytest.mark.parametrize("status", [0, 202, 302, 408, 500, 502, 504])
def test_an_answer_that_does_not_say_what_happened_leaves_the_outcome_unknown(
    governing, start_governed, other_side, status
):
    governing.add_job("task-1")
    other_side.answer = lambda handler, document: status and say(handler, status, {})
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert (verb, body["error_code"]) == ("fail", "OUTCOME_UNKNOWN")
    assert not governing.calls("/result$"), "the control plane keeps the execution unknown"
    assert len(other_side.requests) == 1


def test_an_answer_that_stays_away_leaves_the_outcome_unknown(
    governing, start_governed, other_side
):
    release = threading.Event()
    other_side.answer = lambda handler, document: release.wait(PATIENCE_SECONDS)
    governing.add_job("task-1")
    finish(start_governed(silence_s=0.3))
    release.set()

    assert governing.outcome_of("task-1")[1]["error_code"] == "OUTCOME_UNKNOWN"
    assert len(other_side.requests) == 1


def test_where_nothing_could_be_sent_the_execution_was_not_started(governing, start_governed):
    governing.add_job("task-1")
    governing.routes["/v1/executions$"] = lambda seen: (
        201,
        {"decision": "issued", "state": "unknown", "may_begin": True, "deadline_seconds": 1.3},
    )
    finish(start_governed(url="http://127.0.0.1:9/"))
    verb, body = governing.outcome_of("task-1")

    [result] = governing.calls("/result$")
    assert result.body["outcome"] == "not_started"
    assert (verb, body["retryable"]) == ("fail", True)


@pytest.mark.parametrize(
    "over", [{"attempt": 2}, {"attempt": True}, {"external_request_id": "xr_" + "0" * 64}]
)
def test_a_result_that_binds_another_request_is_refused(
    governing, start_governed, other_side, over
):
    governing.add_job("task-1")
    other_side.answer = lambda handler, document: say(handler, 200, bound(document, **over))
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert (verb, body["error_code"]) == ("fail", "RESULT_NOT_BOUND")


def test_a_result_that_no_request_carries_is_delivered_as_an_artifact(
    governing, start_governed, other_side
):
    governing.add_job("task-1")
    large = {"text": "x" * 2_000_000}
    theirs = {"name": "result.json", "pointer": "https://elsewhere.example/result.json"}
    other_side.answer = lambda handler, document: say(
        handler, 200, bound(document, result=large, artifacts=[theirs])
    )
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert verb == "complete"
    [kept, delivered] = body["result"]["artifacts"]
    assert kept | theirs == kept
    assert (delivered["name"], "text" in body["result"]) == ("result-2.json", False)
    assert delivered["pointer"].startswith("artifact:")
    assert "result-2.json" in body["result"]["delivery_faults"][0]["detail"]
    assert [json.loads(content) for content in governing.objects.values()] == [large]
    [result] = governing.calls("/result$")
    assert result.body["result"] == body["result"]
    assert governing.refused == []


def test_what_is_larger_than_an_answer_may_be_fails_for_good(governing, start_governed, other_side):
    governing.add_job("task-1")
    large = {"text": "x" * MAX_ANSWER_BYTES}
    other_side.answer = lambda handler, document: say(handler, 200, bound(document, result=large))
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")
    assert (verb, body["error_code"], body["retryable"]) == ("fail", "OUTPUT_TOO_LARGE", False)


def test_facts_that_no_one_request_carries_are_told_in_many(governing, start_governed, other_side):
    governing.add_job("task-1")
    facts = [
        {"fact_id": f"f-{n}", "type": "com.example.read", "data": {"text": "x" * 200_000}}
        for n in range(6)
    ]
    other_side.answer = lambda handler, document: say(handler, 200, bound(document, facts=facts))
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")
    assert (verb, body["result"]["text"]) == ("complete", "from outside")
    assert len(governing.calls("/v1/facts$")) == 6
    assert governing.refused == []


def test_a_stop_during_an_outside_effect_reports_no_result(governing, start_governed, other_side):
    release = threading.Event()
    other_side.answer = lambda handler, document: release.wait(PATIENCE_SECONDS)
    governing.add_job("task-1")
    started = start_governed()
    other_side.wait_until_asked()
    governing.controls["task-1"] = "stop"
    finish(started)
    release.set()

    assert governing.outcomes == {}
    assert not governing.calls("/result$")


# Restarts and sessions ---------------------------------------------------------------------------


def test_a_killed_worker_does_not_ask_the_other_side_again(
    governing, spawn_worker, other_side, tmp_path
):
    release = threading.Event()
    other_side.answer = lambda handler, document: release.wait(PATIENCE_SECONDS)
    governing.add_job("task-1")
    options = ("--runtime", "http", "--endpoint", other_side.url)
    first = spawn_worker([], *options)
    other_side.wait_until_asked()
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE_SECONDS)

    second: subprocess.Popen = spawn_worker([], *options, "--once")
    assert second.wait(PATIENCE_SECONDS) == 0
    release.set()

    verb, body = governing.outcome_of("task-1")
    assert (verb, body["error_code"]) == ("fail", "OUTCOME_UNKNOWN")
    assert len(other_side.requests) == 1
    assert not governing.calls("/result$")
    first_boot, second_boot = governing.calls("/activate$")
    assert first_boot.body == second_boot.body, "the restarted process keeps its session"


def test_a_start_without_the_mark_before_the_effect_is_reported_as_not_started(
    governing, make_claim, keys, start_governed, other_side, tmp_path
):
    claim = make_claim("task-1")
    data = tmp_path / "data"
    Journal(data / "journal").settle_claim([claim])
    job = verified_job(claim, agent="hermes", keys=keys, wait=lambda seconds: False)
    exchange = ExternalAgentExchange(data / "exchange").open(
        Request.of(job, runtime="http", attempt=1)
    )
    (tmp_path / "data" / "exchange" / exchange.request.external_request_id / "calls").mkdir()
    path = data / "exchange" / exchange.request.external_request_id / "calls" / "start.json"
    path.write_text('{"method": "POST", "path": "/v1/executions", "body": {}, "key": "k"}')
    finish(start_governed())
    verb, body = governing.outcome_of("task-1")

    assert other_side.requests == []
    [result] = governing.calls("/result$")
    assert result.body["outcome"] == "not_started"
    assert (verb, body["error_code"], body["retryable"]) == ("fail", "NOT_STARTED", True)


def test_a_newer_epoch_is_joined_once_and_no_work_is_replayed(
    governing, start_governed, other_side
):
    newer = EPOCH.replace("eeee", "ffff")
    epochs = iter([EPOCH, newer, "never"])
    governing.routes["/activate$"] = lambda seen: (
        200,
        {"session_id": SESSION, "dispatcher_epoch": next(epochs), "state": "current"},
    )
    stale = problem(409, "ABORTED", "DISPATCHER_EPOCH_STALE", "refresh")
    issued = governing.routes["/executions/permits$"]
    governing.routes["/executions/permits$"] = lambda seen: (
        issued(seen) if seen.headers["fencepost-epoch"] == newer else stale
    )
    governing.add_job("task-1")
    finish(start_governed())

    first, second = governing.calls("/activate$")
    assert second.body["previous_session_id"] == SESSION
    assert first.body["boot_id"] == second.body["boot_id"]
    assert first.body["activation_operation_id"] != second.body["activation_operation_id"]
    assert len(other_side.requests) == 1
    assert governing.outcome_of("task-1")[0] == "complete"


def test_a_superseded_worker_ends_and_claims_nothing(governing, start_governed, monkeypatch):
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(str(args.exc_value)))
    superseded = problem(401, "UNAUTHENTICATED", "SESSION_SUPERSEDED", "reauthenticate")
    governing.routes["/v1/claims$"] = lambda seen: superseded
    governing.add_job("task-1")
    finish(start_governed())

    assert len(caught) == 1 and "SESSION_SUPERSEDED" in caught[0]
    assert len(governing.calls("/activate$")) == 1, "it does not fight its successor"
    assert len(governing.calls("/claims$")) == 1


def test_a_cell_that_was_taken_meanwhile_is_activated_as_a_new_boot(governing, start_governed):
    finish(start_governed())
    superseded = problem(401, "UNAUTHENTICATED", "SESSION_SUPERSEDED", "reauthenticate")
    governing.fail_next("/activate$", status=401, body=superseded[1])
    finish(start_governed())

    first, second, third = governing.calls("/activate$")
    assert first.body == second.body
    assert third.body["boot_id"] != second.body["boot_id"]


def test_an_activated_session_says_that_it_lives_while_it_is_idle(governing, start_governed):
    governing.interval_seconds = 0.05
    worker, thread = start_governed(until_empty=False, wait_seconds=1)
    governing.wait_for(lambda: len(governing.calls("/v1/agents/hermes/heartbeat$")) > 2)
    worker.drain()
    finish((worker, thread))

    beat, *_ = governing.calls("/v1/agents/hermes/heartbeat$")
    assert beat.body == {"runtime": "http"}
    assert beat.headers["fencepost-session"] == SESSION
    assert beat.headers["fencepost-epoch"] == EPOCH


def test_a_superseded_session_says_no_more(governing, start_governed):
    governing.interval_seconds = 0.05
    path = "/v1/agents/hermes/heartbeat$"
    gone = problem(409, "ABORTED", "SESSION_SUPERSEDED", "stop")
    governing.routes[path] = lambda seen: gone
    worker, thread = start_governed(until_empty=False, wait_seconds=1)
    governing.wait_for(lambda: governing.calls(path) and len(governing.calls("/v1/claims$")) > 1)
    worker.drain()
    finish((worker, thread))

    assert len(governing.calls(path)) == 1


# A new epoch -------------------------------------------------------------------------------------

NEWER = EPOCH.replace("eeee", "ffff")
STALE = problem(409, "ABORTED", "DISPATCHER_EPOCH_STALE", "refresh")


@pytest.fixture
def two_epochs(governing):
    """The first activation is of one epoch, each later one of the next, under another id."""
    sessions = iter([(SESSION, EPOCH), *[(f"{SESSION[:-1]}{n}", NEWER) for n in range(2, 9)]])

    def activated(seen):
        session, epoch = next(sessions)
        return 200, {"session_id": session, "dispatcher_epoch": epoch, "state": "current"}

    governing.routes["/activate$"] = activated
    return governing


def newer(seen):
    return seen.headers["fencepost-epoch"] == NEWER


def test_a_permit_that_was_revoked_with_its_epoch_is_asked_for_again(
    governing, start_governed, other_side
):
    permits = iter([PERMIT, PERMIT.replace("cccc", "dddd")])
    governing.routes["/executions/permits$"] = lambda seen: (
        201,
        {"permit_id": next(permits), "state": "issued", "deadline_seconds": 60},
    )
    issued = governing.routes["/v1/executions$"]
    revoked = problem(409, "FAILED_PRECONDITION", "PERMIT_REVOKED", "refresh")
    governing.routes["/v1/executions$"] = lambda seen: (
        revoked if seen.body["permit_id"] == PERMIT else issued(seen)
    )
    governing.add_job("task-1")
    finish(start_governed())

    first, second = governing.calls("/v1/executions$")
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert len(other_side.requests) == 1
    assert governing.outcome_of("task-1")[0] == "complete"


def test_permits_that_are_always_revoked_are_not_asked_for_for_ever(
    governing, start_governed, other_side
):
    revoked = problem(409, "FAILED_PRECONDITION", "PERMIT_REVOKED", "refresh")
    governing.routes["/v1/executions$"] = lambda seen: revoked
    governing.add_job("task-1")
    finish(start_governed())

    assert len(governing.calls("/v1/executions$")) == 3
    assert not other_side.requests
    assert governing.outcome_of("task-1")[0] == "fail"


def test_what_is_kept_under_an_old_epoch_is_said_again_under_the_new(
    two_epochs, start_governed, other_side
):
    kept = (202, {"outcome": "recorded", "result_code": "ACCEPTED"})
    recorded = (200, {"outcome": "recorded", "result_code": "APPLIED"})
    two_epochs.routes["/result$"] = lambda seen: recorded if newer(seen) else kept
    alive = (200, {"heartbeat_interval_seconds": 60})
    told = threading.Event()

    def presence(seen):
        if newer(seen) or not told.is_set():
            return alive
        return STALE

    two_epochs.routes["/v1/agents/hermes/heartbeat$"] = presence
    answer = other_side.answer

    def act(handler, document):
        told.set()
        answer(handler, document)

    other_side.answer = act
    two_epochs.add_job("task-1")
    finish(start_governed())

    first, second = two_epochs.calls("/result$")
    assert first.body == second.body
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert second.headers["fencepost-session"] != SESSION
    assert two_epochs.outcome_of("task-1")[0] == "complete"


def test_a_result_that_is_kept_for_good_is_told_once_more_and_no_oftener(governing, start_governed):
    kept = (202, {"outcome": "recorded", "result_code": "ACCEPTED"})
    governing.routes["/result$"] = lambda seen: kept
    governing.add_job("task-1")
    finish(start_governed())

    assert len(governing.calls("/result$")) == 2
    assert governing.outcome_of("task-1")[0] == "complete"


def test_while_it_activates_again_the_worker_calls_as_who_it_was(two_epochs, start_governed):
    """A beat without a session would be another holder's, and would end the lease here."""
    activating, go = threading.Event(), threading.Event()
    activated = two_epochs.routes["/activate$"]

    def slowly(seen):
        if "previous_session_id" in seen.body:
            activating.set()
            assert go.wait(PATIENCE_SECONDS)
        return activated(seen)

    two_epochs.routes["/activate$"] = slowly
    two_epochs.routes["/v1/claims$"] = lambda seen: (200, {"results": []}) if newer(seen) else STALE
    running = start_governed()
    assert activating.wait(PATIENCE_SECONDS)
    session = running[0]._plane.session
    headers = session.headers()
    go.set()
    finish(running)

    assert headers["Fencepost-Session"] == SESSION
    assert session.headers()["Fencepost-Session"] != SESSION


def test_an_activation_of_an_epoch_that_is_over_is_made_anew_by_the_same_boot(
    governing, start_governed
):
    finish(start_governed())
    governing.fail_next("/activate$", status=409, body=STALE[1])
    finish(start_governed())

    first, second, third = governing.calls("/activate$")
    assert first.body == second.body
    assert third.body["boot_id"] == second.body["boot_id"]
    assert "previous_session_id" not in third.body


@pytest.mark.parametrize("reason", ["SESSION_SUPERSEDED", "LEASE_HELD_BY_ANOTHER"])
def test_an_attempt_that_is_anothers_for_now_is_kept_for_the_next_start(
    governing, start_governed, tmp_path, reason
):
    refused = problem(401, "UNAUTHENTICATED", reason, "reauthenticate")
    issued = governing.routes["/v1/executions$"]
    governing.routes["/v1/executions$"] = lambda seen: refused
    governing.add_job("task-1")
    finish(start_governed(max_jobs=1))
    assert [claim.task_id for claim in Journal(tmp_path / "data" / "journal").open_claims()] == [
        "task-1"
    ]

    governing.routes["/v1/executions$"] = issued
    finish(start_governed(until_empty=True))
    assert not list(Journal(tmp_path / "data" / "journal").open_claims())
    assert governing.outcome_of("task-1")[0] == "fail"
