"""Presence: a thread that reports, for an activated session, that its process lives, even idle."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from fencepost_worker.client import Call, ControlPlane, GaveUp, Refused
from fencepost_worker.lease import MIN_INTERVAL_SECONDS

log = logging.getLogger("fencepost_worker")

#: When the control plane does not say how often it wants to hear from us.
DEFAULT_INTERVAL_SECONDS = 30.0
MAX_INTERVAL_SECONDS = 300.0
#: Nobody waits for this answer, but the end of the worker waits for this thread.
ANSWER_TIMEOUT_SECONDS = 5.0


class Presence:
    """Beats for the session of `plane`, and says which types of job it does not ask for.

    An implicit session is present by asking for work; it beats while there is something that it
    does not ask for, since then it may ask for nothing.
    """

    def __init__(
        self,
        *,
        plane: ControlPlane,
        agent: str = "",
        not_asking: Callable[[], Sequence[dict[str, Any]]] = tuple,
    ) -> None:
        """Make a presence.

        :param not_asking: returns `task_type, reason, until` of what is not asked for now.
        """
        self._plane = plane
        self._agent = agent
        self._not_asking = not_asking
        self._reported: Sequence[dict[str, Any]] = ()
        self._closed = False
        self._poked = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._admission: tuple[Any, bool] = ("open", False)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def poke(self) -> None:
        """Beat now: what is not asked for has changed."""
        with self._changed:
            self._poked = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop to beat, and wait for the beat that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (pause_s := self._beat()) is not None:
            if not self._wait(pause_s):
                return

    def _wait(self, seconds: float) -> bool:
        """Wait so long, or until poked; return False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._poked, seconds)
            self._poked = False
            return not self._closed

    def _hold(self, seconds: float) -> bool:
        """Wait so long; return False at the end."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closed, seconds)

    def _call(self, not_asking: Sequence[dict[str, Any]]) -> Call | None:
        """Return the call that says that we live; None where nothing is to be said."""
        call = self._plane.session.presence()
        if call is None:
            if not (not_asking or self._reported) or not self._agent:
                return None
            body = {"worker_ids": [self._plane.session.worker_id]}
            call = Call("POST", f"/v1/agents/{quote(self._agent, safe='')}/heartbeat", body)
        if not not_asking:
            return call
        return replace(call, body=(call.body or {}) | {"not_asking": list(not_asking)})

    def _beat(self) -> float | None:
        """Say that we live, once; return the seconds to the next time, None for never again."""
        not_asking = self._not_asking()
        call = self._call(not_asking)
        if call is None:
            return MAX_INTERVAL_SECONDS
        try:
            answer = self._plane.deliver(call, wait=self._hold, timeout_s=ANSWER_TIMEOUT_SECONDS)
        except GaveUp:
            return None
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError):
            # No answer that cannot be read, and no file, is a reason to fall silent.
            log.exception("saying that we live failed here")
            return DEFAULT_INTERVAL_SECONDS
        except Refused as error:
            log.warning("presence refused: %s", error)
            # A superseded session has nothing to say any more.
            lost = error.problem.reason == "SESSION_SUPERSEDED"
            return None if lost else DEFAULT_INTERVAL_SECONDS
        self._reported = not_asking
        self._log_admission(answer.body)
        interval_s = answer.body.get("heartbeat_interval_seconds")
        if not isinstance(interval_s, (int, float)) or isinstance(interval_s, bool):
            return DEFAULT_INTERVAL_SECONDS
        return max(MIN_INTERVAL_SECONDS, min(MAX_INTERVAL_SECONDS, float(interval_s)))

    def _log_admission(self, body: dict[str, Any]) -> None:
        """Log the agent's admission when it has changed; claims learn it by themselves."""
        admission = body.get("admission")
        state = admission.get("state") if isinstance(admission, dict) else None
        admission_now = (state, body.get("inhibit") is not None)
        if admission_now != self._admission:
            self._admission = admission_now
            inhibited = ", maintenance holds work" if admission_now[1] else ""
            log.info("admission is %s%s", state, inhibited)
