"""Who takes part: submitters, workers that oversleep, vanish and restart, and misfortune itself.

Every decision is drawn from a generator of the actor's own, seeded by the run's seed and the
actor's name; how the actors' calls interleave is up to the machine.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import httpx
from django.db import connections
from uuid_utils.compat import uuid7

from agents.transitions.admission import set_admission
from governance import clock
from governance.errors import DomainError
from jobs import transitions
from jobs.models import Job, Lease
from tests.simulation.service import Service

AGENT = "hermes"
OPERATOR = {"actor": "user:anna", "reason": "The simulation wants it."}
TRIES_MAX = 600
PAUSE_SECONDS = 0.05
#: Refusals that say nothing about the operation: the same request is sent again.
AGAIN = frozenset({"IDEMPOTENCY_IN_FLIGHT", "CONTENTION", "UNAVAILABLE"})
#: Refusals that an honest worker of an unlucky life meets.
EXPECTED = frozenset(
    {
        "STALE_FENCING_TOKEN",
        "LEASE_EXPIRED",
        "INVALID_TRANSITION",
        "SESSION_SUPERSEDED",
        "ADMISSION_CLOSED",
    }
)


class Ack(NamedTuple):
    """A write that the service has acknowledged to somebody."""

    kind: str
    task_id: str
    attempt: int
    fencing_token: int
    content: Any


@dataclass
class History:
    """What the actors were told, which the rows must bear out."""

    submitted: dict[str, set[str]] = field(default_factory=dict)
    acks: list[Ack] = field(default_factory=list)
    claims: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    closed: list[tuple[datetime, datetime]] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class Wire:
    """A network that loses requests, loses answers, and delivers twice."""

    def __init__(self, url: str, token: str, random: Random, history: History) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=20, trust_env=False)
        self.random, self.history = random, history

    def call(
        self, path: str, body: Any, *, key: str = "", session: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send until an answer arrives, as a client does that must know; return what it says."""
        headers = ({"Idempotency-Key": key} if key else {}) | (session or {})
        for _ in range(TRIES_MAX):
            answer = self._send(path, body, headers)
            if answer is not None:
                return answer.status_code, answer.json()
            time.sleep(PAUSE_SECONDS * self.random.random())
        raise AssertionError(f"{path}: no answer after {TRIES_MAX} tries")

    def _send(self, path: str, body: Any, headers: dict[str, str]) -> httpx.Response | None:
        luck = self.random.random()
        if luck < 0.04:
            return None  # lost on the way there
        try:
            answer = self.client.post(path, json=body, headers=headers)
            if luck > 0.96:
                answer = self.client.post(path, json=body, headers=headers)  # delivered twice
        except httpx.TransportError:
            return None
        if luck > 0.92 and luck <= 0.96:
            return None  # lost on the way back
        if answer.status_code < 400:
            return answer
        reason = answer.json()["reason"]
        self.history.refusals[reason] += 1
        if reason not in EXPECTED | AGAIN:
            self.history.faults.append(f"{path}: {answer.text}")
        return None if reason in AGAIN else answer


class Submitter:
    """Queues tasks one by one and in batches, and sends what it is not sure of again."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.name, self.wire, self.random = name, wire, wire.random
        self.history, self.number = wire.history, 0

    def live(self) -> None:
        while not self.history.over.is_set():
            if self.random.random() < 0.3:
                tasks = [self._task() for _ in range(self.random.randint(2, 6))]
                _, answer = self.wire.call("/v1/jobs/batch", {"tasks": tasks})
                for item in answer["results"]:
                    self._told(item["job"])
            else:
                _, answer = self.wire.call("/v1/jobs", self._task())
                self._told(answer["job"])
            time.sleep(PAUSE_SECONDS * self.random.random())

    def _told(self, job: dict[str, Any]) -> None:
        self.history.submitted.setdefault(job["task_id"], set()).add(job["job_id"])

    def _task(self) -> dict[str, Any]:
        if self.number and self.random.random() < 0.1:
            number = self.random.randint(1, self.number)
        else:
            self.number += 1
            number = self.number
        return {
            "task_id": f"{self.name}-{number}",
            "source": "manual",
            "title": f"Task {number} of {self.name}",
            "goal": "Reach an end that everybody agrees on.",
            "task_type": ("content_prep", "healthcheck")[number % 2],
            "risk_tier": "low",
            "priority": ("low", "normal", "high", "urgent")[number % 4],
        }


class Worker:
    """Claims and works, honestly and with bad luck: it oversleeps, vanishes and starts anew."""

    def __init__(self, name: str, wire: Wire, *, activated: bool) -> None:
        self.name, self.wire, self.random = name, wire, wire.random
        self.history, self.activated = wire.history, activated
        self.boots = 0
        self.session: dict[str, str] = {}
        #: What it will still say too late: calls of attempts that it overslept.
        self.late: list[Callable[[], None]] = []

    def live(self) -> None:
        if self.activated:
            self._boot()
        while not self.history.over.is_set():
            if self.activated and self.random.random() < 0.03:
                self._boot()
            self._claim(limit=self.random.randint(1, 4))
            while self.late and self.random.random() < 0.5:
                self.late.pop(0)()
        for call in self.late:
            call()

    def _boot(self) -> None:
        self.boots += 1
        boot = f"{self.name}-boot-{self.boots}"
        body = {
            "activation_operation_id": boot,
            "cell_id": self.name,
            "boot_id": boot,
            "protocol_version": "1.0",
            "runtime": "command",
            "capabilities": {},
        }
        status, told = self.wire.call(f"/v1/agents/{AGENT}/activate", body, key=str(uuid7()))
        if status == 200:
            self.session = {
                "Fencepost-Session": told["session_id"],
                "Fencepost-Epoch": told["dispatcher_epoch"],
            }

    def _claim(self, *, limit: int) -> None:
        key = str(uuid7())
        body = {"worker_id": self.name, "limit": limit}
        status, answer = self.wire.call("/v1/claims", body, key=key, session=self.session)
        if status != 200 or not answer["results"]:
            time.sleep(PAUSE_SECONDS)
            return
        jobs = [item["job"] for item in answer["results"]]
        self.history.claims[key] = {(job["task_id"], job["attempt"]) for job in jobs}
        for job in jobs:
            self._work(job)

    def _work(self, job: dict[str, Any]) -> None:
        held = {name: job[name] for name in ("task_id", "attempt", "fencing_token")}
        luck = self.random.random()
        if luck < 0.12:
            expire(held["task_id"])  # vanished: never heard of again
        elif luck < 0.3:
            expire(held["task_id"])  # overslept
            session = dict(self.session)
            self.late.append(lambda: self._complete(held, session))
        elif luck < 0.45:
            self._fail(held)
        else:
            if luck < 0.7:
                self.wire.call("/v1/leases/heartbeat", {"leases": [held]}, session=self.session)
                self._reflect(held)
            self._complete(held, self.session)

    def _complete(self, held: dict[str, Any], session: dict[str, str]) -> None:
        result = {"by": self.name, "attempt": held["attempt"], "token": held["fencing_token"]}
        self._write("complete", held, {"worker_id": self.name, "result": result}, result, session)

    def _fail(self, held: dict[str, Any]) -> None:
        message = f"{self.name} failed at attempt {held['attempt']}"
        body = {"error_message": message, "error_code": "SIMULATED", "retryable": True}
        self._write("fail", held, body, message, self.session)

    def _reflect(self, held: dict[str, Any]) -> None:
        word = f"{self.name} under {held['fencing_token']}"
        body = {"sequence_number": held["attempt"], "what_worked": word}
        self._write("reflections", held, body, word, self.session)

    def _write(
        self, kind: str, held: dict[str, Any], body: Any, content: Any, session: dict[str, str]
    ) -> None:
        named = {name: held[name] for name in ("attempt", "fencing_token")}
        path = f"/v1/jobs/{held['task_id']}/{kind}"
        status, _ = self.wire.call(path, body | named, session=session)
        if status < 300:
            self.history.acks.append(Ack(kind, **held, content=content))


class Misfortune:
    """What befalls the service: kills, sweeps at any moment, operators, a closing barrier."""

    def __init__(self, service: Service, random: Random, history: History, *, kill_every_s: float):
        self.service, self.random, self.history = service, random, history
        self.kill_every_s = kill_every_s

    def live(self) -> None:
        next_kill = time.monotonic() + self.kill_every_s
        while not self.history.over.wait(PAUSE_SECONDS * self.random.random()):
            if time.monotonic() > next_kill:
                self.service.kill()
                self.service.start()
                next_kill = time.monotonic() + self.kill_every_s
            act = self.random.choice(
                [transitions.sweep, transitions.sweep, self._steer, self._steer, self._close]
            )
            act()

    def _steer(self) -> None:
        open_jobs = Job.objects.filter(finished_at=None)
        tasks = list(open_jobs.order_by("-id").values_list("task_id", flat=True)[:20])
        if not tasks:
            return
        task_id = self.random.choice(tasks)
        move = self.random.choice(["pause", "resume", "resume", "extend", "stop"])
        asked = {"extra": 1} if move == "extend" else {}
        try:
            getattr(transitions, move)(task_id=task_id, **OPERATOR, **asked)
        except DomainError as refusal:
            self.history.refusals[f"operator:{refusal.reason}"] += 1

    def _close(self) -> None:
        self._admit("closed")
        closed_at = clock.now()
        self.history.over.wait(PAUSE_SECONDS * self.random.random())
        self.history.closed.append((closed_at, clock.now()))
        self._admit("open")

    @staticmethod
    def _admit(state: str) -> None:
        set_admission(agent=AGENT, state=state, barrier_id=str(uuid7()), **OPERATOR)


def expire(task_id: str) -> None:
    """Let the lease of the task run out: its holder sleeps longer than it lasts."""
    past = clock.now() - timedelta(seconds=1)
    Lease.objects.filter(job__task_id=task_id).update(expires_at=past)


def run(actors: list[Any], *, seconds: float, history: History) -> None:
    """Let all actors live for so long, and wait until each has said its last word."""

    def life(actor: Any) -> None:
        try:
            actor.live()
        except Exception as error:
            history.faults.append(f"{type(actor).__name__}: {error!r}")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=life, args=(actor,), daemon=True) for actor in actors]
    for thread in threads:
        thread.start()
    history.over.wait(seconds)
    history.over.set()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "an actor does not come to its end"
