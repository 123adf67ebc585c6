"""Make a failing run smaller, step by step, as long as the failure is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path as File
from typing import Any, TypeVar

from pydantic import ValidationError

from agenttape_core.errors import AgentTapeError
from agenttape_core.experiments.program import Failure, Program, Run
from agenttape_core.experiments.strategies.outcome_trees import (
    Path,
    Tree,
    Way,
    at_depth,
    emptied,
    hollow,
    may_be_dropped,
    may_be_emptied,
    outcome_with,
    replaced_at,
    smaller_tree,
    texts,
    tree_of,
    without,
)
from agenttape_core.interventions import GivenOutcome
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Outcome, Plain
from agenttape_core.storage import open_cassette
from agenttape_core.tools.reading.provider_calls import MODELS

Unit = TypeVar("Unit")

_FEW = 4  # so many units are searched one by one, if there are more


def ddmin(units: Sequence[Unit], fails: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Return units that are enough to fail, none of which can be left out alone.

    It is not always the smallest such set, only one in which each unit is needed. The failure is taken to happen with
    all units; with none it is tried first, as most units matter to nothing.
    """
    if not units or fails([]):
        return []
    kept = (_few(units, fails) if len(units) > _FEW else []) or list(units)
    parts = 2
    while len(kept) > 1:
        chunks = _chunks(kept, parts)
        smaller = next((chunk for chunk in chunks if fails(chunk)), None) if parts < len(kept) or parts == 2 else None  # noqa: PLR2004
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        others = None
        if parts > 2:  # noqa: PLR2004 - of two chunks, each is the rest of the other
            rests = ([unit for one in chunks if one is not left_out for unit in one] for left_out in chunks)
            others = next((rest for rest in rests if fails(rest)), None)
        if others is not None:
            kept, parts = others, max(parts - 1, 2)
            continue
        if parts >= len(kept):
            break
        parts = min(parts * 2, len(kept))
    return kept


def _few(units: Sequence[Unit], fails: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Return a few units that are enough to fail; none if there are many, or one hides another."""
    found: list[int] = []
    end = len(units)
    while len(found) < _FEW:
        low, high = 1, end
        while low < high:  # the shortest start of the units that fails with those that were found
            middle = (low + high) // 2
            if fails([units[place] for place in (*range(middle), *found)]):
                high = middle
            else:
                low = middle + 1
        end = low - 1
        found.insert(0, end)
        some = [units[place] for place in found]
        if fails(some):
            return some
        if not end:
            break
    return []


def _chunks(units: list[Unit], parts: int) -> list[list[Unit]]:
    size, more = divmod(len(units), parts)
    chunks, start = [], 0
    for number in range(parts):
        end = start + size + (number < more)
        chunks.append(units[start:end])
        start = end
    return chunks


Trees = Mapping[int, Tree]  # the outcomes of calls, by the numbers of these


class SpentError(Exception):
    """The run has been replayed as often as it may."""


_NUMBER = re.compile(r"\d+")
_SHORT = 100  # the most characters of a message that identifies a failure, rather than its data
RESERVE = 6  # the replays that are left when the search ends: to write the result, and to prove it


@dataclass(slots=True)
class ReplayedRun:
    """A run of a program that fails."""

    program: Program
    cassette: File  # the smallest one so far
    failure: Failure
    folder: File  # for the cassettes in between
    name: str  # the name of their files
    limit: int  # the most replays
    options: Mapping[str, Any]  # of `use_cassette`, for each replay
    on_run: Callable[[], object]
    says_which: bool = False  # whether the message of the failure is the same each time, so it identifies the failure
    replays: int = 0  # the number of replays so far
    trees: Trees = field(default_factory=dict)  # the outcomes of its calls
    like_last: list[int] = field(default_factory=list)
    """The numbers of the calls of the boundary that answered last, in their order."""
    _outcomes: dict[int, Outcome] = field(default_factory=dict)
    _kept: int = 0

    def __post_init__(self) -> None:
        """Read the cassette."""
        self._scrap.parent.mkdir()
        self._take(self.cassette)

    @property
    def _scrap(self) -> File:
        return self.folder / "scrap" / self.name  # with a file to write to, no order of threads is waited for

    def _take(self, cassette: File) -> None:
        opened = open_cassette(cassette)
        self.cassette = cassette
        self._outcomes = {row.number: opened.outcome(row.number) for row in opened.entries}
        models = [row for row in opened.entries if row.kind in MODELS] or list(opened.entries)
        last = [(row.kind, row.name) for row in models[-1:]]
        self.like_last = [row.number for row in models if (row.kind, row.name) in last]
        self.trees = {number: tree_of(outcome) for number, outcome in self._outcomes.items()}

    def fails(self, changed: Trees) -> bool:
        """Return whether the failure is the same with other outcomes."""
        if self.replays + RESERVE >= self.limit:
            raise SpentError
        outcomes = self._with(changed)
        return outcomes is not None and self.is_alike(
            self.run(self.opening(self.cassette, outcomes, self._scrap, keeps=False))
        )

    def keep(self, changed: Trees) -> bool:
        """Write the run with these outcomes, and continue from it if it can be replayed strictly."""
        outcomes = self._with(changed)
        target = self.folder / str(self._kept) / self.name
        self._kept += 1
        target.parent.mkdir()
        if outcomes is None or not self.is_alike(self.run(self.opening(self.cassette, outcomes, target))):
            return False
        if not target.is_file() or not self.is_alike(self.run(self.opening(target))):
            return False
        self._take(target)
        return True

    def opening(self, cassette: File, outcomes: Mapping[int, Outcome] = {}, *rest: Any, **more: Any) -> Variation:
        """Return a replay of a cassette, with the options of each."""
        changes = {number: GivenOutcome(given=outcome) for number, outcome in outcomes.items()}
        return replace(Variation(cassette, self.options, changes, *rest, **more), on_new_call="address")

    def run(self, opening: Variation) -> Run:
        """Replay it once."""
        self.replays += 1
        try:
            return self.program.run(opening)
        finally:
            self.on_run()

    def is_alike(self, ending: Run) -> bool:
        """Return whether a replay ended with the failure.

        A short message says which of several failures at one line it is: it has to stay, but for its numbers. A long
        one holds data, and an assertion's shows what it compared.
        """
        failure = ending.failure
        if failure is None or not self.failure.is_like(failure):
            return False
        said = _skeleton(self.failure.message) if self.says_which else ""
        is_data = len(said) > _SHORT or self.failure.name == AssertionError.__name__
        return not said or is_data or _skeleton(failure.message) == said

    def _with(self, changed: Trees) -> dict[int, Outcome] | None:
        """Return the outcomes; `None` if a call can have no such outcome."""
        try:
            return {number: outcome_with(self._outcomes[number], tree) for number, tree in changed.items()}
        except (ValidationError, AgentTapeError):
            return None


def _skeleton(message: str) -> str:
    return _NUMBER.sub("0", message.partition("\n")[0])


class _Unit(NamedTuple):
    number: int
    path: Path
    way: Way


_PIECES = (re.compile(r"[^\n]*\n|[^\n]+"), re.compile(r"\s*\S+|\s+"), re.compile(r"(?s)."))
"""The pieces into which a text is cut, one way after the other: lines, words, characters."""
_ROUNDS = 4
_DEEPEST = 40


class Shrinking:
    """The search for the smallest outcomes with which a run fails."""

    def __init__(self, run: ReplayedRun) -> None:
        self._run = run
        self._changed: dict[int, Tree] = {}  # the outcomes that are known to keep the failure, beside the run's own
        self._known: dict[str, bool] = {}

    def shrink(self) -> bool:
        """Make the run smaller, until no single piece can be left out; return False if it ended before that."""
        try:
            for _ in range(_ROUNDS):
                before = _size(self._run.trees)
                self._tail()
                self._calls(emptied)
                self._calls(hollow)
                self._parts()
                self._texts()
                if _size(self._run.trees) >= before:
                    break
        except (SpentError, KeyboardInterrupt):  # what was found so far still fails
            self._settle()
            return False
        return True

    def _tail(self) -> None:
        """End the run earlier: with the last answer in the place of an earlier one of the same boundary.

        The place is searched by halving, which finds one of those at which the run fails, if not always the first.
        """
        alike = self._run.like_last
        if len(alike) < 2:  # noqa: PLR2004 - the last one, and one in whose place it could come
            return
        last, first, end = self._run.trees[alike[-1]], 0, len(alike) - 1
        while first < end:
            middle = (first + end) // 2
            if self._does({alike[middle]: last}):
                end = middle
            else:
                first = middle + 1
        self._settle()

    def _calls(self, smaller: Callable[[Plain], Plain]) -> None:
        """Empty whole outcomes."""
        small = {number: smaller_tree(tree, smaller) for number, tree in self._run.trees.items()}
        full = [number for number, tree in self._run.trees.items() if small[number] != tree]
        self._needed(full, lambda gone: {number: small[number] for number in gone})

    def _parts(self) -> None:
        """Leave out and empty the parts of outcomes, one depth after the other."""
        for depth in range(1, _DEEPEST):
            if not any(True for tree in self._run.trees.values() for _ in _below(tree, depth)):
                return
            for way in ("drop", "empty"):
                self._needed(list(self._units(depth, way)), self._without)

    def _units(self, depth: int, way: Way) -> Iterator[_Unit]:
        for number, tree in self._run.trees.items():
            for path, part in _below(tree, depth):
                if may_be_dropped(path) if way == "drop" else may_be_emptied(path) and emptied(part) != part:
                    yield _Unit(number, path, way)

    def _without(self, gone: Sequence[_Unit]) -> Trees:
        ways: dict[int, dict[Path, Way]] = {}
        for unit in gone:
            ways.setdefault(unit.number, {})[unit.path] = unit.way
        trees = self._run.trees
        return {number: without(trees[number], changes) for number, changes in ways.items()}

    def _texts(self) -> None:
        """Leave out lines, words and characters of texts, the longest first."""
        found = [
            (number, path, text)
            for number, tree in self._run.trees.items()
            for name, part in tree.items()
            for path, text in texts(part, (name,))
            if text and may_be_emptied(path)
        ]
        for number, path, whole in sorted(found, key=lambda one: -len(one[2])):
            text = whole
            for pieces in _PIECES:
                cut = pieces.findall(text)
                if len(cut) > 1:
                    text = "".join(ddmin(cut, partial(self._fails_with, number, path)))
        self._settle()

    def _fails_with(self, number: int, path: Path, pieces: Sequence[str]) -> bool:
        now = self._changed.get(number, self._run.trees[number])
        trees = {**self._changed, number: replaced_at(now, path, "".join(pieces))}
        return self._does(trees)

    def _needed(self, units: Sequence[Unit], gone: Callable[[Sequence[Unit]], Trees]) -> None:
        """Find the units that are needed, and keep the run without the others."""

        def fails(kept: Sequence[int]) -> bool:
            stay = set(kept)
            return self._does(gone([unit for place, unit in enumerate(units) if place not in stay]))

        ddmin(range(len(units)), fails)
        self._settle()

    def _does(self, trees: Trees) -> bool:
        """Return whether the run fails with some outcomes, and if so, remember them as the best so far."""
        if not self._fails(trees):
            return False
        self._changed = dict(trees)
        return True

    def _fails(self, trees: Trees) -> bool:
        key = json.dumps(sorted(trees.items()), sort_keys=True, default=str)
        if key not in self._known:
            self._known[key] = self._run.fails(trees)
        return self._known[key]

    def _settle(self) -> None:
        """Go on from what is known to do."""
        if self._changed:
            self._run.keep(self._changed)
        self._changed, self._known = {}, {}


def _below(tree: Tree, depth: int) -> Iterator[tuple[Path, object]]:
    """Yield the parts of an outcome at a depth, of which its fields are the first."""
    for name, part in tree.items():
        yield from at_depth(part, depth - 1, (name,))


def _size(trees: Trees) -> int:
    return len(json.dumps(list(trees.values()), default=str))
