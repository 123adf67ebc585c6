"""Where the lock and the journals of a cassette are: beside it, or in a local folder when it is at a URL."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from agenttape_core.errors import CassetteWriteError
from agenttape_core.storage.atomic import make_folder, real_path
from agenttape_core.storage.location import CassetteUrl, Location

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
    """The cassette of this name that a file, which `beside` named, belongs to."""
    if file.absolute().parent.parent == _state_folder():
        try:
            return CassetteUrl((file.parent / _URL_FILE).read_text(encoding="utf-8")).with_name(name)
        except (OSError, UnicodeDecodeError):
            return real_path(file.with_name(name))
    return real_path(file.with_name(name))


def _folder_of(url: CassetteUrl) -> Path:
    return _state_folder() / hashlib.sha256(url.encode()).hexdigest()[:16]


def _state_folder() -> Path:
    """The user's folder for what outlives a restart: XDG Base Directory Specification 0.8, or Windows' own."""
    state = os.environ.get("XDG_STATE_HOME") or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None)
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "agenttape"
