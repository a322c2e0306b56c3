"""Confinement: what a program may know of the worker that runs it, and as whom it runs.

A program gets the variables on a list and those that are passed to it by name; the worker's memory
and its own variables, the keys of its providers among them, are closed to programs of the same
account.  What a program can read in files it can read all the same: an account of its own
(`--run-as`) parts them for real.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Variables that a program gets as the worker has them.
INHERITED = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR"})
INHERITED_PREFIX = "LC_"
#: Ours: the control plane's token is among them. Those that a program is promised are set anew.
OWN_PREFIX = "FENCEPOST_"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PR_SET_DUMPABLE = 4
#: Who is let through a folder without being shown what is in it.
WAY_MODE = 0o711


class Unconfinable(Exception):
    """A program cannot be confined as asked. The message is one line for a person."""


@dataclass(frozen=True)
class Account:
    """An account of this machine that programs run under."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @classmethod
    def named(cls, name: str) -> "Account":
        """Find the account; only root can run programs under another.

        :raises Unconfinable: there is none of that name, it is root's, or this process is not
            root's.
        """
        if sys.platform == "win32":
            raise Unconfinable("--run-as: this system has no accounts that a program can be put in")
        import pwd

        if os.geteuid() != 0:
            raise Unconfinable("--run-as needs a worker that runs as root")
        try:
            entry = pwd.getpwnam(name)
        except KeyError as error:
            raise Unconfinable(f"--run-as: there is no account {name!r}") from error
        if entry.pw_uid == 0:
            raise Unconfinable("--run-as: root can read all that the worker can")
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)

    def own(self, *paths: Path) -> None:
        """Make the paths this account's."""
        for path in paths:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


@dataclass(frozen=True)
class Confinement:
    """What programs are given of this process: the variables `passed`, and the account."""

    passed: tuple[str, ...] = ()
    account: Account | None = None

    @classmethod
    def of(
        cls, *, passed: Iterable[str] = (), run_as: str = "", secret_names: Iterable[str] = ()
    ) -> "Confinement":
        """Make a confinement.

        :param passed: names of variables that programs get beside those on the list.
        :param secret_names: names of variables that hold keys, which no program may have.
        :raises Unconfinable: a name is one of ours or holds a key, or there is no such account.
        """
        names = tuple(dict.fromkeys(passed))
        for name in names:
            if name.startswith(OWN_PREFIX) or name in set(secret_names):
                raise Unconfinable(f"--pass: {name} is for the worker only")
        return cls(names, Account.named(run_as) if run_as else None)

    def environment(self, own: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables that a program inherits.

        :param own: the worker's variables; default those of this process.
        """
        own = os.environ if own is None else own
        found = {
            name: value
            for name, value in own.items()
            if name in INHERITED or name.startswith(INHERITED_PREFIX) or name in self.passed
        }
        return found if self.account is None else found | {"HOME": self.account.home}

    @property
    def launched_as(self) -> str:
        """Return the account as the launcher takes it: it changes to it before the program runs."""
        if self.account is None:
            return "-"
        groups = ",".join(map(str, self.account.groups))
        return f"{self.account.uid}:{self.account.gid}:{groups}"


def close_memory() -> bool:
    """Close this process' memory and variables to others of its account; return whether it is.

    Linux only: elsewhere a program of the same account can read them.  Source: prctl(2),
    PR_SET_DUMPABLE; proc(5).
    """
    if sys.platform != "linux":
        return False
    import ctypes

    closed: int = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return closed == 0


def loopback_direct(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which no proxy is asked for loopback, nor for what is named there."""
    listed = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    hosts = [host.strip() for host in listed.split(",") if host.strip()]
    hosts += [host for host in LOOPBACK if host not in hosts]
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(hosts))
