"""An operation: one call of the service, whatever carries it.

It is a function of a `Call` (who asks, under what terms, for what) to an `Answer`, and data: who
may call it, the shape of its request and of its answer, its key, its sessions, its batch.  HTTP
and others are faces: they make a `Context` and a `Request` of what they receive, let it be
performed (`performing.perform`), and say the answer's outcome in words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias
from uuid import UUID

from django_filters import FilterSet

from governance.core import idempotency
from governance.core.errors import FieldFault, InvalidArgument
from governance.core.idempotency import Answer, Key
from governance.operations.pages import PAGING
from governance.operations.parameters import Parameter
from governance.operations.shapes import Shape, faults_of

#: The outcome of an operation that has only one.
DONE = "done"
#: A revision that nothing has: what a caller expects who names something else.
NO_REVISION = 0
#: The revision that a caller names who has whichever there is: `If-None-Match: *`.
ANY_REVISION = -1

#: What an operation is a function of, and what it gives.
Run: TypeAlias = "Callable[[Call], Answer]"
P = ParamSpec("P")


class Principal(Protocol):
    """Who calls, as whatever authenticates knows it."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def scopes(self) -> frozenset[str]: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Context:
    """Who calls, and under what terms.

    An operation knows of the session, the key and the revision only what it declares.

    :param key: the idempotency key as it was sent.
    :param if_match: the revision that the caller expects, or `NO_REVISION`.
    :param request_id: what events and refusals name the request by, where the face has not said
        so already.
    :param operation_id: what the caller names the operation, beside the key; default its name.
    :param if_none_match: the revisions that the caller has; `ANY_REVISION` among them for whichever
        there is. None: it has said nothing of it.
    :param deadline: when the caller waits no longer, on the monotonic clock; None: it does not say.
    """

    principal: Principal | None
    session_id: UUID | None = None
    epoch: UUID | None = None
    key: str | None = None
    if_match: int | None = None
    request_id: str = ""
    operation_id: str | None = None
    if_none_match: frozenset[int] | None = None
    deadline: float | None = None


@dataclass(frozen=True)
class Request:
    """What is asked for: `body` as JSON has it, in no shape yet.

    :param identity: what the call is about (a path of HTTP), by the operation's names.
    :param query: filters, page and the like, as text. Where one may be given more than once, a
        `MultiValueDict` has all of its values.
    """

    body: Any = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A call of the service: the function that answers it, and its data. Made by `operation`.

    :param name: in idempotency records and in the API description; never changed.
    :param scopes: a credential with one of these may call it; empty: nobody is asked.
    :param reads: the shape of the request, or of each item of a batch; None without one.
    :param answers: the shape of the answer, a `TypedDict` or a list of one.
    :param outcomes: the words of its answers; a face may have a status for each.
    :param identity: the names of what it is about, each `str`, `int` or `UUID`.
    :param key: whether an idempotency key is "required", "honoured", or "" for reads.
    :param moment: the members of its answer that are time or authority; none of them is kept under
        a key, and a stored answer is given with new ones. What takes a key says which, or `()`.
    :param sessions: whether the caller may name its session and epoch.
    :param if_match: whether the caller may name the revision that it expects.
    :param if_none_match: whether the caller may name the revisions that it has already.
    :param batch_max: items of a batch, which is an object with the one member `batch_name`, or
        the bare array; 0 for operations on one thing.
    :param keeps: the member of its request that may be odd and costs the rest nothing: what of it
        is no I-JSON is read as its JSON text.
    :param beside: the shape of what may stand beside `batch_name`, for all items.
    :param query: the query parameters beside those of `filters` and `paged`, each explained, or
        a `Parameter` that `Call.parameter` reads.
    """

    name: str
    run: Run
    scopes: tuple[str, ...]
    answers: Any
    reads: type[Shape] | None = None
    outcomes: tuple[str, ...] = (DONE,)
    identity: Mapping[str, type] = field(default_factory=dict)
    key: str = ""
    moment: tuple[str, ...] | None = None
    sessions: bool = False
    if_match: bool = False
    if_none_match: bool = False
    batch_max: int = 0
    batch_name: str = "items"
    keeps: str = ""
    beside: type[Shape] | None = None
    query: Mapping[str, str | Parameter] = field(default_factory=dict)
    filters: type[FilterSet] | None = None
    paged: bool = False

    def __post_init__(self) -> None:
        declared = self.moment is not None
        assert bool(self.key) == declared, f"{self.name}: what of it is true but for a moment?"

    @property
    def known_query(self) -> frozenset[str]:
        """Return the query parameters that exist."""
        filters = self.filters.base_filters if self.filters is not None else {}
        return frozenset(self.query) | frozenset(filters) | (PAGING if self.paged else frozenset())

    @property
    def repeatable(self) -> frozenset[str]:
        """Return the query parameters that may be given more than once."""
        filters = self.filters.base_filters if self.filters is not None else {}
        return frozenset(n for n, found in filters.items() if getattr(found, "repeatable", False))

    @property
    def summary(self) -> str:
        """Return what it does, in a line."""
        return (self.run.__doc__ or "").partition("\n")[0].rstrip(".")


def _declaring(
    make: Callable[Concatenate[str, Run, P], Operation],
) -> Callable[P, Callable[[Run], Operation]]:
    def declared(*data: P.args, **named: P.kwargs) -> Callable[[Run], Operation]:
        return lambda run: make(run.__name__, run, *data, **named)

    return declared


#: Decorates the function of an operation with its data; the function's name is the operation's.
operation = _declaring(Operation)


@dataclass(frozen=True)
class Call:
    """One call of an operation: `body` has the operation's shape, `key` is judged.

    The body of a batch is a list, in which an item that is malformed is its refusal; `beside` is
    what the batch says of all its items.
    """

    operation: Operation
    context: Context
    body: Any
    identity: Mapping[str, Any]
    query: Mapping[str, str]
    key: Key | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def principal(self) -> Principal:
        """Return who calls."""
        assert self.context.principal is not None
        return self.context.principal

    def once(
        self,
        run: Callable[[], Answer],
        *,
        at_gate: bool | None = None,
        renew: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        render: idempotency.Render | None = None,
    ) -> Answer:
        """Run the one move of this call under its idempotency key, and return its answer.

        :param at_gate: as `idempotency.once`; operations with sessions pass an agent's gate.
        :param renew: returns the `moment` of a stored answer, of which it is given the members:
            what it lets the caller do, and for how long, is judged again at every replay.
        :param render: as `idempotency.once`.
        """
        gate = self.operation.sessions if at_gate is None else at_gate
        answer = idempotency.once(run, key=self.key, at_gate=gate, render=render)
        if renew is None or not answer.replayed or answer.refuses:
            return answer
        stored = answer.members
        facts = {name: value for name, value in stored.items() if name not in self._moment}
        return replace(answer, body=facts, moment=renew(stored))

    @property
    def _moment(self) -> tuple[str, ...]:
        return self.operation.moment or ()

    def parameter(self, name: str) -> Any:
        """Return the value of a query parameter that the operation declares by a `Parameter`.

        :raises InvalidArgument: it is not one that it takes.
        """
        declared = self.operation.query[name]
        assert not isinstance(declared, str)
        return declared.read(name, self.query)

    def filtered(self, queryset: Any) -> Any:
        """Return the queryset under the operation's filters.

        :raises InvalidArgument: a filter has a value that it does not take.
        """
        assert self.operation.filters is not None
        # A blank value is asked for by mistake, and would narrow nothing.
        names = self.operation.filters.base_filters
        if empty := [name for name in names if self.query.get(name, "-").strip() == ""]:
            faults = [FieldFault(f"/{name}", "It is empty.") for name in empty]
            raise InvalidArgument("A filter is not valid.", errors=faults)
        filters = self.operation.filters(self.query, queryset=queryset)
        if not filters.is_valid():
            raise InvalidArgument("A filter is not valid.", errors=faults_of(filters.errors))
        return filters.qs
