"""Runtimes: a job is executed by a program, by an agent behind HTTP, or by a function."""

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from fencepost_worker import rules
from fencepost_worker.asking import (
    NO_PERMIT_WITHOUT_CALL,
    NO_PROVIDERS,
    REQUIRED,
    TypeKnown,
)
from fencepost_worker.claim import Job
from fencepost_worker.exchange import Exchange, Request, Result, ResultTooLarge
from fencepost_worker.executor import ExternalAgentExecutor, Grant
from fencepost_worker.lease import Lease
from fencepost_worker.model_access import ModelAccess
from fencepost_worker.workspace import Workspaces


class RuntimeAdapter(ABC):
    """One runtime. `runtime` is its name in claims, and a part of every external request id."""

    runtime: ClassVar[str]

    def __init__(
        self, *, executor: ExternalAgentExecutor, models: ModelAccess | None = None
    ) -> None:
        """Make an adapter. Without `models` what it runs calls none that are governed."""
        self._executor = executor
        self._models = models

    @property
    def calls_models(self) -> bool:
        """Return whether what it runs may call models through this worker."""
        return self._models is not None

    def execute(self, job: Job, *, attempt: int, lease: Lease) -> Result:
        """Return the result of this attempt; see `ExternalAgentExecutor.execute`."""

        def invoke(request: Request, *, lease: Lease, grant: Grant) -> Result:
            if self._models is None:
                return self.invoke(request, lease=lease, grant=grant)
            return self._models.during(
                job,
                self.exchange(job, attempt=attempt),
                lease=lease,
                work=lambda environment: self.invoke(
                    request, lease=lease, grant=replace(grant, environment=environment)
                ),
            )

        return self._executor.execute(
            job, attempt=attempt, runtime=self.runtime, lease=lease, invoke=invoke
        )

    def start(self) -> None:
        """Begin to serve what the effects need while they run."""
        if self._models is not None:
            self._models.start()

    def close(self) -> None:
        """End what `start` began."""
        if self._models is not None:
            self._models.close()

    def abort(self) -> None:
        """End it soon, whatever still runs."""
        if self._models is not None:
            self._models.abort()

    def unserved(self, job_type: TypeKnown) -> str:
        """Return why jobs of a type cannot be done here; empty where they can."""
        if self._models is not None:
            return ""
        if job_type.model_use == REQUIRED:
            return NO_PROVIDERS
        if job_type.only_models and self._executor.needs_permits:
            return NO_PERMIT_WITHOUT_CALL
        return ""

    def book_calls(self, job: Job, *, attempt: int) -> None:
        """Book the model calls that an earlier process of this worker has left open.

        :raises Postponed: they cannot be booked now.
        """
        if self._models is not None:
            self._models.book(job, self.exchange(job, attempt=attempt))

    def exchange(self, job: Job, *, attempt: int) -> Exchange:
        """Return the exchange of this attempt."""
        return self._executor.open(job, runtime=self.runtime, attempt=attempt)

    def progress(self, *, task_id: str, attempt: int) -> dict[str, Any] | None:
        """Return the last progress that the work reported, if the runtime knows of any.

        :raises NotStrict: what it reported cannot be sent.
        """
        return None

    def tell(self, *, task_id: str, attempt: int, line: str) -> None:
        """Put a line into the log of the work, for who wrote it. The default has none."""
        return None

    def kept_artifact(self, sha256: str) -> Path | None:
        """Return where the artifact of this checksum is kept; the default keeps none."""
        return None

    def recover(self, *, task_id: str, attempt: int) -> None:
        """End what a lost worker process left running of this attempt.

        The default leaves nothing behind.
        """
        return None

    def discard(self, *, task_id: str, attempt: int) -> None:
        """Remove what the attempt needed while it ran. The default leaves nothing behind."""
        return None

    @abstractmethod
    def invoke(self, request: Request, *, lease: Lease, grant: Grant) -> Result:
        """Carry out the effect, now and once.

        :raises OutcomeUnknown: it may have happened, and its result was lost.
        """


def result_of(request: Request, document: Any, workspaces: Workspaces) -> Result:
    """Return the result in a document; one that no request carries is kept as an artifact.

    :raises ResultRefused: it is no result of the request.
    """
    try:
        return Result.of(request, document)
    except ResultTooLarge as error:
        others = error.document["artifacts"]
        described = workspaces.keep_document(rules.encoded(error.document["result"]), beside=others)
        document = error.told_by(described["name"])
        return Result.of(request, document | {"artifacts": [*others, described]})
