"""What `agents` asks about jobs: leases, effects under way, last heartbeats, types of an agent."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Count, Max

from agents.models import RISK_TIERS
from agents.workload import JobTypeOut, ModelNamedOut
from governance.core import clock, sql
from governance.core.isolation import in_any_case
from governance.money.policies import POLICY
from jobs.models import Execution, JobType, Lease, ModelUse, Permit
from jobs.transitions.claims import CLAIM_LIMIT_MAX, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from jobs.transitions.leases import HEARTBEATS_MAX
from jobs.transitions.uploads import GRANTS_MAX

# Few rows each: the types of an agent, the tiers, and the models of the policy in force for them.
MODELS_OF_TYPES = (
    "SELECT y.name AS task_type, m.provider, m.name AS model, m.api"
    "  FROM jobs_jobtype y JOIN agents_agent a ON a.id = y.agent_id"
    f" CROSS JOIN unnest(ARRAY{list(RISK_TIERS)}) AS t(tier)"
    " CROSS JOIN LATERAL"
    f" ({POLICY.format(agent='a.name', job_type='y.name', risk_tier='t.tier')}) o"
    "  JOIN governance_routepolicymodel l ON l.policy_id = o.id"
    "  JOIN governance_languagemodel m ON m.id = l.model_id AND m.enabled"
    " WHERE y.agent_id = %(agent_id)s AND y.enabled"
    " GROUP BY y.name, m.provider, m.name, m.api"
    " ORDER BY y.name, min(l.position), m.provider, m.name"
)


class JobsWorkload:
    """Answers from the rows. Leases exist only for running jobs, so the scans are small."""

    def active_leases(self, *, agent_ids: Collection[int]) -> dict[int, int]:
        rows = Lease.objects.filter(job__agent_id__in=agent_ids).values_list("job__agent_id")
        return dict(rows.annotate(running=Count("pk")))

    def beats(self, *, agent_ids: Collection[int]) -> list[tuple[int, int, datetime]]:
        rows = Lease.objects.filter(job__agent_id__in=agent_ids)
        holders = rows.values_list("job__agent_id", "session_id").order_by()
        beats = holders.annotate(at=Max("heartbeat_at"))
        return in_any_case(lambda: list(beats.all()))

    def effects_until(self, *, agent_id: int) -> datetime | None:
        # Also those whose attempt has ended: its worker may not know that yet.
        started = Execution.objects.filter(
            state=Execution.State.UNKNOWN, job__agent_id=agent_id, deadline_at__gt=clock.now()
        )
        return in_any_case(lambda: started.aggregate(until=Max("deadline_at"))["until"])

    def revoke_permits(self, *, session_pk: int, at: datetime) -> int:
        # Only a job that is leased has a permit that may still be spent. Its job need not be
        # locked: whoever ends the attempt meets the permit revoked, or has revoked it.
        jobs = Lease.objects.filter(session_id=session_pk).values("job_id")
        unspent = Permit.objects.filter(
            job_id__in=jobs, session_id=session_pk, state=Permit.State.ISSUED
        )
        held = unspent.order_by("pk").select_for_update(no_key=True)
        return Permit.objects.filter(pk__in=[permit.pk for permit in held]).update(
            state=Permit.State.REVOKED, ended_at=at
        )

    def limits(self) -> dict[str, int]:
        return {
            "claim_limit_max": CLAIM_LIMIT_MAX,
            "lease_seconds_min": LEASE_SECONDS_MIN,
            "lease_seconds_max": LEASE_SECONDS_MAX,
            "heartbeats_max": HEARTBEATS_MAX,
            "uploads_max": GRANTS_MAX,
        }

    def job_types(self, *, agent_id: int) -> list[JobTypeOut]:
        rows = JobType.objects.filter(agent_id=agent_id, enabled=True).order_by("name")
        models: dict[str, list[ModelNamedOut]] = {}
        [rows_of_models] = sql.pipeline(sql.Statement(MODELS_OF_TYPES, {"agent_id": agent_id}))
        for row in rows_of_models:
            named: ModelNamedOut = {
                "provider": row["provider"], "model": row["model"], "api": row["api"]
            }  # fmt: skip
            models.setdefault(row["task_type"], []).append(named)
        return [
            {
                "task_type": row.name,
                "runtime": row.runtime,
                "model_use": row.model_use,
                "effects": row.effects,
                "models": models.get(row.name, []),
                "uses_model": row.model_use == ModelUse.REQUIRED,
                "lease_seconds": row.lease_seconds,
                "attempt_timeout_seconds": row.attempt_timeout_seconds,
                "max_attempts": row.max_attempts,
                "max_attempts_ceiling": row.max_attempts_ceiling,
                "inputs_schema": row.inputs_schema,
            }
            for row in rows
        ]
