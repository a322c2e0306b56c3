"""What providers say that a call has used, whatever the form, as the counters of the wire.

The library reads the clean forms; around it stands what it does not know: counters that are null,
missing, text or negative, parts above their whole, and what single providers do in a way of their
own. Nothing is raised: a call whose usage cannot be read is booked as unknown (money, rules 2, 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from genai_prices import data_snapshot
from genai_prices.types import Provider, Usage, UsageExtractor

from fencepost_worker.gateway.faces import Endpoint

#: No call has as many; more is a fault of who counts, and nothing to be paid.
COUNT_MAX = 10**9
#: Beyond this usage is no object of counters any more.
NESTED_MAX = 8
#: A counter of the wire, by the library's name for it.
COUNTERS = {
    "input_tokens": "input_tokens",
    "cache_read_tokens": "cached_input_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "input_audio_tokens": "input_audio_tokens",
    "cache_audio_read_tokens": "cached_audio_tokens",
    "output_tokens": "output_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
    "output_audio_tokens": "output_audio_tokens",
    "web_searches": "searches",
}
#: Parts and their wholes, each whole before what it is a part of.
WHOLES = (
    ("cache_write_1h_tokens", "cache_write_tokens"),
    ("cached_audio_tokens", "cached_input_tokens"),
    ("cached_audio_tokens", "input_audio_tokens"),
    ("cached_input_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("input_audio_tokens", "input_tokens"),
    ("reasoning_tokens", "output_tokens"),
    ("output_audio_tokens", "output_tokens"),
)
#: By endpoint: the library's names of the form, in the order in which they are tried.
FORMS = {
    Endpoint.CHAT: ("chat", "default"),
    Endpoint.RESPONSES: ("responses", "default"),
    Endpoint.EMBEDDINGS: ("embeddings",),
    Endpoint.MESSAGES: ("anthropic", "default"),
    Endpoint.COUNT_TOKENS: (),
    Endpoint.MODELS: (),
}
#: Names that counters have in some form; a value of these that is no count makes usage odd.
NAMES = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "audio_tokens",
        "reasoning_tokens",
        "thinking_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "ephemeral_5m_input_tokens",
        "ephemeral_1h_input_tokens",
        "prompt_cache_hit_tokens",
        "prompt_cache_miss_tokens",
        "web_search_requests",
    }
)
#: Turns whose tokens stand in the usage itself; those of all other kinds stand beside it.
INSIDE = ("message", "fallback_message")
KNOWN_TURNS = (*INSIDE, "compaction", "advisor_message")
#: Parts of a turn's input that Anthropic counts beside it.
PLAIN = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


@dataclass(frozen=True)
class Counted:
    """The counters that a provider reported.

    :param counts: by the names of the wire, wholes no less than their parts; those that are 0 are
        left out, but for `input_tokens` and `output_tokens` where they were stated.
    :param sure: they can be booked as they are; else they are the least that was used.
    :param flags: what a person should look at.
    """

    counts: dict[str, int]
    sure: bool = True
    flags: tuple[str, ...] = ()


@dataclass
class _Count:
    """The counters while they are put together."""

    counts: dict[str, int] = field(default_factory=dict)
    sure: bool = True
    flags: list[str] = field(default_factory=list)

    def flag(self, name: str, *, sure: bool = True) -> None:
        self.sure = self.sure and sure
        if name not in self.flags:
            self.flags.append(name)

    def raise_to(self, name: str, count: int) -> None:
        if count > self.counts.get(name, 0):
            self.counts[name] = count


def merged(old: Any, new: Any, *, depth: int = 0) -> Any:
    """Return two statements of usage as one: of each counter the largest, and nothing summed.

    What is null, zero or missing erases nothing. Of texts the later one stays.
    """
    if new is None or depth > NESTED_MAX:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {k: merged(old.get(k), v, depth=depth + 1) for k, v in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        both = [merged(a, b, depth=depth + 1) for a, b in zip(old, new, strict=False)]
        return both + old[len(both) :] + new[len(both) :]
    if _is_number(old):
        return max(old, new) if _is_number(new) else old
    # A count that can be read takes the place of what cannot.
    return new if old is None or _is_number(new) or isinstance(new, str) else old


def count(endpoint: Endpoint, provider: str, usage: Any) -> Counted | None:
    """Return the counters of a usage object, None where it states none.

    :param provider: its name in the catalogue, which is the library's.
    """
    if not isinstance(usage, dict) or not usage:
        return None
    found = _Count()
    clean = _cleaned(usage, found)
    _by_library(endpoint, provider, clean, found)
    _by_their_own_ways(clean, found)
    if endpoint is not Endpoint.EMBEDDINGS:
        _take_total(provider, clean, found)
    _take_turns(usage, found)
    _make_whole(found)
    if not any(found.counts.values()):
        # Stated as nothing, or not stated at all: neither is a count of a call that was served.
        return Counted({}, sure=False, flags=(*found.flags, "usage_zero"))
    return Counted(found.counts, found.sure and "input_tokens" in found.counts, tuple(found.flags))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cleaned(usage: Mapping[str, Any], found: _Count, *, depth: int = 0) -> dict[str, Any]:
    """Return the counters that can be read, in the form in which they were sent."""
    clean: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict) and depth < NESTED_MAX:
            clean[name] = _cleaned(value, found, depth=depth + 1)
        elif _is_number(value) and value == value // 1 and value >= 0:
            if value <= COUNT_MAX:
                clean[name] = int(value)
            elif name in NAMES:
                found.flag("counts_too_large", sure=False)
        elif name in NAMES and value is not None:
            found.flag("usage_odd", sure=False)
    return clean


def _by_library(endpoint: Endpoint, provider: str, clean: dict[str, Any], found: _Count) -> None:
    usual = "anthropic" if endpoint.face == "anthropic" else "openai"
    for name in (provider, usual):
        for form in FORMS[endpoint]:
            counts = _extracted(name, form, clean)
            if counts is not None:
                for counter, number in counts.items():
                    found.counts.setdefault(counter, 0)
                    found.raise_to(counter, number)
                break
    if not found.counts:
        _by_names(clean, found)


def _extracted(provider: str, form: str, clean: dict[str, Any]) -> dict[str, int] | None:
    extractor = _extractors().get((provider, form))
    if extractor is None:
        return None
    try:
        _, usage = extractor.extract({"usage": clean})
    except Exception:
        # It raises on what it does not know, by classes that it does not promise.
        return None
    counts = {wire: _number(usage, theirs) for theirs, wire in COUNTERS.items()}
    return {name: n for name, n in counts.items() if n is not None}


def _number(usage: Usage, counter: str) -> int | None:
    try:
        return int(getattr(usage, counter))
    except Exception:
        # So does asking for a counter that would follow from others: cached and audio together.
        return None


@cache
def _extractors() -> dict[tuple[str, str], UsageExtractor]:
    providers: list[Provider] = data_snapshot.get_snapshot().providers
    return {
        (each.id, extractor.api_flavor): extractor
        for each in providers
        for extractor in each.extractors or ()
        if extractor.root == "usage"
    }


def _by_names(clean: dict[str, Any], found: _Count) -> None:
    """Read what no form of the library fits, since something that it requires is missing."""
    for counter, names in (
        ("input_tokens", ("prompt_tokens", "input_tokens")),
        ("output_tokens", ("completion_tokens", "output_tokens")),
    ):
        stated = _first(clean, *names)
        if stated is not None:
            found.counts[counter] = stated


def _by_their_own_ways(clean: dict[str, Any], found: _Count) -> None:
    """Read what single providers state beside the form that they follow."""
    hits, misses = (clean.get(f"prompt_cache_{each}_tokens", 0) for each in ("hit", "miss"))
    if hits or misses:
        # DeepSeek
        found.raise_to("cached_input_tokens", hits)
        found.raise_to("input_tokens", hits + misses)
    found.raise_to("reasoning_tokens", clean.get("reasoning_tokens", 0))


def _take_total(provider: str, clean: dict[str, Any], found: _Count) -> None:
    """Let the provider's total decide where output is more than the completion that it states.

    Reasoning is inside the completion at some, beside it at others, and at others only in the
    total.
    """
    total, prompt = clean.get("total_tokens"), _first(clean, "prompt_tokens", "input_tokens")
    completion = _first(clean, "completion_tokens", "output_tokens") or 0
    if total is None or prompt is None:
        return
    reasoning = found.counts.get("reasoning_tokens", 0)
    rest = total - prompt
    if rest < completion:
        found.flag("total_below_parts")
    elif rest == completion:
        if provider == "x-ai":
            # The library adds what stands inside here.
            found.counts["output_tokens"] = completion
    else:
        found.raise_to("output_tokens", rest)
        if rest != completion + reasoning or provider != "x-ai":
            found.flag("total_above_parts")
        if not reasoning:
            found.counts["reasoning_tokens"] = rest - completion


def _first(clean: dict[str, Any], *names: str) -> int | None:
    return next((clean[name] for name in names if type(clean.get(name)) is int), None)


def _take_turns(usage: dict[str, Any], found: _Count) -> None:
    """Add the turns that the provider made for itself, which the usage of the answer leaves out.

    Source: Anthropic, `usage.iterations`: compactions and advisors are billed beside the answer; a
    turn that was declined stands in the list as a message and is in no sum.
    """
    turns = usage.get("iterations")
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, dict) or turn.get("type") in INSIDE:
            continue
        if turn.get("type") not in KNOWN_TURNS:
            found.flag("iteration_unknown")
        for name, number in _counts_of_turn(turn, found):
            found.counts[name] = found.counts.get(name, 0) + number


def _counts_of_turn(turn: dict[str, Any], found: _Count) -> Iterator[tuple[str, int]]:
    clean = _cleaned(turn, found)
    plain, output, read, written = (clean.get(name, 0) for name in PLAIN)
    yield "input_tokens", plain + read + written
    yield "output_tokens", output
    if read:
        yield "cached_input_tokens", read
    if written:
        yield "cache_write_tokens", written
    hour = clean.get("cache_creation", {}).get("ephemeral_1h_input_tokens", 0)
    if hour:
        yield "cache_write_1h_tokens", hour


def _make_whole(found: _Count) -> None:
    """Raise wholes to their parts; whoever states less has not counted."""
    counts = found.counts
    for part, whole in WHOLES:
        if counts.get(part, 0) > counts.get(whole, 0):
            counts[whole] = counts[part]
            found.flag("parts_above_whole", sure=False)
    inside = counts.get("cached_input_tokens", 0) + counts.get("cache_write_tokens", 0)
    if inside > counts.get("input_tokens", 0):
        counts["input_tokens"] = inside
        found.flag("parts_above_whole", sure=False)
    stated = ("input_tokens", "output_tokens")
    found.counts = {name: n for name, n in counts.items() if n or name in stated}
    for name, number in found.counts.items():
        if number > COUNT_MAX:
            found.counts[name] = COUNT_MAX
            found.flag("counts_too_large", sure=False)
