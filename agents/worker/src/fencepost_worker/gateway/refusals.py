"""Refusals: why a program's call is not made, in words for its person and a reason for itself."""

from typing import Any

from fencepost_worker.client import DEFER, Problem
from fencepost_worker.gateway.wire import RETRY_AFTER_SECONDS_MAX

RATE_LIMITED = "RATE_LIMITED"
NOT_GOVERNED = "ENDPOINT_NOT_GOVERNED"
ATTEMPT_ENDED = "ATTEMPT_ENDED"
ATTEMPT_PAUSED = "ATTEMPT_PAUSED"
TOO_MANY_CALLS = "TOO_MANY_OPEN_CALLS"
TOO_LARGE_TOGETHER = "TOO_LARGE_TOGETHER"
UNREACHABLE = "CONTROL_PLANE_UNREACHABLE"
NOT_CONFIGURED = "PROVIDER_NOT_CONFIGURED"
STATE_ELSEWHERE = "STATE_AT_ANOTHER_PROVIDER"
NOT_REACHED = "PROVIDER_NOT_REACHED"
ANSWER_LOST = "ANSWER_LOST"


class CallRefused(Exception):
    """A call that the gateway does not make, or whose answer it cannot give.

    `status` is that of the answer to the program, `after_seconds` how long it may wait.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, after_seconds: float | None = None
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        wait = after_seconds is not None and after_seconds <= RETRY_AFTER_SECONDS_MAX
        self.after_seconds = after_seconds if wait else None
        super().__init__(f"{status} {reason}")


class ClientGone(Exception):
    """The program went away before its call was made; nobody needs an answer."""


def of_problem(problem: Problem) -> CallRefused:
    """Return a refusal of the control plane as the program is told it.

    A refusal of policy is 403, which official SDKs do not repeat; only a limit that is soon free
    is 429.
    """
    soon = problem.after_seconds is not None and problem.after_seconds <= RETRY_AFTER_SECONDS_MAX
    status = 429 if problem.reason == RATE_LIMITED and soon else 403
    if problem.code == "INVALID_ARGUMENT":
        status = 400
    reason = problem.reason or problem.code or "REFUSED"
    words = [problem.detail or "The control plane refused the call.", budget_words(problem.current)]
    message = " ".join(each for each in words if each)
    return CallRefused(status, reason, message, after_seconds=problem.after_seconds)


def budget_words(current: dict[str, Any]) -> str:
    """Return a full budget in words, what is held apart from what is spent; empty without one."""
    budget = current.get("budget")
    if not isinstance(budget, dict):
        return ""
    name = " ".join(str(budget[part]) for part in ("scope", "key") if budget.get(part))
    currency = budget.get("currency", "")
    return (
        f"Budget {name} ({budget.get('window')}): of {budget.get('cap')} {currency}"
        f" {budget.get('spent')} are spent and {budget.get('held')} are held for calls that have"
        " not ended."
    )


def wants_deferral(problem: Problem) -> bool:
    """Return whether it is a want of room, over which an attempt is given back."""
    return problem.rule == DEFER
