"""Make the plan of a fleet: read each recording once, for its hash and its duration."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError
from agenttape_core.fleet.items import Experiment, Item, Plan, hash_of, plan_of
from agenttape_core.storage import Location, is_derived, list_files, read_ahead, read_cassette
from agenttape_core.storage.files import FOREIGN
from agenttape_core.tools.git.requests import Revision


def planned(
    urls: Iterable[str],
    experiment: Experiment,
    *,
    program: str = "",
    revision: str = "",
    candidates: Sequence[str] = ("",),
    samples: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of an experiment on all recordings of some folders, URLs or globs.

    Args:
        urls: Where the recordings are. Derived ones count only if they're named.
        experiment: The experiment.
        program: The program.
        revision: Its commit.
        candidates: The models, if other models are tried.
        samples: How many samples of each are taken; 0 if each recording is used once.
        settings: The rules and options that decide the outcomes.

    Raises:
        CassetteError: If a store can't be listed, or a recording can't be fetched.
        ConfigurationError: If no recording is found.
    """
    decisive = hash_of(settings) if settings else ""
    numbers = range(1, samples + 1) if samples else (0,)
    items = (
        Item(cassette, content, experiment, program, revision, candidate, number, decisive, seconds)
        for cassette, content, seconds in _recordings(urls)
        for candidate in candidates
        for number in numbers
    )
    return plan_of(items, settings)


def _recordings(urls: Iterable[str]) -> Iterator[tuple[str, str, float]]:
    """Yield the name, the hash and the duration of each recording. A damaged one is named, as all others are."""
    for url in urls:
        files = [one for one in list_files(url) if str(one.location) == url or not is_derived(one.location.name)]
        for file, read in read_ahead(files):
            data = read()
            try:
                cassette = read_cassette(io.BytesIO(data), name=file.location.name, attached=False)
                timings = cassette.header.volatile.timings.values()
                seconds = round(sum(timing.duration_ms for timing in timings) / 1000, 3)
            except CassetteFormatError as error:
                if error.problem == FOREIGN:
                    continue
                seconds = 0.0
            yield name_of(file.location), content_of(data), seconds


def name_of(location: Location) -> str:
    """Return the name of a recording in a plan: its URL, or its path from here."""
    if not isinstance(location, Path):
        return location
    path, here = location.absolute(), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def below(folder: Location, key: str) -> Location:
    """Return the place of a file in a store."""
    return folder / key if isinstance(folder, Path) else folder.joined(key)


def content_of(data: bytes) -> str:
    """Return the hash of the bytes of a recording."""
    return hashlib.sha256(data).hexdigest()[:32]


def current_revision() -> str:
    """Return the commit of this folder, and a hash of the changes to it that git tracks, if there are any.

    Raises:
        ConfigurationError: If this folder isn't in a repository.
    """
    git = Revision("HEAD", "--revision")
    commit, changes = git.tell("rev-parse", "HEAD").strip(), git.ask("diff", "HEAD", "--binary")
    return f"{commit}+{content_of(changes)[:8]}" if changes else commit
