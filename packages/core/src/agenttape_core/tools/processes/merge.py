"""Merge the recordings of a command's processes into a cassette each."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agenttape_core.engine import Mode
from agenttape_core.schema import Header, Step, Timing
from agenttape_core.storage import (
    Carried,
    Cassette,
    Journal,
    Location,
    leftover_journals,
    open_cassette,
    pending_path,
    put_aside,
    recording_process,
    recover,
    with_infix,
)
from agenttape_core.storage.asset_files import AssetFolder
from agenttape_core.storage.atomic import real_path
from agenttape_core.storage.lock import lock_path
from agenttape_core.tools.processes.run_folder import ProcessReport, RunConfig


class Merged(NamedTuple):
    """A cassette that was merged from the recordings of processes.

    Args:
        address: The address of the processes.
        path: The file.
        is_aside: Whether it stands beside a cassette that was not changed.
        broken: The new place of the unreadable file that it replaces, if there was one.
    """

    address: str
    path: Path
    is_aside: bool
    broken: Location | None = None


def merged(
    reports: Sequence[ProcessReport], config: RunConfig, *, replaces: bool, derives: bool, waits: bool = False
) -> list[Merged]:
    """Make the cassettes of a run.

    Args:
        reports: The reports of its processes.
        config: The configuration of the run.
        replaces: Whether an existing cassette is replaced. If not, the recording is written beside it.
        derives: Whether a replay made them, which does not change its cassettes.
        waits: Whether a new recording waits for review beside an existing cassette.

    Raises:
        CassetteError: One cannot be read or written. The parts are kept.
    """
    parts: defaultdict[str, list[Path]] = defaultdict(list)
    only_new = set()
    for report in reports:
        if report.part:
            found, recovered = _parts(Path(report.part))
            parts[report.address] += [*found, *recovered]
            if recovered and config.options["mode"] in {Mode.ADD.value, Mode.UPDATE.value}:
                only_new.add(report.address)  # a session takes over what was there at its end, and it had none
    made = []
    for address, paths in parts.items():
        if paths:
            target = config.cassette_of(address)
            is_aside = derives or (target.exists() and (not replaces or address in only_new))
            path = _beside(target, "derived" if derives else "recovered") if is_aside else target
            if waits and not is_aside and target.exists():
                is_aside, path = True, pending_path(target)
            made.append(Merged(address, path, is_aside, broken=_merge(paths, path)))
    return made


def _parts(part: Path) -> tuple[list[Path], list[Path]]:
    """Return the recordings of a process: those that it wrote, and those that were recovered from its journals."""
    if recording_process(part) is not None:
        return [], []  # it lives on, and its recording stays where it is
    found = [part] if part.exists() else []
    recovered = []
    for journal in leftover_journals(part):
        written = Path(recover(journal))
        if open_cassette(written).entries:
            recovered.append(written)
        else:
            remove(written)
    lock_path(real_path(part)).unlink(missing_ok=True)  # of a process that was killed
    return found, recovered


def _beside(target: Path, word: str) -> Path:
    """Return where something stands beside a cassette; a derived one replaces the one before it."""
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    paths = (with_infix(target, f"{word}{number}") for number in numbers)
    return next(path for path in paths if word == "derived" or not path.exists())


def _merge(parts: Sequence[Path], target: Path) -> Location | None:
    """Make one cassette of several, and remove those. Return where that went that could not be read in its place."""
    cassettes = [open_cassette(part) for part in parts]
    header = _header([cassette.header for cassette in cassettes])
    journal = Journal(target, header)
    seen: Counter[str] = Counter()
    try:
        for place, cassette in enumerate(cassettes):
            seen |= _append(journal, place, cassette, seen)
        aside = put_aside(journal.target)
        journal.commit(header)
    finally:
        journal.abandon(keep=False)
    for part in parts:
        remove(part)
    return aside


def remove(path: Path) -> None:
    """Remove a cassette with its assets."""
    AssetFolder(path).sweep(())
    path.unlink()


def _append(journal: Journal, place: int, cassette: Cassette, seen: Counter[str]) -> Counter[str]:
    """Append the records of one cassette that those before it do not have, and return how often it has each.

    What a part has in common with others was there before the run, and was taken over by each of them.
    """
    volatile = cassette.header.volatile
    mine: Counter[str] = Counter()
    for index, record in enumerate(cassette.records()):
        content = record.model_dump_json(exclude={"number", "parent"})
        mine[content] += 1
        if mine[content] <= seen[content]:
            continue
        order = (place, index)
        if isinstance(record, Step):
            journal.append_step(record, volatile.steps[record.number], order)
        else:
            timing = volatile.timings.get(record.number, Timing(duration_ms=0.0))
            journal.carry(Carried(record, timing, order, source=place + 1))
    return mine


def _header(headers: Sequence[Header]) -> Header:
    """Return the header of cassettes that were recorded by equal processes in one run."""
    first = min(headers, key=lambda header: header.volatile.created)
    environment: dict[str, str | None] = {}
    packages: dict[str, str] = {}
    readings: dict[str, str] = {}
    for header in headers:
        readings |= header.volatile.readings
        environment |= header.freeze.environment
        packages |= header.volatile.packages
    # What arrives in several processes has no order among each other, and each has its own labels for it.
    is_one = len(headers) == 1
    turns = [group for header in headers for group in header.volatile.answers() if group]
    volatile = {
        "turns": [] if is_one and first.volatile.admissions is not None else turns,
        "schedule": [],
        "threads": "",
        "loose": first.volatile.loose if is_one else "",
        "admissions": first.volatile.admissions if is_one else None,
        "readings": readings,
        "packages": dict(sorted(packages.items())),
        "timings": {},
        "steps": {},
    }
    return first.model_copy(
        update={
            "freeze": first.freeze.model_copy(update={"environment": dict(sorted(environment.items()))}),
            "volatile": first.volatile.model_copy(update=volatile),
        }
    )
