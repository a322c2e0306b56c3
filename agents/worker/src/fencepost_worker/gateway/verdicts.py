"""What a call came to: whether it is settled or failed, at what basis, and who may try after it.

The worker's side of the rules on money (contract, section 6): a definite refusal before any output
costs nothing; what the provider counted is booked as it counted it; everything else is unknown and
booked at what can be said of it, flagged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from fencepost_worker.gateway.faces import Endpoint, ModelRequest
from fencepost_worker.gateway.readings import ProviderError, Reading

#: Refusals of which the provider says that they cost nothing.
DEFINITE = frozenset({*range(300, 500), 503, 522, 529}) - {408, 499}
#: Those that say something of this provider's state, which another one may not share.
ELSEWHERE = frozenset({429, 503, 522, 529})
#: Text has no more tokens than a third of its bytes, at the control plane as here.
BYTES_PER_TOKEN = 3
#: By which a provider says that the prompt does not fit the model.
_TOO_LONG = re.compile(
    r"context.{0,20}length|context.{0,3}window|prompt is too long|prompt.{0,30}too long"
    r"|maximum context|too many (input )?tokens|input.{0,30}(too long|exceeds)"
    r"|(text|prompt|input).{0,20}exceed\w* (the )?max",
    re.IGNORECASE,
)
#: A limit of output that is too high is no prompt that is too long.
_OUTPUT_LIMIT = re.compile(r"max_(completion_|output_)?tokens|output (token )?limit", re.IGNORECASE)
#: Codes by which some name it without words.
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "1261"})
#: Kinds of errors that are the request's own fault, at any provider.
_OWN_FAULT = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "billing_error",
        "request_too_large",
        "invalid_prompt",
        "content_filter",
        "400",
        "401",
        "402",
        "403",
        "404",
        "413",
        "422",
    }
)
#: Models that reason without being asked to, bill it as output, and do not show it.
_REASONS_UNSEEN = re.compile(
    r"(?:^|[/.])(?:o[1-9]\b|gpt-[5-9](?!.*chat)|codex|gemini-(?:2\.5|[3-9])"
    r"|grok-(?:3-mini|[4-9])(?!.*non-reasoning))",
    re.IGNORECASE,
)
_DEARER = {"flex": 0, "default": 1, "standard": 1, "auto": 1, "priority": 2}
_DEARER_THAN_ANY = 9
_TIER = "service_tier="


class Cut(StrEnum):
    """Why an answer was not read to the end that the provider gave it."""

    CLIENT_LEFT = "client_left"
    FENCED = "fenced"
    BROKEN_OFF = "broken_off"


#: Ends after which another model may answer what this one has not begun to.
_AGAIN_ELSEWHERE = (None, Cut.BROKEN_OFF)


@dataclass(frozen=True)
class Verdict:
    """What a call came to, as its reservation is resolved.

    :param usage: counters of the wire; with basis `estimate` what the call is taken to have used,
        None where the control plane has to say it by itself (what was held).
    :param fall_back: another model may be asked, as long as the program has seen nothing.
    :param error_code: the provider's, or of the status; `""` where it went well.
    """

    end: Literal["settled", "failed"]
    basis: Literal["actual", "estimate", "none"]
    usage: dict[str, Any] | None = None
    fall_back: bool = False
    error_code: str = ""
    flags: tuple[str, ...] = ()


def verdict(
    endpoint: Endpoint,
    status: int | None,
    head: bytes,
    reading: Reading,
    *,
    wanted: ModelRequest | None = None,
    output_limit: int | None = None,
    cut: Cut | None = None,
    model: str = "",
) -> Verdict:
    """Return what a call came to.

    :param status: of the provider's answer; None where none came although the request was sent.
    :param head: the beginning of the body, of an answer that is an error.
    :param reading: of an answer with a status of 200 to 299.
    :param wanted: the request, for an estimate of what nobody counted.
    :param output_limit: the limit of output that was sent, for each choice.
    :param cut: why the body was not read to its end, None where the provider ended it.
    :param model: the model that was asked, where the answer names none.
    """
    sent = _Sent(endpoint, wanted, output_limit, model or (wanted and wanted.model) or "")
    if status is None or not 200 <= status < 300:
        return _of_status(status, head, sent, cut)
    if not endpoint.spends:
        return Verdict("settled", "none")
    if reading.error is not None and not reading.began and not _spent(reading):
        code = reading.error.code or reading.error.kind or "provider_error"
        return Verdict(
            "failed", "none", None, _answers_elsewhere(reading.error), code, reading.flags
        )
    if reading.blank and cut is None:
        return Verdict("failed", "none", None, True, "empty_answer", ("closed_before_answer",))
    return _of_answer(reading, sent, cut)


@dataclass(frozen=True)
class _Sent:
    """The request, as far as an estimate depends on it."""

    endpoint: Endpoint
    wanted: ModelRequest | None
    output_limit: int | None
    model: str


def _of_answer(reading: Reading, sent: _Sent, cut: Cut | None) -> Verdict:
    flags, code = list(reading.flags), _code(reading)
    if cut is not None and not reading.ended:
        flags.append(cut.value)
        code = code or cut.value
    elif not reading.ended:
        flags.append("no_end_mark")
    if reading.counted and reading.usage:
        usage, named = _at_the_dearer(reading.usage, sent.wanted)
        return Verdict("settled", "actual", usage, False, code, (*flags, *named))
    if reading.usage is None and "usage_zero" not in flags and "usage_odd" not in flags:
        flags.append("usage_missing")
    estimate = _estimated(reading, sent)
    before_output = not reading.began and not reading.ended and cut in _AGAIN_ELSEWHERE
    named = tuple(dict.fromkeys(flags))
    return Verdict("settled", "estimate", estimate, before_output, code, named)


def _of_status(status: int | None, head: bytes, sent: _Sent, cut: Cut | None) -> Verdict:
    error = error_in(head)
    code = error.code or error.kind or (f"http_{status}" if status else "no_answer")
    if status in DEFINITE:
        too_long = status in (400, 413, 422) and _is_too_long(error)
        return Verdict("failed", "none", None, status in ELSEWHERE or too_long, code)
    flags = (cut.value if cut else "unknown_outcome",)
    usage = _estimated(Reading(), sent)
    return Verdict("settled", "estimate", usage, cut in _AGAIN_ELSEWHERE, code, flags)


def error_in(head: bytes) -> ProviderError:
    """Return what a provider's error says, in whichever form; `""` is what is missing."""
    text = head.decode(errors="replace")
    try:
        document = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return ProviderError(message=text[:500])
    if isinstance(document, list) and document:
        document = document[0]
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        return ProviderError(message=str(error)[:500])
    code, kind, message = (str(error.get(name) or "")[:500] for name in ("code", "type", "message"))
    return ProviderError(code[:80], (kind or str(error.get("status") or ""))[:80], message)


def _is_too_long(error: ProviderError) -> bool:
    if error.code in _TOO_LONG_CODES:
        return True
    return bool(_TOO_LONG.search(error.message)) and not _OUTPUT_LIMIT.match(error.message)


def _answers_elsewhere(error: ProviderError) -> bool:
    own = error.code in _OWN_FAULT or error.kind in _OWN_FAULT
    return not own or _is_too_long(error)


def _spent(reading: Reading) -> bool:
    """Return whether an answer that is an error has counted something all the same."""
    return bool(reading.usage) and any(
        number for number in (reading.usage or {}).values() if isinstance(number, int)
    )


def _code(reading: Reading) -> str:
    if reading.error is None:
        return ""
    return (reading.error.code or reading.error.kind or "provider_error")[:80]


def _at_the_dearer(
    usage: dict[str, Any], wanted: ModelRequest | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Let the dearer of two tiers count where the answer names another than was asked for."""
    terms = wanted.requirements if wanted else ()
    tier = next((each.removeprefix(_TIER) for each in terms if each.startswith(_TIER)), "")
    served = usage.get("service_tier", "")
    if not tier or not served or tier == served:
        return usage, ()
    dearer = tier if _DEARER.get(tier, -1) > _DEARER.get(served, _DEARER_THAN_ANY) else served
    return usage | {"service_tier": dearer}, ("service_tier_differs",)


def _estimated(reading: Reading, sent: _Sent) -> dict[str, Any] | None:
    """Return what a call that nobody counted is taken to have used, None if nothing says it.

    Input is what was reported, else a third of the text's bytes; output what was seen, or the
    limit where it cannot be seen; each no less than what was reported of it.
    """
    seen, wanted = dict(reading.usage or {}), sent.wanted
    if wanted is None:
        return seen or None
    if not seen.get("input_tokens"):
        if wanted.by_reference or wanted.images or wanted.pages or wanted.audio_seconds:
            return None  # the control plane holds what such input may have
        seen["input_tokens"] = -(-wanted.estimated_text_bytes // BYTES_PER_TOKEN)
    output = -(-reading.output_bytes // BYTES_PER_TOKEN)
    if _hidden(reading, sent, wanted):
        limit = sent.output_limit or wanted.max_output_tokens
        if limit is None:
            return None
        output = max(output, limit * wanted.choices)
    seen["output_tokens"] = max(output, seen.get("output_tokens", 0))
    return seen


def _hidden(reading: Reading, sent: _Sent, wanted: ModelRequest) -> bool:
    """Return whether output may have been made that nobody has seen."""
    if sent.endpoint is Endpoint.EMBEDDINGS:
        return False
    unread = "not_understood" in reading.flags and not reading.output_bytes
    if unread or "not_decoded" in reading.flags:
        return True
    if reading.reasoned:
        return True
    if reading.ended or reading.finished:
        return False
    return not wanted.stream or wanted.hidden_output or _reasons_unseen(reading, sent, wanted)


def _reasons_unseen(reading: Reading, sent: _Sent, wanted: ModelRequest) -> bool:
    """Return whether its model reasons by itself, and its stream does not say whether it did.

    Streams of messages name each block of thinking; those of the other face say nothing of it.
    """
    if sent.endpoint is Endpoint.MESSAGES or wanted.reasoning_off:
        return False
    return bool(_REASONS_UNSEEN.search(reading.model or sent.model))
