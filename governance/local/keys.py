"""Secrets that an installation makes for itself: files of mode 0600 in its data folder."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def secret_key(folder: Path) -> str:
    """Return Django's secret key of the installation, made at its first start."""
    path = folder / "secret_key"
    with suppress(FileNotFoundError):
        return path.read_text().strip()
    keep_once(path, secrets.token_urlsafe(64))
    return path.read_text().strip()


def keep_once(path: Path, text: str) -> bool:
    """Write `text` to `path`, readable by the owner only, unless the file exists already.

    The file appears whole or not at all, also with several processes at it at once.  Returns
    whether this call made it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        return True
    finally:
        draft.unlink()
