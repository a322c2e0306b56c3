"""How many tokens a call is held at, whatever its request declares. Source: money, rule 3."""

from __future__ import annotations

from datetime import datetime

from governance.core import sql
from governance.money.pricing import OUTPUT_TOKENS_HELD, PriceList, PriceUnusable, input_of


def held_tokens(
    model: sql.Row,
    *,
    stated: int,
    limit: int,
    request_bytes: int | None,
    price: PriceList | None,
    at: datetime,
) -> tuple[int, int]:
    """Return the tokens of input and output that a call of a model is held at; 0: not known.

    Input: what is stated, and no less than the bytes of its text; the whole context where neither
    is known. Output: the request's limit, else `OUTPUT_TOKENS_HELD`, or what the model can.

    :param model: its `context_tokens_max` and `output_tokens_max`, each of which may be null.
    """
    context, most = model["context_tokens_max"], model["output_tokens_max"]
    by_bytes = input_of(request_bytes or 0)
    taken = max(stated, min(by_bytes, context or by_bytes)) or context or 0
    if limit or not _has_output(price, at):
        return taken, limit
    given = min(OUTPUT_TOKENS_HELD, most or OUTPUT_TOKENS_HELD)
    if context and taken < context:
        given = min(given, context - taken)
    return taken, given


def too_large(model: sql.Row, *, stated: int, limit: int) -> bool:
    """Return whether a request states more than the model takes."""
    context, most = model["context_tokens_max"], model["output_tokens_max"]
    return (context is not None and stated + limit > context) or (most is not None and limit > most)


def _has_output(price: PriceList | None, at: datetime) -> bool:
    try:
        return price is None or price.has_output(at)
    except PriceUnusable:
        return True
