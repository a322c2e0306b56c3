"""Workers whose effects leave the house, and the operators who look after what is unknown."""

from __future__ import annotations

import sys
import time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from django.db.models import F
from uuid_utils.compat import uuid7

from agents.transitions import epochs
from agents.transitions.admission import set_admission
from governance.core import clock, digests
from governance.core.errors import DomainError
from governance.money import catalogue, ledger
from governance.money.models import BudgetWindow
from jobs import executions, transitions
from jobs.models import Execution, Job, Lease
from tests.simulation.installation import Daemon
from tests.simulation.lives import (
    AGENTS,
    OPERATOR,
    PAUSE_SECONDS,
    Ack,
    History,
    Wire,
    Worker,
    expire,
    surely,
)
from tests.simulation.outside import Outside

#: Tokens of a call: what is reserved (0.2 at one and two per million), and what is used.
ESTIMATE = {"estimated_input_tokens": 100_000, "max_output_tokens": 50_000}
USED = {"input_tokens": 10, "output_tokens": 10}
OVERUSED = {"input_tokens": 250_000, "output_tokens": 10}
#: Room for so many calls at a time, so that it is short from time to time.
CAP = Decimal("2.4")

# A worker process whose clocks are wrong: `RATE` seconds of its steady clock pass in a true one,
# and its calendar, from which it makes keys, is `AHEAD` seconds ahead.
SKEWED = """
import secrets, sys, time
from uuid import UUID
import uuid_utils.compat
from fencepost_worker import timing

rate, ahead = float(sys.argv[1]), float(sys.argv[2])
true_now = timing.steady_now
timing.steady_now = lambda: true_now() * rate

def uuid7():
    ms = int((time.time() + ahead) * 1000)
    drawn = secrets.randbits(74)
    return UUID(int=ms << 80 | 7 << 76 | drawn >> 62 << 64 | 2 << 62 | drawn & (1 << 62) - 1)

uuid_utils.compat.uuid7 = uuid7
from fencepost_worker.__main__ import main
sys.exit(main(sys.argv[3:]))
"""


class GovernedWorker(Worker):
    """Goes route, permit, start, effect, result; is lost, fenced or late at every step."""

    agent = "openclaw"

    def __init__(self, name: str, wire: Wire, outside: Outside) -> None:
        super().__init__(name, wire, activated=True)
        self.outside = outside

    def _work(self, job: dict[str, Any]) -> None:
        held = {name: job[name] for name in ("task_id", "attempt", "fencing_token")}
        request_id = digests.external_request_id(
            task_id=job["task_id"],
            job_id=job["job_id"],
            execution_digest=job["execution_digest"],
            runtime=job["runtime"],
            attempt=job["attempt"],
        )
        # Whatever happens on the way: unless `_act` was reached, nobody acts under this id.
        if not self._go(job, held, held | {"external_request_id": request_id}):
            self.outside.forswear(request_id)

    def _go(self, job: dict[str, Any], held: dict[str, Any], binding: dict[str, Any]) -> bool:
        """Go the governed way as far as luck allows; return whether the effect was done."""
        fate = self.random.random()
        reservation = self._route(held, binding)
        if reservation is None:
            self._fail(held)
            return False
        if fate < 0.05:
            expire(held["task_id"])  # vanished with a reservation
            return False
        permit = self._permit(held, binding, reservation, job["revision"])
        if permit is None:
            return False
        if fate < 0.1:
            self._boot()  # a newer process takes the place of this one
        elif fate < 0.2:
            expire(held["task_id"])  # overslept before the start
        if not self._start(held, job, binding, permit):
            return False
        if fate < 0.26:
            expire(held["task_id"])  # lost between start and effect
            return False
        if fate < 0.3:
            self._result(held, job, binding, "not_started")
            self._fail(held)
            return False
        self.outside.act(binding["external_request_id"])
        if fate < 0.38:
            expire(held["task_id"])  # lost after the effect, with its outcome
        elif fate < 0.5:
            expire(held["task_id"])  # says so too late: evidence, or just in time
            self.late.append(lambda: self._result(held, job, binding, "succeeded"))
        elif fate < 0.6:
            self._result(held, job, binding, "failed")
            self._fail(held)
        else:
            self._result(held, job, binding, "succeeded")
            self._complete(held)
        return True

    def _route(self, held: dict[str, Any], binding: dict[str, Any]) -> str | None:
        of = digests.route_request_id(external_request_id=binding["external_request_id"])
        body = binding | ESTIMATE | {"route_request_id": of}
        status, told = self._call("/v1/routes", body, key=str(uuid7()))
        if status != 200:
            return None
        reservation: str = told["reservation"]["reservation_id"]
        self.history.acks.append(Ack("route", **held, content=reservation))
        return reservation

    def _permit(
        self, held: dict[str, Any], binding: dict[str, Any], reservation: str, revision: int
    ) -> str | None:
        body = binding | {"reservation_id": reservation, "mode": "mock"}
        for _ in range(3):
            asked = body | {"expected_revision": revision}
            status, told = self._call("/v1/executions/permits", asked, key=str(uuid7()))
            if status == 201:
                self.history.acks.append(Ack("permit", **held, content=told["permit_id"]))
                return str(told["permit_id"])
            if told["reason"] != "REVISION_MISMATCH":
                return None
            revision = told["current"]["revision"]
        return None

    def _start(
        self, held: dict[str, Any], job: dict[str, Any], binding: dict[str, Any], permit: str
    ) -> bool:
        body = binding | {
            "permit_id": permit,
            "execution_digest": job["execution_digest"],
            "runtime": job["runtime"],
            "request_sha256": "ab" * 32,
        }
        status, told = self._call("/v1/executions", body, key=str(uuid7()))
        if status >= 300 or told["decision"] != "issued" or not told["may_begin"]:
            return False
        self.history.acks.append(Ack("start", **held, content=binding["external_request_id"]))
        return True

    def _result(
        self, held: dict[str, Any], job: dict[str, Any], binding: dict[str, Any], outcome: str
    ) -> None:
        usage = OVERUSED if self.random.random() < 0.02 else USED
        body = held | {
            "execution_digest": job["execution_digest"],
            "outcome": outcome,
            "result_sha256": digests.sha256_hex(self.name.encode()),
            "usage": usage if outcome == "succeeded" else None,
        }
        request_id = binding["external_request_id"]
        path = f"/v1/executions/{request_id}/result"
        status, told = self._call(path, body, key=str(uuid7()))
        if status < 300:
            said = (request_id, outcome, told["result_code"])
            self.history.acks.append(Ack("result", **held, content=said))


def worker_process(
    name: str, *, url: str, endpoint: str, token: str, data: Path, rate: float, ahead: float
) -> Daemon:
    """Return the real worker, on a clock that runs wrong, with its journal in `data`."""
    command = [sys.executable, "-c", SKEWED, str(rate), str(ahead)]
    command += ["--url", url, "--agent", "agent_zero", "--cell-id", name, "--data", str(data)]
    command += ["--runtime", "http", "--endpoint", endpoint, "--wait-seconds", "1"]
    command += ["--lease-seconds", "60"]
    log = data.parent / f"{name}.log"
    return Daemon(name, command, log=log, FENCEPOST_TOKEN=token, PYTHONPATH=str(_ROOT))


_ROOT = Path(__file__).resolve().parents[2]


class Operator:
    """Steers jobs, closes and opens agents, rotates the epoch, and says what is known outside."""

    def __init__(self, outside: Outside, random: Random, history: History) -> None:
        self.outside, self.random, self.history = outside, random, history

    def live(self) -> None:
        acts = [self._steer, self._steer, self._reconcile, self._reconcile, self._oversleep,
                self._rework, self._close, self._give_money, self._audit]  # fmt: skip
        next_epoch = time.monotonic() + 2
        while not self.history.over.wait(PAUSE_SECONDS * self.random.random()):
            self.random.choice(acts)()
            if time.monotonic() > next_epoch:
                surely(epochs.rotate, **OPERATOR)
                next_epoch = time.monotonic() + 4 + 4 * self.random.random()

    def _may(self, act: Any, **named: Any) -> None:
        try:
            surely(act, **named, **OPERATOR)
        except DomainError as refusal:
            self.history.refusals[f"operator:{refusal.reason}"] += 1

    def _steer(self) -> None:
        open_jobs = Job.objects.filter(finished_at=None).order_by("-id")
        tasks = surely(lambda: list(open_jobs.values_list("task_id", flat=True)[:20]))
        if tasks:
            move = self.random.choice(["pause", "resume", "resume", "extend", "stop"])
            asked = {"extra": 1} if move == "extend" else {}
            self._may(getattr(transitions, move), task_id=self.random.choice(tasks), **asked)

    def _oversleep(self) -> None:
        """Let the machine of a real worker process sleep through its lease."""
        leases = Lease.objects.filter(job__agent__name="agent_zero")
        tasks = surely(lambda: list(leases.values_list("job__task_id", flat=True)))
        if tasks and self.random.random() < 0.2:
            expire(self.random.choice(tasks))

    def _reconcile(self) -> None:
        for execution in surely(unknown_executions)[:10]:
            reconcile(execution, self.outside, self._may)

    def _rework(self) -> None:
        failed = Job.objects.filter(state="failed", unresolved_executions=0)
        tasks = surely(lambda: list(failed.values_list("task_id", flat=True)[:20]))
        if tasks:
            extra = self.random.choice([None, 1])
            self._may(transitions.rework, task_id=self.random.choice(tasks), extra=extra)

    def _close(self) -> None:
        agent = self.random.choice(AGENTS)
        self._admit(agent, "closed")
        closed_at = surely(clock.now)
        self.history.over.wait(PAUSE_SECONDS * self.random.random())
        self.history.closed.append((agent, closed_at, surely(clock.now)))
        self._admit(agent, "open")

    @staticmethod
    def _admit(agent: str, state: str) -> None:
        # The barrier's id is the identity: asked again after a lost answer, it moves nothing.
        barrier_id = str(uuid7())
        surely(set_admission, agent=agent, state=state, barrier_id=barrier_id, **OPERATOR)

    def _give_money(self) -> None:
        """Raise the cap over what over-runs have taken from it."""
        window = surely(BudgetWindow.objects.select_related("budget").first)
        if window is not None and window.budget.cap < window.spent + CAP / 2:
            surely(give_money, window.spent + CAP)

    def _audit(self) -> None:
        """The books agree at every moment, not only in the end."""
        if self.random.random() < 0.1:
            self.history.faults += [
                f"meanwhile: {d}" for d in surely(lambda: list(ledger.verify()))
            ]


def give_money(cap: Decimal) -> None:
    catalogue.set_budget(scope="global", window="none", cap=cap, **OPERATOR)


def unknown_executions() -> list[Execution]:
    """Return what nobody has a result or a verdict for, and whose attempt does not run."""
    found = Execution.objects.select_related("job").filter(
        state="unknown",
        job__attempts__number=F("attempt"),
        job__attempts__ended_at__isnull=False,
    )
    return list(found.exclude(reconciliations__verdict__in=["happened", "not_happened"]))


def reconcile(execution: Execution, outside: Outside, may: Any, *, over: bool = False) -> None:
    """Say what the outside says; nothing where somebody might still act."""
    request_id = execution.external_request_id
    if outside.effects.get(request_id):
        verdict = "happened"
    elif over or request_id in outside.forsworn:
        verdict = "not_happened"
    elif not execution.reconciliations.exists():
        verdict = "undetermined"
    else:
        return
    evidence = {"seen_in": "the log of the other side"}
    may(executions.reconcile, external_request_id=request_id, verdict=verdict, evidence=evidence)


class Misfortune:
    """Kills one part of the installation after another, in the middle of whatever it does."""

    def __init__(
        self, parts: list[Any], random: Random, history: History, *, every_s: float
    ) -> None:
        self.parts, self.random, self.history, self.every_s = parts, random, history, every_s

    def live(self) -> None:
        turn = 0
        while not self.history.over.wait(self.every_s * (0.5 + self.random.random())):
            part = self.parts[turn % len(self.parts)]
            part.kill()
            part.start()
            turn += 1
