"""Runs a program that knows nothing of Fencepost, for a worker that wants a document.

    fencepost-worker run ... -- python plain.py PROGRAM ARGUMENT...

The program gets the task's goal and inputs as text on its standard input. What it prints becomes
the job's result, `{"text": ...}`; every file that it leaves in the folder that it runs in, hidden
ones apart, becomes an artifact. One that fails has failed the attempt, with what it wrote to its
standard error.
"""

import ctypes
import json
import mimetypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker_io import BOUND

MAX_ARTIFACTS = 100
PR_SET_PDEATHSIG = 1


def task_text(request: dict[str, Any]) -> str:
    """Return what is asked for, as a person would write it."""
    lines = [request["title"], "", request["goal"], ""]
    lines += [f"{name}: {_written(value)}" for name, value in sorted(request["inputs"].items())]
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def files_in(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the files that were left below a folder; no link is followed."""
    names = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(place).relative_to(folder)
        names += [here / name for name in sorted(files) if not name.startswith(".")]
    return [
        {"name": str(name), "media_type": mimetypes.guess_type(name.name)[0] or "text/plain"}
        for name in names
        if not (folder / name).is_symlink()
    ][:MAX_ARTIFACTS]


def end_with_us() -> None:
    """Bind the program to this one's life, as the worker has bound this one to its own."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    """Run the program and answer for it."""
    request = json.load(sys.stdin)
    folder = Path(os.environ["FENCEPOST_ARTIFACTS"])
    done = subprocess.run(
        sys.argv[1:],
        input=task_text(request),
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        preexec_fn=end_with_us if sys.platform == "linux" else None,
    )
    if done.returncode != 0:
        # Its standard error is ours: the worker has it already.
        sys.exit(done.returncode if done.returncode > 0 else 1)
    answer = {"outcome": "succeeded", "result": {"text": done.stdout.strip()}}
    bound = {name: request[name] for name in BOUND}
    json.dump(bound | answer | {"artifacts": files_in(folder)}, sys.stdout)


if __name__ == "__main__":
    main()
