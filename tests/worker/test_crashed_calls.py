"""A real SIGKILL at points all along an attempt that calls a model through the worker's gateway.

Whatever the point: the provider is asked at most once, every reservation that was made ends once,
and after one restart the attempt has exactly one end, which is true of what happened.
"""

import signal
from collections import Counter

import pytest

from fencepost_worker.testing import StandInProvider
from tests.worker import killing

#: More than the points of one job's life, so that the last run is one without a kill.
POINTS = 36

PROGRAM = """
import urllib.request
asked = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    data=json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode(),
    headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(asked) as said:
    text = json.load(said)["choices"][0]["message"]["content"]
answer(result={"text": text})
"""


@pytest.fixture
def routing(plane):
    """Teach the scripted control plane calls of models: what it routed, started and resolved."""
    plane.routed, plane.resolved = {}, Counter()
    plane.executions = killing.serve_executions(plane)
    plane.effects = "external"
    grant = plane._grant
    plane._grant = lambda job: (
        grant(job)
        | {
            "model_use": "required",
            "effects": plane.effects,
            "open_calls_max": 8,
            "models": [{"position": 1, "provider": "local", "model": "m", "api": "openai"}],
        }
    )

    def route(seen):
        name = seen.body["route_request_id"]
        number = plane.routed.setdefault(name, len(plane.routed) + 1)
        started = seen.body["external_request_id"] in plane.executions
        return 201, {
            "decision": "issued", "reason": "", "provider": "local", "model": "m", "position": 1,
            "decision_id": f"0190dddd-0000-7000-8000-{number:012}", "max_output_tokens": 64,
            "reservation": {"reservation_id": f"r-{number}", "state": "held", "amount": "1"},
            "begin_within_seconds": 60 if started else None,
        }  # fmt: skip

    def resolve(seen):
        plane.resolved[seen.path.split("/")[3], seen.headers["idempotency-key"]] += 1
        return 200, {"outcome": "recorded", "state": seen.body["end"], "cost_basis": "actual"}

    plane.routes["/v1/routes$"] = route
    plane.routes["/resolve$"] = resolve
    return plane


@pytest.fixture
def run_worker(routing, program, tmp_path):
    """Return a function that runs a worker, killed at a point, to its end; its exit code."""
    with StandInProvider() as provider:
        config = tmp_path / "worker.toml"
        config.write_text(
            f'[providers.local]\napi = "openai"\nbase_url = "{provider.base_url_openai}"\n'
        )
        routing.provider = provider

        options = ("--config", str(config), "--no-uploads", "--", *program(PROGRAM))
        yield lambda kill_at: killing.run_worker(routing.url, tmp_path / "data", kill_at, *options)


@pytest.mark.parametrize(
    ("effects", "kill_at"),
    [("model_only", point) for point in range(1, POINTS + 1, 4)]
    + [("external", point) for point in range(2, POINTS + 1, 10)],
)
def test_a_kill_at_any_point_asks_the_provider_once_and_leaves_no_call_open(
    routing, run_worker, tmp_path, effects, kill_at
):
    routing.effects = effects
    routing.add_job("task-1")
    killed = run_worker(kill_at)
    assert killed in (-signal.SIGKILL, 0)
    # 0 never comes down to the kill: the second life is whole.
    assert run_worker(0) == 0

    asked = len(routing.provider.requests)
    assert asked <= 1
    assert routing.jobs["task-1"]["attempt"] == 1
    ended = {reservation for reservation, _ in routing.resolved}
    assert ended == {f"r-{number}" for number in routing.routed.values()}
    assert len(routing.resolved) == len(ended), "each is told one end, under one key"
    [(verb, body)] = routing.outcomes.values()
    if verb == "complete":
        assert (asked, set(routing.executions.values())) == (1, {"succeeded"})
    else:
        assert body["error_code"] in ("OUTCOME_UNKNOWN", "NOT_STARTED")
        assert body["retryable"] is True
    assert not list((tmp_path / "data" / "journal").rglob("claim.json")), "nothing is owed any more"
    if killed == 0:
        assert verb == "complete"


def test_the_last_point_is_past_the_end_of_a_jobs_life(routing, run_worker):
    routing.effects = "model_only"
    routing.add_job("task-1")

    assert run_worker(POINTS) == 0
