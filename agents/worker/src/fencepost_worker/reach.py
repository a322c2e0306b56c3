"""Reach: what an account of this machine can do with files, found out by being it.

Modes alone do not say it: folders on the way, groups and access lists have a word, too.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fencepost_worker.confinement import Confinement

LOOK_SECONDS = 30.0
READ, ENTER = os.R_OK, os.X_OK
#: Gives up this account first; nothing is imported afterwards, since the other may not reach it.
_LOOK = """
import json, os, sys
user, group, groups = sys.argv[1].split(":")
wanted = json.loads(sys.argv[2])
os.setgroups([int(each) for each in groups.split(",") if each])
os.setgid(int(group))
os.setuid(int(user))
print(json.dumps([os.access(path, mode) for path, mode in wanted]))
"""


class NotLooked(Exception):
    """What the account can do could not be found out; the message says why."""


def reach_of(confinement: Confinement, wanted: Sequence[tuple[Path, int]]) -> list[bool]:
    """Return of each path whether the account of programs can do that with it.

    :param wanted: paths with `READ`, or with `ENTER` to execute a file or go through a folder.
    :raises NotLooked: it could not be found out.
    """
    paths = json.dumps([(str(path), mode) for path, mode in wanted])
    command = [sys.executable, "-I", "-S", "-c", _LOOK, confinement.launched_as, paths]
    try:
        done = subprocess.run(
            command, cwd="/", capture_output=True, timeout=LOOK_SECONDS, check=True
        )
        found: list[bool] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotLooked(str(error)) from error
    return found
