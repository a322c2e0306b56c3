"""Changes code: in its workspace, proven by tests that fail before and pass after."""

import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker_io import Undoable, artifact, input_folder, run, tell_progress

TEST_TIMEOUT_SECONDS = 60

#: The changes that this example knows how to make, by module: the function's new text.
CHANGES = {
    "durations.py": '''\
def parse_seconds(text):
    """Return the seconds of a duration such as `90s`, `2h` or `1h30m`.

    Units fall from days to seconds, each at most once.

    :raises ValueError: the text is not a duration.
    """
    if not DURATION.fullmatch(text):
        raise ValueError(f"not a duration: {text!r}")
    parts = re.findall(r"([0-9]+)([dhms])", text)
    return sum(int(number) * UNIT_SECONDS[unit] for number, unit in parts)
'''
}
PREAMBLES = {
    "durations.py": (
        'import re\n\nDURATION = re.compile(r"(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?")\n'
    )
}


def changed(module: str, source: str) -> str:
    """Return the module's text with the asked change made.

    :raises Undoable: the change is not one that is known here.
    """
    if module not in CHANGES:
        raise Undoable(f"no change is known for {module!r}")
    head, _, _ = source.partition("def parse_seconds")
    docstring, _, rest = head.partition("\n\n")
    return f"{docstring}\n\n{PREAMBLES[module]}{rest.rstrip()}\n\n\n{CHANGES[module]}"


def run_tests(folder: Path, tests: str) -> tuple[bool, str]:
    """Run the tests in `folder`; return whether they passed, and their log."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "-v", Path(tests).stem],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT_SECONDS,
        check=False,
    )
    return done.returncode == 0, done.stderr


def patch(module: str, before: str, after: str) -> str:
    """Return the unified diff from `before` to `after`."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile=f"a/{module}",
        tofile=f"b/{module}",
    )
    return "".join(lines)


def implementation(request: dict[str, Any]) -> dict[str, Any]:
    """Make the change, prove it, and deliver it with the way back."""
    source = input_folder(request)
    module, tests = request["inputs"].get("module", ""), request["inputs"].get("tests", "")
    if not {module, tests} <= {path.name for path in source.iterdir()}:
        raise Undoable("the module or its tests are not in the input folder")
    folder = Path(os.environ["FENCEPOST_WORKSPACE"]) / "checkout"
    shutil.copytree(source, folder)
    passed_before, log_before = run_tests(folder, tests)
    tell_progress(step="tests ran before the change", passed=passed_before)
    if passed_before:
        raise Undoable("the tests pass already; there is nothing to change")
    before = (folder / module).read_text(encoding="utf-8")
    after = changed(module, before)
    (folder / module).write_text(after, encoding="utf-8")
    passed_after, log_after = run_tests(folder, tests)
    tell_progress(step="tests ran after the change", passed=passed_after)
    if not passed_after:
        raise Undoable(f"the tests still fail:\n{log_after[-2000:]}")
    log = f"before the change\n\n{log_before}\nafter the change\n\n{log_after}"
    return {
        "result": {"summary": f"{module} changed; its tests failed before and pass now"},
        "artifacts": [
            artifact("change.patch", patch(module, before, after), media_type="text/x-diff"),
            artifact("rollback.patch", patch(module, after, before), media_type="text/x-diff"),
            artifact("tests.log", log, media_type="text/plain"),
        ],
    }


if __name__ == "__main__":
    run({"implementation": implementation})
