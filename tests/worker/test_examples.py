"""The example tasks, run by the worker: real programs, real output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENVELOPE_MEMBERS = {
    "task_id",
    "source",
    "title",
    "goal",
    "task_type",
    "risk_tier",
    "priority",
    "preferred_owner",
    "inputs",
    "output_required",
    "review_required",
    "execution_approval_required",
    "rollback_required",
}
PROGRAMS = {
    "artifact-production": "hermes",
    "classification": "openclaw",
    "implementation": "agent_zero",
}


@pytest.fixture
def run_example(plane, start_worker):
    """Return a function that runs an example to its end and returns its result and artifacts."""

    def run(name):
        task = json.loads((EXAMPLES / f"{name}.json").read_text())
        beside = {k: task[k] for k in task.keys() - {"source", "priority", "preferred_owner"}}
        agent = task["preferred_owner"]
        plane.add_job(agent=agent, **beside)
        program = [sys.executable, str(EXAMPLES / "programs" / f"{agent}.py")]
        running = start_worker(program, agent=agent, max_jobs=1)
        verb, body = plane.outcome_of(task["task_id"])
        running.join()
        assert verb == "complete", body
        kept = {
            artifact["name"]: (
                running.data / "artifacts/sha256" / artifact["sha256"][:2] / artifact["sha256"]
            ).read_text()
            for artifact in body["result"]["artifacts"]
        }
        return body["result"], kept

    return run


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_task_is_a_whole_envelope(name):
    task = json.loads((EXAMPLES / f"{name}.json").read_text())

    assert task.keys() == ENVELOPE_MEMBERS
    assert task["preferred_owner"] == PROGRAMS[name]
    if task["risk_tier"] == "high":
        assert task["review_required"] and task["execution_approval_required"]


def test_hermes_writes_a_specification_and_a_data_contract(run_example):
    result, kept = run_example("artifact-production")

    assert result["tables"] == ["parcels", "scans"]
    contract = json.loads(kept["parcel-tracking-contract.json"])
    columns = {c["name"]: c for c in contract["tables"][0]["columns"]}
    assert columns["parcel_id"] == {
        "name": "parcel_id",
        "type": "string",
        "required": True,
        "unique": True,
    }
    assert columns["service_level"]["values"] == ["express", "freight", "standard"]
    assert columns["weight_kg"]["type"] == "number"
    assert columns["delivered_at"] == {
        "name": "delivered_at",
        "type": "timestamp",
        "required": False,
    }
    assert contract["references"] == [{"from": "scans.parcel_id", "to": "parcels.parcel_id"}]
    document = kept["parcel-tracking-specification.md"]
    assert "## Parcel tracking feed" in document
    assert "| `weight_kg` | number | True | seen from 0.35 to 118 |" in document


def test_openclaw_labels_each_ticket_and_names_the_doubtful(run_example):
    result, _ = run_example("classification")

    assert [item["label"] for item in result["items"]] == [
        "billing",
        "delivery",
        "account",
        "delivery",
        "none",
    ]
    assert result["unsure"] == ["t-5"]


def test_agent_zero_delivers_a_change_that_its_tests_prove(run_example, tmp_path):
    _, kept = run_example("implementation")

    assert "FAILED" in kept["tests.log"].partition("after the change")[0]
    assert kept["tests.log"].rstrip().endswith("OK")
    module = tmp_path / "durations.py"
    before = (EXAMPLES / "inputs/duration-parser/durations.py").read_text()
    module.write_text(before)
    for name in ("change.patch", "rollback.patch"):
        subprocess.run(["patch", "-p1"], input=kept[name], text=True, cwd=tmp_path, check=True)
        assert (module.read_text() == before) == (name == "rollback.patch")


def test_a_task_of_another_type_is_undoable(plane, start_worker):
    plane.add_job("task-1", task_type="rewrite")
    program = [sys.executable, str(EXAMPLES / "programs/hermes.py")]
    running = start_worker(program, max_jobs=1)
    verb, body = plane.outcome_of("task-1")
    running.join()

    assert verb == "fail"
    assert (body["error_code"], body["retryable"]) == ("TASK_UNDOABLE", False)
