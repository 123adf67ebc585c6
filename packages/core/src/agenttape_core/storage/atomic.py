"""Replacing a file so that a crash at any moment leaves either the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from agenttape_core.errors import CassetteWriteError, how_to_recover
from agenttape_core.lazy_patterns import Lazy

_LEFTOVER = Lazy(r"\.[0-9]+-[0-9a-f]{8}\.tmp")  # the end of the name of a temporary file


def real_path(path: Path) -> Path:
    """The file behind symbolic links, so that a link to a cassette stays a link when the cassette is replaced."""
    return Path(os.path.realpath(path))


def make_folder(path: Path) -> None:
    """Create the folder of a file. Raises `CassetteWriteError` if it cannot be created."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"its folder cannot be created: {error.strerror or error}"
        raise CassetteWriteError.of_system(path, problem, remedy="record to a folder you may write to") from error


def replace_file(path: Path, data: bytes, *, kept_in: Path | None = None) -> None:
    """Write `data` to a temporary file in the same folder, sync it, and rename it over `path`.

    `kept_in` is the journal that holds the same recording; without one, a complete temporary file that could not be
    renamed is kept and named in the error. Raises `CassetteWriteError` if it could not be written; the old file, if
    any, is untouched.
    """
    make_folder(path)
    temporary = _temporary(path)
    complete = False
    try:
        _write_synced(temporary, data)
        complete = True
        _copy_mode(path, temporary)
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        kept = kept_in
        if kept is None and complete:
            kept = temporary
        else:
            _remove(temporary)
        raise _failure(path, error, kept) from error
    except BaseException:
        _remove(temporary)
        raise


def create_file(path: Path, data: bytes) -> bool:
    """Write a file whole unless there is one, and return True if it was written; of several processes, one does.

    Raises `CassetteWriteError` if it could not be written.
    """
    make_folder(path)
    temporary = _temporary(path)
    try:
        _write_synced(temporary, data)
        os.link(temporary, path)
        _sync_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise _failure(path, error, None) from error
    finally:
        _remove(temporary)
    return True


def hidden_beside(folder: Path, name: str) -> list[Path]:
    """Return the hidden files (`.NAME.` and more) of a file. Raises `OSError` if the folder can't be read."""
    start = f".{name}."
    return [path for path in folder.iterdir() if path.name.startswith(start)]


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that processes left which died while they replaced a file; only its one writer may."""
    with contextlib.suppress(OSError):
        for found in hidden_beside(path.parent, path.name):
            if _LEFTOVER.fullmatch(found.name.removeprefix(f".{path.name}")):
                _remove(found)


def _failure(path: Path, error: OSError, kept: Path | None) -> CassetteWriteError:
    problem = f"it could not be written: {error.strerror or error}"
    if kept is None:
        return CassetteWriteError.of_system(
            path, problem, remedy="free space or fix the permissions, then record again"
        )
    if kept.suffix == ".journal":
        remedy = f"then make a cassette of it:  {how_to_recover(kept)}"
    else:
        remedy = "it is complete: rename it"
    return CassetteWriteError.of_system(path, f"{problem}; what was recorded is kept in {kept}", remedy=remedy)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_mode(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.chmod(source.stat().st_mode & 0o777)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; where folders cannot be opened (Windows), the system does it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
