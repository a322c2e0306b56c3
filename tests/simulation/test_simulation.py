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
from agents.principals import Principal, identify
from agents.transitions import credentials, principals
from governance.core import clock
from governance.core.errors import DomainError
from governance.core.models import Fact
from governance.money import room
from governance.relay.models import StreamHold
from jobs import bootstrap, transitions
from jobs.models import Job, JobType, Lease, ModelUse
from tests.jobs.governed import price_a_model
from tests.simulation import governed, lives
from tests.simulation.governed import CAP, GovernedWorker, Misfortune, Operator
from tests.simulation.installation import Database, Service, a_database_of_its_own, manage
from tests.simulation.invariants import violations
from tests.simulation.lives import AGENTS, Ack, History, Submitter, Wire, Worker
from tests.simulation.outside import LossyNetwork, Outside
from tests.world import TEST

SECONDS = float(os.environ.get("SIMULATION_SECONDS", "6"))
SEED = int(os.environ.get("SIMULATION_SEED", "1"))
SUBMITTERS, WORKERS, GOVERNED = 2, 4, 3
#: Of each real worker process: how fast its clock runs, and how far its calendar is ahead.
SKEWS = ((0.25, 6 * 3600), (3.0, -6 * 3600))
#: Enough for a short run to see one death of each part and a long one to see many.
KILL_EVERY_SECONDS = 1.2 if SECONDS < 30 else 5.0
SETTLE_ROUNDS_MAX = 2000
SETTLE_SECONDS_MAX = 120

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 300),
]


@pytest.fixture
def database(transactional_db: None, data_folder: Path) -> Iterator[Database]:
    with a_database_of_its_own(data_folder) as made:
        bootstrap.install()
        JobType.objects.update(backoff_base_seconds=0, max_attempts=4)
        JobType.objects.filter(agent__name="openclaw").update(model_use="required")
        price_a_model(cap=CAP)
        yield made


@pytest.fixture
def stage(database: Database) -> Iterator[ExitStack]:
    """Whatever is entered here is gone before the database is."""
    with ExitStack() as entered:
        yield entered


@pytest.fixture
def token_of(database: Database) -> Callable[[str], str]:
    def make(name: str) -> str:
        return credentials.create(agent=name, **TEST).token

    return make


@pytest.fixture
def queueing_token(database: Database) -> str:
    principals.register_submitter(name="ops", **TEST)
    return credentials.create(submitter="ops", scopes=["submit", "read"], **TEST).token


def test_nothing_is_lost_and_nothing_happens_twice(
    database: Database,
    stage: ExitStack,
    token_of: Callable[[str], str],
    queueing_token: str,
    tmp_path: Path,
) -> None:
    print(f"seed {SEED}, {SECONDS} s")
    history, outside = History(), Outside(SEED)
    stage.callback(outside.close)
    service = Service(tmp_path / "gunicorn.log")
    network = LossyNetwork(service.url, SEED)
    stage.callback(network.close)
    tokens = {name: token_of(name) for name in AGENTS}
    sweeper = manage(
        "sweep", "--interval", "0.2", "--seal-interval", "3", log=tmp_path / "sweep.log"
    )
    relay = manage(
        "relay", "--threads", "2", log=tmp_path / "relay.log",
        WEBHOOK_URL=f"{outside.url}/facts", WEBHOOK_SECRET=SECRET,
    )  # fmt: skip
    processes = [
        governed.worker_process(
            f"process-{number}", url=network.url, endpoint=f"{outside.url}/agent",
            token=tokens["agent_zero"], data=tmp_path / f"worker-{number}", rate=rate, ahead=ahead,
        )
        for number, (rate, ahead) in enumerate(SKEWS)
    ]  # fmt: skip
    parts: list[Any] = [service, sweeper, relay, *processes]
    for part in parts:
        stage.callback(part.kill)
        part.start()
    actors = cast(service, tokens, queueing_token, outside, history, stage)
    mortal = [database, service, sweeper, relay, *processes]
    actors.append(Misfortune(mortal, Random(f"{SEED}"), history, every_s=KILL_EVERY_SECONDS))

    def eventful() -> bool:
        return bool(
            database.kills and service.kills and history.acks and history.closed and outside.effects
        )

    lives.run(actors, seconds=SECONDS, history=history, eventful=eventful)
    for process in processes:
        process.kill()
    settle([identify(token=token) for token in tokens.values()], outside)
    all_facts_are_told()

    assert violations(history, outside) == [], f"seed {SEED}"
    assert eventful()
    print(f"{Job.objects.count()} jobs, {len(history.acks)} acknowledged writes,"
          f" {len(outside.effects)} effects, {Fact.objects.count()} facts,"
          f" kills {({part.name: part.kills for part in mortal})},"
          f" outside {dict(outside.fates)}, refusals {dict(history.refusals)}")  # fmt: skip


SECRET = "whsec_" + "c2ltdWxhdGlvbiBzZWNyZXQgb2YgdGhlIHRlc3Q="


def cast(
    service: Service,
    tokens: dict[str, str],
    queueing_token: str,
    outside: Outside,
    history: History,
    stage: ExitStack,
) -> list[Any]:
    """Return everybody who takes part, each with luck of its own."""

    def wire(name: str, token: str) -> Wire:
        made = Wire(service.url, token, Random(f"{SEED} {name}"), history)
        stage.enter_context(made.client)
        return made

    actors: list[Any] = [Operator(outside, Random(f"{SEED} operator"), history)]
    for number in range(SUBMITTERS):
        name = f"submitter-{number}"
        actors.append(Submitter(name, wire(name, queueing_token)))
    for number in range(WORKERS):
        name = f"worker-{number}"
        actors.append(Worker(name, wire(name, tokens["hermes"]), activated=number % 2 == 0))
    for number in range(GOVERNED):
        name = f"governed-{number}"
        actors.append(GovernedWorker(name, wire(name, tokens["openclaw"]), outside))
    return actors


def settle(agents: list[Principal], outside: Outside) -> None:
    """Bring what is left to its end: nothing is stuck when misfortune is over."""
    room.clear_all()
    for kind in JobType.objects.filter(model_use=ModelUse.REQUIRED):
        # Who finishes what is left calls no model.
        terms = transitions.TypeSettings(model_use=ModelUse.ALLOWED)
        transitions.configure_job_type(name=kind.name, settings=terms, **lives.OPERATOR)
    for job in Job.objects.filter(paused=True, finished_at=None):
        transitions.resume(task_id=job.task_id, **lives.OPERATOR)
    give_up = time.monotonic() + SETTLE_SECONDS_MAX
    for _ in range(SETTLE_ROUNDS_MAX):
        for task_id in Lease.objects.values_list("job__task_id", flat=True):
            lives.expire(task_id)
        transitions.sweep()
        for execution in governed.unknown_executions():
            governed.reconcile(execution, outside, say, over=True)
        for job in Job.objects.filter(state="needs_rework"):
            transitions.stop(task_id=job.task_id, **lives.OPERATOR)
        for agent in agents:
            finish_what_waits(Entry(agent, "the-last-worker"))
        left = Job.objects.filter(finished_at=None)
        if not left.exists() and not governed.unknown_executions():
            return
        assert time.monotonic() < give_up, list(left.values_list("task_id", "state")[:5])
    names = ("task_id", "state", "available_at", "hold_until", "deferrals", "attempt")
    raise AssertionError(f"stuck: {list(left.values(*names)[:5])}")


def say(act: Callable[..., Any], **named: Any) -> None:
    act(**named, **lives.OPERATOR)


def finish_what_waits(entry: Entry) -> None:
    for answer in transitions.claim_next(entry=entry, limit=100):
        number, token = answer.grant.attempt.number, answer.grant.attempt.fencing_token
        result = {"by": entry.worker_id, "attempt": number, "token": token}
        [done] = transitions.complete(
            entry=entry,
            completions=[{"task_id": answer.job.task_id, "attempt": number,
                          "fencing_token": token, "result": result}],
        )  # fmt: skip
        assert not isinstance(done, DomainError)


def all_facts_are_told() -> None:
    """Wait until the relay has nothing left."""
    give_up = time.monotonic() + SETTLE_SECONDS_MAX
    while waiting := Fact.objects.filter(published_at=None, relayed=True).count():
        assert time.monotonic() < give_up, f"{waiting} facts wait for ever"
        StreamHold.objects.update(next_try_at=clock.now())
        time.sleep(lives.PAUSE_SECONDS)


class TestTheCheckItself:
    """The control: a promise that is broken is found."""

    @pytest.fixture
    def done(self, make_job: Callable[..., Job], hermes: Principal) -> Job:
        job = make_job()
        finish_what_waits(Entry(hermes, "the-last-worker"))
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
        told = History(closed=[("hermes", done.created_at, Job.objects.get().finished_at)])

        assert len(violations(told)) == 1
