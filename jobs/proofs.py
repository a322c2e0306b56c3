"""Rows of the jobs that `verify_ledger` compares with their events."""

from __future__ import annotations

from governance.money.proofs import Compared

EXTENSIONS = Compared(
    check="retry_extension",
    actions=("job.extended",),
    rows="SELECT x.to_max::text AS id, 'job:' || j.job_id AS subject, jsonb_build_object("
    "'from_max', x.from_max, 'to_max', x.to_max, 'ceiling', x.ceiling, 'granted_by', x.granted_by,"
    " 'granted_at', x.granted_at, 'reason', x.reason) AS row"
    " FROM jobs_retryextension x JOIN jobs_job j ON j.id = x.job_id",
    key="to_max",
    words="e.d || jsonb_build_object('granted_by', e.actor, 'granted_at', e.at,"
    " 'reason', e.reason)",
)
