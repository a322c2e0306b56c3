"""Process groups and signals: what the worker needs of the operating system to end its programs.

Linux is what this is tested on.  Elsewhere a program is ended by itself and without its children,
cannot be made to stand still, and one that outlived its worker is not recognized after a restart;
`shortcomings` says so.
"""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

log = logging.getLogger("fencepost_worker")

#: Signals have groups, and stopped processes, on POSIX only.
HAS_GROUPS = hasattr(os, "killpg")
CAN_SUSPEND = HAS_GROUPS and hasattr(signal, "SIGSTOP") and hasattr(signal, "SIGCONT")
#: An exit can be awaited without taking the process's number from it.
CAN_WAIT_WITHOUT_REAPING = hasattr(os, "waitid") and hasattr(os, "WNOWAIT")


def shortcomings() -> list[str]:
    """Return what this system does not let the worker do, a sentence each; on Linux nothing."""
    missing = []
    if not HAS_GROUPS:
        missing.append("A program that is ended leaves its children running.")
    if not CAN_SUSPEND:
        missing.append("A paused job's program goes on.")
    if not sys.platform.startswith("linux"):
        missing.append("Programs do not end with a worker that is killed, nor at its next start.")
    return missing


def own_group() -> dict[str, Any]:
    """Return the options of `subprocess.Popen` that give a program a group of its own."""
    if HAS_GROUPS:
        return {"start_new_session": True}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


def ask_to_end(pid: int) -> None:
    """Ask the program and its group to end; also when they stand still."""
    _signal(pid, signal.SIGTERM)
    resume(pid)


def kill(pid: int) -> None:
    """End the program and its group at once."""
    _signal(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def suspend(pid: int) -> None:
    """Make the program and its group stand still, where that can be."""
    if CAN_SUSPEND:
        _signal(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """Let the program and its group go on."""
    if CAN_SUSPEND:
        _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    try:
        if HAS_GROUPS:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        log.debug("the program's group has ended")
    except PermissionError:
        # Of a group that has ended, other systems may say that.
        if sys.platform.startswith("linux"):
            raise


def await_exit(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has ended, and leave its number taken where that can be.

    So a signal to its group hits nobody else until it is reaped.
    """
    if CAN_WAIT_WITHOUT_REAPING:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def started_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot, or None where unknown.

    With the pid it names one process for ever; a pid alone is reused. Source: proc(5), field 22.
    """
    try:
        line = Path(f"/proc/{int(pid)}/stat").read_text()
    except OSError:
        return None
    return int(line.rpartition(")")[2].split()[19])
