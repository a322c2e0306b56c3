"""The client's retry rules, against a real server."""

import pytest

from fencepost_worker.client import (
    Call,
    ControlPlane,
    GaveUp,
    Problem,
    Refused,
    Session,
    Unreachable,
)

ASK = Call("POST", "/v1/jobs/task-1/complete", {"attempt": 1, "fencing_token": 1}, key="k-1")


def refusal(code, reason, rule, after_seconds=None):
    return {
        "code": code,
        "reason": reason,
        "detail": "told by the test",
        "effect": "none",
        "retry": {"rule": rule, "after_seconds": after_seconds},
        "current": {"revision": 3},
    }


@pytest.fixture
def ready(plane):
    plane.add_job("task-1")
    plane.grant("task-1")
    return plane


def patient(waits):
    """Return a wait that does not wait but writes down how long it should have."""

    def wait(seconds):
        waits.append(seconds)
        return len(waits) < 10

    return wait


@pytest.mark.parametrize(
    ("status", "code", "reason", "rule"),
    [
        (503, "UNAVAILABLE", "CONTENTION", "same_key"),
        (503, "UNAVAILABLE", "UNAVAILABLE", "reconcile"),
        (504, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "reconcile"),
        (409, "ABORTED", "IDEMPOTENCY_IN_FLIGHT", "same_key"),
        (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", "wait"),
    ],
)
def test_a_transient_refusal_is_asked_again_with_the_same_key(
    ready, client, status, code, reason, rule
):
    ready.fail_next("/complete", status=status, body=refusal(code, reason, rule))
    answer = client.deliver(ASK, wait=patient([]))

    assert answer.body["outcome"] == "recorded"
    assert [seen.headers["idempotency-key"] for seen in ready.calls("/complete")] == ["k-1"] * 2


@pytest.mark.parametrize(
    ("status", "code", "reason", "rule"),
    [
        (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "never"),
        (403, "PERMISSION_DENIED", "WRONG_OWNER", "stop"),
        (404, "NOT_FOUND", "NOT_FOUND", "never"),
        (409, "FAILED_PRECONDITION", "LEASE_EXPIRED", "refresh"),
        (409, "FAILED_PRECONDITION", "OUTCOME_UNKNOWN", "reconcile"),
        (409, "ABORTED", "STALE_FENCING_TOKEN", "refresh"),
        (409, "ALREADY_EXISTS", "EXECUTION_CONFLICT", "read"),
        (422, "ABORTED", "IDEMPOTENCY_KEY_REUSED", "never"),
        (422, "ABORTED", "IDEMPOTENCY_KEY_EXPIRED", "reconcile"),
        (429, "RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", "wait"),
    ],
)
def test_a_refusal_that_repeating_does_not_mend_is_raised_at_once(
    ready, client, status, code, reason, rule
):
    ready.fail_next("/complete", status=status, body=refusal(code, reason, rule))
    with pytest.raises(Refused) as refused:
        client.deliver(ASK, wait=patient([]))

    problem = refused.value.problem
    assert (problem.status, problem.code, problem.reason) == (status, code, reason)
    assert problem.current == {"revision": 3}
    assert len(ready.calls("/complete")) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failure_that_says_nothing_is_asked_again(ready, client, status):
    ready.fail_next("/complete", status=status)

    assert client.deliver(ASK, wait=patient([])).body["outcome"] == "recorded"


def test_a_lost_answer_is_asked_again_and_found_recorded(ready, client):
    ready.fail_next("/complete", applied=True)

    assert client.deliver(ASK, wait=patient([])).body["outcome"] == "already_recorded"


def test_the_time_to_come_back_is_honoured_but_bounded(ready, client):
    busy = refusal("RESOURCE_EXHAUSTED", "RATE_LIMITED", "wait", 7)
    away = refusal("UNAVAILABLE", "MAINTENANCE_INHIBITED", "wait", 7200)
    ready.fail_next("/complete", status=429, body=busy)
    ready.fail_next("/complete", status=503, body=away)
    ready.fail_next("/complete", status=503, headers={"Retry-After": "9"})
    waits = []
    client.deliver(ASK, wait=patient(waits))

    assert 7 <= waits[0] < 8 and 60 <= waits[1] < 62 and 9 <= waits[2] < 12


def test_an_answer_is_anchored_at_the_first_time_it_was_asked_for(ready, client, monkeypatch):
    ready.fail_next("/complete", status=503)
    times = iter([10.0, 20.0, 30.0, 40.0])
    monkeypatch.setattr("fencepost_worker.client.steady_now", lambda: next(times))

    assert client.deliver(ASK, wait=patient([])).requested_at == 10.0


def test_a_wait_that_ends_gives_up(ready, client):
    ready.fail_next("/complete", status=503)
    with pytest.raises(GaveUp):
        client.deliver(ASK, wait=lambda seconds: False)


def test_an_unreachable_server_is_told_apart_from_a_refusal():
    nobody = ControlPlane(url="http://127.0.0.1:9", session=Session(worker_id="w", token="t"))
    try:
        with pytest.raises(Unreachable):
            nobody.send(ASK)
    finally:
        nobody.close()


@pytest.mark.parametrize("body", [[], "text", None])
def test_an_answer_that_is_no_object_counts_as_none(ready, client, body):
    ready.fail_next("/complete", status=200, body=body)
    with pytest.raises(Unreachable):
        client.send(ASK)


def test_a_rejected_token_is_read_again_from_its_file_once(ready, client, tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text("fp_old.secret\n")
    client.session = session = Session(worker_id="w", token_file=token_file)
    token_file.write_text("fp_test.secret\n")

    assert client.deliver(ASK, wait=patient([])).body["outcome"] == "recorded"

    token_file.write_text("fp_wrong.secret\n")
    session._token = "fp_old.secret"
    with pytest.raises(Refused):
        client.deliver(ASK, wait=patient([]))
    assert len(ready.calls("/complete")) == 4


def test_a_redirect_is_not_followed(ready, client):
    ready.fail_next("/complete", status=307, headers={"Location": ready.url + "/elsewhere"})
    with pytest.raises(Refused):
        client.deliver(ASK, wait=patient([]))

    assert not ready.calls("/elsewhere")


def test_a_problem_without_members_is_read_carefully():
    problem = Problem.from_body({"retry": "later", "current": []}, status=500)

    assert (problem.effect, problem.rule, problem.transient) == ("unknown", "", True)
