"""What the worker does where that is missing which POSIX or Linux has; tested by hiding it."""

import os
import signal
import subprocess
import sys

import pytest

from fencepost_worker import durable, processes, timing, workspace
from fencepost_worker.workspace import ArtifactRefused, Workspaces
from tests.settings import WORKER_SOURCE
from tests.worker.test_distribution import LAUNCHER

#: Modules and names that only POSIX has, or only Linux.
MODULES = ("fcntl", "grp", "posix_ipc", "pwd", "resource", "termios", "syslog")
NAMES = {
    "os": ("killpg", "waitid", "WNOWAIT", "WEXITED", "P_PID", "O_DIRECTORY", "O_NOFOLLOW",
           "O_NONBLOCK", "O_CLOEXEC", "getuid", "setsid", "fork"),
    "signal": ("SIGKILL", "SIGSTOP", "SIGCONT", "SIGHUP", "set_wakeup_fd"),
    "time": ("clock_gettime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"),
}  # fmt: skip
IMPORT_ALL = f"""
import sys
for name in {MODULES!r}:
    sys.modules[name] = None
import asyncio, cryptography, filelock, httpx2, jsonschema, multiprocessing, rfc8785, shutil
import subprocess, tempfile, uuid_utils.compat, os, signal, time
import genai_prices, starlette.applications, uvicorn
for module, names in {NAMES!r}.items():
    for name in names:
        delattr(sys.modules[module], name)
import importlib, pkgutil, fencepost_worker
count = 0
for module in pkgutil.walk_packages(fencepost_worker.__path__, "fencepost_worker."):
    if module.name != {LAUNCHER!r}:
        importlib.import_module(module.name)
        count += 1
from fencepost_worker import processes, timing
print(count, len(processes.shortcomings()), timing.steady_now() > 0)
"""


def test_every_module_is_imported_where_posix_is_not():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        env=os.environ | {"PYTHONPATH": str(WORKER_SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, shortcomings, clock = done.stdout.split()
    assert int(count) > 20
    assert (int(shortcomings), clock) == (2, "True")


#: Refuses, before it imports what knows accounts, where there are none.
SAID_BEFORE = {"confinement.py": {"pwd"}}


def test_no_module_imports_what_only_posix_has():
    """The control of the test before: a module may hide its import in a function."""
    for path in (WORKER_SOURCE / "fencepost_worker").rglob("*.py"):
        words = [line.split() for line in path.read_text().splitlines()]
        imported = {line[1] for line in words if line[:1] in (["import"], ["from"])}
        hidden = imported - SAID_BEFORE.get(path.name, set())
        assert not hidden & {*MODULES}, path.name


def test_on_linux_nothing_is_missing():
    assert processes.shortcomings() == []


def test_a_system_without_groups_is_told_what_is_missing(monkeypatch):
    monkeypatch.setattr(processes, "HAS_GROUPS", False)
    monkeypatch.setattr(processes, "CAN_SUSPEND", False)
    monkeypatch.setattr(sys, "platform", "win32")
    assert len(processes.shortcomings()) == 3


def test_without_groups_the_program_itself_is_ended(monkeypatch):
    monkeypatch.setattr(processes, "HAS_GROUPS", False)
    monkeypatch.setattr(processes, "CAN_SUSPEND", False)
    monkeypatch.setattr(processes, "CAN_WAIT_WITHOUT_REAPING", False)
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    processes.suspend(program.pid)
    processes.kill(program.pid)
    processes.await_exit(program)
    assert program.returncode == -signal.SIGKILL
    processes.ask_to_end(program.pid)


def test_a_group_that_has_ended_is_no_fault():
    program = subprocess.Popen([sys.executable, "-c", ""], **processes.own_group())
    program.wait()
    for change in (processes.kill, processes.suspend, processes.resume, processes.ask_to_end):
        change(program.pid)
    assert processes.started_ticks(program.pid) is None


def test_without_a_clock_that_counts_sleep_there_is_another(monkeypatch):
    monkeypatch.setattr(timing, "STEADY_CLOCK", None)
    before = timing.steady_now()
    assert timing.steady_now() >= before > 0


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path):
    lock = durable.FolderLock(tmp_path)
    with pytest.raises(durable.FolderBusy, match="another worker"):
        durable.FolderLock(tmp_path)
    lock.release()
    durable.FolderLock(tmp_path).release()


def test_the_lock_of_a_folder_dies_with_its_process(tmp_path):
    source = (
        "import os, pathlib, sys\n"
        "from fencepost_worker.durable import FolderLock\n"
        "FolderLock(pathlib.Path(sys.argv[1]))\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(WORKER_SOURCE)},
        check=False,
    )
    assert done.returncode == -9
    durable.FolderLock(tmp_path).release()


@pytest.mark.parametrize("by_handle", [True, False])
@pytest.mark.parametrize("name", ["link", "folder/link", "folder", "missing", "through/file"])
def test_an_artifact_is_taken_from_inside_the_folder_only(tmp_path, monkeypatch, by_handle, name):
    monkeypatch.setattr(workspace, "CAN_OPEN_INSIDE", by_handle)
    workspaces = Workspaces(tmp_path)
    own = workspaces.open(task_id="task-1", attempt=1)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("precious")
    (own.artifacts / "folder").mkdir()
    (own.artifacts / "folder" / "file").write_text("mine")
    (own.artifacts / "link").symlink_to(tmp_path / "outside" / "file")
    (own.artifacts / "folder" / "link").symlink_to(tmp_path / "outside" / "file")
    (own.artifacts / "through").symlink_to(tmp_path / "outside")

    with pytest.raises(ArtifactRefused):
        workspaces.keep(own, [{"name": name}])
    [kept] = workspaces.keep(own, [{"name": "folder/file"}])
    assert workspaces.path_of(kept["sha256"]).read_text() == "mine"
