"""The barrier: after a close has answered, no claim of an older generation commits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from unittest import mock

import pytest
from django.db import connections

from agents import entry as gate
from agents.entry import Entry
from agents.models import Agent
from agents.transitions.admission import set_admission
from agents.transitions.inhibits import inhibit
from agents.transitions.principals import Settings, configure_agent
from agents.transitions.sessions import Boot, activate
from governance.core.errors import (
    AdmissionClosed,
    DomainError,
    MaintenanceInhibited,
    RiskNotAllowed,
)
from jobs import transitions
from jobs.models import Attempt
from jobs.transitions import claims

pytestmark = pytest.mark.django_db(transaction=True)

CLAIMERS = 64
WAIT_SECONDS = 20.0
#: How long a close that should be waiting is watched.
WATCH_SECONDS = 0.3
NO_LOCK = "SELECT %s::int, %s::int"
BY = {"actor": "user:anna", "reason": "close"}


class Crowd:
    """Claimers that have been admitted and do not commit until they are let go."""

    def __init__(self, principal, jobs):
        self.principal, self.jobs = principal, jobs
        self.admitted = threading.Semaphore(0)
        self.go = threading.Event()
        self.pool = ThreadPoolExecutor(max_workers=len(jobs))
        self.check = claims.check_admission

    def __enter__(self):
        def hold(caller):
            self.check(caller)
            self.admitted.release()
            self.go.wait(WAIT_SECONDS)

        self.patch = mock.patch.object(claims, "check_admission", hold)
        self.patch.start()
        self.claims = [
            self.pool.submit(self._claim, number, job) for number, job in enumerate(self.jobs)
        ]
        for _ in self.jobs:
            assert self.admitted.acquire(timeout=WAIT_SECONDS)
        return self

    def __exit__(self, *_):
        self.go.set()
        self.pool.shutdown(wait=True)
        self.patch.stop()

    def _claim(self, number, job):
        try:
            entry = Entry(self.principal, f"worker-{number}")
            return transitions.claim(entry=entry, task_id=job.task_id, owner="").outcome
        finally:
            connections.close_all()

    def finish(self):
        self.go.set()
        return [claim.result(WAIT_SECONDS) for claim in self.claims]


def close():
    return set_admission(agent="hermes", state="closed", barrier_id="b", **BY)


def in_background(function, *args, **kwargs):
    pool = ThreadPoolExecutor(max_workers=1)

    def run():
        try:
            return function(*args, **kwargs), Attempt.objects.count()
        finally:
            connections.close_all()

    future = pool.submit(run)
    pool.shutdown(wait=False)
    return future


def test_a_close_returns_when_no_older_claim_can_commit(hermes, make_job):
    jobs = [make_job() for _ in range(CLAIMERS)]
    late = make_job()
    with Crowd(hermes, jobs) as crowd:
        closing = in_background(close)
        with pytest.raises(StillWaiting):
            closing.result(WATCH_SECONDS)
        assert Agent.objects.get(name="hermes").admission == "open"
        assert crowd.finish() == ["claimed"] * CLAIMERS
        _, at_close = closing.result(WAIT_SECONDS)

    assert at_close == CLAIMERS
    with pytest.raises(AdmissionClosed):
        transitions.claim(entry=Entry(hermes, "late"), task_id=late.task_id, owner="")
    assert Attempt.objects.count() == CLAIMERS


def test_control_without_the_lock_claims_commit_after_the_close(hermes, make_job):
    jobs = [make_job() for _ in range(4)]
    with mock.patch.object(gate, "LOCK_SHARED", NO_LOCK), Crowd(hermes, jobs) as crowd:
        _, at_close = in_background(close).result(WAIT_SECONDS)
        crowd.finish()
    assert at_close == 0
    assert Attempt.objects.count() == len(jobs)


def test_a_claim_that_comes_while_a_close_waits_sees_it_closed(hermes, make_job):
    jobs = [make_job() for _ in range(2)]
    late = make_job()
    with Crowd(hermes, jobs) as crowd:
        closing = in_background(close)
        with pytest.raises(StillWaiting):
            closing.result(WATCH_SECONDS)
        behind = in_background(
            transitions.claim, entry=Entry(hermes, "late"), task_id=late.task_id, owner=""
        )
        with pytest.raises(StillWaiting):
            behind.result(WATCH_SECONDS)
        crowd.finish()
        closing.result(WAIT_SECONDS)
        with pytest.raises(AdmissionClosed):
            behind.result(WAIT_SECONDS)
    assert Attempt.objects.count() == 2


def test_an_inhibit_is_a_barrier_too(hermes, openclaw, make_job):
    jobs = [make_job() for _ in range(2)]
    late = make_job()
    with Crowd(hermes, jobs) as crowd:
        setting = in_background(inhibit, **BY)
        with pytest.raises(StillWaiting):
            setting.result(WATCH_SECONDS)
        crowd.finish()
        _, at_set = setting.result(WAIT_SECONDS)
    assert at_set == 2
    with pytest.raises(MaintenanceInhibited):
        transitions.claim(entry=Entry(hermes, "late"), task_id=late.task_id, owner="")


def test_lowering_the_highest_risk_is_a_barrier_too(hermes, make_job):
    jobs = [make_job(risk_tier="medium") for _ in range(2)]
    late = make_job(risk_tier="medium")
    with Crowd(hermes, jobs) as crowd:
        lowering = in_background(
            configure_agent, name="hermes", settings=Settings(max_risk_tier="low"), **BY
        )
        with pytest.raises(StillWaiting):
            lowering.result(WATCH_SECONDS)
        crowd.finish()
        _, at_lowering = lowering.result(WAIT_SECONDS)
    assert at_lowering == 2
    with pytest.raises(RiskNotAllowed):
        transitions.claim(entry=Entry(hermes, "late"), task_id=late.task_id, owner="")


def test_a_newer_boot_waits_for_the_writes_of_the_older(hermes, make_job):
    jobs = [make_job() for _ in range(2)]
    boot = Boot(cell_id="cell", boot_id="boot", protocol_version="1.0")
    with Crowd(hermes, jobs) as crowd:
        starting = in_background(
            activate, principal=hermes, agent="hermes", operation_id="op", boot=boot
        )
        with pytest.raises(StillWaiting):
            starting.result(WATCH_SECONDS)
        crowd.finish()
        answer, _ = starting.result(WAIT_SECONDS)
    assert answer["session_generation"] == 1


def test_of_many_boots_at_once_one_is_current(hermes):
    def start(number):
        try:
            boot = Boot(cell_id="cell", boot_id=f"boot-{number}", protocol_version="1.0")
            return activate(
                principal=hermes, agent="hermes", operation_id=f"op-{number}", boot=boot
            )["session_generation"]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=8) as pool:
        generations = list(pool.map(start, range(8)))
    assert sorted(generations) == list(range(1, 9))
    current = Agent.objects.get(name="hermes").sessions.filter(kind="activated", state="current")
    assert current.get().generation == 8


def test_of_two_closes_with_one_expected_generation_one_wins(hermes):
    def move(number):
        try:
            return set_admission(
                agent="hermes",
                state="closed",
                barrier_id=f"b-{number}",
                expected_generation=1,
                **BY,
            ).generation
        except DomainError as refusal:
            return refusal.reason
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = sorted(map(str, pool.map(move, range(2))))
    assert outcomes == ["2", "GENERATION_MISMATCH"]
