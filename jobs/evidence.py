"""The evidence of one job: its rows, gathered into a bundle that verifies without this service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.db.models import F, Model, Q, QuerySet
from django.db.models.functions import Concat
from uuid_utils.compat import uuid7

import agents
from agents.transitions import operators
from governance.core.errors import NotFound
from governance.evidence import bundle
from governance.evidence.chain import snapshot
from governance.evidence.checkpoints import seal_through
from governance.money.corrections import Adjustment, AdjustmentVerdict
from governance.money.disputes import DisputedUse, DisputeVerdict
from governance.money.models import Reservation, Resolution, RouteDecision
from governance.money.uses import UnreservedUse
from jobs.models import (
    Approval,
    Attempt,
    Escalation,
    Execution,
    ExecutionEvidence,
    Job,
    Permit,
    Reconciliation,
    Reflection,
    RetryExtension,
    Review,
    Task,
    Upload,
)

#: One source for server and worker: read as text, never imported.
VERIFIER = Path(agents.__path__[0]) / "worker/src/fencepost_worker/verify_evidence.py"


@dataclass(frozen=True)
class Table:
    """Rows of a job in the bundle.

    :param of: returns a job's rows; what it annotates beside the columns goes along.
    :param plain: JSON and text columns that are no payloads.
    :param hidden: other columns that are.
    :param left_out: columns that stand elsewhere in the bundle.
    """

    of: Callable[[Job], QuerySet[Any]]
    plain: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()

    def rows(self, job: Job) -> list[dict[str, Any]]:
        """Return the job's rows, oldest first."""
        return [self._row(row) for row in self.of(job).order_by("pk")]

    def _row(self, row: Model) -> dict[str, Any]:
        values = bundle.row_of(row, plain=self.plain, hidden=self.hidden)
        named = {name: getattr(row, name) for name in NAMES if hasattr(row, name)}
        return {k: v for k, v in (values | named).items() if k not in self.left_out}


#: What rows are annotated with beside their columns, for readers who do not know our keys.
NAMES = ("agent_name", "job_type_name", "session_uuid", "model_name")
REASON = frozenset({"reason"})

TABLES = {
    "job": Table(
        lambda job: Job.objects.filter(pk=job.pk).annotate(
            agent_name=F("agent__name"), job_type_name=F("job_type__name")
        )
    ),
    "task": Table(
        lambda job: Task.objects.filter(pk=job.pk),
        plain=frozenset({"labels"}),
        left_out=frozenset({"envelope"}),
    ),
    "attempts": Table(
        lambda job: Attempt.objects.filter(job=job).annotate(session_uuid=F("session__session_id")),
        hidden=frozenset({"result_pointer"}),
    ),
    "approvals": Table(lambda job: Approval.objects.filter(job=job), plain=REASON),
    "reviews": Table(lambda job: Review.objects.filter(job=job), plain=REASON),
    "escalations": Table(
        lambda job: Escalation.objects.filter(job=job), plain=REASON | {"resolve_reason"}
    ),
    "retry_extensions": Table(lambda job: RetryExtension.objects.filter(job=job), plain=REASON),
    "permits": Table(lambda job: Permit.objects.filter(job=job)),
    "executions": Table(
        lambda job: Execution.objects.filter(job=job), hidden=frozenset({"result_pointer"})
    ),
    "execution_evidence": Table(lambda job: ExecutionEvidence.objects.filter(execution__job=job)),
    "reconciliations": Table(
        lambda job: Reconciliation.objects.filter(execution__job=job), plain=REASON
    ),
    "route_decisions": Table(
        lambda job: RouteDecision.objects.filter(job_id=job.job_id).annotate(
            model_name=Concat("model__provider", "model__name")
        ),
        plain=frozenset({"requirements", "considered"}),
    ),
    "reservations": Table(lambda job: Reservation.objects.filter(job_id=job.job_id)),
    "resolutions": Table(
        lambda job: Resolution.objects.filter(reservation__job_id=job.job_id),
        plain=REASON | {"cost_split"},
    ),
    "unreserved_uses": Table(
        lambda job: UnreservedUse.objects.filter(job_id=job.job_id),
        plain=frozenset({"cost_split"}),
    ),
    "disputed_uses": Table(
        lambda job: DisputedUse.objects.filter(job_id=job.job_id), plain=frozenset({"counts"})
    ),
    "dispute_verdicts": Table(
        lambda job: DisputeVerdict.objects.filter(dispute__job_id=job.job_id), plain=REASON
    ),
    "adjustments": Table(
        lambda job: Adjustment.objects.filter(
            Q(resolution__reservation__job_id=job.job_id) | Q(use__job_id=job.job_id)
        ),
        plain=REASON,
    ),
    "adjustment_verdicts": Table(
        lambda job: AdjustmentVerdict.objects.filter(
            Q(adjustment__resolution__reservation__job_id=job.job_id)
            | Q(adjustment__use__job_id=job.job_id)
        ),
        plain=REASON,
    ),
    "artifacts": Table(lambda job: Upload.objects.filter(job=job)),
    "reflections": Table(lambda job: Reflection.objects.filter(job=job)),
}


@dataclass(frozen=True)
class Exported:
    """What an export has written.

    :param signers: ids of the keys that signed something in it.
    :param unsealed: the first and the last event that no checkpoint covers, where there are any.
    """

    members: int
    signers: list[str]
    unsealed: tuple[int, int] | None


def verifier() -> bytes:
    """Return the program that verifies a bundle: one file, for Python and `cryptography`."""
    return VERIFIER.read_bytes()


def export(
    *,
    task_id: str,
    out: IO[bytes],
    actor: str,
    with_payloads: bool = False,
    showable: bundle.Showable = lambda value: True,
) -> Exported:
    """Write the evidence of a job as a ZIP file; its begin and its end are on the audit trail.

    Seals first, so that a checkpoint covers the whole chain; where writers leave no gap for a
    seal, the answer and the verifier name the events that none covers.

    :param with_payloads: inputs, results and what else rows say by digest only go along.
    :param showable: tells of a payload's value whether it may leave, where payloads do.
    :raises NotFound: there is no job of that task id.
    """
    found = Job.objects.filter(task_id=task_id).first()
    if found is None:
        raise NotFound("There is no job of that task_id.")
    form = "evidence with payloads" if with_payloads else "evidence"
    entry = {"export_id": str(uuid7()), "model": "jobs.job", "form": form, "query": task_id}
    operators.begin_export(**entry, actor=actor)
    seal_through(subject=found.audit_subject)
    with snapshot():
        job = Job.objects.select_related("task").get(pk=found.pk)
        written = bundle.write(
            out,
            _subject(job),
            verifier=verifier(),
            with_payloads=with_payloads,
            showable=showable,
        )
        exported = Exported(
            members=len(written.manifest["members"]),
            signers=written.signers,
            unsealed=bundle.unsealed(job.audit_subject),
        )
    operators.end_export(**entry, actor=actor, rows=exported.members, whole=True)
    return exported


def _subject(job: Job) -> bundle.Subject:
    return bundle.Subject(
        audit_subject=job.audit_subject,
        named={"task_id": job.task_id, "job_id": str(job.job_id)},
        envelope=job.task.envelope,
        tables={name: table.rows(job) for name, table in TABLES.items()},
    )
