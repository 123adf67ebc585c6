"""Getting back what a process had recorded when it died."""

from __future__ import annotations

import contextlib
import itertools
import re
from pathlib import Path

from agenttape_core.errors import CassetteLockedError, ConfigurationError
from agenttape_core.storage.journal_text import assemble, read_journal
from agenttape_core.storage.location import Location, location_of
from agenttape_core.storage.lock import WriterLock, holder
from agenttape_core.storage.stores import exists
from agenttape_core.storage.working import beside, location_beside, prepare_beside, real_location
from agenttape_core.storage.writer import write_cassette

_NAME = re.compile(r"\.(?P<target>.+)\.[0-9]+-[0-9a-f]+\.journal")


def recover(journal: Path | str, target: Path | str | None = None) -> Location:
    """Build a cassette from a leftover journal, then remove the journal.

    Args:
        journal: One of `leftover_journals`. A torn last line is dropped.
        target: The cassette to write, or its URL. By default the one that was being recorded, if there is none yet;
            else a new file `NAME.recovered.yaml` beside it, so that a good cassette is never replaced by half a run.

    Returns:
        The cassette that was written.

    Raises:
        CassetteNotFoundError: There is no such journal.
        CassetteFormatError: The journal is malformed before its last line.
        CassetteLockedError: It is being written, or its target is.
        CassetteWriteError: The cassette could not be written; the journal is kept.
    """
    journal = Path(journal)
    match = _NAME.fullmatch(journal.name)
    if match is None:
        raise ConfigurationError(
            f"{journal} is not named as a journal is\n  expected .NAME.PROCESS-RANDOM.journal beside the cassette"
        )
    original = location_beside(journal, match["target"])
    note = holder(original)
    if note is not None and note.endswith(f" {journal.name}"):
        problem = f"process {note.split()[0]} is recording to this journal"
        raise CassetteLockedError(journal, problem, remedy="wait until it has ended")
    written = real_location(location_of(target)) if target is not None else _free_name(original)
    prepare_beside(written)
    lock = WriterLock(written, "recovery")
    try:
        header, lines = read_journal(journal)
        full_header, interactions = assemble(header, (), lines)
        write_cassette(written, full_header, interactions, kept_in=journal)
    finally:
        lock.release()
    with contextlib.suppress(OSError):
        journal.unlink()
    return written


def leftover_journals(target: Location) -> list[Path]:
    """The journals of recordings to this cassette that ended without a commit, oldest first."""
    target = real_location(target)
    note = holder(target) or ""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for path in beside(target, target.name).parent.iterdir():
            match = _NAME.fullmatch(path.name)
            if match and match["target"] == target.name and not note.endswith(f" {path.name}"):
                found.append(path)
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def _free_name(original: Location) -> Location:
    if not exists(original):
        return original
    stem, *suffixes = original.name.split(".")
    for attempt in itertools.count(1):
        infix = "recovered" if attempt == 1 else f"recovered-{attempt}"
        path = original.with_name(".".join((stem, infix, *suffixes)))
        if not exists(path):
            return path
    raise AssertionError
