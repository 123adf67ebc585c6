"""`agenttape cassette prune`: unneeded files beside cassettes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, paths_argument
from agenttape_core.cli.output import cli_command, print_json, print_text, progress, size_of
from agenttape_core.errors import (
    CassetteError,
    CassetteLockedError,
    CassetteNotFoundError,
    ConfigurationError,
    counted,
    shown_path,
)
from agenttape_core.format.assets import is_file_name
from agenttape_core.format.journal_text import read_journal
from agenttape_core.storage import leftover_journals, open_cassette, read_cassette, recording_process
from agenttape_core.storage.files import read_bytes
from agenttape_core.storage.lock import lock_path, locked
from agenttape_core.storage.names import ASSETS
from agenttape_core.storage.recovery import ASIDE

# -- Files beside cassettes that nobody needs any more, and how to remove them without taking anything from anybody.


_COLLECTING = "agenttape_core.pytest_plugin.collecting"
_TOLD = 2_000  # the number of characters of pytest's output that are passed on


def cassettes_of_no_test(tests: Sequence[str]) -> list[Path]:
    """Collect tests with pytest, in a separate process, and return the cassettes that belong to none of them.

    Only cassettes that are named after a test are looked at: the users of any other name are not known. Raises
    `ConfigurationError` if the tests can't be collected, so that their cassettes are unknown.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        command = [sys.executable, "-m", _COLLECTING, str(found), *tests]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
        if not found.exists():
            said = f"{done.stdout}{done.stderr}".strip()[-_TOLD:]
            raise ConfigurationError(f"the tests could not be collected, so none of their cassettes is judged\n{said}")
        return [Path(path) for path in json.loads(found.read_text(encoding="utf-8"))]


Kind = Literal["asset", "folder", "lock", "temporary", "journal", "broken", "cassette"]

_ASSET = re.compile(rb"\b[0-9a-f]{64}(?:\.[a-z0-9]{1,5})?\b")
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9]+-[0-9a-f]{8}\.tmp")
_ASIDE = re.compile(r"(?P<name>.+)" + re.escape(ASIDE) + r"(?:-[0-9]+)?")
_BESIDE = (
    re.compile(r"(?P<name>.+)" + re.escape(ASSETS)),
    re.compile(r"\.(?P<name>.+)\.lock"),
    re.compile(r"\.(?P<name>.+)\.[0-9]+-[0-9a-f]+\.journal"),
    _TEMPORARY,
    _ASIDE,
)
"""The names of files that belong to a cassette."""
_CASSETTE = re.compile(r".+\.(?:yaml|yml|jsonl)(?:\.gz|\.zst)?", re.IGNORECASE)
_NOTE = re.compile(rb"[0-9]+ \S.*")  # the content of a lock of ours: other tools use the same names
_QUIET = 3600  # seconds. A file that is being written is touched more often than this.


@dataclass(frozen=True, slots=True)
class Garbage:
    """An unneeded file or folder, or one that you have to decide about."""

    path: Path  # the file
    kind: Kind
    why: str  # the reason why it's unneeded; for one that is kept, the advice
    size: int  # its size in bytes
    is_removable: bool = True  # whether it can go without the loss of a recording

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "path": str(self.path)}


def cassettes_around(path: Path) -> list[Path]:
    """Return the cassettes, there or gone, whose files beside them are to be looked at.

    `path` may be a folder, which is searched without hidden folders. Returns absolute paths, without links.
    """
    path = Path(os.path.realpath(path))
    if not path.is_dir():
        return [path]
    found: set[Path] = set()
    for folder, below, names in os.walk(path):  # which follows no links
        entries = [name for name in [*below, *names] if not Path(folder, name).is_symlink()]
        found.update(Path(folder, name) for entry in entries if (name := _cassette_of(entry)))
        below[:] = [name for name in below if not name.startswith(".") and not name.endswith(ASSETS)]
    return sorted(found)


def garbage_of(cassette: Path, *, is_locked: bool = False) -> list[Garbage]:
    """Return the unneeded files next to a cassette; none while it is being recorded.

    With `is_locked`, the caller holds the cassette's lock. Raises `CassetteError` if the cassette can't be read, so
    that its needs are unknown.
    """
    if cassette.is_symlink() or (not is_locked and recording_process(cassette) is not None):
        return []
    found = [*_assets(cassette), *_temporaries(cassette), *_journals(cassette), *_put_aside(cassette)]
    lock = lock_path(cassette)
    if not is_locked and lock.is_file() and _NOTE.fullmatch(lock.read_bytes()):
        found.append(_garbage(lock, "lock", "no process holds it"))
    return found


def remove_garbage_of(cassette: Path) -> list[Garbage]:
    """Remove the unneeded files next to a cassette, while no session can record to it; return them.

    Raises `CassetteError` if the cassette cannot be read, or something cannot be removed.
    """
    before = [garbage for garbage in garbage_of(cassette) if garbage.is_removable]
    if not before:
        return []
    removed = [garbage for garbage in before if garbage.kind == "lock"]
    try:
        with locked(cassette, "gc"):  # whose end removes the file of the lock, also one that was left
            for garbage in garbage_of(cassette, is_locked=True):
                if garbage.is_removable:
                    remove(garbage.path)
                    removed.append(garbage)
            removed += _emptied(cassette)
    except CassetteLockedError:
        return []
    return removed


def remove(path: Path) -> None:
    """Remove a file or an empty folder. Raises `CassetteError` if it cannot be removed."""
    try:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        problem = f"it could not be removed: {error.strerror or error}"
        raise CassetteError(path, problem, remedy="fix the permissions of its folder") from error


def whole_cassette(path: Path) -> Garbage:
    """Return an unneeded cassette, with its companion files."""
    return _garbage(path, "cassette", "it belongs to no test")


def _cassette_of(name: str) -> str:
    """Return the name of the cassette that a file or folder belongs to; empty if it is not one of ours."""
    for form in _BESIDE:
        match = form.fullmatch(name)
        if match is not None and _CASSETTE.fullmatch(match["name"]):
            return match["name"]
    return ""


def _assets(cassette: Path) -> Iterator[Garbage]:
    folder = cassette.with_name(f"{cassette.name}{ASSETS}")
    if folder.is_symlink() or not folder.is_dir():
        return
    entries = sorted(folder.iterdir())
    if not entries:
        yield _garbage(folder, "folder", "it is empty")
        return
    is_there = cassette.exists()
    needed = _needed(cassette) if is_there else frozenset()
    why = "its cassette does not refer to it" if is_there else "its cassette is gone"
    for entry in entries:
        if entry.is_symlink() or not entry.is_file():
            continue
        temporary = _TEMPORARY.fullmatch(entry.name)
        if temporary is not None and is_file_name(temporary["name"]) and _is_quiet(entry):
            yield _garbage(entry, "temporary", "the process that wrote it has died")
        elif is_file_name(entry.name) and entry.name not in needed:
            yield _garbage(entry, "asset", why)


def _needed(cassette: Path) -> frozenset[str]:
    """Return the names of all assets that a cassette may refer to: whatever in it has the form of one."""
    open_cassette(cassette)
    return frozenset(name.decode() for name in _ASSET.findall(read_bytes(cassette)))


def _emptied(cassette: Path) -> list[Garbage]:
    folder = cassette.with_name(f"{cassette.name}{ASSETS}")
    if folder.is_symlink() or not folder.is_dir() or any(folder.iterdir()):
        return []
    remove(folder)
    return [Garbage(folder, "folder", "it is empty", 0)]


def _temporaries(cassette: Path) -> Iterator[Garbage]:
    for path in sorted(cassette.parent.iterdir()) if cassette.parent.is_dir() else ():
        match = _TEMPORARY.fullmatch(path.name)
        if match is None or match["name"] != cassette.name or path.is_symlink() or not _is_quiet(path):
            continue
        if _is_whole(path):
            what = "it is a whole cassette that could not be put in its place; rename it, or remove it"
            yield _garbage(path, "temporary", what, is_removable=False)
        else:
            yield _garbage(path, "temporary", "the process that wrote it has died, and it is not whole")


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            read_cassette(file)
    except CassetteError:
        return False
    return True


def _journals(cassette: Path) -> Iterator[Garbage]:
    for path in leftover_journals(cassette):
        if path.parent != cassette.parent or path.is_symlink():
            continue
        if _holds_something(path):
            what = "a recording that was cut off; get it back with agenttape cassette recover, or remove it"
            yield _garbage(path, "journal", what, is_removable=False)
        else:
            yield _garbage(path, "journal", "it holds no recording")


def _put_aside(cassette: Path) -> Iterator[Garbage]:
    for path in sorted(cassette.parent.iterdir()) if cassette.parent.is_dir() else ():
        match = _ASIDE.fullmatch(path.name)
        if match is not None and match["name"] == cassette.name and path.is_file() and not path.is_symlink():
            what = "it could not be read when its cassette was recorded again; remove it when you don't need it anymore"
            yield _garbage(path, "broken", what, is_removable=False)


def _holds_something(journal: Path) -> bool:
    with contextlib.suppress(CassetteError, OSError):
        return bool(read_journal(journal, journal.read_bytes())[1])
    return True  # a person may see more in it


def _is_quiet(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _QUIET


def _garbage(path: Path, kind: Kind, why: str, *, is_removable: bool = True) -> Garbage:
    return Garbage(path, kind, why, path.stat().st_size if path.is_file() else 0, is_removable)


@cli_command("agenttape cassette prune tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the files; exit with 1 if there is any.")
@click.option(
    "--tests",
    multiple=True,
    metavar="PATH",
    help="Collect these tests, and find cassettes of no test, too. Repeatable.",
)
def prune(paths: tuple[str, ...], *, dry_run: bool, tests: tuple[str, ...], as_json: bool) -> int:
    """Delete leftover files next to cassettes.

    These are assets that no cassette refers to, locks that no process holds, remains of interrupted writes, and empty
    journals. Journals that can be recovered are listed, and never deleted. --tests runs pytest --collect-only.
    """
    delete = not dry_run
    orphans = [path for path in cassettes_of_no_test(tests) if recording_process(path) is None] if tests else []
    found, problems = _orphaned(orphans, delete=delete)
    for cassette in progress(_cassettes(paths, orphans if delete else ()), "looking"):
        try:
            kept = [garbage for garbage in garbage_of(cassette) if not garbage.is_removable or not delete]
            found += [*(remove_garbage_of(cassette) if delete else ()), *kept]
        except CassetteError as error:
            problems.append(str(error))
    if as_json:
        print_json({"deleted": delete, "found": [_plain(garbage) for garbage in found], "problems": problems})
    else:
        _show(found, problems, delete=delete)
    if problems:
        return CASSETTE
    return FINDINGS if found and not delete else OK


def _orphaned(orphans: Sequence[Path], *, delete: bool) -> tuple[list[Garbage], list[str]]:
    """Return the cassettes that belong to no test, removed on request, and the problems with that."""
    found, problems = [], []
    for path in orphans:
        garbage = whole_cassette(path)
        try:
            if delete:
                remove(path)
            found.append(garbage)
        except CassetteError as error:
            problems.append(str(error))
    return found, problems


def _cassettes(paths: Sequence[str], removed: Sequence[Path]) -> list[Path]:
    """Return the cassettes to look beside: those that paths mean, and those that were just removed."""
    for path in paths:
        if path == STDIN or "://" in path:
            raise click.UsageError(f"{path} is neither a folder nor a file; name a cassette, or a folder of them")
        if not Path(path).exists():
            raise CassetteNotFoundError(path, "there is no such file or folder")
    meant = [cassette for path in paths or (".",) for cassette in cassettes_around(Path(path))]
    return list(dict.fromkeys([*meant, *removed]))


def _plain(garbage: Garbage) -> dict[str, Any]:
    return {**garbage.to_dict(), "path": shown_path(garbage.path)}


def _show(found: Sequence[Garbage], problems: Sequence[str], *, delete: bool) -> None:
    for garbage in found:
        word = "kept" if not garbage.is_removable else "removed" if delete else "found"
        print_text(
            f"{word} {garbage.kind} {shown_path(garbage.path)}: {garbage.why}", "" if garbage.is_removable else "yellow"
        )
    for problem in problems:
        print_text(problem, "red")
    gone = [garbage for garbage in found if garbage.is_removable]
    if not found and not problems:
        print_text("no unneeded files")
    elif gone:
        files, size = counted(len(gone), "file"), size_of(sum(garbage.size for garbage in gone))
        print_text(f"{files} removed, {size}" if delete else f"{files} can be removed, {size}")
