"""A large database to measure on: finished jobs with attempts, audit chains and facts, in bulk.

The rows are such that every guard of the tables accepts them and `verify_audit` finds the chains
whole; they were never claimed by anybody.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection, transaction

from agents.models import Agent, Fleet, Session
from governance.core import clock
from governance.core.ownership import as_owner
from jobs.models import Job, JobType

#: The beginning of every task id that is made here.
PREFIX = "fill-"
BATCH_ROWS = 10_000
EVENTS_PER_JOB = 5
SUBMITTER = "submitter:fill"

# Of 1000 jobs: 900 completed, 50 failed, 28 stopped, 19 queued, and one each of held,
# review_required and escalated.  `k` counts jobs, `age` is how long ago a job was made.
INSERT_JOBS = """
WITH made AS (
    SELECT k, gen_random_uuid() AS random_id,
           clock_timestamp() - make_interval(secs => (%(last)s - k) * %(spacing)s) AS at,
           CASE WHEN k %% 1000 < 900 THEN 'completed' WHEN k %% 1000 < 950 THEN 'failed'
                WHEN k %% 1000 < 978 THEN 'stopped' WHEN k %% 1000 < 997 THEN 'queued'
                WHEN k %% 1000 = 997 THEN 'held' WHEN k %% 1000 = 998 THEN 'review_required'
                ELSE 'escalated' END AS state
      FROM generate_series(%(first)s::bigint, %(upto)s::bigint) AS k
), typed AS (
    SELECT made.*, t.id AS type_id, t.agent_id,
           state IN ('queued', 'held') AS waits,
           state IN ('completed', 'stopped', 'failed') AS over,
           -- A UUID of version 7, so that it lies where a real one would.
           (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
            || substr(replace(random_id::text, '-', ''), 14, 19))::uuid AS job_id
      FROM made JOIN (
           SELECT id, agent_id, row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS types
             FROM jobs_jobtype WHERE enabled) AS t ON t.n = made.k %% t.types
)
INSERT INTO jobs_job (
    audit_seq, audit_head, job_id, task_id, risk_tier, priority, state, paused, available_at,
    attempt, max_attempts, fencing_token, revision, fact_sequence, reflection_count,
    unresolved_executions, review_required, execution_approval_required, submitted_by,
    requested_by, asked_again_by, created_at, state_since, finished_at, agent_id, job_type_id)
SELECT 0, '\\x', job_id, %(prefix)s || k, CASE WHEN k %% 10 = 0 THEN 'medium' ELSE 'low' END,
       k %% 4, state, false, at, CASE WHEN waits THEN 0 ELSE 1 END, 3,
       CASE WHEN waits THEN 0 ELSE 1 END, 3, 1, 0, 0, state = 'review_required', state = 'held',
       %(submitter)s, '', '', at, at + interval '3 s',
       CASE WHEN over THEN at + interval '3 s' END, agent_id, type_id
  FROM typed ORDER BY k
RETURNING id
"""

INSERT_TASKS = """
INSERT INTO jobs_task (job_id, source, title, goal, inputs, output_required, rollback_required,
                       labels, content_sha256, envelope, execution_digest)
SELECT id, 'manual', 'A task to measure with, number ' || id, repeat('Read and write. ', 20),
       jsonb_build_object('number', id, 'text', repeat('x', 100)), false, false, '{}',
       encode(sha256(task_id::bytea), 'hex'), '{}', encode(sha256(job_id::text::bytea), 'hex')
  FROM jobs_job WHERE id BETWEEN %s AND %s
"""

INSERT_ATTEMPTS = """
INSERT INTO jobs_attempt (job_id, number, fencing_token, session_id, worker_id, runtime,
                          lease_seconds, claimed_at, claim_answers, ended_at, outcome,
                          outcome_sha256, needs_review, error_code, error_message, result,
                          result_pointer, governed)
SELECT id, 1, 1, %s, 'fill', 'command', 900, created_at + interval '1 s', 1,
       created_at + interval '3 s', CASE state WHEN 'failed' THEN 'failed' WHEN 'stopped'
       THEN 'stopped' WHEN 'escalated' THEN 'escalated' ELSE 'completed' END, '', false, '', '',
       '{"ok": true}', '', false
  FROM jobs_job WHERE id BETWEEN %s AND %s AND attempt = 1
"""

# Each event of a chain needs the hash of the one before: one statement per link.
INSERT_EVENTS = """
WITH linked AS (
    SELECT j.id, 'job:' || j.job_id AS subject, j.created_at + interval '1 s' * (%(seq)s - 1) AS at,
           CASE WHEN %(seq)s = 1 THEN decode(repeat('00', 32), 'hex') ELSE j.audit_head END AS prev
      FROM jobs_job j WHERE j.id BETWEEN %(first)s AND %(last)s
), bodied AS (
    SELECT *, convert_to(
           '{"action":"' || %(action)s::text || '","actor":"submitter:fill","after":null,'
           || '"at":"' || replace((at AT TIME ZONE 'UTC')::text, ' ', 'T') || '+00:00",'
           || '"before":null,"details":{},"reason":"","request_id":"","seq":' || %(seq)s
           || ',"subject":"' || subject || '"}', 'UTF8') AS body
      FROM linked
), hashed AS (
    SELECT *, sha256(prev || body) AS hash FROM bodied
), headed AS (
    UPDATE jobs_job j SET audit_seq = %(seq)s, audit_head = h.hash
      FROM hashed h WHERE j.id = h.id
)
INSERT INTO governance_auditevent (subject, seq, at, action, actor, reason, request_id, body,
                                   prev_hash, hash)
SELECT subject, %(seq)s, at, %(action)s, 'submitter:fill', '', '', body, prev, hash
  FROM hashed ORDER BY id
"""

INSERT_FACTS = """
INSERT INTO governance_fact (fact_id, principal, stream, sequence, type, data, content_sha256,
                             receipt_id, recorded_at, relayed, published_at, delivered_to)
SELECT 'fill-' || id, 'system', 'job:' || job_id, 1, 'dev.fencepost.job.queued', '{}',
       encode(sha256('{}'), 'hex'), job_id, created_at, true, created_at, '[]'
  FROM jobs_job WHERE id BETWEEN %s AND %s
"""
ACTIONS = ("job.queued", "job.claimed", "job.reflected", "job.reflected", "job.completed")


def is_foreign() -> bool:
    """Return whether the database holds jobs that were not made here."""
    return Job.objects.exclude(submitted_by=SUBMITTER).exists()


def fill(*, jobs: int, spacing_seconds: float = 1.0) -> Iterator[int]:
    """Make `jobs` jobs, the last of them now, and yield after each batch how many there are.

    Each batch is a transaction, so that a run that is broken off leaves whole jobs.
    """
    session = _session()
    offset = Job.objects.filter(submitted_by=SUBMITTER).count()
    for done in range(0, jobs, BATCH_ROWS):
        size = min(BATCH_ROWS, jobs - done)
        first = offset + done
        _batch(first, first + size - 1, offset + jobs, spacing_seconds, session)
        yield done + size


@transaction.atomic
def _batch(first: int, upto: int, last: int, spacing: float, session: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute(
            INSERT_JOBS,
            {
                "first": first, "upto": upto, "last": last, "spacing": spacing,
                "prefix": PREFIX, "submitter": SUBMITTER,
            },
        )  # fmt: skip
        keys = [row[0] for row in cursor.fetchall()]
        low, high = min(keys), max(keys)
        cursor.execute(INSERT_TASKS, [low, high])
        cursor.execute(INSERT_ATTEMPTS, [session, low, high])
        for seq, action in enumerate(ACTIONS, start=1):
            cursor.execute(
                INSERT_EVENTS, {"first": low, "last": high, "seq": seq, "action": action}
            )
        cursor.execute(INSERT_FACTS, [low, high])


def analyze() -> None:
    """Let the planner know what there is, and the index-only scans what is visible."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        for model in ("jobs_job", "jobs_task", "jobs_attempt", "governance_auditevent"):
            cursor.execute(f"VACUUM ANALYZE {model}")
        cursor.execute("VACUUM ANALYZE governance_fact")
        cursor.execute("RESET statement_timeout")


def _session() -> int:
    """Return the session that the attempts are of."""
    agent = JobType.objects.select_related("agent").order_by("id")[0].agent
    row, _ = Session.objects.get_or_create(
        agent=Agent.objects.get(pk=agent.pk),
        kind=Session.Kind.IMPLICIT,
        worker_id="fill",
        defaults={
            "session_id": "00000000-0000-7000-8000-00000000f111",
            "dispatcher_epoch": Fleet.objects.get().dispatcher_epoch,
            "created_at": clock.now(),
        },
    )
    return row.pk
