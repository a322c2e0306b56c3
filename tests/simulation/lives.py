"""Who takes part: submitters, workers that oversleep, vanish and restart, operators, misfortune.

Every decision is drawn from a generator of the actor's own, seeded by the run's seed and the
actor's name; how the actors' calls interleave is up to the machine.
"""

from __future__ import annotations

import hashlib
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple, ParamSpec, TypeVar

import httpx2
from django.db import InterfaceError, OperationalError, connection, connections
from uuid_utils.compat import uuid7

from governance.core import clock
from governance.core.digests import canonical
from jobs.models import Job, Lease

P, R = ParamSpec("P"), TypeVar("R")

AGENTS = ("hermes", "openclaw", "agent_zero")
#: Of whom plain work is asked most, and of the real worker processes least.
TASK_TYPES = ("content_prep", "healthcheck", "rewrite", "content_prep", "rewrite", "implementation",
              "healthcheck", "classification")  # fmt: skip
#: Open jobs above which submitters wait, so that a long run ends as soon as a short one.
BACKLOG_MAX = 150
OPERATOR = {"actor": "user:anna", "reason": "The simulation wants it."}
TRIES_MAX = 600
#: Epochs that may pass while one call is being made.
EPOCHS_MAX = 5
PAUSE_SECONDS = 0.05
EVENTFUL_SECONDS_MAX = 120
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
        "DISPATCHER_EPOCH_STALE",
        # The governed way: money is short, an operator was quicker, a twin took the session.
        "BUDGET_EXHAUSTED",
        "REVISION_MISMATCH",
        "EXECUTION_PAUSED",
        "LEASE_HELD_BY_ANOTHER",
        "PERMIT_REVOKED",
        "MODEL_RESERVATION_STATE_INVALID",
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
    #: When nothing of an agent could be claimed.
    closed: list[tuple[str, datetime, datetime]] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class Wire:
    """A network that loses requests, loses answers, and delivers twice."""

    def __init__(self, url: str, token: str, random: Random, history: History) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.client = httpx2.Client(base_url=url, headers=headers, timeout=20, trust_env=False)
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

    def _send(self, path: str, body: Any, headers: dict[str, str]) -> httpx2.Response | None:
        luck = self.random.random()
        if luck < 0.04:
            return None  # lost on the way there
        try:
            answer = self.client.post(path, json=body, headers=headers)
            if luck > 0.96:
                answer = self.client.post(path, json=body, headers=headers)  # delivered twice
        except httpx2.TransportError:
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
            if self.number % 20 == 0:
                self._let_them_catch_up()

    def _let_them_catch_up(self) -> None:
        waiting = Job.objects.filter(finished_at=None)
        while surely(waiting.count) > BACKLOG_MAX and not self.history.over.wait(PAUSE_SECONDS):
            pass

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
            "task_type": TASK_TYPES[number % len(TASK_TYPES)],
            "risk_tier": "low",
            "priority": ("low", "normal", "high", "urgent")[number % 4],
        }


class Worker:
    """Claims and works, honestly and with bad luck: it oversleeps, vanishes and starts anew."""

    agent = "hermes"

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

    def _boot(self, *, rebind: bool = False) -> bool:
        """Activate as a new process, or again as the same one under a new epoch."""
        self.boots += not rebind
        boot = f"{self.name}-boot-{self.boots}"
        body = {
            "activation_operation_id": str(uuid7()),
            "cell_id": self.name,
            "boot_id": boot,
            "protocol_version": "1.0",
            "runtime": "command",
            "capabilities": {},
        }
        if rebind:
            body["previous_session_id"] = self.session["Fencepost-Session"]
        status, told = self.wire.call(f"/v1/agents/{self.agent}/activate", body, key=str(uuid7()))
        if status == 200:
            self.session = {
                "Fencepost-Session": told["session_id"],
                "Fencepost-Epoch": told["dispatcher_epoch"],
            }
        return status == 200

    def _call(self, path: str, body: Any, *, key: str = "") -> tuple[int, Any]:
        """Call in the session; where the epoch has changed, bind the session to it and go on."""
        for _ in range(EPOCHS_MAX):
            status, answer = self.wire.call(path, body, key=key, session=self.session)
            if status < 400 or answer["reason"] != "DISPATCHER_EPOCH_STALE":
                break
            if not self._boot(rebind=True):
                break
        return status, answer

    def _claim(self, *, limit: int) -> None:
        key = str(uuid7())
        body = {"worker_id": self.name, "limit": limit}
        status, answer = self._call("/v1/claims", body, key=key)
        if status != 200 or not answer["results"]:
            time.sleep(PAUSE_SECONDS)
            return
        results = answer["results"]
        self.history.claims[key] = {(item["job"]["task_id"], item["attempt"]) for item in results}
        # One whose answer was lost may be told of when its lease is gone.
        jobs = [item["job"] for item in results if item["lease"] is not None]
        claimed_by = self.boots
        for job in jobs:
            # A newer boot takes up nothing of the one before.
            if self.boots == claimed_by:
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
                self._call("/v1/leases/heartbeat", {"worker_id": self.name, "leases": [held]})
                self._reflect(held)
                self._state_fact(held)
            self._complete(held)

    def _complete(self, held: dict[str, Any], session: dict[str, str] | None = None) -> None:
        result = {"by": self.name, "attempt": held["attempt"], "token": held["fencing_token"]}
        self._write("complete", held, {"result": result}, result, session)

    def _fail(self, held: dict[str, Any]) -> None:
        message = f"{self.name} failed at attempt {held['attempt']}"
        body = {"error_message": message, "error_code": "SIMULATED", "retryable": True}
        self._write("fail", held, body, message)

    def _reflect(self, held: dict[str, Any]) -> None:
        word = f"{self.name} under {held['fencing_token']}"
        body = {"sequence_number": held["attempt"], "what_worked": word}
        self._write("reflections", held, body, word)

    def _state_fact(self, held: dict[str, Any]) -> None:
        data = {"by": self.name, "attempt": held["attempt"]}
        body = {
            "fact_id": str(uuid7()),
            "content_sha256": hashlib.sha256(canonical(data)).hexdigest(),
            "type": "sim.noted",
            "data": data,
            "subject": held | {"worker_id": self.name},
        }
        status, told = self._call("/v1/facts", body, key=str(uuid7()))
        if status < 300:
            self.history.acks.append(Ack("fact", **held, content=told))

    def _write(
        self,
        kind: str,
        held: dict[str, Any],
        body: Any,
        content: Any,
        session: dict[str, str] | None = None,
    ) -> None:
        """Say how it went; `session`: as who it was when it fell asleep, and as nobody newer."""
        named = body | {name: held[name] for name in ("attempt", "fencing_token")}
        named["worker_id"] = self.name
        path = f"/v1/jobs/{held['task_id']}/{kind}"
        if session is None:
            status, _ = self._call(path, named)
        else:
            status, _ = self.wire.call(path, named, session=session)
        if status < 300:
            self.history.acks.append(Ack(kind, **held, content=content))


def surely(act: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Do what a person does at a console: again, until the database has answered."""
    for _ in range(TRIES_MAX):
        try:
            return act(*args, **named)
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(PAUSE_SECONDS)
    raise AssertionError(f"{act}: the database does not come back")


def expire(task_id: str) -> None:
    """Let the lease of the task run out: its holder sleeps longer than it lasts."""

    def pass_time() -> None:
        past = clock.now() - timedelta(seconds=1)
        Lease.objects.filter(job__task_id=task_id).update(expires_at=past)

    surely(pass_time)


def run(
    actors: list[Any],
    *,
    seconds: float,
    history: History,
    eventful: Callable[[], bool],
) -> None:
    """Let all actors live for so long, and wait until each has said its last word.

    On a machine that is slow they live on until their life was `eventful`, within limits.
    """

    def life(actor: Any) -> None:
        try:
            actor.live()
        except Exception as error:
            where = traceback.format_exc(limit=-3)
            history.faults.append(f"{type(actor).__name__}: {error!r} {where}")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=life, args=(actor,), daemon=True) for actor in actors]
    for thread in threads:
        thread.start()
    history.over.wait(seconds)
    give_up = time.monotonic() + EVENTFUL_SECONDS_MAX
    while not eventful() and time.monotonic() < give_up:
        history.over.wait(PAUSE_SECONDS)
    history.over.set()
    for thread in threads:
        thread.join(timeout=EVENTFUL_SECONDS_MAX)
        assert not thread.is_alive(), "an actor does not come to its end"
    # The database that it led to may have died meanwhile.
    connection.close()
