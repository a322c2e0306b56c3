"""The control plane's own rules of what a document may hold, judged before anything is sent.

What it cannot take would cost an attempt its report, and of a batch that carries many attempts
their leases.  Progress that breaks a rule is not sent.  A finished result is mended and sent, with
what was mended and where.  The control plane holds the same rules in code of its own, which this
package cannot import; a property test compares the two.

Sources: RFC 7493 (I-JSON); RFC 6901 (pointers); contract, section 2.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

#: The largest integer that every JSON reader keeps exactly.
INTEGER_MAX = 2**53 - 1
DEPTH_MAX = 32
MEMBERS_MAX = 10_000
#: Bytes of a request, and of one that carries a batch.
BODY_BYTES_MAX = 1 << 20
BATCH_BYTES_MAX = 8 << 20
#: Bytes of what one heartbeat tells of the work, as compact JSON.
PROGRESS_BYTES_MAX = 64 * 1024
#: Progress stands in a beat, in the list of beats, in the body.
PROGRESS_DEPTH_MAX = DEPTH_MAX - 3
MESSAGE_CHARS_MAX = 20_000
CODE_CHARS_MAX = 80
NOTIFY_CHARS_MAX = 200

#: Faults of one document that are told; a list of a million numbers may have a million.
FAULTS_TOLD_MAX = 20
#: Python reads no integer of more than some thousands of digits; so many of them are beyond all.
READABLE_DIGITS = 1000
NAMED_TWICE = "a key is named twice"

#: Characters that are not seen, for the brackets of a regular expression: Cc, Cf, Zl, Zp.
UNSEEN = (
    r"\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    r"\U000e0020-\U000e007f\ud800-\udfff"
)
_UNSEEN = re.compile(f"[{UNSEEN}]")
_REFUSED_TEXT = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: What a terminal obeys and does not show: colours, moves of the cursor. Source: ECMA-48, 5.4.
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
#: Unicode has a picture of each control character of ASCII, and of none of the others.
_PICTURES, _PICTURE_OF_DELETE, _NO_PICTURE = 0x2400, "\u2421", "\ufffd"


class Fault(NamedTuple):
    """What is wrong with a document, and where: an RFC 6901 pointer, empty for the whole."""

    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer or 'the document'}: {self.detail}"


class NotStrict(ValueError):
    """The document is one that the control plane would refuse."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


class Spelt(str):
    """A number that no JSON reader keeps, as its source spelt it."""


class Doubled(dict[str, Any]):
    """An object that named `key` twice; its last value stands."""

    key = ""


def encoded(value: Any) -> bytes:
    """Return a JSON value as it is sent: compact, in UTF-8.

    :raises ValueError: it has no JSON form: `NaN`, a lone surrogate, nesting without end.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return text.encode()


def read(content: bytes) -> Any:
    """Return the value of a JSON text, whatever is wrong with it, for `fault_of` and `mended`.

    Numbers that no reader keeps are `Spelt`, objects that name a key twice `Doubled`, and bytes
    that are no UTF-8 lone surrogates.

    :raises NotStrict: it is no JSON at all.
    """
    try:
        return json.loads(
            content.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff"),
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=Spelt,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise NotStrict(Fault("", f"not JSON: {error.msg} at {place}")) from error
    except RecursionError as error:
        raise NotStrict(Fault("", f"nested deeper than {DEPTH_MAX}")) from error


def _integer(digits: str) -> int | Spelt:
    whole = int(digits[:READABLE_DIGITS])
    return Spelt(digits) if abs(whole) > INTEGER_MAX else whole


def _fraction(digits: str) -> float | Spelt:
    number = float(digits)
    return number if _number_fault(number) is None else Spelt(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled, seen = Doubled(found), set[str]()
    for key, _ in pairs:
        if key in seen:
            doubled.key = key
        seen.add(key)
    return doubled


def progress_fault(value: Any) -> Fault | None:
    """Return why the control plane would not take this progress, or None where it does."""
    fault = fault_of(value, depth_max=PROGRESS_DEPTH_MAX)
    if fault is None and len(encoded(value)) > PROGRESS_BYTES_MAX:
        return Fault("", f"more than {PROGRESS_BYTES_MAX} bytes as compact JSON")
    return fault


def fault_of(value: Any, *, depth_max: int = DEPTH_MAX) -> Fault | None:
    """Return the first thing in a value for which the control plane refuses it, or None."""
    return next(_faults(value, "", depth_max), None)


def _faults(value: Any, pointer: str, depth_left: int) -> Iterator[Fault]:
    if (detail := _own_fault(value, depth_left)) is not None:
        yield Fault(pointer, detail)
        return
    if isinstance(value, dict):
        if isinstance(value, Doubled):
            twice = pointer if _is_refused(value.key) else below(pointer, value.key)
            yield Fault(twice, NAMED_TWICE)
        for key, member in value.items():
            if (detail := _key_fault(key)) is not None:
                yield Fault(pointer, detail)
            else:
                yield from _faults(member, below(pointer, key), depth_left - 1)
    elif isinstance(value, list | tuple):
        for place, member in enumerate(value):
            yield from _faults(member, below(pointer, place), depth_left - 1)


def _own_fault(value: Any, depth_left: int) -> str | None:
    """Return what is wrong with a value, whatever is within it."""
    if isinstance(value, Spelt):
        digits = value.lstrip("-")
        whole = digits.isdigit() or (digits[:1].isdigit() and math.isfinite(float(digits)))
        return _beyond(value) if whole else "a number that is not finite"
    if isinstance(value, str):
        return "a NUL or a lone surrogate" if _is_refused(value) else None
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _number_fault(value)
    if not isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}, which JSON does not have"
    if depth_left <= 0:
        return "nested too deep"
    return f"more than {MEMBERS_MAX} members" if len(value) > MEMBERS_MAX else None


def _number_fault(value: int | float) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is not finite"
    if abs(value) > INTEGER_MAX and value == int(value):
        return _beyond(_number_text(value))
    return None


def _beyond(spelt: str) -> str:
    shown = spelt if len(spelt) <= 40 else f"of {len(spelt)} digits"
    return f"an integer beyond {INTEGER_MAX} (2^53-1), {shown}"


def _number_text(value: int | float) -> str:
    try:
        return str(value)
    except ValueError:  # an integer of more digits than Python writes
        return hex(value) if isinstance(value, int) else repr(value)


def _key_fault(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"a key that is a {type(key).__name__} and no text"
    return "a key with a NUL or a lone surrogate" if _is_refused(key) else None


def below(pointer: str, key: str | int) -> str:
    """Return the pointer of a member."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _is_refused(text: str) -> bool:
    return _REFUSED_TEXT.search(text) is not None


def mended(value: Any) -> tuple[Any, list[Fault]]:
    """Return the value as the control plane takes it, and what was mended, of which some are told.

    Numbers that no reader keeps become text, as they were spelt; what is nested too deep, has too
    many members, or is of a type that JSON does not have, becomes text as a whole; NUL and lone
    surrogates are replaced.
    """
    faults: list[Fault] = []
    return _mended(value, "", DEPTH_MAX, faults), faults[:FAULTS_TOLD_MAX]


def _mended(value: Any, pointer: str, depth_left: int, faults: list[Fault]) -> Any:
    if (detail := _own_fault(value, depth_left)) is not None:
        _note(faults, Fault(pointer, detail))
        return _as_text(value)
    if isinstance(value, dict):
        return _mended_object(value, pointer, depth_left, faults)
    if isinstance(value, list | tuple):
        return [
            _mended(member, below(pointer, place), depth_left - 1, faults)
            for place, member in enumerate(value)
        ]
    return value


def _mended_object(
    value: dict[Any, Any], pointer: str, depth_left: int, faults: list[Fault]
) -> dict[str, Any]:
    if isinstance(value, Doubled):
        _note(faults, Fault(pointer, NAMED_TWICE))
    whole: dict[str, Any] = {}
    for key, member in value.items():
        name = key
        if (detail := _key_fault(key)) is not None:
            _note(faults, Fault(pointer, detail))
            name = _without_refused(str(key))
            while name in value or name in whole:
                name += "_"
        whole[name] = _mended(member, below(pointer, name), depth_left - 1, faults)
    return whole


def _note(faults: list[Fault], fault: Fault) -> None:
    if len(faults) < FAULTS_TOLD_MAX:
        faults.append(fault)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return _without_refused(value)
    if isinstance(value, int | float):
        return _number_text(value)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, TypeError, ValueError):
        return f"[a {type(value).__name__} that cannot be written]"
    return _without_refused(text)


def _without_refused(text: str) -> str:
    """Return the text with the halves of a character joined, and what is refused replaced."""
    joined = text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")
    return joined.replace("\x00", chr(_PICTURES))


def message(text: str, *, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    """Return words of a program as they are told: what a terminal obeys is taken out.

    Other control characters are replaced by pictures of them; line breaks and tabs stay.
    """
    seen = _TERMINAL.sub("", text[: 2 * chars_max])
    return _CONTROL.sub(_picture, _without_refused(seen))[:chars_max]


def _picture(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number == 0x7F:
        return _PICTURE_OF_DELETE
    return chr(_PICTURES + number) if number < 0x20 else _NO_PICTURE


def name(text: str, *, chars_max: int = CODE_CHARS_MAX) -> str:
    """Return a name without the characters that none may have; `_` stands in their place."""
    return _UNSEEN.sub("_", text)[:chars_max]
