"""The items of a plan, its file, its shards, and the recordings that it is made of: the same input, the same bytes."""

from __future__ import annotations

import hashlib
import heapq
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import CassetteFormatError, CassetteVersionError, ConfigurationError, counted
from agenttape_core.locks import cached_property
from agenttape_core.matching import canonical_json
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage import Location, Stored, is_derived, list_files, read_ahead, read_cassette
from agenttape_core.storage.files import FOREIGN
from agenttape_core.tools.git.requests import Revision

FORMAT = 1  # the version of the format of plans

Experiment = Literal["check", "replay", "model"]
EXPERIMENTS: tuple[Experiment, ...] = ("check", "replay", "model")

_EACH = 0.02  # the seconds that an item takes even if its recording took none


def hash_of(plain: Any) -> str:
    """Return the hash of plain data, which names it."""
    return hashlib.sha256(canonical_json(plain).encode()).hexdigest()[:32]


def trajectory_of(calls: Iterable[tuple[str, str]]) -> str:
    """Return the hash of the kinds and names of the calls of a run, in the order of its recording."""
    return hash_of([[kind, name] for kind, name in calls])


def settings_id(settings: Mapping[str, Any] | None) -> str:
    """Return the hash of the settings of a plan; empty if it has none."""
    return hash_of(settings) if settings else ""


@dataclass(frozen=True)
class Item:
    """One piece of work: a recording and its experiment.

    Args:
        cassette: The URL of the recording, or its path from the folder where the plan was made.
        content: The hash of its bytes, or the version that the store keeps of it.
        experiment: The recording is checked, replayed, or tried with another model.
        program: The program: `module:function`, the id of a test, a command or an app; empty for a check.
        revision: The git commit of the program.
        candidate: The other model.
        sample: The number of the sample, from 1; 0 if there's only one.
        settings: The hash of the rules and options that decide the outcome.
        seconds: The recorded duration, by which shards are balanced. It isn't part of the id.
        weight: The number of recorded runs that this one represents. It isn't part of the id.
        trajectory: The hash of the kinds and names of the recorded calls, if another model is tried: the class of runs
            that it represents. It isn't part of the id.
    """

    cassette: str
    content: str
    experiment: Experiment
    program: str = ""
    revision: str = ""
    candidate: str = ""
    sample: int = 0
    settings: str = ""
    seconds: float = 0.0
    weight: float = 1.0
    trajectory: str = ""

    @cached_property
    def id(self) -> str:
        """The hash of all that decides the outcome."""
        return hash_of({name: getattr(self, name) for name in _IN_ID})


_IN_ID = [each.name for each in fields(Item) if each.name not in {"seconds", "weight", "trajectory"}]


@dataclass(frozen=True, slots=True)
class Plan:
    """The items of one experiment on many recordings, sorted. Use `plan_of` to make one.

    Args:
        items: The items.
        settings: The rules and options that decide the outcomes, as plain data. Each item has their hash.
    """

    items: tuple[Item, ...]
    settings: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The hash of the ids of its items."""
        return hash_of(sorted(item.id for item in self.items))

    def text(self) -> str:
        """Return it as JSON lines: a header, then an item on each line."""
        header = {
            "plan": self.id,
            "format": FORMAT,
            "agenttape": version("agenttape-core"),
            "experiment": self.items[0].experiment,
            "items": len(self.items),
            "settings": self.settings,
        }
        rows = [asdict(item) for item in self.items]
        header["hash"] = hash_of([header, *rows])
        return "".join(f"{canonical_json(each)}\n" for each in (header, *rows))

    def shard(self, number: int, total: int) -> list[Item]:
        """Return the items of a shard, longest first. The shards take about the same time, and are disjoint.

        Args:
            number: The number of the shard, from 1.
            total: The number of shards.
        """
        mine = []
        loads = [(0.0, shard) for shard in range(1, total + 1)]
        for item in sorted(self.items, key=lambda one: (-one.seconds, one.id)):
            load, shard = heapq.heappop(loads)
            heapq.heappush(loads, (load + item.seconds + _EACH, shard))
            if shard == number:
                mine.append(item)
        return mine


def plan_of(items: Iterable[Item], settings: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan of some items, sorted; an item that occurs twice counts once.

    Args:
        items: The items, of one experiment.
        settings: The rules and options whose hash the items have.

    Raises:
        ConfigurationError: If it has no items, several experiments, or other settings than its items.
    """
    settings = settings or {}
    found = sorted({item.id: item for item in items}.values(), key=_order)
    if not found:
        raise ConfigurationError("no recording to plan with")
    if len({item.experiment for item in found}) > 1:
        raise ConfigurationError("a plan is of one experiment, and these items are of several")
    if {item.settings for item in found} != {settings_id(settings)}:
        raise ConfigurationError("the settings of a plan aren't those of its items")
    return Plan(tuple(found), settings)


def _order(item: Item) -> tuple[Any, ...]:
    return item.cassette, item.candidate, item.sample, item.id


def read_plan(text: str, name: str) -> Plan:
    """Return the plan that a file of items holds.

    Args:
        text: Its text.
        name: Its name in messages.

    Raises:
        ConfigurationError: If it isn't a plan, a part of it is missing, or it was edited.
    """
    try:
        header, *rows = map(json.loads, text.splitlines())
        found, whole = header["format"], header.pop("hash")
    except (ValueError, KeyError, TypeError):
        raise _refused(name, "it doesn't begin with the header of a plan") from None
    if found != FORMAT:
        raise _refused(name, f"it has format {found}, and this version reads format {FORMAT}")
    if hash_of([header, *rows]) != whole:
        raise _refused(name, _edited(header, rows))
    return plan_of([Item(**row) for row in rows], header["settings"])


def _edited(header: Mapping[str, Any], rows: Sequence[Any]) -> str:
    """Return the edited part of a plan, in words."""
    if len(rows) != header.get("items"):
        return f"it has {counted(len(rows), 'item')} of {header.get('items')}"
    try:
        plan = plan_of([Item(**row) for row in rows], header["settings"])
    except ConfigurationError as error:
        return str(error)
    except (TypeError, KeyError):
        return f"an item has fields other than {', '.join(each.name for each in fields(Item))}"
    if plan.id != header["plan"]:
        return "its items were edited: their hash isn't the one in the header"
    return (
        "its header, or the duration, the weight or the trajectory of an item was edited: the hash isn't the stated one"
    )


def _refused(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{name}: not a plan that can be worked on: {problem}\n  make one:  agenttape fleet plan")


_ENGINES: Sequence[tuple[str, str, str, int]] = (
    ("GitLab CI", "CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
    ("CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0),
    ("Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0),
    ("GitHub Actions", "STRATEGY_JOB_INDEX", "STRATEGY_JOB_TOTAL", 0),
    ("Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", 0),
)
"""Engines that number their jobs: the variables of the number and of the total, and the first number."""


def shard_named(text: str, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of a shard, from 1, and of all shards.

    `text` is `7/50`, or `env` for the variables of a CI system or a Kubernetes indexed job. Raises `ConfigurationError`
    if there's no such shard, or the variables aren't set.
    """
    source, first = "", 1
    if text == "env":
        text, source, first = _from_environment(environment)
    match = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
    number, total = (int(match[1]) + 1 - first, int(match[2])) if match else (0, 0)
    if not 1 <= number <= total:
        count = f"{first} to {total - 1 + first}" if total else "1/8 to 8/8, for example"
        raise ConfigurationError(f"--shard {text}{source}: no such shard\n  expected {count}, or env")
    return number, total


def _from_environment(environment: Mapping[str, str]) -> tuple[str, str, int]:
    for engine, number, total, first in _ENGINES:
        if number in environment:
            if total not in environment:
                raise ConfigurationError(
                    f"--shard env: {engine} has set {number}, and {total} isn't set\n"
                    f"  set {total} to the number of shards in the job's environment"
                )
            return f"{environment[number]}/{environment[total]}", f" ({number}/{total})", first
    known = ", ".join(f"{number} and {total} ({engine})" for engine, number, total, _ in _ENGINES)
    raise ConfigurationError(f"--shard env: no variable numbers this job\n  expected one pair of {known}")


# -- The recordings of a plan: each is read once, for its hash and its duration.


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
    """Return the plan of a check or of replays of all recordings in some folders, URLs or globs.

    Derived recordings count only if they're named. `revision` is the commit of the program; `settings` are the rules
    and options that decide the outcomes. Raises `CassetteError` if a store can't be listed, or a recording can't be
    fetched, and `ConfigurationError` if there is no recording.
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

    Raises `CassetteError` if the store can't be listed.
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

    Raises `ConfigurationError` if the repository here has no such revision.
    """
    try:
        Revision("HEAD", _OPTION).ask("rev-parse", "--git-dir")
    except ConfigurationError:
        return name
    return Revision(name, _OPTION).tell("rev-parse", "--verify", f"{name}^{{commit}}").strip()


def current_revision() -> str:
    """Return the commit of this folder, and a hash of the changes to it that git tracks, if there are any.

    Raises `ConfigurationError` if this folder isn't in a repository.
    """
    git = Revision("HEAD", _OPTION)
    commit, changes = git.tell("rev-parse", "HEAD").strip(), git.ask("diff", "HEAD", "--binary")
    return f"{commit}+{content_of(changes)[:8]}" if changes else commit
