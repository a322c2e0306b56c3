"""`manage.py sweep`: the loop around the moves that end what has run out."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.urls import reverse

from governance.core.models import AuditEvent
from governance.evidence.models import AuditCheckpoint
from governance.relay.models import Pulse
from jobs import transitions
from jobs.management.commands import sweep
from jobs.metrics import gauges
from jobs.models import Attempt, Job
from tests import children
from tests.work import Running, expire_lease

LEASES = 3


def counted(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return counts


@pytest.fixture
def keys_of_the_test(settings: Any, tmp_path: Any) -> None:
    settings.DATA_DIR = tmp_path


def test_one_round_ends_seals_and_notes_its_pulse(
    running: Callable[..., Running], capsys: pytest.CaptureFixture[str]
) -> None:
    held = [running() for _ in range(LEASES)]
    for each in held:
        expire_lease(each.job)

    call_command("sweep", "--once", "--json", "--batch-size", "2")

    counts = counted(capsys)
    assert counts["ended"] == {"lease_expired": LEASES}
    assert counts["failed"] == {}
    assert counts["sealed"] == 1
    assert Attempt.objects.filter(outcome="lease_expired").count() == LEASES
    assert AuditCheckpoint.objects.count() == 1
    pulse = Pulse.objects.get(name="sweeper")
    assert pulse.details == {"ended": LEASES, "failures": {}, "chores": []}


def test_a_round_with_nothing_to_do_changes_nothing(
    make_job: Callable[..., Job], capsys: pytest.CaptureFixture[str]
) -> None:
    make_job()
    events = AuditEvent.objects.count()
    call_command("sweep", "--once", "--json", "--seal-interval", "0", "--prune-interval", "0")
    assert counted(capsys) == {
        "ended": {},
        "failed": {},
        "pruned": {"bodies": 0, "tombstones": 0, "facts": 0},
        "sealed": 0,
    }
    assert AuditEvent.objects.count() == events


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let the end of these jobs fail; the list of the jobs that were tried."""

    def make(*jobs: Job, error: Exception) -> list[str]:
        names = {job.task_id for job in jobs}
        tried: list[str] = []
        end = transitions.sweeping.end_if_due

        def end_unless_poisoned(*, task_id: str) -> str | None:
            tried.append(task_id)
            if task_id in names:
                raise error
            return end(task_id=task_id)

        monkeypatch.setattr(transitions.sweeping, "end_if_due", end_unless_poisoned)
        return tried

    return make


@pytest.mark.parametrize("error", [ValueError("poisoned"), KeyError("state"), TypeError("None")])
def test_a_job_that_cannot_be_handled_is_named_and_stops_nobody(
    running: Callable[..., Running],
    poison: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    poisoned, healthy = running(), running()
    expire_lease(poisoned.job), expire_lease(healthy.job)
    poison(poisoned.job, error=error)
    told = f"{type(error).__name__}: {error}"

    with pytest.raises(SystemExit, match=poisoned.job.task_id):
        call_command("sweep", "--once", "--json")

    counts = counted(capsys)
    assert counts["ended"] == {"lease_expired": 1}
    assert counts["failed"] == {poisoned.job.task_id: told}
    healthy.job.refresh_from_db()
    assert healthy.job.state == "queued"
    [(name, failure)] = Pulse.objects.get(name="sweeper").details["failures"].items()
    assert (name, failure["error"]) == (poisoned.job.task_id, told)


def test_what_the_sweeper_failed_at_waits_in_the_inbox_and_is_counted(
    running: Callable[..., Running], poison: Callable[..., list[str]], as_: Any
) -> None:
    held = running()
    expire_lease(held.job)
    poison(held.job, error=KeyError("state"))
    with pytest.raises(SystemExit):
        call_command("sweep", "--once", "--json")

    page = as_("viewer").get(reverse("admin:console_inbox")).content.decode()

    assert "KeyError: &#x27;state&#x27;" in page
    assert reverse("admin:jobs_job_change", args=(held.job.pk,)) in page
    [family] = [f for f in gauges() if f.name == "fencepost_sweep_failures"]
    assert [sample.value for sample in family.samples] == [1.0]


def test_poisoned_jobs_take_no_place_of_others(
    running: Callable[..., Running],
    poison: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    poisoned, healthy = [running() for _ in range(3)], [running() for _ in range(2)]
    for held in [*poisoned, *healthy]:  # so that the poisoned are the oldest
        expire_lease(held.job)
    tried = poison(*(held.job for held in poisoned), error=KeyError("state"))

    with pytest.raises(SystemExit):
        call_command("sweep", "--once", "--json", "--batch-size", "2")

    assert counted(capsys)["ended"] == {"lease_expired": 2}
    # Each poisoned one twice: past instants out of bounds as well.
    assert list(dict.fromkeys(tried)) == [held.job.task_id for held in [*poisoned, *healthy]]
    assert len(tried) == 2 * len(poisoned) + len(healthy)


@pytest.mark.parametrize(("interval", "taken"), [("86400", 1), ("0", 0)])
def test_a_round_takes_a_newer_price_list(
    world: None, monkeypatch: pytest.MonkeyPatch, interval: str, taken: int
) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(sweep.catalogue, "take_newer_list", lambda **by: asked.append(by))

    call_command("sweep", "--once", "--seal-interval", "0", "--prices-interval", interval)

    assert [each["actor"] for each in asked] == ["system:sweeper"] * taken


def test_a_process_looks_for_newer_prices_once_a_day(
    world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, steady, asked = sweep.Command(), [0.0], []
    command.stop, command.failures, command.broken = (
        threading.Event(),
        transitions.Failures(),
        set(),
    )
    command.options = {
        "batch_size": 10,
        "seal_interval": 0,
        "prune_interval": 0,
        "prices_interval": sweep.PRICES_SECONDS,
    }
    command._due = {"prices": 0.0}
    monkeypatch.setattr(sweep.time, "monotonic", lambda: steady[0])
    monkeypatch.setattr(sweep.catalogue, "take_newer_list", lambda **by: asked.append(steady[0]))

    for steady[0] in (5.0, 60.0, 86_004.0, 86_405.0, 86_406.0):
        command._round()

    assert asked == [5.0, 86_405.0]


def test_a_chore_that_fails_is_told_and_ends_nothing(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    expire_lease(running().job)
    command = sweep.Command()
    command.stop, command.failures, command.broken = (
        threading.Event(),
        transitions.Failures(),
        set(),
    )
    command.options = {
        "batch_size": 10,
        "seal_interval": 1,
        "prune_interval": 0,
        "prices_interval": 0,
    }
    command.untold = transitions.Failures()
    command._due = {"prune": 0.0, "seal": 0.0}
    monkeypatch.setattr(sweep.runs, "advance_abandoned", lambda: {}["missing"])

    command._round()
    command._round()

    assert Pulse.objects.get(name="sweeper").details["chores"] == ["console"]
    assert AuditCheckpoint.objects.count() == 1
    assert Attempt.objects.filter(outcome="lease_expired").count() == 1


def test_a_job_rests_longer_after_each_failure_and_is_forgotten_when_it_is_ended(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch, poison: Any
) -> None:
    held = running()
    expire_lease(held.job)
    steady = [0.0]
    monkeypatch.setattr(transitions.sweeping.time, "monotonic", lambda: steady[0])
    failures = transitions.Failures()
    with monkeypatch.context() as patched:
        patched.setattr(transitions.sweeping, "end_if_due", lambda *, task_id: {}[task_id])
        tries = []
        for steady[0] in (0.0, 9.0, 11.0, 30.0, 32.0):
            report = transitions.sweep(failures=failures)
            tries.append(report.found)
    assert tries == [1, 0, 1, 0, 1]
    assert list(failures.as_json()) == [held.job.task_id]

    steady[0] = 1000.0
    assert transitions.sweep(failures=failures).ended == {"lease_expired": 1}
    assert failures.as_json() == {}


def test_a_database_that_goes_away_is_no_fault_of_a_job(
    running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch, poison: Any
) -> None:
    held = running()
    expire_lease(held.job)
    poison(held.job, error=OperationalError("the connection is lost"))
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    failures = transitions.Failures()

    with pytest.raises(OperationalError):
        transitions.sweep(failures=failures)

    assert failures.as_json() == {}


@pytest.mark.django_db(transaction=True)
def test_several_sweepers_end_each_lease_once_and_end_on_sigterm(
    running: Callable[..., Running],
) -> None:
    held = [running() for _ in range(LEASES)]
    sweepers = [children.start("sweep", "--interval", "0.05") for _ in range(2)]
    try:
        for sweeper in sweepers:
            assert sweeper.stdout is not None
            # From this line on it hears signals.
            assert sweeper.stdout.readline() == "Sweeping.\n"
        for each in held:
            expire_lease(each.job)
        _until_swept()
    finally:
        for sweeper in sweepers:
            sweeper.send_signal(signal.SIGTERM)
        outputs = [sweeper.communicate(timeout=20)[0] for sweeper in sweepers]
    assert [sweeper.returncode for sweeper in sweepers] == [0, 0], outputs
    expired = AuditEvent.objects.filter(action="job.lease_expired")
    assert expired.count() == LEASES
    assert expired.values("subject").distinct().count() == LEASES


def _until_swept() -> None:
    never = threading.Event()
    for _ in range(200):
        if Attempt.objects.filter(outcome="lease_expired").count() == LEASES:
            return
        never.wait(0.1)
    raise AssertionError("nobody swept in time")
