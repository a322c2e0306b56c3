"""What must be known of a request is read, what must be changed is, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost_worker.gateway.faces import (
    Endpoint,
    Face,
    ModelRequest,
    RequestUnreadable,
    endpoint_of,
    face_asked,
    read_request,
    rewritten,
)
from fencepost_worker.gateway.members import MAX_DEPTH
from tests.worker.gateway.table import requests

CASES = [pytest.param(each, id=each["id"]) for each in requests()]
BIG_BYTES = 20_000_000


@pytest.mark.parametrize("case", CASES)
def test_a_request_is_read_and_rewritten(case: dict[str, Any]) -> None:
    endpoint, body = Endpoint(case["endpoint"]), case["body"].encode()
    if "refused" in case:
        with pytest.raises(RequestUnreadable) as refused:
            read_request(endpoint, body)
        assert str(refused.value) == case["refused"]
        return
    binary = sum(len(text) + len('""') for text in case.get("not_text", ()))
    asked = {"model": None, "estimated_text_bytes": len(body) - binary} | case["asked"]
    if "requirements" in asked:
        asked["requirements"] = tuple(asked["requirements"])
    assert read_request(endpoint, body) == ModelRequest(**asked)
    if "sent" in case:
        assert rewritten(endpoint, body, **case["rewrite"]).decode() == case["sent"]


@pytest.mark.parametrize(
    ("method", "path", "endpoint"),
    [
        ("POST", "/v1/chat/completions", Endpoint.CHAT),
        ("POST", "/v1/responses", Endpoint.RESPONSES),
        ("POST", "/v1/embeddings", Endpoint.EMBEDDINGS),
        ("POST", "/v1/messages", Endpoint.MESSAGES),
        ("POST", "/v1/messages?beta=true", Endpoint.MESSAGES),
        ("POST", "/v1/messages/count_tokens?beta=true", Endpoint.COUNT_TOKENS),
        ("GET", "/v1/models", Endpoint.MODELS),
        ("GET", "/v1/models/vendor/model", Endpoint.MODELS),
        # Only what is listed passes: G080, G081, G090, G091.
        ("GET", "/v1/responses/resp_1", None),
        ("DELETE", "/v1/responses/resp_1", None),
        ("POST", "/v1/responses/compact", None),
        ("POST", "/v1/images/generations", None),
        ("POST", "/v1/audio/speech", None),
        ("POST", "/v1/files", None),
        ("POST", "/v1/messages/batches", None),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/models", None),
        ("DELETE", "/v1/models/ft:1", None),
        ("POST", "/v1/chat/completions/", None),
        ("POST", "/v1/../v1/chat/completions", None),
        ("POST", "/v1/chat%2Fcompletions", None),
        ("GET", "/v1/modelsX", None),
    ],
)
def test_an_endpoint_is_governed_or_none(method: str, path: str, endpoint: Endpoint | None) -> None:
    assert endpoint_of(method, path) is endpoint


@pytest.mark.parametrize(
    ("path", "headers", "face"),
    [
        ("/v1/models", {"authorization": "Bearer k"}, Face.OPENAI),
        ("/v1/models", {"x-api-key": "k", "anthropic-version": "2023-06-01"}, Face.ANTHROPIC),
        ("/v1/models/m", {"authorization": "Bearer k", "anthropic-version": "1"}, Face.ANTHROPIC),
        ("/v1/messages/batches", {"authorization": "Bearer k"}, Face.ANTHROPIC),
        ("/v1/images/generations", {"x-api-key": "k"}, Face.OPENAI),
    ],
)
def test_the_face_is_that_of_the_path_else_of_the_headers(
    path: str, headers: dict[str, str], face: Face
) -> None:
    assert face_asked(path, headers) is face


def test_only_calls_that_cost_money_need_a_reservation() -> None:
    assert {each for each in Endpoint if not each.spends} == {
        Endpoint.COUNT_TOKENS,
        Endpoint.MODELS,
    }


def test_a_mark_of_byte_order_is_passed_over_and_stays() -> None:
    body = b'\xef\xbb\xbf{"model":"a"}'
    assert read_request(Endpoint.CHAT, body).model == "a"
    assert rewritten(Endpoint.CHAT, body, model="b") == b'\xef\xbb\xbf{"model":"b"}'


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(RequestUnreadable):
        read_request(Endpoint.CHAT, '{"model":"a"}'.encode(encoding))


def test_bytes_that_are_no_text_pass_where_nobody_has_to_read_them() -> None:
    body = b'{"messages":"\xff\xfe","model":"a"}'
    assert rewritten(Endpoint.CHAT, body, model="b") == b'{"messages":"\xff\xfe","model":"b"}'
    with pytest.raises(RequestUnreadable):
        read_request(Endpoint.CHAT, b'{"model":"\xff"}')
    with pytest.raises(RequestUnreadable):
        read_request(Endpoint.CHAT, b'{"mod\xffel":"a"}')


def test_depth_is_bounded_and_needs_no_recursion() -> None:
    deep = b'{"model":"a","x":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    assert read_request(Endpoint.CHAT, deep).model == "a"
    deeper = b'{"model":"a","x":' + b'{"y":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 2)
    with pytest.raises(RequestUnreadable, match="nested more than"):
        read_request(Endpoint.CHAT, deeper)
    with pytest.raises(RequestUnreadable, match="no JSON"):
        read_request(Endpoint.CHAT, b'{"stream":' + b"[" * 9000 + b"]" * 9000 + b"}")


@pytest.mark.parametrize(
    "repeated", [b"prompt ", b'\\"', b"\\\\", b"\\ud83d\\ude00"], ids=["text", "q", "b", "e"]
)
def test_a_body_of_20_mb_is_read_in_one_pass(repeated: bytes) -> None:
    """Quadratic work on it would take days."""
    said = repeated * (BIG_BYTES // len(repeated))
    body = b'{"model":"a","messages":[{"role":"user","content":"' + said + b'"}]}'
    assert read_request(Endpoint.CHAT, body).estimated_text_bytes == len(body)
    sent = rewritten(Endpoint.CHAT, body, model="bb", max_output_tokens=1)
    assert sent == body.replace(b'"a"', b'"bb"', 1)[:-1] + b',"max_completion_tokens":1}'


@pytest.mark.parametrize("repeated", [b'\\"', b"[", b'{"a":', b'"', b'"a"'])
def test_a_body_of_20_mb_that_is_no_json_is_refused_in_one_pass(repeated: bytes) -> None:
    body = b'{"model":"a","input":"' + repeated * (BIG_BYTES // len(repeated))
    with pytest.raises(RequestUnreadable):
        read_request(Endpoint.CHAT, body)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    members=st.dictionaries(
        st.sampled_from(["a", "model", "max_tokens", "max_completion_tokens", "é", 'q"\\']),
        JSON_VALUES,
    ),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_sent_is_the_same_object_with_other_members(
    members: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    members = {
        name: value if name not in ("max_tokens", "max_completion_tokens") else 50
        for name, value in members.items()
    }
    body = json.dumps(members, indent=indent, ensure_ascii=ascii_only).encode()

    sent = rewritten(
        Endpoint.CHAT,
        body,
        model="other",
        max_output_tokens=7,
        max_tokens_member="max_completion_tokens",
    )

    wanted = {name: value for name, value in members.items() if name != "max_tokens"}
    assert json.loads(sent) == wanted | {"model": "other", "max_completion_tokens": 7}


@given(body=st.binary(max_size=80))
@settings(deadline=None)
def test_bytes_that_are_no_request_are_refused_by_one_error(body: bytes) -> None:
    try:
        read_request(Endpoint.CHAT, b"{" + body)
        rewritten(Endpoint.CHAT, b"{" + body, model="m", include_usage=True)
    except RequestUnreadable as refused:
        assert "\n" not in str(refused)
