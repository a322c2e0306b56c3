"""Workspaces: a folder of its own for every attempt, and the artifacts taken out of it."""

import hashlib
import io
import itertools
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from fencepost_worker import durable
from fencepost_worker.confinement import WAY_MODE, Account
from fencepost_worker.identity import checked_attempt, folder_name

MAX_NAME_CHARS = 200
MAX_ARTIFACT_BYTES = 1024 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
#: The attempt's, the task's, that of all workspaces, and the worker's data folder.
WAY_FOLDERS = 4
DEFAULT_MEDIA_TYPE = "application/octet-stream"


#: A folder can be opened, and a file in it by the folder's handle.
CAN_OPEN_INSIDE = hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd


class ArtifactRefused(Exception):
    """A named artifact is not a regular file inside the workspace's artifacts folder."""


@dataclass(frozen=True)
class Workspace:
    """The folders of one attempt. Programs run in `folder` and leave artifacts in `artifacts`."""

    folder: Path
    artifacts: Path
    progress: Path
    process: Path
    log: Path

    def note(self, line: str) -> None:
        """Add a line to the work's log, if it can be written.

        :raises OSError: it cannot, or something else than a file is there.
        """
        # The folder is the program's: no link is followed, and no pipe waited for.
        careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | careful
        with os.fdopen(os.open(self.log, flags, durable.FILE_MODE), "ab") as file:
            file.write(f"{line}\n".encode(errors="replace"))

    def leave(self, name: str, content: bytes) -> str:
        """Leave an artifact under this name, or the next one that is free; return which.

        :raises ArtifactRefused: it cannot be, as where the program put a link for its folder.
        """
        stem, dot, suffix = name.partition(".")
        for number in itertools.count(2):
            try:
                with os.fdopen(_new_inside(self.artifacts, name), "wb") as file:
                    file.write(content)
            except FileExistsError:
                name = f"{stem}-{number}{dot}{suffix}"
            except OSError as error:
                raise ArtifactRefused(f"{name}: {error.strerror}") from error
            else:
                return name
        raise AssertionError("no end of names")

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Return the beginning of a file that the program left in its folder.

        No link is followed to another.

        :raises ArtifactRefused: it is missing, or not a regular file of the folder.
        """
        with os.fdopen(_open_inside(self.folder, name), "rb") as file:
            return file.read(max_bytes)


class Workspaces:
    """All workspaces below one data folder, and the store that artifacts are kept in."""

    def __init__(self, folder: Path, *, account: Account | None = None) -> None:
        """Make the folders. With an `account` workspaces are its own, the way to them is open."""
        self._account = account
        self._workspaces = durable.make_folder(folder / "workspaces")
        self._store = durable.make_folder(folder / "artifacts" / "sha256")

    def of(self, *, task_id: str, attempt: int) -> Workspace:
        """Return the workspace of the attempt without touching it."""
        root = self._workspaces / folder_name(task_id) / str(checked_attempt(attempt))
        folder = root / "work"
        return Workspace(
            folder=folder,
            artifacts=folder / "artifacts",
            progress=folder / "progress.json",
            # Beside the folder that the program works in, so that it cannot write there.
            process=root / "process.json",
            log=folder / "fencepost.log",
        )

    def open(self, *, task_id: str, attempt: int) -> Workspace:
        """Return the attempt's workspace, fresh and empty."""
        workspace = self.of(task_id=task_id, attempt=attempt)
        durable.remove_folder(workspace.folder)
        durable.make_folder(workspace.artifacts)
        if self._account is not None:
            self._account.own(workspace.folder, workspace.artifacts)
            for folder in list(workspace.folder.parents)[:WAY_FOLDERS]:
                folder.chmod(WAY_MODE)
        return workspace

    def discard(self, *, task_id: str, attempt: int) -> None:
        """Remove the attempt's workspace; artifacts that were kept stay."""
        root = self.of(task_id=task_id, attempt=attempt).folder.parent
        durable.remove_folder(root)

    def keep(self, workspace: Workspace, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Copy the listed artifacts into the store, by content, and return their descriptions.

        :param listed: `{"name": ..., "media_type": ...}` each; names are relative paths.
        :returns: `name, media_type, size_bytes, sha256, pointer` each.
        :raises ArtifactRefused: a name that is not a regular file in the folder.
        """
        return [self._keep_one(workspace, artifact) for artifact in listed]

    def keep_content(self, name: str, content: Path | bytes, media_type: str) -> dict[str, Any]:
        """Copy a file of the worker's own code, or bytes, into the store; see `keep`.

        :raises ArtifactRefused: the name is none, or there is no regular file.
        """
        named = _checked_name(name)
        try:
            if isinstance(content, bytes):
                stored = self._store_stream(io.BytesIO(content), named)
            elif not content.is_file():
                raise ArtifactRefused(f"{name}: {content} is not a regular file")
            else:
                with content.open("rb") as source:
                    stored = self._store_stream(source, named)
        except OSError as error:
            raise ArtifactRefused(f"{name}: {error.strerror}") from error
        return _described(named, media_type, *stored)

    def keep_document(self, document: bytes, *, beside: list[dict[str, Any]]) -> dict[str, Any]:
        """Copy a JSON document into the store, as `result.json` or under the next name.

        :param beside: artifacts whose names are taken.
        """
        taken = {each.get("name") for each in beside}
        names = itertools.chain(["result.json"], map("result-{}.json".format, itertools.count(2)))
        free = next(name for name in names if name not in taken)
        return self.keep_content(free, document, "application/json")

    def path_of(self, sha256: str) -> Path:
        """Return where the artifact of this checksum is kept."""
        return self._store / sha256[:2] / sha256

    def _keep_one(self, workspace: Workspace, artifact: dict[str, Any]) -> dict[str, Any]:
        name = _checked_name(artifact.get("name"))
        with os.fdopen(_open_inside(workspace.artifacts, name), "rb") as source:
            stored = self._store_stream(source, name)
        return _described(name, artifact.get("media_type") or DEFAULT_MEDIA_TYPE, *stored)

    def _store_stream(self, source: IO[bytes], name: str) -> tuple[int, str]:
        """Copy a stream into the store; return its size and checksum."""
        digest, size = hashlib.sha256(), 0
        handle, temporary = tempfile.mkstemp(dir=self._store, prefix=".tmp-")
        try:
            with os.fdopen(handle, "wb") as target:
                while chunk := source.read(CHUNK_BYTES):
                    size += len(chunk)
                    if size > MAX_ARTIFACT_BYTES:
                        raise ArtifactRefused(f"{name} is larger than {MAX_ARTIFACT_BYTES}")
                    digest.update(chunk)
                    target.write(chunk)
                target.flush()
                os.fsync(target.fileno())
            path = self.path_of(digest.hexdigest())
            durable.make_folder(path.parent)
            os.replace(temporary, path)
            durable.sync_folder(path.parent)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return size, digest.hexdigest()


def _described(name: str, media_type: str, size_bytes: int, sha256: str) -> dict[str, Any]:
    return {
        "name": name,
        "media_type": media_type,
        "size_bytes": size_bytes,
        "sha256": sha256,
        "pointer": f"sha256:{sha256}",
    }


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or "\0" in name:
        raise ArtifactRefused(f"not an artifact name: {name!r:.80}")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
        raise ArtifactRefused(f"{name!r} leaves the artifacts folder")
    return name


def _open_inside(folder: Path, name: str) -> int:
    """Open the file for reading, following no symbolic link on the way.

    :raises ArtifactRefused: it is missing, a link, or not a regular file.
    """
    if not CAN_OPEN_INSIDE:
        return _open_by_path(folder, name)
    *parents, last = PurePosixPath(name).parts
    handle = -1
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        for part in parents:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        # Without NONBLOCK a named pipe would hold us here for ever.
        file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    except OSError as error:
        raise ArtifactRefused(f"{name}: {error.strerror}") from error
    finally:
        if handle >= 0:
            os.close(handle)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ArtifactRefused(f"{name} is not a regular file")
    return file


def _new_inside(folder: Path, name: str) -> int:
    """Make a file in a folder that is the program's, following no link, and open it for writing.

    :raises OSError: there is something of that name, or no folder to make it in.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    if not CAN_OPEN_INSIDE:
        return os.open(folder / name, flags | getattr(os, "O_BINARY", 0), durable.FILE_MODE)
    # The folder that it stands in is the program's, too, but the way to that one is ours.
    work = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        inside = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=work)
    finally:
        os.close(work)
    try:
        return os.open(name, flags | os.O_NOFOLLOW, durable.FILE_MODE, dir_fd=inside)
    finally:
        os.close(inside)


def _open_by_path(folder: Path, name: str) -> int:
    """Open the file where no folder can be; a link on the way is seen, if not made meanwhile.

    :raises ArtifactRefused: as `_open_inside` does.
    """
    path = folder
    try:
        for part in PurePosixPath(name).parts:
            path = path / part
            if path.is_symlink() or not path.resolve().is_relative_to(folder.resolve()):
                raise ArtifactRefused(f"{name}: a link")
        if not path.is_file():
            raise ArtifactRefused(f"{name} is not a regular file")
        return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise ArtifactRefused(f"{name}: {error.strerror}") from error
