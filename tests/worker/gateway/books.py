"""The governed calls of a control plane in memory: routes and their ends, as the contract says."""

import threading
from dataclasses import dataclass, field
from typing import Any

from uuid_utils.compat import uuid7

from tests.worker.conftest import ScriptedPlane, Seen, problem

MODELS = (
    {"position": 1, "provider": "openai", "model": "large", "api": "openai"},
    {"position": 2, "provider": "openai", "model": "small", "api": "openai"},
    {"position": 3, "provider": "anthropic", "model": "sonnet", "api": "anthropic"},
    {"position": 4, "provider": "anthropic", "model": "haiku", "api": "anthropic"},
)


@dataclass
class Reserved:
    """A call that was routed: what was asked, who is to answer it, and how it ended."""

    asked: dict[str, Any]
    answer: dict[str, Any]
    end: dict[str, Any] | None = None


@dataclass
class Books:
    """Answers `/v1/routes` and `/v1/reservations/ID/resolve` of a scripted plane.

    `refusals` are given to the next routes, one each. `started`: the execution was started before.
    """

    models: tuple[dict[str, Any], ...] = MODELS
    started: bool = True
    max_output_tokens: int = 16_384
    begin_within_seconds: int = 60
    refusals: list[dict[str, Any]] = field(default_factory=list)
    calls: list[Reserved] = field(default_factory=list)
    by_key: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def serve(self, plane: ScriptedPlane) -> "Books":
        """Answer for this plane from now on."""
        plane.routes[r"^/v1/routes$"] = self._once(self._route)
        plane.routes[r"^/v1/reservations/"] = self._once(self._resolve)
        return self

    @property
    def ends(self) -> list[dict[str, Any]]:
        """Return how the calls ended, in the order of their routes; `{}` is open."""
        return [each.end or {} for each in self.calls]

    def settled(self, count: int = 1, seconds: float = 20) -> list[dict[str, Any]]:
        """Wait until so many calls have ended, and return the ends."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: sum(each.end is not None for each in self.calls) >= count, seconds
            )
            assert done, f"{self.ends} after {seconds} s"
            return self.ends

    def _once(self, answer: Any) -> Any:
        def keyed(seen: Seen) -> tuple[int, dict[str, Any]]:
            key = seen.headers["idempotency-key"]
            with self.changed:
                if key not in self.by_key:
                    status, body = answer(seen)
                    if status >= 400:
                        return status, body
                    self.by_key[key] = status, body
                self.changed.notify_all()
                return self.by_key[key]

        return keyed

    def _route(self, seen: Seen) -> tuple[int, dict[str, Any]]:
        asked = seen.body
        if self.refusals:
            refusal = self.refusals.pop(0)
            return refusal["status"], refusal
        number = len(self.calls) + 1
        expected = asked["external_request_id"] + ":model" + (f":{number}" if number > 1 else "")
        if asked["route_request_id"] != expected:
            over = {"next_call": number}
            reason = "MODEL_RESERVATION_STATE_INVALID"
            return 409, problem(409, "FAILED_PRECONDITION", reason, "refresh", **over)
        chosen = self._chosen(asked)
        if chosen is None:
            return 403, problem(403, "PERMISSION_DENIED", "MODEL_NOT_ALLOWED", "stop")
        reservation = {"reservation_id": str(uuid7()), "amount": "0.1", "currency": "USD"}
        limit = asked.get("max_output_tokens") or self.max_output_tokens
        answer = {
            "decision": "issued",
            "decision_id": str(uuid7()),
            "reason": None,
            "provider": chosen["provider"],
            "model": chosen["model"],
            "max_output_tokens": limit,
            "reservation": reservation | {"state": "held"},
            "begin_within_seconds": self.begin_within_seconds if self.started else None,
        }
        self.calls.append(Reserved(asked, answer))
        return 200, answer

    def _chosen(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        failed: set[str] = set()
        before = asked.get("fallback_of")
        while before:
            call = next(c for c in self.calls if c.asked["route_request_id"] == before)
            failed.add(call.answer["model"])
            before = call.asked.get("fallback_of")
        fits = [m for m in self.models if m["api"] == asked["api"] and m["model"] not in failed]
        names = {m["model"]: (m["model"], f"{m['provider']}/{m['model']}") for m in fits}
        wanted = [m for m in fits if asked.get("wanted_model") in names[m["model"]]]
        return next(iter([*wanted, *fits]), None)

    def _resolve(self, seen: Seen) -> tuple[int, dict[str, Any]]:
        reservation_id = seen.path.split("/")[3]
        call = next(
            c for c in self.calls if c.answer["reservation"]["reservation_id"] == reservation_id
        )
        if call.end is not None:
            reason = "MODEL_RESERVATION_STATE_INVALID"
            return 409, problem(409, "FAILED_PRECONDITION", reason, "refresh")
        names = ("end", "usage", "cost_basis", "error_code", "provider_response_id")
        call.end = {name: seen.body[name] for name in names if name in seen.body}
        return 200, {"outcome": "recorded", "state": seen.body["end"], "flags": []}
