"""Forget recordings in a store: erase those that are too old, or a value in all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from agenttape_core.checks.judges import JUDGE
from agenttape_core.errors import AgentTapeError, counted
from agenttape_core.settings import Settings
from agenttape_core.storage import (
    SNAPSHOT,
    SUFFIXES,
    Cassette,
    Location,
    Stored,
    cassette_of,
    is_cassette,
    leftover_journals,
    list_files,
    recording_process,
    stem_of,
    target_of,
)
from agenttape_core.storage.asset_files import AssetFolder
from agenttape_core.storage.files import unpacked_bytes
from agenttape_core.storage.listing import read_ahead
from agenttape_core.storage.names import ASSETS, SCORES
from agenttape_core.storage.stores import store_of
from agenttape_core.tools.rewrite import Leak, check_values, redact, would_redact
from agenttape_core.tools.rewrite.values import byte_forms
from agenttape_core.tools.upkeep.age import recorded_at
from agenttape_core.tools.upkeep.checksums import FILE, checksums_of, read_checksums, write_checksums

State = Literal["erased", "replaced", "left", "unreadable"]

_ASSET = re.compile(rb"\b[0-9a-f]{64}\b")
_ANY = "-"  # the name by which files are put together that have one folder
_HIDDEN = "[value]"  # replaces a value in the name of a file


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A file of a store, and its state."""

    path: str  # or its URL
    state: State  # a recording was erased, values in it were replaced, something is left, or it can't be read
    why: str = ""  # the reason, or the part that is left and the advice about it
    places: tuple[Leak, ...] = ()  # the places where values were replaced


def forget_older(urls: Sequence[str], age: timedelta, now: datetime, *, dry_run: bool) -> Iterator[Forgotten]:
    """Erase the recordings that are older than an age, with their assets, journals, scores and judgements.

    The moment of a recording is in its header; one without is left. The checksums of erased files are removed. With
    `dry_run`, they are only listed. Raises `CassetteError` if a store can't be listed.
    """
    files = _listed(urls)
    beside: dict[Location, list[Location]] = defaultdict(list)  # the files of each folder
    for file in files:
        beside[file.location.with_name(_ANY)].append(file.location)
    erased: set[Location] = set()
    derived: dict[Location, str] = {}
    for file, cassette in _cassettes(files):
        if file.location in erased:  # with the run that it belongs to
            continue
        if isinstance(cassette, Forgotten):
            yield cassette
        elif (moment := recorded_at(cassette.preface.volatile.created)) is None:
            yield Forgotten(str(file.location), "left", "it has no time of recording; remove the file if it's too old")
        elif now - moment > age:
            yield _erased(file, beside, erased, f"recorded {moment.date().isoformat()}", dry_run=dry_run)
        elif cassette.preface.derived_from is not None:
            derived[file.location] = cassette.preface.derived_from
    yield from _left_of(files, erased, derived, now - age)
    if not dry_run:
        _keep_checksums(erased, ())


def _left_of(
    files: Sequence[Stored], erased: Collection[Location], derived: Mapping[Location, str], before: datetime
) -> Iterator[Forgotten]:
    """Yield the files that hold parts of old recordings: derived cassettes, and journals without a cassette."""
    for location, source in derived.items():
        if location.with_name(source) in erased:
            yield Forgotten(str(location), "left", f"it was derived from {source}, which is too old; remove it too")
    for journal in _lost_journals(files, before):
        why = "it's of a recording that was cut off: agenttape cassette recover, or remove it"
        yield Forgotten(str(journal), "left", why)


def forget_values(
    urls: Sequence[str], values: Sequence[str], settings: Settings, *, dry_run: bool
) -> Iterator[Forgotten]:
    """Replace values by pseudonyms in each recording that holds one, as `agenttape cassette redact` does.

    A file of another kind that holds a value is reported, and not changed. One that is packed isn't searched, unless it
    has the name of a cassette. The checksums of changed recordings are written again. With `dry_run`, they are only
    listed.

    Raises `CassetteError` if a store can't be listed, and `ConfigurationError` if a value has less than four
    characters.
    """
    check_values(values)
    forms = [form for value in values for form in byte_forms(value)]
    changed: set[Location] = set()
    for file, read in read_ahead(_listed(urls)):
        path = _without(str(file.location), values)
        if path != str(file.location):
            yield Forgotten(path, "left", "its name holds a value; rename the file")
        try:
            stored = read()
            plain = unpacked_bytes(file.location, stored) if _has_name_of_one(file) else stored
            if not _holds(file.location, plain, forms):
                continue
            if not _has_name_of_one(file) or not is_cassette(file.location, stored):
                yield Forgotten(path, "left", "it holds a value, and isn't a cassette; remove or edit it")
                continue
            if dry_run:
                result = would_redact(cassette_of(file.location, stored), settings, values)
            else:
                result = redact(file.location, settings, values)
                changed.add(file.location)
        except AgentTapeError as error:
            yield Forgotten(path, "unreadable", _without(str(error), values))
            continue
        if result.replaced:
            yield Forgotten(path, "replaced", places=result.replaced)
        if result.left:
            left = ", ".join(f"{leak.record}: {leak.kind} at {leak.place}" for leak in result.left)
            yield Forgotten(path, "left", _without(left, values))
    _keep_checksums((), changed)


def _listed(urls: Sequence[str]) -> list[Stored]:
    """Return all files of some folders, URLs and globs, each once, without assets and hidden folders."""
    found = {file.location: file for url in urls for file in list_files(url, lambda name: not name.endswith(".lock"))}
    return list(found.values())


def _has_name_of_one(file: Stored) -> bool:
    name = file.location.name
    return name.endswith(SUFFIXES) and not name.startswith(".") and not name.endswith(SNAPSHOT)


def _cassettes(files: Iterable[Stored]) -> Iterator[tuple[Stored, Cassette | Forgotten]]:
    """Yield the cassettes among some files, each opened, or with the reason why it can't be."""
    for file, read in read_ahead(filter(_has_name_of_one, files)):
        try:
            stored = read()
            if is_cassette(file.location, stored):
                yield file, cassette_of(file.location, stored)
        except AgentTapeError as error:
            yield file, Forgotten(str(file.location), "unreadable", str(error))


def _erased(
    file: Stored, beside: Mapping[Location, Sequence[Location]], erased: set[Location], why: str, *, dry_run: bool
) -> Forgotten:
    """Erase a recording, and note that: first all that belongs to it, so that it's found again if that fails."""
    path = str(file.location)
    if recording_process(file.location) is not None:
        return Forgotten(path, "left", f"{why}, and a process is recording to it now; run this again later")
    store, key = store_of(file.location)
    folder = f"{key}{ASSETS}"
    try:
        near = beside[file.location.with_name(_ANY)]
        others = [one for one in near if one not in erased and _belongs(one.name, file.location)]
        assets = store.names(folder)
        if not dry_run:
            if assets:
                store.delete(folder, assets)
            if assets and (left := store.names(folder)):
                return Forgotten(path, "left", f"{len(left)} of its assets can't be removed; check your rights")
            for journal in leftover_journals(file.location) if not isinstance(file.location, Path) else ():
                journal.unlink()
            for other in others:
                store.remove(other.name)
            store.remove(key)
    except OSError as error:
        return Forgotten(path, "left", f"{why}, and can't be erased: {error.strerror or error}; check your rights")
    erased |= {file.location, *others}
    more = [counted(len(each), word) for each, word in ((assets, "asset"), (others, "file")) if each]
    return Forgotten(path, "erased", ", with ".join(filter(None, (why, " and ".join(more)))))


def _belongs(name: str, cassette: Location) -> bool:
    """Return True for the journals of a cassette beside it, and the scores and the judges' calls of its run."""
    stem = stem_of(cassette)
    is_of_run = name == f"{stem}{SCORES}" or (name.startswith(f"{stem}.") and name.endswith(JUDGE))
    target = target_of(Path(name)) if name.startswith(".") else None
    return name != cassette.name and (is_of_run or (target is not None and target.name == cassette.name))


def _lost_journals(files: Sequence[Stored], before: datetime) -> Iterator[Path]:
    """Yield the journals of cassettes that aren't there, last written before a moment."""
    there = {file.location for file in files}
    for file in files:
        path = file.location
        target = target_of(path) if isinstance(path, Path) and path.name.startswith(".") else None
        is_lost = target is not None and target not in there and int(file.modified or 0) / 1e9 < before.timestamp()
        if isinstance(path, Path) and is_lost:
            yield path


def _holds(location: Location, plain: bytes, forms: Sequence[bytes]) -> bool:
    """Return True if the bytes of a file, or of an asset that it may refer to, hold one of some texts."""
    if any(form in plain for form in forms):
        return True
    assets = AssetFolder(location).content().values() if _ASSET.search(plain) else ()
    return any(form in data for data in assets for form in forms)


def _without(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, _HIDDEN)
    return text


def _keep_checksums(erased: Iterable[Location], changed: Iterable[Location]) -> None:
    """Remove checksums of erased files from the file of checksums here, and write new ones of changed files."""
    file = Path(FILE)
    known = read_checksums(file)
    after, here = dict(known), Path.cwd()
    gone, new = ({path.absolute() for path in each if isinstance(path, Path)} for each in (erased, changed))
    for name in known:
        if here / name in gone:
            del after[name]
        elif here / name in new:
            after[name] = checksums_of(here / name)
    if after != known:
        write_checksums(file, after)
