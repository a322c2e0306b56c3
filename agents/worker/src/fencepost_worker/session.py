"""Activated sessions: one identity of a worker over restarts and epochs.

The session lives as long as the data folder, whose lock lets one process have it at a time.  A
restarted process asks for the same activation again and keeps its leases; a process that finds
itself superseded was replaced on purpose, and does not come back under that boot.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from uuid_utils.compat import uuid7

from fencepost_worker import durable
from fencepost_worker.client import (
    PROTOCOL_VERSION,
    Answer,
    Call,
    ControlPlane,
    GaveUp,
    Problem,
    Refused,
    Session,
)

#: How often a cell that an operator has not approved yet asks whether that has changed.
PENDING_SECONDS = 10.0


class ActivatedSession(Session):
    """A session of `(agent, cell_id, boot_id)`, kept in a file of the data folder."""

    def __init__(
        self,
        *,
        worker_id: str,
        agent: str,
        cell_id: str,
        runtime: str,
        path: Path,
        token: str = "",
        token_file: Path | None = None,
    ) -> None:
        """Make a session that `open` activates. `path` keeps it over restarts."""
        super().__init__(worker_id=worker_id, token=token, token_file=token_file)
        self._agent = agent
        self._cell_id = cell_id
        self._runtime = runtime
        self._path = path
        self._session_headers: dict[str, str] = {}
        self._activating = False

    def headers(self) -> dict[str, str]:
        """Return the headers that say who calls, and in which session."""
        return super().headers() | self._session_headers

    def open(self, plane: ControlPlane, *, wait: Callable[[float], bool]) -> None:
        """Activate, or take the session of before up again; see `Session.open`."""
        call = self._kept() or self._new(boot_id=str(uuid7()), previous=None)
        try:
            self._activate(plane, call, wait=wait)
        except Refused as error:
            boot_id = str(uuid7())
            if error.problem.reason == "DISPATCHER_EPOCH_STALE":
                # Our session has been bound to a newer epoch since; we ask for it as it is now.
                boot_id = str((call.body or {})["boot_id"])
            elif error.problem.reason != "SESSION_SUPERSEDED":
                raise
            # Somebody else had the cell meanwhile; we take it as a new boot, with nothing of old.
            self._activate(plane, self._new(boot_id=boot_id, previous=None), wait=wait)

    def presence(self) -> Call | None:
        """Return the call that says that this session lives."""
        return Call("POST", f"/v1/agents/{self._agent}/heartbeat", {"runtime": self._runtime})

    def mend(
        self,
        plane: ControlPlane,
        problem: Problem,
        *,
        sent_with: dict[str, str],
        wait: Callable[[float], bool],
    ) -> bool:
        """Bind the session to a newer epoch, once for all threads; see `Session.mend`."""
        if problem.reason != "DISPATCHER_EPOCH_STALE":
            return super().mend(plane, problem, sent_with=sent_with, wait=wait)
        with self._lock:
            if self._activating:
                return False
            if _session_in(self._session_headers) != _session_in(sent_with):
                return True
            kept, previous = self._kept(), sent_with.get("Fencepost-Session")
            if kept is None or kept.body is None or previous is None:
                return False
            call = self._new(boot_id=kept.body["boot_id"], previous=previous)
            self._activate(plane, call, wait=wait)
            return True

    def _activate(self, plane: ControlPlane, call: Call, *, wait: Callable[[float], bool]) -> None:
        durable.replace(self._path, durable.encode(call.as_document()))
        # Other threads go on under the session of before: what they send is refused, and sent
        # again under the new one. Without a session it would be another holder's word.
        with self._lock:
            self._activating = True
            try:
                answer = self._current(plane, call, wait=wait)
            finally:
                self._activating = False
        self._session_headers = {
            "Fencepost-Session": str(answer.body["session_id"]),
            "Fencepost-Epoch": str(answer.body["dispatcher_epoch"]),
        }

    def _current(self, plane: ControlPlane, call: Call, *, wait: Callable[[float], bool]) -> Answer:
        """Return the answer of the activation once its session may act."""
        while True:
            answer = plane.deliver(call, wait=wait)
            if answer.body.get("state") != "pending":
                return answer
            if not wait(PENDING_SECONDS):
                raise GaveUp("the cell is not approved yet")

    def _kept(self) -> Call | None:
        """Return the activation of before, unless it was one of another cell or runtime."""
        document = durable.read_document(self._path)
        if document is None:
            return None
        call = Call(**document)
        body: dict[str, Any] = call.body or {}
        same = body.get("cell_id") == self._cell_id and body.get("runtime") == self._runtime
        return call if same else None

    def _new(self, *, boot_id: str, previous: str | None) -> Call:
        body = {
            "activation_operation_id": str(uuid7()),
            "cell_id": self._cell_id,
            "boot_id": boot_id,
            "protocol_version": PROTOCOL_VERSION,
            "runtime": self._runtime,
            "capabilities": {},
        }
        if previous is not None:
            body["previous_session_id"] = previous
        return Call("POST", f"/v1/agents/{self._agent}/activate", body, key=str(uuid7()))


def _session_in(headers: dict[str, str]) -> tuple[str | None, str | None]:
    return headers.get("Fencepost-Session"), headers.get("Fencepost-Epoch")
