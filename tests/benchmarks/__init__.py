"""Measurements, apart from the tests: each prints JSON."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from governance.local import embedded


@contextmanager
def throwaway_folder() -> Iterator[str]:
    """Make a folder that the database's unprivileged account can pass through."""
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        os.chmod(folder, 0o711)
        yield folder


@contextmanager
def throwaway_server() -> Iterator[None]:
    """Have an embedded server of one's own, for code that runs in this process."""
    with throwaway_folder() as folder:
        os.environ["FENCEPOST_DATA"] = f"{folder}/data"
        server = embedded.provide()
        try:
            yield
        finally:
            if server is not None:
                server.release()
