"""The exchange of one effect: once, whole, bound; and the published schemas of its documents."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

from fencepost_worker import durable
from fencepost_worker.envelopes import verified_job
from fencepost_worker.exchange import (
    REQUEST_ID,
    AlreadyStarted,
    ExchangeConflict,
    ExternalAgentExchange,
    Request,
    Result,
    ResultRefused,
    Stage,
)

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def validator(name):
    """Return a judge of the copy in the reference, as an agent's author has it."""
    schema = json.loads((REFERENCE / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


@pytest.fixture
def job(make_claim, keys):
    claim = make_claim("task-1")
    return verified_job(claim, agent="hermes", keys=keys, wait=lambda seconds: False)


@pytest.fixture
def request_(job):
    return Request.of(job, runtime="command", attempt=1)


@pytest.fixture
def exchange(request_, tmp_path):
    return ExternalAgentExchange(tmp_path / "exchange").open(request_)


def result(request, **over):
    return Result.of(request, request.binding | {"outcome": "succeeded"} | over)


@pytest.mark.parametrize("attempt", [0, -1, True, "1", 1.0, None])
def test_a_request_takes_only_a_whole_attempt_from_one(job, attempt):
    with pytest.raises(ValueError, match="attempt"):
        Request.of(job, runtime="command", attempt=attempt)


def test_a_request_document_keeps_to_its_published_schema(request_):
    validator("execution-request").validate(request_.document)


def test_a_request_hands_the_story_on_and_a_claim_of_before_has_none(job, request_):
    story = [{"attempt": 1, "outcome": "escalated", "answer": "Use eu-west."}]
    job.claim.document["story"] = story

    told = Request.of(job, runtime="command", attempt=1)

    assert told.document == request_.document | {"story": story}
    validator("execution-request").validate(told.document)
    assert "story" not in request_.document


@pytest.mark.parametrize(
    ("output", "good"), [("spec.md and schema.json", True), (True, True), ("x" * 4001, False)]
)
def test_what_is_to_be_delivered_may_be_said_in_words(request_, output, good):
    document = request_.document | {"output_required": output}
    assert validator("execution-request").is_valid(document) is good


@pytest.mark.parametrize("attempt", [0, True, "1", 1.5])
def test_the_published_schemas_refuse_an_attempt_that_is_none(request_, attempt):
    bad = request_.document | {"attempt": attempt}
    assert not validator("execution-request").is_valid(bad)
    bad = request_.binding | {"outcome": "succeeded", "attempt": attempt}
    assert not validator("execution-result").is_valid(bad)


@pytest.mark.parametrize(
    ("over", "good"),
    [
        ({}, True),
        ({"result": {"a": 1}, "artifacts": [{"name": "a.md"}], "needs_review": True}, True),
        ({"usage": {"input_tokens": 1, "output_tokens": 2, "reasoning_tokens": 0}}, True),
        ({"escalate": {"reason": "r", "notify_to": "ops"}}, True),
        ({"outcome": "failed", "error_code": "E", "error_message": "m", "retryable": True}, True),
        ({"outcome": "not_started"}, True),
        ({"outcome": "done"}, False),
        ({"outcome": None}, False),
        ({"unknown": 1}, False),
        ({"result": []}, False),
        ({"result": "text"}, False),
        ({"artifacts": None}, False),
        ({"artifacts": [{"media_type": "text/plain"}]}, False),
        ({"artifacts": [{"name": "a", "path": "/a"}]}, False),
        ({"artifacts": [{"name": "a"}] * 101}, False),
        ({"needs_review": 1}, False),
        ({"retryable": "yes"}, False),
        ({"escalate": {}}, False),
        ({"escalate": {"reason": ""}}, False),
        ({"escalate": {"reason": "r", "to": "x"}}, False),
        ({"usage": {"input_tokens": 1, "cache_write_tokens": 1, "searches": 2}}, True),
        ({"usage": {"input_tokens": "1", "output_tokens": -1, "total": None}}, True),
        ({"usage": ["none"]}, True),
        ({"error_code": "x" * 81}, False),
        ({"error_message": 5}, False),
        ({"provider_response_id": "x" * 201}, False),
        ({"artifacts": [{"name": ""}]}, False),
        ({"artifacts": [{"name": "x" * 201}]}, False),
        ({"artifacts": [{"name": "a", "media_type": None}]}, False),
        ({"artifacts": [{"name": "a", "media_type": "x" * 101}]}, False),
        ({"artifacts": [{"name": "a", "size_bytes": -1}]}, False),
        ({"artifacts": [{"name": "a", "sha256": "A" * 64}]}, False),
        ({"facts": [{"fact_id": "f-1", "type": "com.example.done", "data": {"a": 1}}]}, True),
        ({"facts": None}, False),
        ({"facts": ["f-1"]}, False),
        ({"facts": [{"fact_id": "f-1", "type": "com.example.done"}]}, False),
        ({"facts": [{"fact_id": "", "type": "com.example.done", "data": {}}]}, False),
        ({"facts": [{"fact_id": "f-1", "type": "not a type", "data": {}}]}, False),
        ({"facts": [{"fact_id": "f-1", "type": "com.example.done", "data": []}]}, False),
        ({"reflection": {"what_worked": "w", "tool_sequence": ["a", {"b": 1}]}}, True),
        ({"reflection": {}}, False),
        ({"reflection": []}, False),
        ({"reflection": {"mood": "good"}}, False),
        ({"reflection": {"what_failed": 1}}, False),
        ({"reflection": {"context_type": "x" * 101}}, False),
        ({"reflection": {"sensitivity_level": ""}}, False),
        ({"reflection": {"tool_sequence": [1] * 201}}, False),
        ({"attempt": True}, False),
        ({"attempt": "1"}, False),
        ({"external_request_id": None}, False),
    ],
)
def test_the_worker_and_the_published_schema_agree_on_results(request_, over, good):
    document = request_.binding | {"outcome": "succeeded"} | over

    assert validator("execution-result").is_valid(document) == good
    if good:
        validator("execution-result").validate(Result.of(request_, document).document)
    else:
        with pytest.raises(ResultRefused):
            Result.of(request_, document)


@pytest.mark.parametrize(
    ("over", "fault"),
    [
        (
            {"facts": [{"fact_id": "f", "type": "com.example.done\n", "data": {}}]},
            "facts.0.type: pattern",
        ),
    ],
)
def test_the_worker_is_as_exact_as_the_control_plane_where_validators_differ(request_, over, fault):
    with pytest.raises(ResultRefused, match=fault):
        result(request_, **over)


@pytest.mark.parametrize(
    ("over", "fault"),
    [
        ({"outcome": "secret"}, r'^outcome: enum \["succeeded", "failed", "not_started"\]$'),
        ({"surprise": "secret"}, "^the result: .*'surprise'"),
        ({"escalate": {"notify_to": "secret"}}, "^escalate: 'reason' is a required property$"),
        ({"error_code": "secret" * 20}, "^error_code: maxLength 80$"),
        ({"artifacts": [{"name": "a"}, {"name": ["secret"]}]}, '^artifacts.1.name: type "string"$'),
        ({"x" * 1000: 1}, "^the result: .{1,290}$"),
    ],
)
def test_a_refused_result_is_told_the_member_and_the_rule_and_not_its_content(
    request_, over, fault
):
    with pytest.raises(ResultRefused, match=fault) as refused:
        result(request_, **over)

    assert "secret" not in str(refused.value)


def test_members_that_a_result_leaves_out_are_what_the_published_schema_says(request_):
    schema = json.loads((REFERENCE / "execution-result.schema.json").read_text())
    optional = schema["properties"].keys() - set(schema["required"])

    document = result(request_).document

    assert {name: document[name] for name in optional} == {
        name: schema["properties"][name]["default"] for name in optional
    }


@pytest.mark.parametrize("name", ["execution-request", "execution-result"])
def test_the_name_of_an_effect_is_the_same_in_schema_and_folder(name):
    schema = json.loads((REFERENCE / f"{name}.schema.json").read_text())

    pattern = schema["properties"]["external_request_id"]["pattern"]
    assert pattern == f"^{REQUEST_ID.pattern}$"


@pytest.mark.parametrize(
    "over",
    [{"attempt": 2}, {"external_request_id": "xr_" + "0" * 64}, {"execution_digest": "0" * 64}],
)
def test_a_result_of_another_request_is_not_bound(request_, over):
    with pytest.raises(ResultRefused) as refused:
        result(request_, **over)

    assert refused.value.code == "RESULT_NOT_BOUND"


def test_an_exchange_goes_from_request_to_start_to_answer(exchange, request_, tmp_path):
    assert exchange.stage is Stage.REQUESTED
    exchange.begin()
    assert exchange.stage is Stage.STARTED
    exchange.record(result(request_))
    assert exchange.stage is Stage.ANSWERED

    again = ExternalAgentExchange(tmp_path / "exchange").open(request_)
    assert again.stage is Stage.ANSWERED
    assert again.result() == result(request_)


def test_an_effect_begins_once_of_many_at_the_same_time(exchange):
    def begin(_):
        try:
            exchange.begin()
        except AlreadyStarted:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(begin, range(32))) == 1


def test_another_result_never_replaces_the_first(exchange, request_):
    first = result(request_, result={"n": 1})
    exchange.record(first)
    exchange.record(first)
    with pytest.raises(ExchangeConflict):
        exchange.record(result(request_, result={"n": 2}))

    assert exchange.result() == first


def test_a_result_that_an_older_worker_recorded_is_told_as_it_is(exchange, request_, tmp_path):
    sloppy = [{"name": "a", "media_type": "x" * 101}]
    exchange.begin()
    exchange.record(Result(result(request_).document | {"artifacts": sloppy}))

    [path] = (tmp_path / "exchange").glob("*/result.json")
    assert exchange.result().document["artifacts"] == sloppy

    path.write_text(json.dumps(json.loads(path.read_text()) | {"attempt": 2}))
    with pytest.raises(ResultRefused):
        exchange.result()


def test_another_request_under_the_same_id_is_refused(exchange, request_, tmp_path):
    other = Request(request_.document | {"goal": "Do something else entirely."})
    with pytest.raises(ExchangeConflict):
        ExternalAgentExchange(tmp_path / "exchange").open(other)


@pytest.mark.parametrize("name", ["../escape", "xr_short", "xr_" + "g" * 64, ""])
def test_an_exchange_folder_is_never_outside(request_, tmp_path, name):
    with pytest.raises(ValueError, match="request id"):
        ExternalAgentExchange(tmp_path / "exchange").open(
            Request(request_.document | {"external_request_id": name})
        )


def test_a_write_that_is_interrupted_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "document.json"
    durable.replace(path, b"{}")

    def interrupted(*args):
        raise OSError("no more")

    monkeypatch.setattr(durable.os, "replace", interrupted)
    with pytest.raises(OSError, match="no more"):
        durable.replace(path, b'{"new": 1}')

    assert path.read_bytes() == b"{}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"'])
def test_what_is_not_a_document_is_said_to_be_unreadable(tmp_path, content):
    path = tmp_path / "document.json"
    path.write_bytes(content)
    with pytest.raises(durable.Unreadable):
        durable.read_document(path)


@pytest.mark.parametrize(
    "facts",
    [
        [{"fact_id": "f-1", "type": "com.example.done", "data": {}}] * 2,
        [{"fact_id": "f-1", "type": "com.example.done", "data": {"text": "x" * 2**18}}],
    ],
)
def test_facts_that_the_schema_cannot_judge_are_refused_all_the_same(request_, facts):
    with pytest.raises(ResultRefused, match="facts"):
        result(request_, facts=facts)
