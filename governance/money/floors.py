"""How many tokens a call is held at, whatever its request declares. Source: money, rule 3."""

from __future__ import annotations

from datetime import datetime

from governance.core import sql
from governance.money.pricing import PriceList, PriceUnusable
from governance.money.requests import RouteRequest


def held_tokens(
    model: sql.Row, request: RouteRequest, *, price: PriceList | None, at: datetime
) -> tuple[int, int]:
    """Return the tokens of input and output that a call of a model is held at; 0: not known.

    Input: what is stated, and no less than what is in the request; the whole context where it has
    content by reference, or where neither is known. Output: the request's limit, else the policy's,
    and no more than the model can.

    :param model: `context_tokens_max` and `output_tokens_max`, each of which may be null, and the
        policy's `max_output_tokens`.
    """
    context, most = model["context_tokens_max"], model["output_tokens_max"]
    taken, limit = _input(request, context), request.max_output_tokens
    if limit or not _has_output(price, at):
        return taken, limit
    given = min(model["max_output_tokens"], most or model["max_output_tokens"])
    if context and taken < context:
        given = min(given, context - taken)
    return taken, given


def _input(request: RouteRequest, context: int | None) -> int:
    stated, contents = request.estimated_input_tokens, request.terms.contents
    if contents.by_reference or not (stated or request.request_bytes):
        return context or 0
    inside = contents.input_of(request.request_bytes or 0)
    return max(stated, min(inside, context or inside))


def too_large(model: sql.Row, *, stated: int, limit: int) -> bool:
    """Return whether a request states more than the model takes."""
    context, most = model["context_tokens_max"], model["output_tokens_max"]
    return (context is not None and stated + limit > context) or (most is not None and limit > most)


def _has_output(price: PriceList | None, at: datetime) -> bool:
    try:
        return price is None or price.has_output(at)
    except PriceUnusable:
        return True
