"""From what a move returns to an answer: of one job, or of each item of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from governance.core import audit
from governance.core.errors import DomainError
from governance.core.idempotency import Answer
from governance.core.isolation import apart
from governance.operations.operation import DONE, Call
from jobs.operations.isolation import Culprits, past_culprits


class Outcome(Protocol):
    """What a move has done; `outcome` is the word for it."""

    @property
    def outcome(self) -> str: ...


T = TypeVar("T", bound=Outcome)
Item = dict[str, Any]


def answer_of(outcome: T | DomainError, render: Callable[[T], Mapping[str, Any]]) -> Answer:
    """Return the answer of a move.

    A refusal that was returned, not raised, has written something that is to be committed.
    """
    if isinstance(outcome, DomainError):
        return Answer.of_refusal(outcome)
    return Answer(outcome.outcome, render(outcome))


def answer_each(
    items: list[Item | DomainError],
    move: Callable[[list[Item]], list[T | DomainError]],
    render: Callable[[T], Mapping[str, Any]],
    *,
    made: frozenset[str] = frozenset(),
    culprits: Culprits | None = None,
) -> Answer:
    """Make the one move of the items that are well formed, and answer all in the asked order.

    The move is made for none as well: it judges the caller, and takes the request's key.

    Each result has the `status` that HTTP would have answered its item with by itself.

    It is kept under the request's key unless one of the results is a refusal that repeating can
    help: what was done is answered by its own identity when the batch is sent again.

    :param made: the outcomes that say that something new is there: 201.
    :param culprits: makes the move apart from the rows that spoil it, which it collects.
    """
    final = True

    def result(outcome: T | DomainError) -> Mapping[str, Any]:
        nonlocal final
        if isinstance(outcome, DomainError):
            final = final and outcome.final
            return outcome.as_problem(instance=audit.request_urn(), of_write=True)
        return {"status": 201 if outcome.outcome in made else 200, **render(outcome)}

    def answered(good: list[Item]) -> list[Mapping[str, Any]]:
        return [result(outcome) for outcome in move(good)]

    good = [item for item in items if not isinstance(item, DomainError)]
    found = iter(answered(good) if culprits is None else apart(good, answered, culprits.refuse))
    results = [result(item) if isinstance(item, DomainError) else next(found) for item in items]
    # What was refused for a row's sake may be sent again under the same key; the rest is repeated.
    kept = culprits is None or not culprits.refused
    return Answer(DONE, {"results": results}, recorded=kept and final)


def answer_batch(
    call: Call,
    items: list[Item | DomainError],
    move: Callable[[list[Item]], list[T | DomainError]],
    render: Callable[[T], Mapping[str, Any]],
    *,
    made: frozenset[str] = frozenset(),
) -> Answer:
    """Make the one move of a batch under the call's key, as `answer_each`.

    Where a row spoils it for all, it is made again, apart from that row.
    """

    def answer(culprits: Culprits | None = None) -> Answer:
        return call.once(lambda: answer_each(items, move, render, made=made, culprits=culprits))

    return past_culprits(call.operation.name, answer)
