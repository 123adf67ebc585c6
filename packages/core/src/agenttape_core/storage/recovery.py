"""Recovery: cassettes from the journals of processes that died, and copies of files that cannot be read."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from agenttape_core.errors import (
    CassetteError,
    CassetteFormatError,
    CassetteLockedError,
    CassetteNotFoundError,
    ConfigurationError,
)
from agenttape_core.format.assembly import assemble
from agenttape_core.format.journal_text import read_journal
from agenttape_core.format.records import AnyRecord
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Header, Interaction, Timing
from agenttape_core.storage.asset_files import AssetFolder
from agenttape_core.storage.atomic import hidden_beside
from agenttape_core.storage.cassette import Cassette, open_cassette
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.location import Location, location_of
from agenttape_core.storage.lock import (
    beside,
    elsewhere,
    holder,
    location_beside,
    locked,
    real_location,
    tidy_elsewhere,
)
from agenttape_core.storage.names import with_infix
from agenttape_core.storage.stores import exists, store_of
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
        CassetteNotFoundError: There's no such journal.
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
    with locked(written, "recovery"):
        full_header, records = unfinished(journal)
        write_cassette(written, full_header, records, kept_in=journal, are_plain=True)
    with contextlib.suppress(OSError):
        journal.unlink()
    tidy_elsewhere(journal.parent)
    return written


def unfinished(journal: Path) -> tuple[Header, list[AnyRecord]]:
    """Read a leftover journal: the header and the records of the cassette that it would become.

    A torn last line is dropped. Raises `CassetteNotFoundError` if there's no such journal, and `CassetteFormatError` if
    it is malformed before its last line.
    """
    header, lines = read_journal(journal, _content(journal))
    return assemble(header, (), lines)


def names_of_recovered(target: Path) -> list[Path]:
    """Return the cassettes that were made of unfinished recordings over this one, and are next to it."""
    named = (path for path in _recovered_names(target) if isinstance(path, Path))
    return list(itertools.takewhile(Path.exists, named))


def _recovered_names(original: Location) -> Iterator[Location]:
    for attempt in itertools.count(1):
        yield with_infix(original, "recovered" if attempt == 1 else f"recovered-{attempt}")


def _content(journal: Path) -> bytes:
    try:
        return journal.read_bytes()
    except FileNotFoundError:
        raise CassetteNotFoundError(journal, "there is no such journal") from None
    except OSError as error:
        raise CassetteFormatError(journal, f"the journal cannot be read: {error.strerror or error}") from error


def leftover_journals(target: Location) -> list[Path]:
    """The journals of recordings to this cassette that ended without a commit, oldest first."""
    target = real_location(target)
    found: list[tuple[float, Path]] = []
    for folder in {beside(target, target.name).parent, *elsewhere(target)}:
        with contextlib.suppress(OSError):
            for path in hidden_beside(folder, target.name):
                match = _NAME.fullmatch(path.name)
                if match and match["target"] == target.name:
                    found.append((path.stat().st_mtime, path))
    # Asked for last: a session that has begun since then has named a journal that was not yet there to be found.
    note = holder(target) or ""
    return [path for _, path in sorted(found) if not note.endswith(f" {path.name}")]


def target_of(journal: Path) -> Path | None:
    """Return the cassette that a journal beside it was to become; `None` for a file that is not named as a journal."""
    match = _NAME.fullmatch(journal.name)
    return journal.with_name(match["target"]) if match is not None else None


def _free_name(original: Location) -> Location:
    if not exists(original):
        return original
    return next(path for path in _recovered_names(original) if not exists(path))


ASIDE = ".broken"  # the end of the name under which an unreadable file is kept when its cassette is recorded again


def put_aside(target: Location, *, kept_in: Path | None = None) -> Location | None:
    """Keep a file that is about to be replaced, if it can't be read: a person may still recover parts of it.

    The copy has no name of a cassette, so that no folder of cassettes is broken by it.

    Args:
        target: What will be replaced; whoever calls holds its lock.
        kept_in: The journal that holds the new recording, named when the copy cannot be written.

    Returns:
        The copy, `NAME.yaml.broken`, which has the assets as well; `None` if there's no such need.

    Raises:
        CassetteVersionError: It is of a newer format, so it is good for someone.
        CassetteFormatError: Its contents are unknown, so it must not be replaced.
        CassetteWriteError: The copy could not be written.
    """
    try:
        open_cassette(target)
    except CassetteNotFoundError:
        return None
    except CassetteFormatError:
        data = packed_bytes(target)
    else:
        return None
    aside = _free_name_aside(target)
    AssetFolder(aside).save(AssetFolder(target).content(), kept_in=kept_in)
    store, key = store_of(aside)
    store.save(key, data, kept_in=kept_in)
    return aside


def is_replaceable(location: Location) -> bool:
    """Return True if an unreadable cassette can be put aside: it's a file, and all of it can be read."""
    with contextlib.suppress(CassetteFormatError):
        packed_bytes(location)
        return True
    return False


def _free_name_aside(target: Location) -> Location:
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (target.with_name(f"{target.name}{ASIDE}{number}") for number in numbers)
    return next(name for name in names if not exists(name))


# The calls that earlier runs which did not end have recorded over a cassette, and left beside it.


class LeftOver(NamedTuple):
    """A call that was recorded, and is in no cassette.

    Args:
        interaction: The call, with a number that none of the cassette has.
        timing: Its times.
    """

    interaction: Interaction
    timing: Timing


def left_over(cassette: Cassette) -> list[LeftOver]:
    """Return the records that unfinished runs made over a cassette, without those in the cassette itself.

    Of equal requests, there are as many as the run has that recorded most of them. Runs with other pseudonyms, or whose
    requests are compared in another way, are left out, and so are unreadable ones.

    Args:
        cassette: The cassette.
    """
    if not isinstance(cassette.path, Path):
        return []
    known = Counter(row.fingerprint for row in cassette.entries)
    numbers = count(max((row.number for row in cassette.entries), default=0) + 1)
    found: list[LeftOver] = []
    for header, records in _unfinished_runs(cassette.path):
        if (header.redaction, header.ignore) != (cassette.preface.redaction, cassette.preface.ignore):
            continue
        mine: Counter[str] = Counter()
        renumbered: dict[int | None, int] = {}
        for record in records:
            if not isinstance(record, Interaction):
                continue
            mine[record.fingerprint] += 1
            if mine[record.fingerprint] <= known[record.fingerprint]:
                continue
            renumbered[record.number] = number = next(numbers)
            placed = record.model_copy(update={"number": number, "parent": renumbered.get(record.parent)})
            found.append(LeftOver(placed, header.volatile.timings.get(record.number, Timing(duration_ms=0.0))))
        known |= mine
    return found


def _unfinished_runs(target: Path) -> Iterator[tuple[Header, Iterable[AnyRecord]]]:
    for path in names_of_recovered(target):
        with suppress(CassetteError):  # half a run that nobody can read is of no use
            recovered = open_cassette(path)
            yield recovered.header, list(recovered.records())
    for journal in leftover_journals(target):
        with suppress(CassetteError):
            yield unfinished(journal)
