"""What claiming the next job costs with a million in the queue, and behind an old snapshot.

`make bench-claims`, or `python -m tests.benchmarks.claims --queued 1000000 --finished 100000
--pinned-seconds 600`.  Runs `claim_next` in this process on a throwaway server: first on an almost
empty database, then on the full one, then past a million that has no room, then under a load of
whole lifecycles while another connection keeps a snapshot from before it, so that no dead row can
be removed.  Prints JSON and ends with 1 when a bar is broken: full <= 1.3 x empty, past no room and
pinned <= 2 x empty, and the claim indexes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.benchmarks import throwaway_server

AGENT, TASK_TYPE = "openclaw", "classification"
ROUNDS = 300
#: A type of the same agent that uses no model.
OTHER_TYPE = "rewrite"
FULL_RATIO_MAX, NO_ROOM_RATIO_MAX, PINNED_RATIO_MAX = 1.3, 2.0, 2.0
CLAIM_INDEX, TYPE_INDEX = "job_claim_idx", "job_claim_type_idx"
BATCH_ROWS = 50_000

# Copies of one queued job, each with an id of its own and a little later than the one before.
COPY_JOBS = """
INSERT INTO jobs_job ({columns})
SELECT {values}
  FROM jobs_job t, generate_series(%(first)s::bigint, %(upto)s::bigint) AS k
 WHERE t.task_id = %(like)s
"""
COPY_TASKS = """
INSERT INTO jobs_task ({columns})
SELECT {values} FROM jobs_task t JOIN jobs_job o ON o.id = t.job_id AND o.task_id = %(like)s,
       jobs_job j
 WHERE j.task_id LIKE 'copy-%%' AND NOT EXISTS (SELECT 1 FROM jobs_task x WHERE x.job_id = j.id)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=1_000_000)
    parser.add_argument("--finished", type=int, default=100_000)
    parser.add_argument("--pinned-seconds", type=float, default=600.0)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="claims per measurement")
    asked = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "governance.settings"
    os.environ["FENCEPOST_LOG_LEVEL"] = "ERROR"
    os.environ.pop("DATABASE_URL", None)
    with throwaway_server():
        found = measure(asked)
    print(json.dumps(found, indent=2))
    return 1 if found["faults"] else 0


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from jobs import bootstrap, filling, transitions

    bootstrap.install()
    cycle = Cycle()
    empty = cycle.median_ms(asked.rounds)
    for _ in filling.fill(jobs=asked.finished, spacing_seconds=1.0):
        pass
    cycle.fill_queue(asked.queued)
    filling.analyze()
    full = cycle.median_ms(asked.rounds)
    plan = cycle.plan()
    with cycle.no_room():
        narrow = cycle.median_ms(asked.rounds, task_type=OTHER_TYPE)
        cycle.submit(1, task_type=OTHER_TYPE)
        narrow_plan = cycle.plan("by_type")
        while transitions.claim_next(entry=cycle.entry, limit=100):
            pass
        nothing = cycle.median_ms_of_none(asked.rounds)
    with cycle.old_snapshot():
        moved = cycle.live(asked.pinned_seconds)
        pinned = cycle.median_ms(asked.rounds)
    faults = []
    if full > FULL_RATIO_MAX * empty:
        faults.append(f"full takes more than {FULL_RATIO_MAX} x empty")
    if pinned > PINNED_RATIO_MAX * empty:
        faults.append(f"pinned takes more than {PINNED_RATIO_MAX} x empty")
    if max(narrow, nothing) > NO_ROOM_RATIO_MAX * empty:
        faults.append(f"past no room takes more than {NO_ROOM_RATIO_MAX} x empty")
    if TYPE_INDEX not in narrow_plan or "Seq Scan on jobs_job " in narrow_plan:
        faults.append("the claim index of types is not used")
    if CLAIM_INDEX not in plan or "Seq Scan on jobs_job " in plan:
        faults.append("the claim index is not used")
    return {
        "queued": asked.queued,
        "finished": asked.finished,
        "pinned_seconds": asked.pinned_seconds,
        "lifecycles_behind_the_snapshot": moved,
        "claim_next_ms": {
            "empty": empty,
            "full": full,
            "past_no_room": narrow,
            "nothing_but_no_room": nothing,
            "pinned": pinned,
        },
        "ratio_full": round(full / empty, 2),
        "ratio_past_no_room": round(narrow / empty, 2),
        "ratio_pinned": round(pinned / empty, 2),
        "plan": plan.splitlines(),
        "plan_past_no_room": narrow_plan.splitlines(),
        "faults": faults,
    }


class Cycle:
    """Takes jobs in, claims and completes them, as one worker."""

    def __init__(self) -> None:
        from agents.entry import Entry
        from agents.models import Agent, Submitter
        from agents.principals import Principal
        from governance.core import clock

        agent = Agent.objects.get(name=AGENT)
        submitter = Submitter.objects.create(name="bench", created_at=clock.now())
        scopes = frozenset({"work", "submit"})
        self.entry = Entry(Principal("agent", agent.pk, agent.name, 0, scopes), "bench")
        self.submitter = Principal("submitter", submitter.pk, submitter.name, 0, scopes)
        self.made = 0

    def submit(self, count: int, **over: Any) -> list[str]:
        """Queue so many tasks and return their ids; none is before those that wait already."""
        from jobs import transitions

        names = [f"bench-{self.made + n}" for n in range(count)]
        self.made += count
        tasks = [
            {
                "task_id": name,
                "source": "proof",
                "title": "A task of the benchmark",
                "goal": "Be claimed, as fast as may be.",
                "task_type": TASK_TYPE,
                "risk_tier": "low",
                "priority": "normal",
                "inputs": {"text": "x" * 100},
            }
            | over
            for name in names
        ]
        for first in range(0, count, 500):
            transitions.intake(principal=self.submitter, envelopes=tasks[first : first + 500])
        return names

    def claim(self) -> Any:
        from jobs import transitions

        [outcome] = transitions.claim_next(entry=self.entry, limit=1)
        return outcome

    def median_ms(self, rounds: int, **over: Any) -> float:
        """Return the median of a claim of the next job, its commit included."""
        self.submit(rounds, **over)
        taken = [timed(self.claim) for _ in range(rounds)]
        return round(statistics.median(taken) * 1000, 3)

    def median_ms_of_none(self, rounds: int) -> float:
        """Return the median of a look that finds nothing to claim."""
        from jobs import transitions

        def look() -> None:
            assert transitions.claim_next(entry=self.entry, limit=1) == []

        return round(statistics.median(timed(look) for _ in range(rounds)) * 1000, 3)

    @contextmanager
    def no_room(self) -> Iterator[None]:
        """Let the agent have no room for what uses a model, and the type of the queue use one."""
        from datetime import timedelta

        from governance.core import clock
        from governance.money.models import Budget, BudgetWindow
        from governance.money.notes import NoRoom
        from jobs.models import JobType

        JobType.objects.filter(name=TASK_TYPE).update(model_use="required")
        now, end = clock.now(), clock.now() + timedelta(days=1)
        budget = Budget.objects.create(scope="agent", key=AGENT, window="day", cap=0)
        window = BudgetWindow.objects.create(budget=budget, kind="day", starts_at=now, ends_at=end)
        note = NoRoom.objects.create(
            scope="agent",
            key=AGENT,
            budget=budget,
            window=window,
            amount=1,
            reason="BUDGET_EXHAUSTED",
            noted_at=now,
            until=end,
        )
        yield
        note.delete()

    def live(self, seconds: float) -> int:
        """Take in, claim and complete jobs for so long; return how many."""
        from jobs import transitions

        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            self.submit(50)
            claimed = transitions.claim_next(entry=self.entry, limit=50)
            completions = [
                {
                    "task_id": each.job.task_id,
                    "attempt": each.grant.attempt.number,
                    "fencing_token": each.grant.attempt.fencing_token,
                    "result": {"x": 1},
                }
                for each in claimed
            ]
            transitions.complete(entry=self.entry, completions=completions)
            done += len(completions)
        return done

    def fill_queue(self, count: int) -> None:
        """Put `count` copies of a job into the queue."""
        from django.db import connection

        [like] = self.submit(1)
        own = {
            "job_id": "gen_random_uuid()",
            "task_id": "'copy-' || k",
            "available_at": "t.available_at + make_interval(secs => k / 1000000.0)",
        }
        jobs = COPY_JOBS.format(**columns_of("Job", own))
        tasks = COPY_TASKS.format(**columns_of("Task", {"job_id": "j.id"}))
        with connection.cursor() as cursor:
            for first in range(1, count + 1, BATCH_ROWS):
                upto = min(count, first + BATCH_ROWS - 1)
                cursor.execute(jobs, {"first": first, "upto": upto, "like": like})
            cursor.execute("SET statement_timeout = 0")
            cursor.execute(tasks, {"like": like})
            cursor.execute("RESET statement_timeout")

    def plan(self, walk: str = "whole") -> str:
        """Return the plan of a claim of the next job, by one of its walks."""
        from django.db import connection

        from jobs.transitions.claims import CLAIMABLE

        asked = {
            "agent_id": self.entry.principal.id,
            "types": None,
            "limit": 1,
            "with_inputs": False,
        }
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + getattr(CLAIMABLE, walk), asked)
            return "\n".join(line for (line,) in cursor.fetchall())

    def old_snapshot(self) -> Any:
        """Return a connection that keeps a snapshot of now until it is left."""
        import psycopg
        from django.db import connection

        other = psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None})
        other.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.commit()
        other.execute("SELECT count(*) FROM jobs_jobtype")
        return other


def columns_of(model: str, own: dict[str, str]) -> dict[str, str]:
    """Return the columns of a copy, and where each comes from: the template, or `own`."""
    from django.apps import apps
    from django.db.models import AutoField

    fields = apps.get_model("jobs", model)._meta.concrete_fields
    names = [field.column for field in fields if not isinstance(field, AutoField)]
    return {
        "columns": ", ".join(f'"{name}"' for name in names),
        "values": ", ".join(own.get(name, f't."{name}"') for name in names),
    }


def timed(step: Callable[[], Any]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
