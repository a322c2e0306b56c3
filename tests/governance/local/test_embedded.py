"""The life of the embedded server, with real servers and real kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from governance.local import embedded, folder, placement, postmaster

#: How long a process may take to notice that another is gone.
NOTICE_SECONDS = 20.0
#: A trigger, as those that guard the audit trail.
GUARD = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE TRIGGER guard BEFORE DELETE ON made FOR EACH ROW EXECUTE FUNCTION refuse()
"""
FORBIDDEN = (
    "ALTER TABLE made DISABLE TRIGGER guard",
    "ALTER TABLE made DISABLE TRIGGER USER",
    "DROP TRIGGER guard ON made",
    "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN END $$",
    "TRUNCATE made",
    "DROP TABLE made",
    "ALTER TABLE made OWNER TO CURRENT_USER",
    "CREATE TABLE another (n int)",
    "CREATE SCHEMA hidden",
    "SET ROLE fencepost_owner",
    "SET session_replication_role = replica",
)
HOLDER = """
import sys
from pathlib import Path
from governance.local import embedded
print(embedded.hold(Path(sys.argv[1])).dsn, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(data_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the server of `data_folder`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(embedded.__file__).parents[2],
    )
    assert process.stdout and process.stdout.readline().startswith("postgresql://")
    yield process
    process.kill()
    process.communicate()
    assert eventually(lambda: embedded.running_dsn(data_folder) is None)


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + NOTICE_SECONDS
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


def server_pid(folder: Path) -> int:
    return int((folder / "postgres/data/postmaster.pid").read_text().splitlines()[0])


def alive(pid: int) -> bool:
    """Tell whether the process runs; one that only waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def done(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def answer(dsn: str, query: str = "SELECT 1") -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        return row and row[0]


def test_the_service_is_not_superuser_of_its_database(data_folder):
    server = embedded.hold(data_folder, throwaway=True)
    try:
        query = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        assert answer(server.dsn, query) is False
        assert answer(server.superuser_dsn, query) is True
    finally:
        server.release()


def test_the_service_works_in_tables_that_it_does_not_own(data_folder):
    server = embedded.hold(data_folder, throwaway=True)
    try:
        make = "CREATE TABLE made (id bigint GENERATED ALWAYS AS IDENTITY, n int)"
        done(server.owner_dsn, make, GUARD, "CREATE SEQUENCE counted")

        done(server.dsn, "INSERT INTO made (n) VALUES (1)", "SELECT nextval('counted')")
        for forbidden in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                done(server.dsn, forbidden)
        assert answer(server.dsn, "SELECT count(*) FROM made") == 1
    finally:
        server.release()


def test_an_older_data_folder_loses_its_tables_to_the_owner(data_folder):
    server = embedded.hold(data_folder)
    # As the first release left it: the service owns all there is.
    done(
        server.superuser_dsn,
        f"ALTER DATABASE {embedded.DATABASE} OWNER TO {embedded.ROLE}",
        f"DROP OWNED BY {embedded.OWNER}",
        f"DROP OWNED BY {embedded.ROLE}",
        f"DROP ROLE {embedded.OWNER}",
    )
    done(server.dsn, "CREATE TABLE made AS SELECT 7 AS n", "CREATE SEQUENCE counted", GUARD)
    (server.home / embedded.SPLIT_MARK).unlink()
    server.release()

    server = embedded.hold(data_folder)
    try:
        assert answer(server.dsn, "SELECT n FROM made") == 7
        done(server.owner_dsn, "ALTER TABLE made ADD COLUMN id bigint")
        for forbidden in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                done(server.dsn, forbidden)
    finally:
        server.release()


def test_it_listens_on_a_private_socket_and_on_no_port(data_folder):
    server = embedded.hold(data_folder, throwaway=True)
    try:
        assert answer(server.dsn, "SHOW listen_addresses") == ""
        assert server.socket.stat().st_mode & 0o777 == 0o700
    finally:
        server.release()


def test_it_stops_when_the_last_user_lets_go_and_not_before(data_folder):
    first, second = (
        embedded.hold(data_folder, throwaway=True),
        embedded.hold(data_folder, throwaway=True),
    )
    first.release()
    assert answer(second.dsn) == 1
    second.release()
    assert embedded.running_dsn(data_folder) is None
    with pytest.raises(psycopg.OperationalError):
        answer(second.dsn)


def test_it_stops_when_its_only_user_is_killed(data_folder, holder):
    pid = server_pid(data_folder)
    holder.kill()
    holder.wait()
    assert eventually(lambda: not alive(pid))


def test_a_killed_server_comes_back_while_it_is_used(data_folder, holder):
    pid = server_pid(data_folder)
    os.kill(pid, signal.SIGKILL)
    dsn = embedded.running_dsn(data_folder)
    assert dsn

    def back() -> bool:
        try:
            return answer(dsn) == 1
        except psycopg.OperationalError:
            return False

    assert eventually(lambda: not alive(pid))
    assert eventually(back)


def test_a_server_waits_for_processes_of_the_one_before_whatever_they_log_last(tmp_path):
    """What keeps it from starting is told by it, and then drowned out by those that die."""
    said = "FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use"
    drowned = "FATAL:  terminating connection due to unexpected postmaster exit"
    refused = f"echo '{said}' >> log; echo '{drowned}' >> log; exit 1"
    starts = [refused, refused, "exec sleep 30"]

    class Scripted(postmaster.Postmaster):
        def spawn(self):
            return subprocess.Popen(["sh", "-c", starts.pop(0)], cwd=self.home)

        def comes_up(self, server):
            return starts == [] or server.wait() == 0

    parent = Scripted(tmp_path, throwaway=True)
    parent.start()

    assert starts == [] and parent.server.poll() is None
    parent.server.kill()
    parent.server.wait()


def test_a_server_that_cannot_start_says_why(tmp_path):
    class Scripted(postmaster.Postmaster):
        def spawn(self):
            return subprocess.Popen(["sh", "-c", "echo 'FATAL: no' >> log; exit 1"], cwd=self.home)

        def comes_up(self, server):
            return server.wait() == 0

    with pytest.raises(folder.ServerFailed, match="FATAL: no"):
        Scripted(tmp_path, throwaway=True).start()


def test_the_next_start_works_after_everything_was_killed(data_folder, holder):
    dsn = embedded.running_dsn(data_folder, role=embedded.OWNER)
    assert dsn
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    pid = server_pid(data_folder)
    os.kill(parent(pid), signal.SIGKILL)
    assert eventually(lambda: not embedded.is_kept(data_folder / "postgres"))
    holder.kill()
    holder.wait()
    os.kill(pid, signal.SIGKILL)

    server = embedded.hold(data_folder)
    try:
        assert answer(server.dsn, "SELECT number FROM kept") == 7
    finally:
        server.release()


def test_a_server_that_outlived_its_postmaster_is_taken_over(data_folder, holder):
    pid = server_pid(data_folder)
    above = parent(pid)
    os.kill(above, signal.SIGKILL)
    # Its lock ends with its last thread, which may be later than the process's own end.
    assert eventually(lambda: not embedded.is_kept(data_folder / "postgres"))
    assert not alive(above)
    holder.kill()
    holder.wait()

    server = embedded.hold(data_folder)
    assert answer(server.dsn) == 1
    server.release()
    # Nobody of ours reaps it: what remains of it for a moment is an entry in the process table.
    assert eventually(lambda: not alive(pid))
    assert embedded.running_dsn(data_folder) is None


def test_a_stale_pid_file_that_names_another_process_does_not_prevent_a_start(data_folder):
    embedded.hold(data_folder).release()
    stale = data_folder / "postgres/data/postmaster.pid"
    stale.write_text(f"{os.getpid()}\n{data_folder}\n1\n5432\n")
    server = embedded.hold(data_folder)
    assert answer(server.dsn) == 1
    server.release()


def test_a_first_start_that_was_killed_half_way_is_begun_again(data_folder):
    (data_folder / "postgres/data.draft").mkdir(parents=True)
    (data_folder / "postgres/data.draft/PG_VERSION").write_text("18\n")
    (data_folder / "postgres").chmod(0o711)
    data_folder.chmod(0o711)
    server = embedded.hold(data_folder, throwaway=True)
    assert answer(server.dsn) == 1
    server.release()


def test_the_socket_moves_to_a_short_folder_where_its_path_would_be_too_long(data_folder):
    deep = data_folder / ("x" * 60) / ("y" * 60)
    server = embedded.hold(deep, throwaway=True)
    socket = server.socket
    assert answer(server.dsn) == 1
    assert len(str(socket)) < 60
    server.release()
    assert not socket.exists()


def test_a_database_of_another_version_is_refused_in_one_line(data_folder):
    embedded.hold(data_folder).release()
    (data_folder / "postgres/data/PG_VERSION").write_text("16\n")
    with pytest.raises(folder.VersionMismatch, match="made by PostgreSQL 16") as refused:
        embedded.hold(data_folder)
    assert "\n" not in str(refused.value)
    assert embedded.running_dsn(data_folder) is None


def test_a_data_folder_that_is_a_file_is_refused_in_one_line(data_folder):
    data_folder.write_text("")
    with pytest.raises(folder.FolderUnusable, match="cannot be used") as refused:
        embedded.hold(data_folder)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")
def test_the_parents_of_roots_data_folder_stay_closed(data_folder, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(placement, "SHARED_HOME", data_folder.parent / "shared")
    (data_folder.parent / "shared").mkdir(mode=0o711)
    closed = data_folder.parent / "closed"
    closed.mkdir(mode=0o700)
    server = embedded.hold(closed / "data", throwaway=True)
    try:
        assert answer(server.dsn) == 1
        assert (closed / "data/postgres").resolve().parent == placement.SHARED_HOME
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        server.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")
def test_programs_below_a_closed_folder_are_copied_to_where_they_can_be_run(
    data_folder, monkeypatch
):
    shared, installed = data_folder.parent / "shared", placement.binaries()
    shared.mkdir(mode=0o711)
    monkeypatch.setattr(placement, "SHARED_HOME", shared)
    monkeypatch.setattr(placement, "passable", lambda path: shared in path.parents)
    copied = placement.binaries()
    assert shared in copied.parents and copied != installed
    for program in ("postgres", "initdb", "pg_isready"):
        subprocess.run([copied / program, "--version"], check=True, capture_output=True, user=65534)
    assert placement.binaries() == copied


def test_an_address_that_is_none_of_postgresql_is_refused():
    with pytest.raises(folder.EmbeddedError, match="not valid") as refusal:
        embedded.django_database("mysql://u:hidden@localhost/x", session_settings={})
    assert "hidden" not in str(refusal.value)


def test_a_database_address_keeps_its_further_parameters():
    database = embedded.django_database(
        "postgresql://u:p%40ss@a,b:6432/db?target_session_attrs=read-write",
        session_settings={"lock_timeout": "2000"},
        pool_max=4,
    )
    assert (database["USER"], database["PASSWORD"], database["NAME"]) == ("u", "p@ss", "db")
    assert database["HOST"] == "a,b"
    assert database["OPTIONS"]["target_session_attrs"] == "read-write"
    assert database["OPTIONS"]["options"] == "-c lock_timeout=2000"
    assert database["OPTIONS"]["pool"]["max_size"] == 4
