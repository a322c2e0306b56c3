"""Canonical bytes, strict reading, and the identity of an attempt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from governance.core import digests

VECTORS = json.loads(
    (Path(__file__).parents[3] / "docs/reference/identity-vectors.json").read_text()
)
IDENTITY = {
    "task_id": "task-1",
    "job_id": "018f0000-0000-7000-8000-000000000001",
    "execution_digest": "ab" * 32,
    "runtime": "openai",
    "attempt": 1,
}

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
integers = st.integers(-digests.INTEGER_MAX, digests.INTEGER_MAX)
json_values = st.recursive(
    st.none() | st.booleans() | integers | text | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
identities = st.fixed_dictionaries(
    {
        "task_id": st.text(st.characters(codec="utf-8"), min_size=1, max_size=30),
        "job_id": st.uuids(),
        "execution_digest": st.binary(min_size=32, max_size=32).map(bytes.hex),
        "runtime": st.sampled_from(["command", "http", "openai"]),
        "attempt": st.integers(1, digests.INTEGER_MAX),
    }
)


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda v: v["about"])
def test_canonical_bytes_are_the_published_ones(vector):
    assert digests.canonical(json.loads(vector["json"])).decode() == vector["canonical"]


@pytest.mark.parametrize("vector", VECTORS["execution_digest"], ids=lambda v: v["about"])
def test_execution_digests_are_the_published_ones(vector):
    payload = digests.canonical(vector["payload"])

    assert payload.decode() == vector["canonical"]
    assert digests.execution_digest(payload) == vector["execution_digest"]


@pytest.mark.parametrize("vector", VECTORS["external_request_id"], ids=lambda v: v["about"])
def test_request_ids_are_the_published_ones(vector):
    made = digests.external_request_id(**vector["identity"])

    assert made == vector["external_request_id"]
    for call, expected in vector["route_request_ids"].items():
        assert digests.route_request_id(external_request_id=made, call=int(call)) == expected


@pytest.mark.parametrize("identity", VECTORS["refused"], ids=lambda v: v["about"])
def test_malformed_identities_are_refused(identity):
    with pytest.raises(ValueError):
        digests.external_request_id(**identity["identity"])


@given(json_values)
def test_canonical_bytes_are_those_of_the_reference_implementation(value):
    assert digests.canonical(value) == rfc8785.dumps(value)


@given(st.dictionaries(text, json_values, max_size=6), st.randoms())
def test_key_order_does_not_matter(value, random):
    keys = list(value)
    random.shuffle(keys)

    assert digests.canonical({key: value[key] for key in keys}) == digests.canonical(value)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**53, {"a": "\ud800"}, {1: "a"}, {"a": {1, 2}}, b"bytes"],
)
def test_a_value_without_a_canonical_form_is_refused(value):
    with pytest.raises(ValueError):
        digests.canonical(value)


def test_endless_nesting_is_refused():
    nested: list = []
    nested.append(nested)

    with pytest.raises(ValueError, match="nested"):
        digests.canonical(nested)


@given(identities)
def test_an_attempt_has_one_identity(identity):
    again = dict(reversed(identity.items())) | {"job_id": str(identity["job_id"])}

    assert digests.external_request_id(**identity) == digests.external_request_id(**again)


@given(identities, identities, st.sampled_from(sorted(IDENTITY)))
def test_another_value_of_any_part_is_another_identity(one, other, part):
    changed = one | {part: other[part]}

    same = digests.external_request_id(**one) == digests.external_request_id(**changed)

    assert same == (one[part] == other[part])


@pytest.mark.parametrize("attempt", [0, -1, True, False, "1", 1.0, None, 2**53])
def test_an_attempt_is_an_integer_from_one(attempt):
    with pytest.raises(ValueError, match="attempt"):
        digests.external_request_id(**IDENTITY | {"attempt": attempt})


@pytest.mark.parametrize("call", [0, True, "2", 1.0])
def test_a_call_is_an_integer_from_one(call):
    with pytest.raises(ValueError, match="call"):
        digests.route_request_id(external_request_id="xr_" + "0" * 64, call=call)


@given(st.integers(1, 10**8))
def test_the_call_is_read_back_from_its_route_request_id(call):
    external = digests.external_request_id(**IDENTITY)
    route = digests.route_request_id(external_request_id=external, call=call)

    assert digests.call_number(external_request_id=external, route_request_id=route) == call


@pytest.mark.parametrize("tail", ["", ":model:", ":model:1", ":model:02", ":model:-2", ":model:2 "])
def test_a_foreign_route_request_id_is_refused(tail):
    external = digests.external_request_id(**IDENTITY)

    with pytest.raises(ValueError):
        digests.call_number(external_request_id=external, route_request_id=external + tail)


@given(json_values)
def test_canonical_bytes_are_read_back_as_the_same_value(value):
    try:
        read = digests.parse_strict(digests.canonical(value))
    except digests.NotStrictJson as refused:
        assert "integer" in refused.detail  # a float such as 1e30 has a whole number's spelling
    else:
        assert digests.canonical(read) == digests.canonical(value)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"a": 1, "a": 2}', "/a"),
        (b'[{"b/c": {"~": 1, "~": 2}}]', "/0/b~1c/~0"),
        (b'{"\\ud800": 1, "\\ud800": 2}', ""),
        (b'{"a": [NaN]}', ""),
        (b'{"a": [-Infinity]}', ""),
        (b'{"a": [1e999]}', "/a/0"),
        (b'{"a": "\\ud800"}', "/a"),
        (b'{"a": {"\\udc00": 1}}', "/a"),
        (b'["x\\u0000"]', "/0"),
        (b'{"n": 9007199254740992}', "/n"),
        (b'{"n": -9007199254740992}', "/n"),
        (b'{"n": 1e20}', "/n"),
        (b"1" * 5000, ""),
        (b"\xff", ""),
        (b"\xef\xbb\xbf{}", ""),
        ('{"a": 1}'.encode("utf-16"), ""),
        (b"{} {}", ""),
        (b"", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_what_is_not_strict_json_is_refused(body, pointer):
    with pytest.raises(digests.NotStrictJson) as refused:
        digests.parse_strict(body)

    assert refused.value.pointer == pointer


def test_limits_of_depth_and_members_are_kept():
    assert digests.parse_strict(b"[[1]]", depth_max=2) == [[1]]
    assert digests.parse_strict(b"[1, 2]", members_max=2) == [1, 2]
    with pytest.raises(digests.NotStrictJson, match="deep"):
        digests.parse_strict(b"[[[1]]]", depth_max=2)
    with pytest.raises(digests.NotStrictJson, match="members"):
        digests.parse_strict(b'{"a": [1, 2, 3]}', members_max=2)


FAULTY = [
    (b'{"n": 9007199254740993}', "/n"),
    (b'{"n": ' + b"9" * 5000 + b"}", "/n"),
    (b'"x\\u0000"', ""),
    (b'{"a": "\\ud800"}', "/a"),
    (b'{"a": 1, "a": 2}', "/a"),
    (b"[" * 40 + b"]" * 40, "/0" * 30),
]


@pytest.mark.parametrize(("item", "pointer"), FAULTY)
@pytest.mark.parametrize("form", [b"[1, %s, 2]", b'{"items": [1, %s, 2], "beside": "b"}'])
def test_a_faulty_item_of_a_batch_spoils_no_other(form, item, pointer):
    body = form % item

    read = digests.parse_strict(body, batch=True)

    items = read if isinstance(read, list) else read["items"]
    assert items[::2] == [1, 2]
    assert isinstance(items[1], digests.NotStrictItem)
    assert items[1]["pointer"].startswith(pointer)
    assert digests.canonical(items[1])  # it can be a part of the digest of its request
    with pytest.raises(digests.NotStrictJson):
        digests.parse_strict(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"items": [1], "items": [2]}',
        b'{"items": [1], "beside": "\\u0000"}',
        b'{"items": [1], "beside": {"a": [9007199254740993]}}',
        b"[1, NaN]",
        b"[1, {]",
        b"[" + b"1," * 10_000 + b"1]",
    ],
)
def test_a_batch_whose_outer_form_is_faulty_is_refused(body):
    with pytest.raises(digests.NotStrictJson):
        digests.parse_strict(body, batch=True)


def test_surrogate_pairs_and_finite_numbers_are_read():
    body = '{"a": "\\ud83d\\ude00é", "n": [1.5, -0.0, 1e-7, 9007199254740991]}'.encode()

    assert digests.parse_strict(body) == {"a": "😀é", "n": [1.5, 0.0, 1e-7, 2**53 - 1]}


def test_a_member_without_a_name_is_kept_for_nobody():
    with pytest.raises(digests.NotStrictJson):
        digests.parse_strict(b'{"": 9007199254740993}')
