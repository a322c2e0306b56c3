"""What a program knows of its worker, and as whom it runs."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost_worker.confinement import Account, Confinement, Unconfinable, loopback_direct
from fencepost_worker.workspace import ArtifactRefused, Workspaces
from tests.settings import WORKER_SOURCE

NOBODY = "nobody"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another account")


def test_a_program_inherits_what_is_on_the_list_and_what_is_passed():
    own = {
        "PATH": "/bin", "HOME": "/h", "LANG": "C", "LC_ALL": "C", "TZ": "UTC", "TMPDIR": "/t",
        "OPENAI_API_KEY": "sk-real", "FENCEPOST_TOKEN": "fp", "AWS_PROFILE": "p", "EDITOR": "vi",
    }  # fmt: skip

    inherited = Confinement.of(passed=["AWS_PROFILE", "UNSET"]).environment(own)

    assert inherited.keys() == {
        "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "AWS_PROFILE"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["FENCEPOST_TOKEN", "FENCEPOST_URL", "MY_PROVIDER_KEY"])
def test_what_is_the_workers_cannot_be_passed(name):
    with pytest.raises(Unconfinable, match=f"--pass: {name}"):
        Confinement.of(passed=[name], secret_names=["MY_PROVIDER_KEY"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"no_proxy": "internal, localhost"}, "internal,localhost,127.0.0.1,::1"),
    ],
)
def test_no_proxy_is_asked_for_loopback(before, after):
    assert loopback_direct(before) == {"NO_PROXY": after, "no_proxy": after}


def test_the_program_gets_the_list_and_no_more(plane, start_worker, program, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-real")
    monkeypatch.setenv("LC_TIME", "C")
    plane.add_job("task-1")
    running = start_worker(program("answer(result={'names': sorted(os.environ)})\n"), max_jobs=1)
    _, body = plane.outcome_of("task-1")
    running.join()

    names = set(body["result"]["names"])
    assert "LC_TIME" in names
    assert names - {"LC_CTYPE"} <= {
        *(name for name in os.environ if name.startswith("LC_")),
        "PATH", "HOME", "LANG", "TZ", "TMPDIR",
        "FENCEPOST_TASK_ID", "FENCEPOST_ATTEMPT", "FENCEPOST_EXTERNAL_REQUEST_ID",
        "FENCEPOST_WORKSPACE", "FENCEPOST_ARTIFACTS", "FENCEPOST_PROGRESS",
    }  # fmt: skip


#: Becomes another account, closes its memory where it is told to, and waits.
SECRETIVE = """
import ctypes, os, sys
from fencepost_worker.confinement import PR_SET_DUMPABLE, close_memory
how, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([]), os.setgid(uid), os.setuid(uid)
# As it is for a process that was always this account's.
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
print(how == "open" or close_memory(), flush=True)
sys.stdin.read()
"""
READS_IT = """
import os, sys
pid, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([]), os.setgid(uid), os.setuid(uid)
sys.exit(b"sk-real" not in open(f"/proc/{pid}/environ", "rb").read())
"""


@as_root
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can close it")
@pytest.mark.parametrize(("how", "readable"), [("open", True), ("closed", False)])
def test_programs_of_the_same_account_cannot_read_the_workers_variables(how, readable):
    uid = str(pwd.getpwnam(NOBODY).pw_uid)
    worker = subprocess.Popen(
        [sys.executable, "-c", SECRETIVE, how, uid],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(WORKER_SOURCE), "OPENAI_API_KEY": "sk-real"},
    )
    try:
        assert worker.stdout.readline().strip() == b"True"
        read = subprocess.run(
            [sys.executable, "-c", READS_IT, str(worker.pid), uid],
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert (read.returncode == 0) == readable
    finally:
        worker.communicate()


def test_there_must_be_such_an_account(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Unconfinable, match="no account 'no-such-account'"):
        Account.named("no-such-account")
    with pytest.raises(Unconfinable, match="root can read"):
        Account.named("root")


def test_only_root_can_run_programs_under_another_account(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unconfinable, match="needs a worker that runs as root"):
        Account.named(NOBODY)


#: Says as whom it runs, and what it can reach of the worker's folder; any shell will do, since
#: the tests' own interpreter may be where another account cannot go.
TRIES = r"""
request=$(cat)
bound=$(echo "$request" | sed -E 's/.*("attempt": [0-9]+).*/\1/')
digest=$(echo "$request" | sed -E 's/.*("execution_digest": "[0-9a-f]+").*/\1/')
data=$FENCEPOST_WORKSPACE/../../../..
reads=""
for path in worker-id journal exchange .; do
    if [ -d $data/$path ]; then ls $data/$path > /dev/null 2>&1 && reads="$reads $path"
    else cat $data/$path > /dev/null 2>&1 && reads="$reads $path"; fi
done
echo mine > $FENCEPOST_ARTIFACTS/made.txt
echo "{\"external_request_id\": \"$FENCEPOST_EXTERNAL_REQUEST_ID\", $bound, $digest,"
echo "\"outcome\": \"succeeded\", \"artifacts\": [{\"name\": \"made.txt\"}],"
echo "\"result\": {\"uid\": $(id -u), \"home\": \"$HOME\", \"reads\": \"$reads\"}}"
"""


@as_root
def test_a_program_of_another_account_has_its_workspace_and_nothing_else_of_the_worker(
    plane, spawn_worker, tmp_path
):
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    plane.add_job("task-1")
    worker = spawn_worker(["/bin/sh", "-c", TRIES], "--once", "--run-as", NOBODY, "--no-uploads")

    assert worker.wait(30) == 0
    verb, body = plane.outcome_of("task-1")
    nobody = pwd.getpwnam(NOBODY)
    assert verb == "complete", body.get("error_message")
    assert body["result"]["uid"] == nobody.pw_uid
    assert body["result"]["home"] == nobody.pw_dir
    assert body["result"]["reads"] == ""
    assert [each["name"] for each in body["result"]["artifacts"]] == ["made.txt"]


def test_a_worker_that_cannot_confine_says_so_in_a_line(plane, program, tmp_path):
    command = [sys.executable, "-m", "fencepost_worker", "run", "--url", plane.url]
    command += ["--token", "t", "--agent", "hermes", "--data", str(tmp_path / "data")]
    done = subprocess.run(
        [*command, "--run-as", "no-such-account", "--", *program("answer()")],
        env=os.environ | {"PYTHONPATH": str(WORKER_SOURCE)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("fencepost-worker: --run-as")


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_the_program_leaves_as_progress_leads_nowhere_else(tmp_path, kind):
    secret = tmp_path / "session.json"
    secret.write_text(json.dumps({"token": "fp"}))
    workspace = Workspaces(tmp_path / "data").open(task_id="task-1", attempt=1)
    if kind == "link":
        Path(workspace.progress).symlink_to(secret)
    else:
        Path(workspace.progress).mkdir()

    with pytest.raises(ArtifactRefused):
        workspace.read("progress.json", max_bytes=100)


@pytest.mark.parametrize("swapped", ["artifacts", "result.json"])
def test_an_artifact_of_the_workers_own_is_left_in_the_folder_alone(tmp_path, swapped):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    workspace = Workspaces(tmp_path / "data").open(task_id="task-1", attempt=1)
    if swapped == "artifacts":
        workspace.artifacts.rmdir()
        workspace.artifacts.symlink_to(elsewhere)
        with pytest.raises(ArtifactRefused):
            workspace.leave("result.json", b"{}")
    else:
        (workspace.artifacts / "result.json").symlink_to(elsewhere / "result.json")
        assert workspace.leave("result.json", b"{}") == "result-2.json"
        assert (workspace.artifacts / "result-2.json").read_bytes() == b"{}"

    assert list(elsewhere.iterdir()) == []
