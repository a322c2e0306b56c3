"""The data folder: all that an installation on this machine keeps is in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class EmbeddedError(Exception):
    """The embedded server cannot serve. The message is one line, for a person."""


class FolderUnusable(EmbeddedError):
    """The data folder cannot be made, entered or written."""


class VersionMismatch(EmbeddedError):
    """The data folder was made by another major version of PostgreSQL."""


class ServerFailed(EmbeddedError):
    """The server does not start, or does not answer in time."""


def is_root() -> bool:
    """Tell whether this process runs as root."""
    return os.geteuid() == 0


def data_folder() -> Path:
    """Return the absolute path of the folder that holds all that an installation keeps."""
    default = Path(__file__).resolve().parents[2] / ".fencepost"
    return Path(os.environ.get("FENCEPOST_DATA") or default).resolve()


def usable(folder: Path) -> Path:
    """Make `folder` if it is absent, and return it.

    :raises FolderUnusable: it is no folder, or this process may not write in it.
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            # As root, the server's user has to pass through; what is secret has modes of its own.
            folder.chmod(0o711 if is_root() else 0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FolderUnusable(
            f"The data folder {folder} cannot be used: {error.strerror or error}."
        ) from error
    return folder
