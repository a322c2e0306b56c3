"""Becomes the program given on the command line, bound to die with the worker that started it.

Run by path, isolated, as `launcher.py PARENT_PID ACCOUNT PROGRAM ARGS...`: a hook between fork and
exec in a process with threads could deadlock, and a small process of its own cannot.  ACCOUNT is
`UID:GID:GROUP,...`, which the program gets, or `-`.
"""

import os
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
SIGKILL = 9


def main() -> None:
    """Bind this process to its parent and replace it by the program."""
    parent, account, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # Found now: the other account may not reach where this one's libraries are.
    bind = binding() if sys.platform == "linux" else None
    if account != "-":
        become(account)
    if bind is not None:
        # Last: a change of the account takes the binding away.
        bind()
        if os.getppid() != parent:
            # It died before the binding held.
            os._exit(SIGKILL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - that is what this file is for
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        os._exit(127)


def binding() -> Callable[[], None]:
    """Return what binds this process to its parent's life."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def become(account: str) -> None:
    """Give up this account, for good, for the one that is named."""
    user, group, groups = account.split(":")
    os.setgroups([int(each) for each in groups.split(",") if each])
    os.setgid(int(group))
    os.setuid(int(user))


main()
