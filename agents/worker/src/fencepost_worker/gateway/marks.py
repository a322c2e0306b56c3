"""The journal of an attempt's model calls: what was meant, begun and ended, durable before the act.

One file, `calls.jsonl`, that only grows; a line for each mark of a call:

    open      its route is about to be asked for: the call of the control plane, and what the
              model call would cost if it were lost
    sent      its request is about to go to the provider, under this reservation
    settled   how it ended: the call of the control plane that says so
    done      that call was answered

A line counts when it is whole: a mark that a crash has torn was never acted upon.
"""

import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost_worker import durable
from fencepost_worker.client import Call

FILE_NAME = "calls.jsonl"
OPEN, SENT, SETTLED, DONE = "open", "sent", "settled", "done"
MARKS = frozenset({OPEN, SENT, SETTLED, DONE})


@dataclass
class CallMarks:
    """One call as its marks tell it: the parts of each mark, by the mark's name."""

    marks: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def route(self) -> Call:
        """Return the call that asks for its route."""
        return Call(**self.marks[OPEN]["route"])

    @property
    def settlement(self) -> Call | None:
        """Return the call that says how it ended, if that was decided."""
        mark = self.marks.get(SETTLED)
        return None if mark is None else Call(**mark["resolve"])

    @property
    def lost_usage(self) -> dict[str, int]:
        """Return what it is booked at when nobody knows what became of it."""
        mark = self.marks.get(SENT, {})
        usage: dict[str, int] = mark.get("lost_usage", self.marks[OPEN]["lost_usage"])
        return usage

    @property
    def key(self) -> tuple[str, str] | None:
        """Return the key of a request that was sent, and its content; None where it has none."""
        key = self.marks.get(SENT, {}).get("key")
        return None if key is None else (key[0], key[1])

    @property
    def done(self) -> bool:
        """Return whether its end was answered, or it came to nothing."""
        return DONE in self.marks


class CallJournal:
    """The calls of one attempt on disk. Thread-safe; one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Open the journal of a folder, and read what it holds."""
        self._path = durable.make_folder(folder) / FILE_NAME
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, durable.FILE_MODE)
        durable.sync_folder(folder)
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self.calls: dict[int, CallMarks] = {}
        self._written = self._synced = self._read()

    @property
    def unfinished(self) -> int:
        """Return how many calls are open: of each the end, or whether it was routed, is untold."""
        return sum(not each.done for each in self.calls.values())

    def close(self) -> None:
        """Let the file go."""
        os.close(self._handle)

    def begin(self, *, route: Call, lost_usage: dict[str, int]) -> int:
        """Mark, durably, that a route is about to be asked for; return the call's number here."""
        with self._writing:
            number = len(self.calls) + 1
            content = {"route": route.as_document(), "lost_usage": lost_usage}
            end = self._append(number, OPEN, content)
        self._sync(end)
        return number

    def sent(self, number: int, **parts: Any) -> None:
        """Mark, durably, that the request is about to go to the provider."""
        self._mark(number, SENT, parts)

    def settled(self, number: int, resolve: Call) -> None:
        """Mark, durably, how it ended."""
        self._mark(number, SETTLED, {"resolve": resolve.as_document()})

    def done(self, number: int) -> None:
        """Mark that nothing is left to be told. If this is lost, it is told again."""
        with self._writing:
            self._append(number, DONE, {})

    def _mark(self, number: int, mark: str, parts: dict[str, Any]) -> None:
        with self._writing:
            end = self._append(number, mark, parts)
        self._sync(end)

    def _append(self, number: int, mark: str, parts: dict[str, Any]) -> int:
        line = durable.encode({"call": number, "mark": mark, "parts": parts}) + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError:
            # Half a line, of a disk that is full, would hide all that is written behind it.
            os.ftruncate(self._handle, self._written)
            os.lseek(self._handle, self._written, os.SEEK_SET)
            raise
        self.calls.setdefault(number, CallMarks()).marks[mark] = parts
        self._written += len(line)
        return self._written

    def _sync(self, end: int) -> None:
        """Make the file durable up to there. Who waits for the lock may find it done."""
        with self._syncing:
            if self._synced < end:
                upto = self._written
                os.fdatasync(self._handle)
                self._synced = upto

    def _read(self) -> int:
        """Read the marks, cut off a torn end, and return the length of what is whole."""
        whole = 0
        for line in self._path.read_bytes().splitlines(keepends=True):
            mark = _mark_of(line)
            if mark is None:
                break
            number, name, parts = mark
            self.calls.setdefault(number, CallMarks()).marks[name] = parts
            whole += len(line)
        os.ftruncate(self._handle, whole)
        os.lseek(self._handle, 0, os.SEEK_END)
        return whole


def _mark_of(line: bytes) -> tuple[int, str, dict[str, Any]] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        document = json.loads(line)
        number, name, parts = document["call"], document["mark"], document["parts"]
    except (ValueError, KeyError, TypeError):
        return None
    return (number, name, parts) if name in MARKS and isinstance(parts, dict) else None
