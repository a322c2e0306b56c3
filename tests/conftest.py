"""The ground of every test: one embedded PostgreSQL per run, and a second connection on demand."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import TransactionTestCase

from governance.local import embedded
from jobs import wakeups, watching
from tests import emptying, installed
from tests.console import as_  # noqa: F401
from tests.world import (  # noqa: F401
    agent_zero,
    agent_zero_token,
    entry_of,
    hermes,
    hermes_token,
    issue,
    make_job,
    openclaw,
    openclaw_token,
    submitter,
    submitter_token,
    world,
)

OTHER_CONNECTION_SECONDS = 5.0
_server = pytest.StashKey[embedded.Server]()


def pytest_configure(config: pytest.Config) -> None:
    """Start the run's server, in the process that starts the workers and only there."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    server = config.stash[_server] = embedded.hold(settings.DATA_DIR, throwaway=True)
    # As superuser: the flush of a test database has to pass the append-only triggers.
    os.environ["FENCEPOST_DSN"] = server.superuser_dsn
    settings.DATABASES["default"].update(
        embedded.django_database(server.superuser_dsn, session_settings=settings.SESSION_SETTINGS)
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    if server := config.stash.get(_server, None):
        server.release()


@pytest.fixture(scope="session", autouse=True)
def _know_the_empty_database(django_db_setup: None, django_db_blocker: Any) -> None:
    """Read what an installation is, and let tests that commit leave the database as it is now."""
    if not connections["default"].settings_dict["NAME"].startswith("test_"):
        # None of the selected tests needs a database, and none was made.
        return
    with django_db_blocker.unblock():
        emptying.statement()
        installed.read_installation()
    # On the class: a test that drives a browser flushes through a connection of another context.
    TransactionTestCase._fixture_teardown = lambda case: emptying.empty()  # type: ignore[method-assign]


@pytest.fixture(scope="session", autouse=True)
def _no_listener_when_the_database_is_dropped(django_db_setup: None) -> Iterator[None]:
    """End the connection that listens for work, which any committed move may have begun.

    And the one that watches jobs, which stays for a while after the last who did.
    """
    yield
    wakeups.close()
    watching.close()


@pytest.fixture
def on_other_connection() -> Iterator[Callable[..., Any]]:
    """Run a function on a second database connection, and wait for it for a bounded time.

    `on_other_connection(function, *args, seconds=5.0, **kwargs)` raises TimeoutError where the
    function is still waiting then, for a lock that the test holds as a rule.
    """
    pools: list[ThreadPoolExecutor] = []

    def call(
        function: Callable[..., Any],
        *args: Any,
        seconds: float = OTHER_CONNECTION_SECONDS,
        **kwargs: Any,
    ) -> Any:
        pool = ThreadPoolExecutor(max_workers=1)
        pools.append(pool)

        def run() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                connections.close_all()

        return pool.submit(run).result(timeout=seconds)

    yield call
    for pool in pools:
        # A call that timed out is still in its thread: the test does not wait for its own proof.
        pool.shutdown(wait=False)


@pytest.fixture
def data_folder() -> Iterator[Path]:
    """A data folder of the test's own, not yet made, below the run's."""
    above = Path(tempfile.mkdtemp(dir=os.environ["FENCEPOST_TEST_RUN"]))
    # As root, the server's unprivileged user has to pass through.
    above.chmod(0o711)
    yield above / "data"
    shutil.rmtree(above, ignore_errors=True)
