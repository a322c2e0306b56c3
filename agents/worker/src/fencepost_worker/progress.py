"""Progress: what the work of an attempt tells of itself, as far as it may be sent.

It is judged here, before a heartbeat carries it beside the leases of other attempts.  What is not
sent is told to the work's own log, where who wrote the program looks.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from fencepost_worker import rules
from fencepost_worker.redaction import Secrets
from fencepost_worker.rules import Fault

log = logging.getLogger("fencepost_worker")


class Source(Protocol):
    """Where progress comes from, and who is told that it was not sent: a runtime's adapter."""

    def progress(self, *, task_id: str, attempt: int) -> Any:
        """Return the last progress, or None; see `RuntimeAdapter.progress`."""

    def tell(self, *, task_id: str, attempt: int, line: str) -> None:
        """Put a line into the log of the work; see `RuntimeAdapter.tell`."""


class ProgressReader:
    """Reads the progress of attempts for those who send it. Thread-safe; reading never raises."""

    def __init__(self, source: Source, *, secrets: Secrets) -> None:
        self._source = source
        self._secrets = secrets
        self._lock = threading.Lock()
        self._faults: dict[tuple[str, int], Fault] = {}

    def of(self, *, task_id: str, attempt: int) -> Any:
        """Return the attempt's progress without its secrets; None without one that may be sent."""
        try:
            found = self._source.progress(task_id=task_id, attempt=attempt)
            fault = rules.progress_fault(found)
        except rules.NotStrict as error:
            found, fault = None, error.fault
        except Exception as error:  # whatever the work has done: others' leases are at stake
            found, fault = None, Fault("", f"cannot be read: {type(error).__name__}")
        if fault is None:
            self.forget(task_id=task_id, attempt=attempt)
            return self._secrets.of_json(found)
        self._refuse(task_id, attempt, fault)
        return None

    def reading(self, *, task_id: str, attempt: int) -> Callable[[], Any]:
        """Return the reading of one attempt's progress."""
        return lambda: self.of(task_id=task_id, attempt=attempt)

    def forget(self, *, task_id: str, attempt: int) -> None:
        """Tell a fault of this attempt again when it comes again."""
        with self._lock:
            self._faults.pop((task_id, attempt), None)

    def _refuse(self, task_id: str, attempt: int, fault: Fault) -> None:
        """Tell a fault once, however many beats find it."""
        with self._lock:
            if self._faults.get((task_id, attempt)) == fault:
                return
            self._faults[task_id, attempt] = fault
        line = f"progress is not sent: {fault}"
        log.warning("%s attempt %s: %s", task_id, attempt, line)
        try:
            self._source.tell(task_id=task_id, attempt=attempt, line=line)
        except Exception as error:  # a log that cannot be written costs no lease
            log.warning("%s: its log cannot be written: %s", task_id, type(error).__name__)
