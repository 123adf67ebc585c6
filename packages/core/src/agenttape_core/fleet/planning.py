"""Make the plan of a fleet: read each recording once, for its hash and its duration."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError, CassetteVersionError, ConfigurationError
from agenttape_core.fleet.items import Experiment, Item, Plan, plan_of, settings_id
from agenttape_core.fleet.outcomes import trajectory_of
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage import Location, Stored, is_derived, list_files, read_ahead, read_cassette
from agenttape_core.storage.files import FOREIGN
from agenttape_core.tools.git.requests import Revision

_OPTION = "--revision"
_STANDARD_OUTPUT = 1


class Recording(NamedTuple):
    """A recording that was read for a plan."""

    name: str  # its URL, or its path from here
    content: str  # the hash of its bytes
    seconds: float  # its duration
    trajectory: str  # the hash of the kinds and names of its calls; empty if it's damaged


def planned(
    urls: Iterable[str],
    experiment: Experiment,
    *,
    program: str = "",
    revision: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of an experiment on all recordings of some folders, URLs or globs.

    Args:
        urls: Where the recordings are. Derived ones count only if they're named.
        experiment: The experiment: a check, or replays. `sampled` draws the samples of another model.
        program: The program.
        revision: Its commit.
        settings: The rules and options that decide the outcomes.

    Raises:
        CassetteError: If a store can't be listed, or a recording can't be fetched.
        ConfigurationError: If no recording is found.
    """
    about = experiment, program, revision
    hashed = settings_id(settings)
    items = (Item(one.name, one.content, *about, settings=hashed, seconds=one.seconds) for one in recordings(urls))
    return plan_of(items, settings)


def recordings(urls: Iterable[str]) -> Iterator[Recording]:
    """Yield each recording. A damaged one is named, as all others are. Raises as `planned` does."""
    for url in urls:
        for file, read in read_ahead(files_of(url)):
            data, seconds, trajectory = read(), 0.0, ""
            try:
                cassette = read_cassette(io.BytesIO(data), name=file.location.name, attached=False)
                timings = cassette.header.volatile.timings.values()
                seconds = round(sum(timing.duration_ms for timing in timings) / 1000, 3)
                trajectory = trajectory_of((row.kind, row.name) for row in cassette.entries)
            except (CassetteFormatError, CassetteVersionError) as error:
                if error.problem == FOREIGN:
                    continue
            yield Recording(name_of(file.location), content_of(data), seconds, trajectory)


def files_of(url: str | Path) -> list[Stored]:
    """Return the files that may be recordings: derived ones only if they're named, and no standard output.

    Raises:
        CassetteError: If the store can't be listed.
    """
    return [
        one
        for one in list_files(url)
        if str(one.location) == str(url) or not (is_derived(one.location.name) or _is_printed(one.location))
    ]


def _is_printed(location: Location) -> bool:
    """Return True for the file that is the standard output: the plan itself."""
    if isinstance(location, Path):
        with suppress(OSError):
            return os.path.samestat(location.stat(), os.fstat(_STANDARD_OUTPUT))
    return False


def name_of(location: Location) -> str:
    """Return the name of a recording in a plan: its URL, or its path from here."""
    if not isinstance(location, Path):
        return location
    path, here = location.absolute(), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def content_of(data: bytes) -> str:
    """Return the hash of the bytes of a recording."""
    return hashlib.sha256(data).hexdigest()[:32]


def revision_of(name: str) -> str:
    """Return the commit of a branch, a tag or a commit. Outside of a repository, a name can only be kept.

    Raises:
        ConfigurationError: If the repository here has no such revision.
    """
    try:
        Revision("HEAD", _OPTION).ask("rev-parse", "--git-dir")
    except ConfigurationError:
        return name
    return Revision(name, _OPTION).tell("rev-parse", "--verify", f"{name}^{{commit}}").strip()


def current_revision() -> str:
    """Return the commit of this folder, and a hash of the changes to it that git tracks, if there are any.

    Raises:
        ConfigurationError: If this folder isn't in a repository.
    """
    git = Revision("HEAD", _OPTION)
    commit, changes = git.tell("rev-parse", "HEAD").strip(), git.ask("diff", "HEAD", "--binary")
    return f"{commit}+{content_of(changes)[:8]}" if changes else commit
