"""The worker's rules of what may be sent, compared with the control plane's own."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost_worker import rules
from governance.core import characters, digests
from governance.web import reading
from jobs.operations import shapes

LETTERS = st.text(
    st.sampled_from(["a", "~", "/", "é", "😀", "\x00", "\x1b", "\ud83d", "\ude00", "\u202e"]),
    max_size=4,
)
NUMBERS = st.sampled_from(
    [
        *("0", "-1", "1.5", "9007199254740991", "9007199254740992", "-9007199254740993"),
        *("5.972e24", "1e400", "-1e400", "1e15", "1e-7", "NaN", "Infinity", "-Infinity"),
        *("9" * 19, "9" * 5000, "-" + "9" * 400),
    ]
)
WORDS = st.sampled_from(["null", "true", "false"])


def spelt(text):
    return json.dumps(text)


def array(members):
    return f"[{','.join(members)}]"


def object_of(pairs):
    return "{" + ",".join(f"{spelt(key)}:{value}" for key, value in pairs) + "}"


#: JSON texts with all that the rules refuse, keys that are named twice among it.
TEXTS = st.recursive(
    NUMBERS | WORDS | LETTERS.map(spelt),
    lambda inner: (
        st.lists(inner, max_size=4).map(array)
        | st.lists(st.tuples(LETTERS, inner), max_size=4).map(object_of)
        | st.tuples(inner, st.integers(1, 40)).map(lambda of: "[" * of[1] + of[0] + "]" * of[1])
    ),
    max_leaves=10,
)


def refusal(body):
    """Return where the control plane refuses the body, or None where it takes it."""
    try:
        digests.parse_strict(body)
    except digests.NotStrictJson as error:
        return error.pointer
    return None


@given(TEXTS)
def test_the_worker_refuses_what_the_control_plane_refuses_and_in_the_same_place(text):
    body = text.encode()
    expected = refusal(body)
    fault = rules.fault_of(rules.read(body))
    where = None if fault is None else fault.pointer
    # The control plane stops at the first NaN, wherever it is, and names no place.
    assert where == expected or (expected == "" and fault is not None)
    if fault is not None and "NaN" not in text and "Infinity" not in text:
        assert where == expected


@given(TEXTS)
def test_what_was_mended_is_taken_and_what_is_sound_is_left_alone(text):
    value = rules.read(text.encode())
    mended, faults = rules.mended(value)

    assert refusal(rules.encoded(mended)) is None
    assert bool(faults) == (rules.fault_of(value) is not None)
    if not faults:
        assert mended == value == json.loads(text)


@given(st.text())
def test_words_and_names_are_taken(text):
    message, name = rules.message(text, chars_max=50), rules.name(text)

    assert refusal(rules.encoded({"message": message, "name": name})) is None
    assert len(message) <= 50
    assert characters.unseen(name) == []
    assert not set(message) & {chr(n) for n in [*range(9), 11, 12, *range(14, 32), 127]}
    if text.isprintable():
        assert message == text[:50]


def test_every_character_that_no_name_may_have_is_replaced_and_no_other():
    for code in range(0x110000):
        assert (rules.name(chr(code)) == chr(code)) == (
            not characters.unseen(chr(code)) or chr(code) == "_"
        ), hex(code)


def test_the_bounds_are_the_control_planes():
    assert (rules.INTEGER_MAX, rules.DEPTH_MAX) == (digests.INTEGER_MAX, digests.DEPTH_MAX)
    assert rules.MEMBERS_MAX == digests.MEMBERS_MAX
    assert rules.BODY_BYTES_MAX == reading.BODY_BYTES_MAX
    assert rules.BATCH_BYTES_MAX == reading.BATCH_BYTES_MAX
    assert rules.PROGRESS_BYTES_MAX == shapes.PROGRESS_BYTES_MAX
    assert rules.MESSAGE_CHARS_MAX == shapes.TEXT_CHARS_MAX
    assert shapes.FailIn().fields["error_code"].max_length == rules.CODE_CHARS_MAX
    assert shapes.EscalateIn().fields["notify_to"].max_length == rules.NOTIFY_CHARS_MAX


@pytest.mark.parametrize(
    ("content", "pointer", "as_text"),
    [
        ('{"n": 1234567890123456789}', "/n", "1234567890123456789"),
        ('{"n": 5.972e24}', "/n", "5.972e24"),
        ('{"n": NaN}', "/n", "NaN"),
        ('{"n": 1e400}', "/n", "1e400"),
        ('{"n": "a\\u0000b"}', "/n", "a\u2400b"),
        ('{"n": "\\ud83d"}', "/n", "\ufffd"),
    ],
)
def test_a_fault_is_told_with_its_place_and_the_value_as_it_was_spelt(content, pointer, as_text):
    mended, [fault] = rules.mended(rules.read(content.encode()))

    assert mended == {"n": as_text}
    assert fault.pointer == pointer


def test_bytes_that_are_no_text_cost_a_character():
    mended, [fault] = rules.mended(rules.read(b'{"name": "Ren\xe9"}'))
    assert (mended, fault.pointer) == ({"name": "Ren\ufffd"}, "/name")


def test_the_halves_of_a_character_that_came_apart_are_joined():
    assert rules.mended(["\ud83d" + "\ude00"]) == (["😀"], [rules.fault_of(["\ud83d\ude00"])])


def test_what_is_nested_too_deep_becomes_text_and_nesting_without_end_a_word():
    deep: list = []
    for _ in range(rules.DEPTH_MAX):
        deep = [deep]
    mended, [fault] = rules.mended(deep)
    assert fault.detail == "nested too deep"
    assert "[]" in json.dumps(mended)

    endless: list = []
    endless.append(endless)
    mended, [fault] = rules.mended(endless)
    assert refusal(rules.encoded(mended)) is None

    with pytest.raises(rules.NotStrict, match="nested"):
        rules.read(b"[" * 2_000_000)


def test_what_json_does_not_have_becomes_text():
    mended, faults = rules.mended({"at": {1, 2}, 7: "seven", "list": (1, math.inf)})

    assert mended == {"at": '"{1, 2}"', "7": "seven", "list": [1, "inf"]}
    assert [fault.pointer for fault in faults] == ["/at", "", "/list/1"]


def test_many_members_become_text_and_few_of_many_faults_are_told():
    mended, [fault] = rules.mended({"n": [0] * (rules.MEMBERS_MAX + 1)})
    assert mended["n"].startswith("[0, 0")
    assert fault.pointer == "/n"

    mended, faults = rules.mended([2**60] * 1000)
    assert mended == [str(2**60)] * 1000
    assert len(faults) == rules.FAULTS_TOLD_MAX


def test_a_key_that_is_mended_takes_no_others_place():
    mended, _ = rules.mended({"a\x00": 1, "a\u2400": 2})
    assert mended == {"a\u2400_": 1, "a\u2400": 2}


def test_colours_are_taken_out_of_words_and_other_controls_are_shown():
    assert (
        rules.message("\x1b[1;31mError\x1b[0m:\tbell\x07 \x00\n\x85") == "Error:\tbell␇ ␀\n\ufffd"
    )


def test_progress_is_bounded_as_it_stands_in_a_heartbeat():
    assert rules.progress_fault({"text": "x" * 1000}) is None
    assert rules.progress_fault({"text": "é" * 40_000}) is not None
    deep: dict = {}
    for _ in range(rules.PROGRESS_DEPTH_MAX - 1):
        deep = {"a": deep}
    body = {"leases": [{"progress": deep}]}
    assert rules.progress_fault(deep) is None and rules.fault_of(body) is None
    assert rules.progress_fault({"a": deep}) is not None
    assert rules.fault_of({"leases": [{"progress": {"a": deep}}]}) is not None
