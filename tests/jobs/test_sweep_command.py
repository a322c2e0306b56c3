"""`manage.py sweep`: the loop around the moves that end what has run out."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command

from governance.models import AuditCheckpoint, AuditEvent, Pulse
from jobs import transitions
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
    assert Pulse.objects.get(name="sweeper").details == {"ended": LEASES, "failed": []}


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


def test_a_job_that_cannot_be_handled_is_named_and_stops_nobody(
    running: Callable[..., Running],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    poisoned, healthy = running(), running()
    expire_lease(poisoned.job), expire_lease(healthy.job)
    end = transitions.sweeping.end_if_due

    def end_unless_poisoned(*, task_id: str) -> str | None:
        if task_id == poisoned.job.task_id:
            raise ValueError("poisoned")
        return end(task_id=task_id)

    monkeypatch.setattr(transitions.sweeping, "end_if_due", end_unless_poisoned)

    with pytest.raises(SystemExit, match=poisoned.job.task_id):
        call_command("sweep", "--once", "--json")

    counts = counted(capsys)
    assert counts["ended"] == {"lease_expired": 1}
    assert counts["failed"] == {poisoned.job.task_id: "poisoned"}
    healthy.job.refresh_from_db()
    assert healthy.job.state == "queued"


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
