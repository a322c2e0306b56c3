"""What a refusal is: its code, reason, effect and retry rule, and the problem that is answered.

Source of the body: RFC 9457 (problem details); of the codes: google.rpc.Code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict

from governance.core.wire import UriText, explained, one_of

type_base = "https://fencepost.dev/problems/"

CODES = (
    "ABORTED",
    "ALREADY_EXISTS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
)
EFFECTS = ("none", "applied", "unknown")
#: What the refusal of a write says of its receipt; the other codes leave no doubt.
RESULT_CODES = ("CONFLICT", "UNKNOWN")
CONFLICTING_CODES = frozenset({"ABORTED", "ALREADY_EXISTS"})
RETRY_RULES = (
    "never",
    "reauthenticate",
    "stop",
    "refresh",
    "wait",
    "defer",
    "reconcile",
    "read",
    "same_key",
)
#: The rule of a refusal for want of room: end the attempt as deferred, or wait within it.
DEFER = "defer"
#: When to come back where the service cannot tell when there is room.
DEFER_SECONDS = 300
#: A refusal is stored under its idempotency key only when repeating the request can never help.
STORED_RULES = frozenset({"never", "stop", "read"})


@dataclass(frozen=True)
class FieldFault:
    """One fault of a request body. `pointer` is an RFC 6901 JSON pointer, empty for the whole."""

    pointer: str
    detail: str


class RetryOut(TypedDict):
    """Whether and how to send the request again."""

    rule: Annotated[str, one_of(RETRY_RULES)]
    after_seconds: int | None


class FaultOut(TypedDict):
    """One fault of the request."""

    pointer: Annotated[str, explained("RFC 6901 JSON pointer")]
    detail: str


class Problem(TypedDict):
    """A failure (RFC 9457)."""

    type: UriText
    title: str
    status: int
    detail: str
    instance: str
    code: Annotated[str, one_of(CODES)]
    reason: Annotated[str, explained("finer than `code`, and as stable")]
    effect: Annotated[str, one_of(EFFECTS)]
    result_code: NotRequired[Annotated[str, one_of(RESULT_CODES)]]
    retry: RetryOut
    current: Annotated[dict[str, Any], explained("what the caller should have had")]
    errors: list[FaultOut]


class DomainError(Exception):
    """A request that the domain refuses.

    :param detail: text for a person; by default the first line of the class docstring.
    :param current: what the caller should have had (revision, token, state ...), if it may know.
    :param after_seconds: when to come back, for the rules that wait; `defer` always says so.
    """

    code: ClassVar[str] = "FAILED_PRECONDITION"
    reason: ClassVar[str]
    status: ClassVar[int] = 409
    retry: ClassVar[str] = "refresh"
    effect: ClassVar[str] = "none"
    title: ClassVar[str] = ""
    #: Whether the refusal uses an idempotency key up. Shape errors say nothing about the operation.
    uses_key: ClassVar[bool] = True

    def __init__(
        self,
        detail: str = "",
        *,
        current: dict[str, Any] | None = None,
        after_seconds: int | None = None,
        errors: list[FieldFault] | None = None,
    ) -> None:
        self.detail = detail or (type(self).__doc__ or "").partition("\n")[0]
        self.current = current or {}
        if after_seconds is None and self.retry == DEFER:
            after_seconds = DEFER_SECONDS
        self.after_seconds = after_seconds
        self.errors = errors or []
        super().__init__(self.detail)

    @property
    def words(self) -> str:
        """Return the detail with what is wrong where, for faces that show a line of text."""
        faults = [f"{fault.pointer[1:]}: {fault.detail}" for fault in self.errors]
        further = [fault for fault in faults if fault not in self.detail]
        return f"{self.detail} {'; '.join(further)}".strip()

    @property
    def final(self) -> bool:
        """Tell whether the same request will be refused so for ever."""
        return self.retry in STORED_RULES

    @property
    def stored(self) -> bool:
        """Tell whether an idempotency record keeps this refusal as the answer for its key."""
        return self.final and self.uses_key

    @property
    def result_code(self) -> str | None:
        """Return what a write that is refused so says of its receipt; None where nothing is open.

        What may have had an effect is unknown, whatever else it is. Source: contract, section 2.
        """
        if self.effect == "unknown":
            return "UNKNOWN"
        return "CONFLICT" if self.code in CONFLICTING_CODES else None

    def as_problem(self, *, instance: str = "", of_write: bool = False) -> Problem:
        """Return the RFC 9457 body.

        :param instance: the request's URN.
        :param of_write: the request would have changed something; its problem has `result_code`.
        """
        result_code = self.result_code if of_write else None
        receipt: Any = {"result_code": result_code} if result_code else {}
        return {
            "type": type_base + self.reason.lower().replace("_", "-"),
            "title": self.title or (type(self).__doc__ or "").partition("\n")[0].rstrip("."),
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            "reason": self.reason,
            "effect": self.effect,
            **receipt,
            "retry": {"rule": self.retry, "after_seconds": self.after_seconds},
            "current": self.current,
            "errors": [{"pointer": f.pointer, "detail": f.detail} for f in self.errors],
        }
