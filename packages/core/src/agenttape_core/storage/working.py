"""Where the lock and the journals of a cassette are: beside it, or in a local folder when it is at a URL."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
from pathlib import Path

from agenttape_core.errors import CassetteWriteError
from agenttape_core.storage.atomic import make_folder, real_path
from agenttape_core.storage.location import Location, location_of

_URL_FILE = "url"


def real_location(location: Location) -> Location:
    """The location behind symbolic links, so that two names of one cassette have one lock."""
    return real_path(location) if isinstance(location, Path) else location


def beside(location: Location, name: str) -> Path:
    """The local file of this name that belongs to a real location."""
    return location.with_name(name) if isinstance(location, Path) else _folder_of(location) / name


def prepare_beside(location: Location) -> None:
    """Make the folder of what `beside` names.

    Raises:
        CassetteWriteError: It cannot be made.
    """
    if isinstance(location, Path):
        make_folder(location)
        return
    folder = _folder_of(location)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / _URL_FILE).write_text(location, encoding="utf-8")
    except OSError as error:
        problem = f"its lock and journal belong into {folder}, which cannot be made: {error.strerror or error}"
        remedy = "set XDG_STATE_HOME to a folder that you may write to"
        raise CassetteWriteError(location, problem, remedy=remedy) from error


def location_beside(file: Path, name: str) -> Location:
    """The cassette of this name that a file, which `beside` or `elsewhere` named, belongs to."""
    if file.absolute().parent.parent in _roots() and _is_private(file.parent.parent):
        try:
            return location_of((file.parent / _URL_FILE).read_text(encoding="utf-8")).with_name(name)
        except (OSError, UnicodeDecodeError):
            return real_path(file.with_name(name))
    return real_path(file.with_name(name))


def elsewhere(location: Location) -> list[Path]:
    """The folders for what has no room beside a real location: the user's for states, and one for temporary files."""
    return [_folder_of(location, root) for root in _roots()]


def prepare_elsewhere(folder: Path, location: Location) -> None:
    """Make one of the folders of `elsewhere`.

    Raises:
        OSError: It cannot be made, or is another user's.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_private(folder.parent):
        raise PermissionError(errno.EACCES, "the folder is not this user's alone")
    folder.mkdir(exist_ok=True, mode=0o700)
    (folder / _URL_FILE).write_text(_url_of(location), encoding="utf-8")


def tidy_elsewhere(folder: Path) -> None:
    """Remove a folder of `elsewhere` that holds nothing any more; any other folder is left as it is."""
    with contextlib.suppress(OSError):
        if folder.absolute().parent in _roots() and [path.name for path in folder.iterdir()] == [_URL_FILE]:
            (folder / _URL_FILE).unlink()
            folder.rmdir()


def _folder_of(location: Location, root: Path | None = None) -> Path:
    return (root or _state_folder()) / hashlib.sha256(_url_of(location).encode()).hexdigest()[:16]


def _url_of(location: Location) -> str:
    return location.as_uri() if isinstance(location, Path) else location


def _is_private(folder: Path) -> bool:
    """Whether a folder is of this user, and no link: others may have made one of that name among temporary files."""
    if sys.platform == "win32":  # where each user has temporary files of their own
        return True
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o002


def _roots() -> list[Path]:
    """The two folders that there may be, without those that cannot be named: a user has no home, the disk no room."""
    roots = []
    for root in (_state_folder, _temporary_folder):
        with contextlib.suppress(OSError, RuntimeError):
            roots.append(root())
    return roots


def _temporary_folder() -> Path:
    import tempfile  # which is needed this once

    user = f"-{os.getuid()}" if sys.platform != "win32" else ""
    return Path(tempfile.gettempdir()).absolute() / f"agenttape{user}"


def _state_folder() -> Path:
    """The user's folder for what outlives a restart: XDG Base Directory Specification 0.8, or Windows' own."""
    state = os.environ.get("XDG_STATE_HOME") or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None)
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "agenttape"
