"""Files that survive a SIGKILL or a power cut: whole or absent, never torn.

Every write is temporary file -> fsync -> rename (or link) -> fsync of the folder.  A rename alone
orders nothing on disk.  Source: T. Pillai et al., "All File Systems Are Not Created Equal", OSDI
2014.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

FILE_MODE = 0o600
FOLDER_MODE = 0o700
#: Documents are claims, requests and results; a larger file is not one of ours.
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024


class Unreadable(Exception):
    """A file of the data folder is not a JSON document of ours."""


class FolderBusy(Exception):
    """Another worker process uses this data folder."""


def make_folder(path: Path) -> Path:
    """Create `path` and its parents, private to the user, each durable in its parent."""
    if path.is_dir():
        return path
    make_folder(path.parent)
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    sync_folder(path.parent)
    return path


def sync_folder(path: Path) -> None:
    """Make the names in `path` durable, where a folder can be synchronized by itself."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically; an older file there is replaced."""
    temporary = _written_beside(path, content)
    os.replace(temporary, path)
    sync_folder(path.parent)


def create(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically, once.

    :raises FileExistsError: `path` exists; it is left as it is. Of two callers one wins.
    """
    temporary = _written_beside(path, content)
    try:
        # A link refuses an existing name, which a rename would silently replace.
        os.link(temporary, path)
    finally:
        temporary.unlink()
    sync_folder(path.parent)


def _written_beside(path: Path, content: bytes) -> Path:
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(name, FILE_MODE)
    return Path(name)


def remove(path: Path) -> None:
    """Remove the file, if it is there, durably."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove the folder with all that is in it, if it is there, durably."""
    if path.exists():
        shutil.rmtree(path)
        sync_folder(path.parent)


def encode(document: Any) -> bytes:
    """Return the bytes in which documents are kept on disk: sorted keys, so same is same."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in `path`, or None where there is none.

    :raises Unreadable: the file is too large or not a JSON object.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > MAX_DOCUMENT_BYTES:
        raise Unreadable(f"{path.name} is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = json.loads(content)
    except ValueError as error:
        raise Unreadable(f"{path.name} is not JSON") from error
    if not isinstance(document, dict):
        raise Unreadable(f"{path.name} is not a JSON object")
    return document


class FolderLock:
    """Holds a data folder for one process; the kernel lets go when the process dies."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        # Whoever lets go is another thread than the one that took it, at the end of a process.
        self._lock = FileLock(folder / "lock", timeout=0, mode=FILE_MODE, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise FolderBusy(f"another worker uses {folder}") from error

    def release(self) -> None:
        """Let another process have the folder."""
        self._lock.release()
