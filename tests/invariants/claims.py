"""What is true of the rows at any instant at which no transaction is open.

Each statement finds what breaks the claim that names it. Used after random moves here, and by
whoever has put a database under load and wants to know whether it is still sound.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from governance.evidence import trail
from governance.money import ledger

BROKEN_BY: dict[str, str] = {
    "a job has a lease exactly while it is active, for its current attempt and token": """
        SELECT j.task_id FROM jobs_job j LEFT JOIN jobs_lease l ON l.job_id = j.id
         WHERE (j.state = 'active') <> (l.job_id IS NOT NULL)
            OR (l.job_id IS NOT NULL
                AND (l.attempt, l.fencing_token) <> (j.attempt, j.fencing_token))""",
    "attempts are numbered from 1 without a gap up to the job's own number": """
        SELECT j.task_id FROM jobs_job j LEFT JOIN jobs_attempt a ON a.job_id = j.id
         GROUP BY j.id
        HAVING count(a.id) <> j.attempt OR coalesce(max(a.number), 0) <> j.attempt""",
    "an attempt is open exactly while its job is active": """
        SELECT j.task_id FROM jobs_job j
         WHERE (j.state = 'active') <> EXISTS (
               SELECT 1 FROM jobs_attempt a WHERE a.job_id = j.id AND a.ended_at IS NULL
                  AND a.number = j.attempt)""",
    "tokens grow with the attempts and none is above the job's own": """
        SELECT j.task_id FROM jobs_job j JOIN (
               SELECT *, lag(fencing_token, 1, 0::bigint) OVER (PARTITION BY job_id ORDER BY number)
                      AS before FROM jobs_attempt) a ON a.job_id = j.id
         WHERE a.fencing_token <= a.before OR a.fencing_token > j.fencing_token""",
    "the limit of attempts is what the extensions made it": """
        SELECT j.task_id FROM jobs_job j JOIN (
               SELECT *, lag(to_max) OVER (PARTITION BY job_id ORDER BY to_max) AS before,
                      max(to_max) OVER (PARTITION BY job_id) AS newest FROM jobs_retryextension) e
            ON e.job_id = j.id
         WHERE e.newest <> j.max_attempts OR e.from_max <> coalesce(e.before, e.from_max)
            OR e.to_max > e.ceiling""",
    "what does not count was deferred, and its event says so": """
        SELECT j.task_id FROM jobs_job j WHERE j.deferrals <> (
               SELECT count(*) FROM jobs_attempt a JOIN governance_auditevent e
                   ON e.subject = 'job:' || j.job_id AND e.action = 'job.deferred'
                  AND convert_from(e.body, 'UTF8')::jsonb -> 'details'
                      @> jsonb_build_object('attempt', a.number, 'counted', false)
                WHERE a.job_id = j.id AND a.outcome = 'deferred')""",
    "facts of a job are numbered from 1 without a gap up to the job's counter": """
        SELECT j.task_id FROM jobs_job j
          LEFT JOIN governance_fact f ON f.stream = 'job:' || j.job_id AND f.relayed
         GROUP BY j.id
        HAVING count(f.id) <> j.fact_sequence OR coalesce(max(f.sequence), 0) <> j.fact_sequence""",
    "numbers of a stream are in the order of the rows": """
        SELECT stream FROM (SELECT stream, sequence, lag(sequence, 1, 0::bigint)
               OVER (PARTITION BY stream ORDER BY id) AS before
               FROM governance_fact WHERE relayed) f WHERE sequence <> before + 1""",
    "every change of a job's state has its event": """
        SELECT j.task_id FROM jobs_job j WHERE (
               SELECT convert_from(e.body, 'UTF8')::jsonb -> 'after' ->> 'state'
                 FROM governance_auditevent e WHERE e.subject = 'job:' || j.job_id
                  AND convert_from(e.body, 'UTF8')::jsonb -> 'after' ? 'state'
                ORDER BY e.seq DESC LIMIT 1) IS DISTINCT FROM j.state""",
    "an escalation is open exactly while its job is escalated": """
        SELECT j.task_id FROM jobs_job j WHERE (j.state = 'escalated') <> EXISTS (
               SELECT 1 FROM jobs_escalation e WHERE e.job_id = j.id AND e.resolved_at IS NULL)""",
    "a job counts its unresolved executions rightly": """
        SELECT j.task_id FROM jobs_job j WHERE j.unresolved_executions <> (
               SELECT count(*) FROM jobs_execution x WHERE x.job_id = j.id AND x.state = 'unknown'
                  AND NOT EXISTS (SELECT 1 FROM jobs_reconciliation r WHERE r.execution_id = x.id
                                     AND r.verdict <> 'undetermined'))""",
    "a job in doubt has something to reconcile": """
        SELECT task_id FROM jobs_job WHERE state = 'in_doubt' AND unresolved_executions = 0""",
    "nothing that may be claimed is in doubt": """
        SELECT task_id FROM jobs_job
         WHERE state IN ('held', 'queued', 'needs_rework', 'completed')
           AND unresolved_executions > 0""",
    "a permit is open only while its attempt runs": """
        SELECT j.task_id FROM jobs_permit p JOIN jobs_job j ON j.id = p.job_id
         WHERE p.state = 'issued' AND (j.state <> 'active'
                OR (p.attempt, p.fencing_token) <> (j.attempt, j.fencing_token))""",
    "an execution belongs to an attempt and to a permit that was spent": """
        SELECT x.external_request_id FROM jobs_execution x JOIN jobs_permit p ON p.id = x.permit_id
          LEFT JOIN jobs_attempt a ON a.job_id = x.job_id AND a.number = x.attempt
         WHERE a.id IS NULL OR (x.state <> 'refused' AND p.state <> 'spent')
            OR (p.job_id, p.attempt, p.fencing_token) <> (x.job_id, x.attempt, x.fencing_token)
            OR a.fencing_token <> x.fencing_token""",
    "money is held only for what runs or is in doubt": """
        SELECT r.reservation_id::text FROM governance_reservation r
          JOIN jobs_job j ON j.job_id = r.job_id
         WHERE r.state = 'held' AND NOT (j.state = 'active' AND r.attempt = j.attempt)
            OR r.state = 'in_doubt' AND NOT EXISTS (
               SELECT 1 FROM jobs_execution x WHERE x.job_id = j.id AND x.attempt = r.attempt
                  AND x.state = 'unknown')""",
    "high risk ran only with somebody else's approval": """
        SELECT j.task_id FROM jobs_job j WHERE j.risk_tier = 'high' AND j.attempt > 0
           AND NOT EXISTS (SELECT 1 FROM jobs_approval a WHERE a.job_id = j.id
                 AND a.decision = 'approved'
                 AND a.decided_by NOT IN (j.submitted_by, j.requested_by))""",
    "what is completed was delivered, or a person says so": """
        SELECT j.task_id FROM jobs_job j WHERE j.state = 'completed' AND NOT EXISTS (
               SELECT 1 FROM jobs_attempt a WHERE a.job_id = j.id AND a.number = j.attempt
                  AND a.outcome = 'completed')
           AND NOT EXISTS (SELECT 1 FROM jobs_escalation e WHERE e.job_id = j.id
                 AND e.resolution = 'complete')
           AND NOT EXISTS (SELECT 1 FROM jobs_execution x JOIN jobs_reconciliation r
                 ON r.execution_id = x.id WHERE x.job_id = j.id AND r.verdict = 'happened')""",
}


def broken_claims() -> list[str]:
    """Return what does not hold, each as the claim and whom it fails for; empty: all is sound."""
    return [*broken_rows(), *broken_chains()]


def broken_rows() -> list[str]:
    """Return what does not hold of the rows and the books: a later move might cover it again."""
    found = [
        f"{claim}: {who}" for claim, statement in BROKEN_BY.items() for who in _whom(statement)
    ]
    return found + [f"the books: {difference}" for difference in ledger.verify()]


def broken_chains() -> list[str]:
    """Return what does not hold of the audit trail, in which nothing heals."""
    return [str(finding) for finding in trail.verify().findings]


def _whom(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [who for (who, *_) in cursor.fetchall()]
