"""Management commands as processes of their own, on the database of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from django.db import connection

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"


def environment(**over: str) -> dict[str, str]:
    """Return the environment in which a process works on the database of the test."""
    named = connection.settings_dict
    host = quote(named["HOST"], safe="")
    dsn = f"postgresql://{named['USER']}@/{named['NAME']}?host={host}"
    return os.environ | {"FENCEPOST_DSN": dsn} | over


def start(*command: str, **over: str) -> subprocess.Popen[str]:
    """Start `manage.py COMMAND ...`; its output is one stream of text."""
    return _start([str(MANAGE), *command], over)


def start_python(code: str, **over: str) -> subprocess.Popen[str]:
    """Start Python code with Django set up."""
    head = "import django; django.setup()\n"
    return _start(["-c", head + code], over | {"DJANGO_SETTINGS_MODULE": "governance.settings"})


def _start(arguments: list[str], over: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(**over),
        cwd=MANAGE.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
