"""Presence: a thread that reports, for an activated session, that its process lives, even idle."""

import logging
import threading
from typing import Any

from fencepost_worker.client import ControlPlane, GaveUp, Refused
from fencepost_worker.lease import MIN_INTERVAL_SECONDS

log = logging.getLogger("fencepost_worker")

#: When the control plane does not say how often it wants to hear from us.
DEFAULT_INTERVAL_SECONDS = 30.0
MAX_INTERVAL_SECONDS = 300.0
#: Nobody waits for this answer, but the end of the worker waits for this thread.
ANSWER_TIMEOUT_SECONDS = 5.0


class Presence:
    """Beats for the session of `plane`, if it is one that does."""

    def __init__(self, *, plane: ControlPlane) -> None:
        self._plane = plane
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._admission: tuple[Any, bool] = ("open", False)

    def start(self) -> None:
        """Begin to beat; an implicit session is present by asking for work."""
        if self._plane.session.presence() is not None:
            self._thread.start()

    def close(self) -> None:
        """Stop to beat, and wait for the beat that is under way."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (pause_s := self._beat()) is not None:
            if self._closed.wait(pause_s):
                return

    def _beat(self) -> float | None:
        """Say that we live, once; return the seconds to the next time, None for never again."""
        call = self._plane.session.presence()
        if call is None:
            return None
        try:
            answer = self._plane.deliver(
                call,
                wait=lambda seconds: not self._closed.wait(seconds),
                timeout_s=ANSWER_TIMEOUT_SECONDS,
            )
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
