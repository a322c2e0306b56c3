"""Rows that no release writes: planted past triggers and CHECKs, as an old fault or a hand has."""

from __future__ import annotations

from django.db import connection

from jobs.models import Job

#: What is planted: table, column, SQL of the value. Each spoils what reads or writes it.
PLANTED = {
    "an instant without end": ("jobs_job", "created_at", "'infinity'"),
    "an instant without beginning": ("jobs_job", "available_at", "'-infinity'"),
    "a year past Python's": ("jobs_job", "state_since", "'20000-01-01Z'"),
    "a time of the task without end": ("jobs_task", "submitted_at", "'infinity'"),
    "inputs that are a list": ("jobs_task", "inputs", "'[1]'"),
    "an envelope that is a number": ("jobs_task", "envelope", "'7'"),
    "labels that are a text": ("jobs_task", "labels", "'\"x\"'"),
    "a state that nobody knows": ("jobs_job", "state", "'odd'"),
    "a priority that nobody knows": ("jobs_job", "priority", "9"),
    "a risk that nobody knows": ("jobs_job", "risk_tier", "'odd'"),
    "a counter below zero": ("jobs_job", "attempt", "-1"),
    "a token below its attempt": ("jobs_job", "fencing_token", "-5"),
}


def plant(job: Job, kind: str) -> None:
    """Spoil the row of a job."""
    spoil(
        *PLANTED[kind], where=f"{'id' if PLANTED[kind][0] == 'jobs_job' else 'job_id'} = {job.pk}"
    )


def spoil(table: str, column: str, value: str, *, where: str) -> None:
    """Write a value past what the database refuses."""
    with connection.cursor() as cursor:
        # What is deferred would forbid to alter the table; in a test nothing is committed.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = %s::regclass",
            [table],
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        cursor.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}")
        assert cursor.rowcount == 1
        cursor.execute("SET session_replication_role = origin")
