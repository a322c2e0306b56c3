"""Child processes end with their parent, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from governance.local import processes
from governance.local.processes import Children, KeepsFailing

NOTICE_SECONDS = 20.0
FOREVER = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
PARENT = """
import sys, signal
from pathlib import Path
from governance.local.processes import Children
folder = Path(sys.argv[1])
children = Children(folder, folder, {})
print(children.start("one", [sys.executable, "-c", "import signal; signal.pause()"]).process.pid)
sys.stdout.flush()
signal.pause()
"""


@pytest.fixture
def children(tmp_path: Path):
    made = Children(tmp_path, tmp_path, dict(os.environ))
    yield made
    made.stop()


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + NOTICE_SECONDS
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


def test_a_child_dies_when_its_parent_is_killed(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(processes.__file__).parents[2],
    )
    assert parent.stdout
    with parent.stdout as told:
        child = int(told.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    assert eventually(lambda: not alive(child))


def test_stopping_ends_all_and_nobody_else(children):
    bystander = subprocess.Popen(FOREVER, stdout=subprocess.DEVNULL)
    pids = [children.start(name, FOREVER).process.pid for name in ("one", "two")]
    children.stop()
    assert not any(map(alive, pids))
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_child_that_ignores_sigterm_is_killed(children, monkeypatch):
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    deaf = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"
    child = children.start("deaf", [sys.executable, "-c", deaf + "; [signal.pause() for _ in [0]]"])
    assert eventually(lambda: "deaf" in child.log.read_text())
    children.stop()
    assert child.process.returncode == -signal.SIGKILL


def test_a_child_that_ended_is_started_again(children):
    child = children.start("one", FOREVER)
    first = child.process
    first.kill()
    first.wait()
    assert children.restart_ended() == [child]
    assert child.process.pid != first.pid
    assert children.restart_ended() == []


def test_what_an_ended_child_left_behind_is_gone_before_the_next_starts(children):
    left = f"import subprocess, sys; print(subprocess.Popen({FOREVER!r}).pid, flush=True)"
    child = children.start("one", [sys.executable, "-c", left])
    child.process.wait()
    pids = [int(word) for word in child.log.read_text().split() if word.isdecimal()]
    assert len(pids) == 1 and alive(pids[0])

    assert children.restart_ended() == [child]

    assert eventually(lambda: not alive(pids[0]))


def test_a_child_that_keeps_ending_is_given_up_in_one_line(children):
    child = children.start("one", [sys.executable, "-c", ""])
    with pytest.raises(KeepsFailing, match=r"one keeps ending; its log is .*one\.log"):
        for _ in range(processes.RESTARTS_MAX + 1):
            child.process.wait()
            children.restart_ended()
