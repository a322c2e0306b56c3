"""The guards that must not be dropped: what to break in each, and which tests have to notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A guard that is broken: `text` stands exactly once in `file`, and `by` makes it no guard."""

    name: str
    file: str
    text: str
    by: str
    tests: tuple[str, ...]


OUTCOMES = "jobs/transitions/outcomes.py"
BINDING, PERMITS, STARTS, RESULTS = (
    f"jobs/executions/{name}.py" for name in ("binding", "permits", "starts", "results")
)
CLAIMS, WORK, DECISIONS = (
    f"jobs/transitions/{name}.py" for name in ("claims", "work", "decisions")
)
PRECONDITIONS = "jobs/transitions/preconditions.py"
LEASES, SWEEPING = "jobs/transitions/leases.py", "jobs/transitions/sweeping.py"
ENTRY, SESSIONS = "agents/entry.py", "agents/transitions/sessions.py"
RESERVATIONS, ROUTES = "governance/money/reservations.py", "governance/money/routes.py"

MUTANTS = (
    # --- the token, and who may act at all
    Mutant(
        "token",
        PRECONDITIONS,
        "if token != locked.job.fencing_token or number != locked.job.attempt:",
        "if False:",
        ("tests/jobs/test_outcomes.py", "tests/jobs/test_executions.py"),
    ),
    Mutant(
        "holder of the attempt",
        PRECONDITIONS,
        "if number in locked.attempts and not holds(work, locked):",
        "if False:",
        ("tests/jobs/test_authority.py", "tests/jobs/test_outcomes.py"),
    ),
    Mutant(
        "token of a heartbeat",
        LEASES,
        "AND t.fencing_token = q.token AND t.attempt = q.attempt\n       AND t.expires_at",
        "AND t.expires_at",
        ("tests/jobs/test_leases.py",),
    ),
    Mutant(
        "another agent's job",
        WORK,
        "if self.caller is not None and locked.job.agent_id != self.caller.agent_id:",
        "if False:",
        ("tests/jobs/test_outcomes.py", "tests/jobs/test_claims.py"),
    ),
    Mutant(
        "superseded session",
        ENTRY,
        """f" WHEN {session}.state = 'superseded' THEN 'superseded'\"""",
        '""',
        ("tests/agents/test_check_order.py",),
    ),
    Mutant(
        "epoch",
        ENTRY,
        "CASE WHEN %(epoch)s::uuid <> f.dispatcher_epoch THEN 'stale epoch' END",
        "NULL",
        ("tests/agents/test_check_order.py",),
    ),
    Mutant(
        "superseded boot",
        SESSIONS,
        "if live is None and mine.exists():",
        "if False:",
        ("tests/agents/test_sessions.py",),
    ),
    Mutant(
        "fence of the older boot",
        SESSIONS,
        "    _supersede(agent, older, principal.text, now)\n",
        "",
        ("tests/agents/test_sessions.py",),
    ),
    Mutant(
        "order of gate and stored answer",
        ENTRY,
        "    if not fenced and (fault := admission_fault(row)) is not None:\n        raise fault\n"
        "    if key is not None:\n        key.judge(taken, found)\n",
        "    if key is not None:\n        key.judge(taken, found)\n"
        "    if not fenced and (fault := admission_fault(row)) is not None:\n        raise fault\n",
        ("tests/agents/test_check_order.py",),
    ),
    Mutant(
        "lineage and certificate of a session",
        ENTRY,
        """    WHEN s.kind = 'activated' AND {stranger("s")} THEN 'another'\n""",
        "",
        ("tests/agents/test_lineages.py",),
    ),
    Mutant(
        "former id of a session",
        ENTRY,
        "    WHEN s.session_id <> %(session)s::uuid THEN 'stale epoch'\n",
        "",
        ("tests/agents/test_lineages.py",),
    ),
    Mutant(
        "certificate that an agent demands, at the gate",
        ENTRY,
        "    WHEN a.require_certificates AND NOT %(bound)s THEN 'no certificate'\n",
        "",
        ("tests/agents/test_lineages.py",),
    ),
    Mutant(
        "lineage of a name",
        PRECONDITIONS,
        "    if activated or lineage not in (None, caller.lineage):\n",
        "    if activated:\n",
        ("tests/agents/test_lineages.py",),
    ),
    Mutant(
        "lineage of a name in a heartbeat",
        LEASES,
        "AND (s.lineage IS NULL OR s.lineage = %(lineage)s::uuid) END",
        "END",
        ("tests/agents/test_lineages.py",),
    ),
    Mutant(
        "cell of another lineage",
        SESSIONS,
        "        _need_own(holder, principal)\n",
        "        pass\n",
        ("tests/agents/test_lineages.py", "tests/races/test_rebind.py"),
    ),
    Mutant(
        "sessions of a revoked lineage",
        "agents/transitions/credentials.py",
        "        end_lineage(head, lineage=lineage, actor=actor, at=now)\n",
        "        pass\n",
        ("tests/agents/test_lineages.py",),
    ),
    Mutant(
        "gates of a rotated epoch",
        "agents/transitions/epochs.py",
        "    barrier.hold()\n",
        "    pass\n",
        ("tests/races/test_rebind.py",),
    ),
    Mutant(
        "permits of an epoch that is over",
        SESSIONS,
        "workload.ask().revoke_permits(session_pk=session.pk, at=now)",
        "0",
        ("tests/jobs/test_fenced_holders.py", "tests/jobs/test_executions.py"),
    ),
    # --- the lease
    Mutant(
        "lease",
        PRECONDITIONS,
        "if locked.lease is None or locked.lease.expires_at <= work.now:",
        "if locked.lease is None:",
        ("tests/jobs/test_executions.py", "tests/jobs/test_uploads.py"),
    ),
    Mutant(
        "session of the attempt",
        PRECONDITIONS,
        "return attempt.session_id == caller.session_pk",
        "return True",
        ("tests/jobs/test_authority.py", "tests/jobs/test_outcomes.py"),
    ),
    Mutant(
        "heartbeat revives",
        LEASES,
        "       AND t.expires_at > t.clock AND t.agent_id",
        "       AND t.agent_id",
        ("tests/jobs/test_leases.py",),
    ),
    Mutant(
        "heartbeat of who may not act",
        LEASES,
        "AND t.caller_fault IS NULL AND t.holder_fault IS NULL",
        "AND t.holder_fault IS NULL",
        ("tests/agents/test_check_order.py",),
    ),
    Mutant(
        "heartbeat shortens",
        LEASES,
        "GREATEST(l.expires_at, t.clock + make_interval(secs => l.lease_seconds))",
        "t.clock + make_interval(secs => l.lease_seconds)",
        ("tests/jobs/test_leases.py",),
    ),
    Mutant(
        "lock of the lease in a sweep",
        WORK,
        '" WHERE j.task_id = ANY(%s::text[]) ORDER BY l.job_id FOR NO KEY UPDATE OF l"',
        '" WHERE j.task_id = ANY(%s::text[]) ORDER BY l.job_id"',
        ("tests/races/test_outcomes.py", "tests/jobs/test_sweeping.py"),
    ),
    # --- claims and the barrier
    Mutant(
        "hold of a job that is named",
        CLAIMS,
        "if job.claimable_at > work.now:",
        "if False:",
        ("tests/jobs/test_hold_until.py",),
    ),
    Mutant(
        "hold of the next job",
        CLAIMS,
        """            AND {Job.CLAIMABLE_AT.format("c")} <= statement_timestamp()\n""",
        "",
        ("tests/jobs/test_hold_until.py",),
    ),
    Mutant(
        "end of a hold",
        "jobs/transitions/controls.py",
        "if not work.now < until < INSTANT_MAX:",
        "if False:",
        ("tests/jobs/test_hold_and_release.py",),
    ),
    Mutant(
        "lock of a claim",
        CLAIMS,
        "            FOR NO KEY UPDATE SKIP LOCKED) n",
        "            ) n",
        ("tests/races/test_claim.py",),
    ),
    Mutant(
        "lock of the job",
        WORK,
        '    " FOR NO KEY UPDATE OF j"\n',
        '    ""\n',
        ("tests/races/test_claim.py", "tests/races/test_outcomes.py"),
    ),
    Mutant(
        "claimer's side of the barrier",
        ENTRY,
        'LOCK_SHARED = "SELECT pg_advisory_xact_lock_shared(%s, %s)"',
        'LOCK_SHARED = "SELECT %s::int, %s::bigint"',
        ("tests/races/test_admission.py",),
    ),
    Mutant(
        "closer's side of the barrier",
        "agents/barrier.py",
        'LOCK_EXCLUSIVE = "SELECT pg_advisory_xact_lock(%s, %s)"',
        'LOCK_EXCLUSIVE = "SELECT %s::int, %s::bigint"',
        ("tests/races/test_admission.py",),
    ),
    Mutant(
        "closed admission",
        PRECONDITIONS,
        'if caller.admission == "closed":',
        "if False:",
        ("tests/jobs/test_claims.py", "tests/races/test_admission.py"),
    ),
    Mutant(
        "authority of a repeated start",
        "jobs/executions/starts.py",
        "        check_token(work, locked, binding.attempt, binding.fencing_token)\n"
        "        need_active(locked)\n",
        "",
        ("tests/jobs/web/test_starts.py", "tests/races/test_start.py"),
    ),
    Mutant(
        "closed admission, for effects",
        "jobs/executions/binding.py",
        "    need_not_closed(work.worker)\n",
        "",
        ("tests/jobs/test_executions.py", "tests/races/test_start.py"),
    ),
    Mutant(
        "inhibit",
        CLAIMS,
        "if caller.inhibit is not None:",
        "if False:",
        ("tests/jobs/test_claims.py",),
    ),
    Mutant(
        "highest risk of the agent",
        CLAIMS,
        "if not RiskTier(caller.max_risk_tier).allows(tier):",
        "if False:",
        ("tests/jobs/test_risk.py", "tests/races/test_admission.py"),
    ),
    Mutant(
        "highest risk in a claim of the next",
        CLAIMS,
        '<= (SELECT {RISK_RANK.format("a.max_risk_tier")}\n',
        '<= (SELECT 3 + 0 * {RISK_RANK.format("a.max_risk_tier")}\n',
        ("tests/jobs/test_risk.py",),
    ),
    Mutant(
        "end of the approval",
        PRECONDITIONS,
        "return job.execution_approval_required and (until is None or until <= at)",
        "return False",
        ("tests/jobs/test_claims.py",),
    ),
    # --- permits and executions
    Mutant(
        "second permit after the start",
        PERMITS,
        "    if found.state == Permit.State.SPENT:\n        raise PermitSpent()\n    lapsed = ",
        "    lapsed = ",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "permit spent",
        STARTS,
        "Permit.State.REVOKED if refusal else Permit.State.SPENT",
        "Permit.State.REVOKED",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "permit's deadline",
        STARTS,
        "if found.state == Permit.State.EXPIRED or found.deadline_at <= work.now:",
        "if found.state == Permit.State.EXPIRED:",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "permit's session",
        STARTS,
        "if permit.session_id != work.worker.session_pk:",
        "if False:",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "permits end with their attempt",
        "jobs/transitions/authority.py",
        "AND p.attempt = q.attempt AND p.state = 'issued'",
        "AND p.attempt = q.attempt AND p.state = 'issued' AND false",
        ("tests/jobs/test_executions.py", "tests/jobs/test_outcomes.py"),
    ),
    Mutant(
        "start of a paused job",
        STARTS,
        "    if locked.job.paused:\n        raise ExecutionPaused()\n"
        "    need_held_reservation(locked, binding, found",
        "    need_held_reservation(locked, binding, found",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "reservation at the start",
        STARTS,
        "    need_held_reservation(locked, binding, found.reservation_id)\n    return found\n",
        "    return found\n",
        ("tests/jobs/test_fenced_holders.py",),
    ),
    Mutant(
        "lineage of a late result",
        RESULTS,
        "    need_lineage(work, locked, attempt)\n",
        "",
        ("tests/jobs/test_fenced_holders.py",),
    ),
    Mutant(
        "fenced result is evidence",
        RESULTS,
        "    if work.worker.fenced or not current",
        "    if not current",
        ("tests/jobs/test_fenced_holders.py",),
    ),
    Mutant(
        "live without a word",
        STARTS,
        "if permit.mode == ExecutionMode.LIVE and not live_authorized(locked, at=work.now):",
        "if False:",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "UNKNOWN before the answer",
        STARTS,
        "state=Execution.State.REFUSED if refusal else Execution.State.UNKNOWN",
        "state=Execution.State.REFUSED",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "commit before the answer",
        "governance/core/idempotency.py",
        "        with sql.transaction_of_one_move():\n            try:\n                if",
        "        with sql.transaction.atomic():\n            sql.transaction.set_rollback(True)\n"
        "            try:\n                if",
        ("tests/jobs/web/test_views.py",),
    ),
    Mutant(
        "start tried again is no start",
        STARTS,
        "    if not same:\n        raise ExecutionConflict",
        "    if False:\n        raise ExecutionConflict",
        ("tests/jobs/test_executions.py", "tests/races/test_start.py"),
    ),
    Mutant(
        "digest of the envelope at the start",
        STARTS,
        "if locked.task.execution_digest != execution_digest:",
        "if False:",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "digest of the envelope with the result",
        RESULTS,
        "if bound != (attempt, fencing_token, execution_digest):",
        "if False:",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "digest of the result",
        RESULTS,
        "        if execution.outcome_sha256 != report.content_sha256:\n",
        "        if False:\n",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "external identity",
        BINDING,
        "if binding.external_request_id != expected:",
        "if False:",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "result of an ended attempt",
        RESULTS,
        "    if work.worker.fenced or not current or locked.job.state != State.ACTIVE:\n",
        "    if work.worker.fenced or locked.job.state != State.ACTIVE:\n",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "doubt after a lost attempt",
        OUTCOMES,
        "    if job.unresolved_executions:\n        target = State.IN_DOUBT",
        "    if False:\n        target = State.IN_DOUBT",
        ("tests/jobs/test_executions.py", "tests/jobs/test_sweeping.py"),
    ),
    Mutant(
        "complete over an unknown execution",
        OUTCOMES,
        "    if locked.job.unresolved_executions:\n        raise OutcomeUnknown",
        "    if False:\n        raise OutcomeUnknown",
        ("tests/jobs/test_executions.py", "tests/jobs/test_outcomes.py"),
    ),
    Mutant(
        "second verdict",
        PRECONDITIONS,
        "    if reconciled:\n",
        "    if False:\n",
        ("tests/jobs/test_executions.py",),
    ),
    Mutant(
        "verdict over a running attempt",
        PRECONDITIONS,
        "if job.state == State.ACTIVE and job.attempt == execution.attempt:",
        "if False:",
        ("tests/jobs/test_executions.py",),
    ),
    # --- same identity, same answer
    Mutant(
        "digest of a repeated outcome",
        OUTCOMES,
        "        if attempt.outcome_sha256 == sha256:\n            return True",
        "        if True:\n            return True",
        ("tests/jobs/test_outcomes.py",),
    ),
    Mutant(
        "digest of a repeated key",
        "governance/core/idempotency.py",
        'if bytes(record["digest"]) != digest:',
        "if False:",
        ("tests/races/test_idempotency.py", "tests/governance/web/test_api.py"),
    ),
    Mutant(
        "principal of a repeated key",
        "governance/core/idempotency.py",
        '    " WHERE principal = %s AND operation = %s AND key = %s"\n',
        '    " WHERE %s::text IS NOT NULL AND operation = %s AND key = %s"\n',
        ("tests/races/test_idempotency.py",),
    ),
    Mutant(
        "key in flight",
        "governance/core/idempotency.py",
        '        if not locks[0]["taken"]:\n',
        "        if False:\n",
        ("tests/races/test_idempotency.py",),
    ),
    Mutant(
        "a repetition locks nothing",
        ENTRY,
        "[key.unless_answered(statement) for statement in also]",
        "list(also)",
        ("tests/races/test_idempotency.py",),
    ),
    Mutant(
        "digest of a repeated task",
        "jobs/transitions/intake.py",
        "if known not in (_content_sha256(envelope), _content_sha256(envelope, in_utc=False)):",
        "if False:",
        ("tests/jobs/test_intake.py",),
    ),
    Mutant(
        "submitter of a repeated task",
        "jobs/transitions/intake.py",
        "if record.job.submitted_by != principal.text:",
        "if False:",
        ("tests/jobs/test_intake.py",),
    ),
    Mutant(
        "digest of a repeated fact",
        "jobs/transitions/facts.py",
        "if others:",
        "if False:",
        ("tests/jobs/test_facts.py",),
    ),
    Mutant(
        "digest of an artifact",
        "jobs/transitions/uploads.py",
        "    if stored != wanted:\n",
        "    if False:\n",
        ("tests/jobs/test_uploads.py",),
    ),
    Mutant(
        "artifact of another attempt",
        "jobs/transitions/uploads.py",
        "    if upload.fencing_token != fencing_token:\n",
        "    if False:\n",
        ("tests/jobs/test_uploads.py",),
    ),
    Mutant(
        "revision that was seen",
        PRECONDITIONS,
        "if expected is not None and expected != locked.job.revision:",
        "if False:",
        ("tests/jobs/test_decisions.py", "tests/jobs/test_controls.py"),
    ),
    # --- people
    Mutant(
        "ceiling of an extension",
        DECISIONS,
        "    if target > ceiling:\n",
        "    if False:\n",
        ("tests/jobs/test_decisions.py",),
    ),
    Mutant(
        "two persons",
        PRECONDITIONS,
        "return SelfApproval() if asked_for(job, actor=actor) else None",
        "return None",
        ("tests/jobs/test_decisions.py",),
    ),
    Mutant(
        "two persons, in the database",
        "jobs/migrations/0003_triggers.py",
        "           AND jobs_person(NEW.decided_by) IN (jobs_person(j.submitted_by),\n",
        "           AND NULL IN (jobs_person(j.submitted_by),\n",
        ("tests/jobs/test_decisions.py", "tests/jobs/test_models.py"),
    ),
    Mutant(
        "approval releases a hold, in the database",
        "jobs/migrations/0003_triggers.py",
        "IF OLD.state = 'held' AND NEW.state = 'queued' AND NOT EXISTS (",
        "IF false AND NOT EXISTS (",
        ("tests/jobs/test_decisions.py",),
    ),
    Mutant(
        "extension raises the limit, in the database",
        "jobs/migrations/0003_triggers.py",
        "IF NEW.max_attempts <> OLD.max_attempts AND NOT EXISTS (",
        "IF false AND NOT EXISTS (",
        ("tests/jobs/test_models.py",),
    ),
    Mutant(
        "no rework over an unknown execution",
        PRECONDITIONS,
        "    if not job.unresolved_executions:\n        return None\n",
        "    if True:\n        return None\n",
        ("tests/jobs/test_executions.py", "tests/jobs/test_decisions.py"),
    ),
    # --- money
    Mutant(
        "cap when it is read",
        ROUTES,
        'if row["cap"] is not None and row["used"] + candidate.amount > row["cap"]',
        "if False",
        ("tests/governance/money/test_ledger.py", "tests/races/test_reserve.py"),
    ),
    Mutant(
        "cap when it is held",
        "governance/money/budgets.py",
        '" AND (b.cap IS NULL OR w.held + w.spent + %s <= b.cap) RETURNING w.id"',
        '" AND %s::numeric IS NOT NULL RETURNING w.id"',
        ("tests/governance/money/test_ledger.py", "tests/races/test_reserve.py"),
    ),
    Mutant(
        "lock of the budgets",
        "governance/money/budgets.py",
        '" ORDER BY w.id FOR NO KEY UPDATE OF w"',
        '" ORDER BY w.id"',
        ("tests/races/test_reserve.py",),
    ),
    Mutant(
        "doubt is not released",
        RESERVATIONS,
        "if end.ended_as == State.RELEASED and reservation.state == State.IN_DOUBT:",
        "if False:",
        ("tests/governance/money/test_ledger.py",),
    ),
    Mutant(
        "one end of a reservation",
        RESERVATIONS,
        "if stored.content_sha256 != end.content_sha256:",
        "if False:",
        ("tests/governance/money/test_ledger.py",),
    ),
    # --- the sweep and the relay
    Mutant(
        "lease judged again by the sweep",
        SWEEPING,
        "    elif lease.expires_at <= work.now:\n",
        "    elif True:\n",
        ("tests/jobs/test_sweeping.py", "tests/races/test_outcomes.py"),
    ),
    Mutant(
        "lease judged again by a claim",
        CLAIMS,
        "        lock_lease(work, locked)\n",
        "",
        ("tests/races/test_claim.py",),
    ),
    Mutant(
        "sweep leaves alone what others hold",
        WORK,
        'LOCK_IF_FREE = LOCK_BY_TASK + " SKIP LOCKED"',
        "LOCK_IF_FREE = LOCK_BY_TASK",
        ("tests/races/test_outcomes.py", "tests/jobs/test_sweeping.py"),
    ),
    Mutant(
        "order of a stream",
        "governance/relay/relay.py",
        '                if row["stream"] in held_back:\n                    continue\n',
        "",
        ("tests/governance/relay/test_relay.py",),
    ),
    Mutant(
        "one relay per partition",
        "governance/relay/relay.py",
        '        if not row["taken"]:\n',
        "        if False:\n",
        ("tests/governance/relay/test_relay.py",),
    ),
    # --- the worker's side
    Mutant(
        "mark before the effect",
        "agents/worker/src/fencepost_worker/executor.py",
        "            exchange.begin()\n",
        "            pass\n",
        ("tests/worker/test_crashes.py", "tests/worker/test_recovery.py"),
    ),
    Mutant(
        "deadline of the grant",
        "agents/worker/src/fencepost_worker/executor.py",
        "if grant.over or lease.ended is not None:",
        "if False:",
        ("tests/worker/test_governed.py", "tests/worker/test_lease.py"),
    ),
    Mutant(
        "result binds its request",
        "agents/worker/src/fencepost_worker/exchange.py",
        "        _check_binding(request, document)\n",
        "",
        ("tests/worker/test_exchange.py",),
    ),
)
