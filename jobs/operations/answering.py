"""From what a move returns to an answer: of one job, or of each item of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from governance.core import audit
from governance.core.errors import DomainError
from governance.core.idempotency import Answer
from governance.operations.operation import DONE


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
) -> Answer:
    """Make the one move of the items that are well formed, and answer all in the asked order.

    The move is made for none as well: it judges the caller, and takes the request's key.

    Each result has the `status` that HTTP would have answered its item with by itself.

    It is kept under the request's key unless one of the results is a refusal that repeating can
    help: what was done is answered by its own identity when the batch is sent again.

    :param made: the outcomes that say that something new is there: 201.
    """
    good = [item for item in items if not isinstance(item, DomainError)]
    outcomes: Iterator[T | DomainError] = iter(move(good))
    results: list[Mapping[str, Any]] = []
    final = True
    for item in items:
        outcome = item if isinstance(item, DomainError) else next(outcomes)
        if isinstance(outcome, DomainError):
            results.append(outcome.as_problem(instance=audit.request_urn(), of_write=True))
            final = final and outcome.final
        else:
            status = {"status": 201 if outcome.outcome in made else 200}
            results.append(status | dict(render(outcome)))
    return Answer(DONE, {"results": results}, recorded=final)
