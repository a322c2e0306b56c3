"""Unlucky lives over the real HTTP API; afterwards every promise is checked against the rows.

`make simulate` runs it for longer, each time with another seed; a failure names the seed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.entry import Entry
from agents.principals import Principal
from governance.errors import DomainError
from jobs import transitions
from jobs.models import Job, JobType, Lease
from tests.simulation import lives
from tests.simulation.invariants import violations
from tests.simulation.lives import Ack, History, Misfortune, Submitter, Wire, Worker
from tests.simulation.service import Service

SECONDS = float(os.environ.get("SIMULATION_SECONDS", "6"))
SEED = int(os.environ.get("SIMULATION_SEED", "1"))
SUBMITTERS, WORKERS = 2, 6
#: Enough for a short run to see one death of the service and a long one to see many.
KILL_EVERY_SECONDS = 4.0
SETTLE_ROUNDS_MAX = 200

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 180),
]


@pytest.fixture
def service(transactional_db: None, tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "gunicorn.log")
    made.start()
    yield made
    made.kill()


def test_nothing_is_lost_and_nothing_happens_twice(
    service: Service, submitter_token: str, hermes_token: str, hermes: Principal
) -> None:
    JobType.objects.update(backoff_base_seconds=0, max_attempts=4)
    history = History()

    connections = ExitStack()

    def wire(name: str, token: str) -> Wire:
        made = Wire(service.url, token, Random(f"{SEED} {name}"), history)
        connections.enter_context(made.client)
        return made

    actors: list[Any] = [
        Misfortune(service, Random(f"{SEED}"), history, kill_every_s=KILL_EVERY_SECONDS)
    ]
    for number in range(SUBMITTERS):
        name = f"submitter-{number}"
        actors.append(Submitter(name, wire(name, submitter_token)))
    for number in range(WORKERS):
        name = f"worker-{number}"
        actors.append(Worker(name, wire(name, hermes_token), activated=number % 2 == 0))

    with connections:
        lives.run(actors, seconds=SECONDS, history=history)
    settle(hermes)

    assert violations(history) == [], f"seed {SEED}"
    assert service.kills > 0 and history.acks and history.closed
    print(f"{Job.objects.count()} jobs, {len(history.acks)} acknowledged writes,"
          f" {service.kills} kills, refusals {dict(history.refusals)}")  # fmt: skip


def settle(hermes: Principal) -> None:
    """Bring what is left to its end: nothing is stuck when misfortune is over."""
    entry = Entry(hermes, "the-last-worker")
    for job in Job.objects.filter(paused=True, finished_at=None):
        transitions.resume(task_id=job.task_id, **lives.OPERATOR)
    give_up = time.monotonic() + 60
    for _ in range(SETTLE_ROUNDS_MAX):
        for task_id in Lease.objects.values_list("job__task_id", flat=True):
            lives.expire(task_id)
        transitions.sweep()
        for answer in transitions.claim_next(entry=entry, limit=100):
            number, token = answer.extra["attempt"], answer.extra["fencing_token"]
            result = {"by": entry.worker_id, "attempt": number, "token": token}
            [done] = transitions.complete(
                entry=entry,
                completions=[{"task_id": answer.job["task_id"], "attempt": number,
                              "fencing_token": token, "result": result}],
            )  # fmt: skip
            assert not isinstance(done, DomainError)
        left = Job.objects.filter(finished_at=None)
        if not left.exists():
            return
        assert time.monotonic() < give_up
    raise AssertionError(f"stuck: {list(left.values_list('task_id', 'state')[:5])}")


class TestTheCheckItself:
    """The control: a promise that is broken is found."""

    @pytest.fixture
    def done(self, make_job: Callable[..., Job], hermes: Principal) -> Job:
        job = make_job()
        settle(hermes)
        return job

    def test_a_whole_history_has_no_violation(self, done: Job) -> None:
        result = {"by": "the-last-worker", "attempt": 1, "token": 1}
        told = History(
            submitted={done.task_id: {str(done.job_id)}},
            acks=[Ack("complete", done.task_id, 1, 1, result)],
        )

        assert violations(told) == []

    @pytest.mark.parametrize(
        "told",
        [
            {"submitted": {"lost": {"some-job"}}},
            {"acks": [Ack("complete", "task-1", 1, 1, {"by": "somebody else"})]},
            {"acks": [Ack("complete", "task-1", 1, 2, {})]},
            {"acks": [Ack("fail", "task-1", 1, 1, "It broke.")]},
            {"acks": [Ack("reflections", "task-1", 1, 1, "A word.")]},
            {"claims": {"a-key": {("task-1", 1)}}},
        ],
        ids=["submission", "result", "token", "failure", "reflection", "claim"],
    )
    def test_a_broken_promise_is_found(self, done: Job, told: dict[str, Any]) -> None:
        assert len(violations(History(**told))) == 1

    def test_a_claim_behind_the_barrier_is_found(self, done: Job) -> None:
        told = History(closed=[(done.created_at, Job.objects.get().finished_at)])

        assert len(violations(told)) == 1
