"""Usage apart: what of it is beyond something - what was booked, what a model can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from governance.core import sql
from governance.money.pricing import Usage

#: More searches than a request may state, so that no call has made more.
SEARCHES_MAX = 9999


def within(
    usage: Usage, *, input_most: int | None, output_most: int | None
) -> tuple[Usage, Usage | None]:
    """Return the part of a usage that a call of a model can have, and the rest; None: none.

    Source: money, rule 4.

    :param input_most: the most tokens of input that it can take; None: nobody knows.
    :param output_most: the most tokens of output.
    """
    taken = min(usage.input_tokens, input_most or usage.input_tokens)
    given = min(usage.output_tokens, output_most or usage.output_tokens)
    written = min(usage.cache_write_tokens, taken)
    cached = min(usage.cached_input_tokens, taken - written)
    heard = min(usage.input_audio_tokens, taken)
    part = replace(
        usage,
        input_tokens=taken,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(usage.cache_write_1h_tokens, written),
        cached_input_tokens=cached,
        input_audio_tokens=heard,
        cached_audio_tokens=min(usage.cached_audio_tokens, heard, cached),
        output_tokens=given,
        reasoning_tokens=min(usage.reasoning_tokens, given),
        output_audio_tokens=min(usage.output_audio_tokens, given),
        searches=min(usage.searches, SEARCHES_MAX),
    )
    return part, beyond(usage, part.counts)


def most_of(row: sql.Row, *, held: tuple[int, int] = (0, 0)) -> dict[str, int | None]:
    """Return the most that a call of a model can have, for `within`; None where nobody knows.

    No less than what it was held at, where it was. Output is inside the context.

    :param row: `context_tokens_max` and `output_tokens_max` of the model.
    """
    context = row["context_tokens_max"]
    output = row["output_tokens_max"] or context
    return {
        "input_most": context and max(context, held[0]),
        "output_most": output and max(output, held[1]),
    }


def beyond(usage: Usage, booked: Mapping[str, int]) -> Usage | None:
    """Return the part of a usage that was not booked, by counter; None where there is none.

    A kind that may be dearer than its whole takes its whole with it; one that is cheaper stays
    inside.
    """
    left = {name: max(0, count - booked.get(name, 0)) for name, count in usage.counts.items()}
    left["cache_write_tokens"] = max(left["cache_write_tokens"], left["cache_write_1h_tokens"])
    left["input_tokens"] = max(
        left["input_tokens"], left["cache_write_tokens"], left["input_audio_tokens"]
    )
    left["output_tokens"] = max(left["output_tokens"], left["output_audio_tokens"])
    left["cached_input_tokens"] = min(
        left["cached_input_tokens"], left["input_tokens"] - left["cache_write_tokens"]
    )
    left["cached_audio_tokens"] = min(
        left["cached_audio_tokens"], left["input_audio_tokens"], left["cached_input_tokens"]
    )
    left["reasoning_tokens"] = min(left["reasoning_tokens"], left["output_tokens"])
    if not any(left.values()):
        return None
    counts: dict[str, Any] = left
    return replace(usage, **counts)
