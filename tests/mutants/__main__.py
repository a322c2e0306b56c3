"""`python -m tests.mutants [NAME ...]`: break each guard in a copy of the tree, and see it noticed.

A guard whose loss no test notices has survived, and the command fails; so it does where a test
that noticed does not pass on the whole tree, or where the text of a guard is no longer found.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from governance.local import embedded
from tests.mutants.listed import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 600
#: Exit codes of pytest.
PASSED, FAILED = 0, 1
#: A test, and not a captured line of a log.
NOTICED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def main(names: list[str]) -> int:
    """Break the named guards, or all; return 1 if one survives."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    if unknown := set(names) - {mutant.name for mutant in MUTANTS}:
        print(f"There is no mutant {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fencepost-mutants-") as folder:
        lab = Lab(Path(folder))
        try:
            noticed = {mutant.name: who_notices(lab, mutant) for mutant in chosen}
            tests = sorted({test for test in noticed.values() if test})
            # Tests of the worker need no database, and leave that of a broken migration as it is.
            lab.migrated = False
            done = lab.run(tests)
        finally:
            lab.close()
    if tests and done.returncode != PASSED:
        print(done.stdout[-4000:], file=sys.stderr)
        print("These tests do not pass on the whole tree either.", file=sys.stderr)
        return 2
    survivors = [name for name, test in noticed.items() if not test]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed.")
    for name in survivors:
        print(f"SURVIVED: {name}", file=sys.stderr)
    return 1 if survivors else 0


class Lab:
    """A copy of the tree, and a server with a migrated database for one run after the other."""

    def __init__(self, folder: Path) -> None:
        # The database's unprivileged user passes through.
        folder.chmod(0o711)
        self.copy, place = folder / "tree", folder / "run"
        place.mkdir(mode=0o711)
        copy_of_the_tree(self.copy)
        self.server = embedded.hold(place / "data", throwaway=True)
        self.migrated = False
        self.environ = os.environ | {
            # As in tests/settings.py, which makes a folder of the run's own where none is named.
            "FENCEPOST_TEST_RUN": str(place),
            "FENCEPOST_DATA": str(place / "data"),
            "FENCEPOST_URL": "http://testserver",
            "FENCEPOST_LOG_LEVEL": "ERROR",
            # A byte code of the whole file would be taken for that of the broken one.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, tests: list[str]) -> subprocess.CompletedProcess[str]:
        """Run tests in the copy until the first that fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
        command += ["--reuse-db", *([] if self.migrated else ["--create-db"])]
        with subprocess.Popen(
            [*command, *tests], cwd=self.copy, env=self.environ, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=SECONDS_MAX)
            finally:
                # Whatever a broken guard has left running goes with its tests.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        self.migrated = True
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def close(self) -> None:
        self.server.release()


def copy_of_the_tree(copy: Path) -> None:
    """Copy what git tracks, as it lies here, uncommitted changes and new files included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def who_notices(lab: Lab, mutant: Mutant) -> str:
    """Break one guard, run its tests, mend it; return the first that failed, "" for none."""
    path, began = lab.copy / mutant.file, time.monotonic()
    whole = path.read_text()
    if whole.count(mutant.text) != 1:
        raise SystemExit(f"{mutant.name}: its text stands {whole.count(mutant.text)} times in it.")
    path.write_text(whole.replace(mutant.text, mutant.by))
    # What stands in a migration is broken, and mended, by making the database anew.
    lab.migrated = lab.migrated and "migrations" not in path.parts
    try:
        done = lab.run(list(mutant.tests))
    finally:
        path.write_text(whole)
    lab.migrated = "migrations" not in path.parts
    found = NOTICED.search(done.stdout)
    if done.returncode not in (PASSED, FAILED) or (found is None) == (done.returncode == FAILED):
        print(done.stdout[-4000:], file=sys.stderr)
        raise SystemExit(f"{mutant.name}: pytest ends with {done.returncode}, which says nothing.")
    test = found[1] if found else ""
    print(f"{time.monotonic() - began:5.1f} s  {mutant.name}: {test or 'SURVIVED'}", flush=True)
    return test


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
