"""The distribution: its wheel, and what it stands beside."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.settings import WORKER_SOURCE

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "agents" / "worker"
PACKAGE = WORKER_SOURCE / "fencepost_worker"
MAX_WHEEL_BYTES = 1024 * 1024
#: Runs and ends when it is imported, as the program that becomes another one.
LAUNCHER = "fencepost_worker.adapters.launcher"

#: Imports every module of the package, and prints where two came from and what came along.
IMPORT_ALL = f"""
import agents, importlib, pkgutil, sys
import fencepost_worker
for module in pkgutil.walk_packages(fencepost_worker.__path__, "fencepost_worker."):
    if module.name != {LAUNCHER!r}:
        importlib.import_module(module.name)
print(agents.__file__)
print(fencepost_worker.__file__)
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def build(project: Path, target: Path) -> Path:
    """Build the wheel as `make wheels` does and return it."""
    [epoch] = re.findall(r"^SOURCE_DATE_EPOCH \?= (\d+)$", (ROOT / "Makefile").read_text(), re.M)
    subprocess.run(
        [sys.executable, "-m", "flit_core.wheel", str(project), "--outdir", str(target)],
        env=os.environ | {"SOURCE_DATE_EPOCH": epoch},
        check=True,
        capture_output=True,
    )
    [wheel] = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(PROJECT, tmp_path_factory.mktemp("dist"))


@pytest.fixture
def foreign_path(wheel, tmp_path):
    """Install the wheel beside somebody else's package `agents`, which is found first."""
    installed, foreign = tmp_path / "installed", tmp_path / "foreign"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    (foreign / "agents").mkdir(parents=True)
    (foreign / "agents" / "__init__.py").write_text("class Agent:\n    pass\n")
    return os.pathsep.join([str(foreign), str(installed)])


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}

    sources = {p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert names == {f"fencepost_worker/{p.relative_to(PACKAGE).as_posix()}" for p in sources}
    assert {"fencepost_worker/py.typed", "fencepost_worker/adapters/launcher.py"} < names
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_the_wheel_bears_the_version_and_the_license_of_the_project(wheel):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    with zipfile.ZipFile(wheel) as archive:
        info = f"fencepost_worker-{project['version']}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        license = archive.read(f"{info}/licenses/LICENSE")

    assert f"\nVersion: {project['version']}\n" in metadata
    assert f"\nLicense-Expression: {project['license']}\n" in metadata
    assert license == (ROOT / "LICENSE").read_bytes()


def test_the_same_source_makes_the_same_bytes(wheel, tmp_path):
    copy = tmp_path / "elsewhere" / "worker"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    for path in copy.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))

    again = build(copy, tmp_path / "dist")

    assert again.name == wheel.name
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, again)}
    assert len(digests) == 1


def test_it_is_imported_beside_another_package_named_agents(foreign_path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": foreign_path},
        check=True,
        capture_output=True,
        text=True,
    )
    agents, package, modules = done.stdout.splitlines()

    assert agents == str(tmp_path / "foreign" / "agents" / "__init__.py")
    assert package == str(tmp_path / "installed" / "fencepost_worker" / "__init__.py")
    assert not {"django", "rest_framework", "psycopg", "governance", "jobs"} & {*modules.split()}


def test_it_does_a_job_beside_another_package_named_agents(
    plane, program, spawn_worker, foreign_path
):
    plane.add_job("task-1")
    source = "from agents import Agent\nanswer(result={'agent': Agent.__name__})\n"

    worker = spawn_worker(
        program(source), "--once", "--pass", "PYTHONPATH", python_path=foreign_path
    )

    assert worker.wait(30) == 0
    verb, body = plane.outcome_of("task-1")
    assert (verb, body["result"]) == ("complete", {"agent": "Agent", "artifacts": []})


def test_the_script_and_the_module_are_the_same_worker(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [listed] = [n for n in archive.namelist() if n.endswith("entry_points.txt")]
        entries = archive.read(listed).decode().split()

    assert entries == [
        "[console_scripts]",
        "fencepost-verify-evidence=fencepost_worker.verify_evidence:main",
        "fencepost-worker=fencepost_worker.__main__:main",
    ]


def test_the_former_name_says_where_the_worker_went():
    done = subprocess.run(
        [sys.executable, "-m", "agents.runtime", "--url", "http://localhost"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "python -m fencepost_worker" in line
