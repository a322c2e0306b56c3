"""Which types of job a worker asks for: what it was told to, less what it cannot serve now."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from fencepost_worker.breaker import REST_SECONDS_MAX, Breaker
from fencepost_worker.claim import Claim
from fencepost_worker.client import DEFER, Call, ControlPlane, Problem, Refused, Unreachable
from fencepost_worker.timing import steady_now

log = logging.getLogger("fencepost_worker")

#: The types of an agent are read anew after this time.
TYPES_FRESH_SECONDS = 60.0
#: What a worker without the means for a type says of it holds for so long, and is said anew.
UNSERVED_SECONDS = 600
ANSWER_TIMEOUT_SECONDS = 5.0
#: Want of room is the control plane's to end, at any moment, and it keeps such work back by itself:
#: a longer rest would hold up a queue whose budget is back.
OFFERED_REST_SECONDS = 5.0
REASON_CHARS = 200
NOT_ASKING_MAX = 64
#: `model_use` of a type whose jobs are not complete without a call of a model.
REQUIRED = "required"
NO_PROVIDERS = "this worker has no providers of models"
#: The reason of a deferral that the work itself asked for: it says nothing of the type.
DEFERRED_BY_WORK = "DEFERRED_BY_WORK"
#: Of a type that touches models alone a permit names the reservation of a call, and here is none.
NO_PERMIT_WITHOUT_CALL = (
    "its permits are for model calls, and what this worker runs calls no models through it"
)


@dataclass(frozen=True)
class TypeKnown:
    """What the control plane says of a type of the agent's."""

    name: str
    model_use: str
    effects: str = "external"

    @property
    def only_models(self) -> bool:
        """Return whether its work touches nothing but models; see `Claim.only_models`."""
        return self.model_use in ("allowed", REQUIRED) and self.effects == "model_only"

    @classmethod
    def of(cls, claim: Claim) -> "TypeKnown":
        """Return what a claim says of its type."""
        row = {"task_type": claim.task_type} | claim.document
        return cls.from_document(row) or cls("", "none")

    @classmethod
    def from_document(cls, document: Any) -> "TypeKnown | None":
        """Read a type of the bootstrap; None where it is not one."""
        if not isinstance(document, dict) or not isinstance(document.get("task_type"), str):
            return None
        # An older control plane has a boolean for it.
        older = REQUIRED if document.get("uses_model") is True else "none"
        return cls(
            name=document["task_type"],
            model_use=str(document.get("model_use") or older),
            effects=str(document.get("effects") or "external"),
        )


def unserved(reason: str) -> Problem:
    """Return what is said of a job whose type cannot be done here: it is given back."""
    return Problem(
        status=0,
        code="UNAVAILABLE",
        reason="NOT_SERVED_HERE",
        detail=reason,
        rule=DEFER,
        effect="none",
        after_seconds=UNSERVED_SECONDS,
    )


class Asking:
    """What is asked for, and what is not. Thread-safe."""

    def __init__(
        self,
        *,
        plane: ControlPlane,
        agent: str,
        named: tuple[str, ...] = (),
        unserved: Callable[[TypeKnown], str] = lambda each: "",
        breaker: Breaker | None = None,
    ) -> None:
        """Ask for the types `named`, or for all of the agent's.

        :param unserved: returns why jobs of a type cannot be done here, if they cannot.
        """
        self._plane = plane
        self._call = Call("GET", f"/v1/agents/{quote(agent, safe='')}/bootstrap")
        self._named = named
        self._unserved_by = unserved
        self.breaker = breaker or Breaker()
        self._known: tuple[TypeKnown, ...] | None = None
        self._read_at = float("-inf")
        self._lock = threading.Lock()
        self.on_change: Callable[[], None] = lambda: None

    def task_types(self) -> list[str] | None:
        """Return the types to ask for now; None for all, and nothing where none can be served.

        Where the control plane does not say which types there are, all are asked for.
        """
        known = self._types()
        left_out = {rest.task_type for rest in self.breaker.rests()} | self._unserved(known).keys()
        if self._named:
            return [name for name in self._named if name not in left_out]
        if not left_out or known is None:
            return None
        return [each.name for each in known if each.name not in left_out]

    def not_asking(self) -> list[dict[str, Any]]:
        """Return what is not asked for, as presence says it: `task_type, reason, until`."""
        now, steady = datetime.now(UTC), steady_now()
        rows = {rest.task_type: (rest.reason, rest.until - steady) for rest in self.breaker.rests()}
        for name, reason in self._unserved(self._known).items():
            if not self._named or name in self._named:
                rows[name] = (reason, UNSERVED_SECONDS)
        return [
            {
                "task_type": name,
                "reason": reason[:REASON_CHARS],
                "until": (now + timedelta(seconds=seconds)).isoformat(timespec="seconds"),
            }
            for name, (reason, seconds) in sorted(rows.items())
        ][:NOT_ASKING_MAX]

    def refused(self, task_type: str, problem: Problem, *, for_all: bool = False) -> None:
        """Note that a job of the type was refused before it could do anything."""
        if problem.reason == DEFERRED_BY_WORK:
            return
        reason = problem.reason or problem.code or "REFUSED"
        rest = self.breaker.refused(
            task_type,
            reason,
            detail=problem.detail,
            for_all=for_all,
            rest_max_s=OFFERED_REST_SECONDS if problem.rule == DEFER else REST_SECONDS_MAX,
        )
        if rest is not None:
            seconds = round(rest.until - steady_now())
            log.error("not asking for %s for %s s: %s", task_type, seconds, rest.reason)
            self.on_change()

    def served(self, task_type: str) -> None:
        """Note that a job of the type was not refused."""
        rested = any(rest.task_type == task_type for rest in self.breaker.rests())
        self.breaker.served(task_type)
        if rested:
            self.on_change()

    def _unserved(self, known: tuple[TypeKnown, ...] | None) -> dict[str, str]:
        reasons = {each.name: self._unserved_by(each) for each in known or ()}
        return {name: reason for name, reason in reasons.items() if reason}

    def _types(self) -> tuple[TypeKnown, ...] | None:
        with self._lock:
            if steady_now() - self._read_at < TYPES_FRESH_SECONDS:
                return self._known
            before = self._unserved(self._known)
            try:
                answer = self._plane.send(self._call, timeout_s=ANSWER_TIMEOUT_SECONDS)
            except (Refused, Unreachable) as error:
                log.warning("the agent's types could not be read: %s", error)
                return self._known
            rows = answer.body.get("job_types")
            read = [TypeKnown.from_document(row) for row in rows] if isinstance(rows, list) else []
            self._known = tuple(each for each in read if each is not None)
            self._read_at = steady_now()
            unserved = self._unserved(self._known)
        if unserved != before:
            for name, reason in sorted(unserved.items()):
                log.warning("not asking for %s: %s", name, reason)
            self.on_change()
        return self._known
