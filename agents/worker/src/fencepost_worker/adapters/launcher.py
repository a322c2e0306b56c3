"""Becomes the program given on the command line, bound to die with the worker that started it.

Run by path, isolated, as `launcher.py PARENT_PID PROGRAM ARGS...`: a hook between fork and exec in
a process with threads could deadlock, and a small process of its own cannot.
"""

import os
import sys

PR_SET_PDEATHSIG = 1
SIGKILL = 9


def main() -> None:
    """Bind this process to its parent and replace it by the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            # It died before the binding held.
            os._exit(SIGKILL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - that is what this file is for
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        os._exit(127)


main()
