"""The journal of claims and reports, on disk: a SIGKILL loses no answer and repeats no work.

    journal/claim.json                          the claim request that has not been answered yet
    journal/jobs/<task>/<attempt>/claim.json    the claimed job, until its report is delivered
    journal/jobs/<task>/<attempt>/report.json   the calls that end the attempt, in order

Whether the effect of an attempt has begun or ended is not said here but in its exchange folder, in
one place only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost_worker import durable
from fencepost_worker.claim import Claim
from fencepost_worker.client import Call
from fencepost_worker.identity import folder_name


@dataclass(frozen=True)
class Report:
    """The calls that tell the control plane how an attempt ended, the last one ending it."""

    calls: tuple[Call, ...]

    def as_document(self) -> dict[str, Any]:
        """Return the form in which the report is kept on disk."""
        return {"calls": [call.as_document() for call in self.calls]}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Report":
        """Read what `as_document` wrote."""
        return cls(tuple(Call(**call) for call in document["calls"]))


class Journal:
    """The worker's durable memory. One process at a time: see `durable.FolderLock`."""

    def __init__(self, folder: Path) -> None:
        self._folder = durable.make_folder(folder)
        self._jobs = durable.make_folder(folder / "jobs")

    def intend_claim(self, call: Call) -> None:
        """Remember a claim request before it is sent for the first time."""
        durable.replace(self._folder / "claim.json", durable.encode(call.as_document()))

    def intended_claim(self) -> Call | None:
        """Return the claim request whose answer is not known, or None."""
        document = durable.read_document(self._folder / "claim.json")
        return None if document is None else Call(**document)

    def settle_claim(self, claims: list[Claim]) -> None:
        """Remember what the claim request granted, then forget the request."""
        for claim in claims:
            path = self._of(claim) / "claim.json"
            if not path.exists():
                durable.replace(path, durable.encode(claim.document))
        durable.remove(self._folder / "claim.json")

    def open_claims(self) -> Iterator[Claim]:
        """Yield every claimed job that is not reported yet."""
        for path in sorted(self._jobs.glob("*/*/claim.json")):
            document = durable.read_document(path)
            if document is not None:
                yield Claim.from_document(document)

    def record_report(self, claim: Claim, report: Report) -> Report:
        """Remember how the attempt ended. The first report stands: it is the one returned."""
        path = self._of(claim) / "report.json"
        try:
            durable.create(path, durable.encode(report.as_document()))
        except FileExistsError:
            return Report.from_document(durable.read_document(path) or {})
        return report

    def report_of(self, claim: Claim) -> Report | None:
        """Return the recorded report of the attempt, or None."""
        document = durable.read_document(self._of(claim) / "report.json")
        return None if document is None else Report.from_document(document)

    def close(self, claim: Claim) -> None:
        """Forget the attempt: its report is delivered, or nobody wants it any more."""
        durable.remove_folder(self._of(claim))
        task = self._of(claim).parent
        if not any(task.iterdir()):
            durable.remove_folder(task)

    def _of(self, claim: Claim) -> Path:
        return self._jobs / folder_name(claim.task_id) / str(claim.attempt)
