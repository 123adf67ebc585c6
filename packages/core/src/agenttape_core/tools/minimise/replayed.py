"""A run that is made smaller by replaying it: its cassette, and the cassettes that take the place of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agenttape_core.errors import AgentTapeError
from agenttape_core.schema import Outcome
from agenttape_core.storage import open_cassette
from agenttape_core.tools.minimise.outcomes import Tree, outcome_with, tree_of
from agenttape_core.tools.minimise.shrinking import SpentError, Trees
from agenttape_core.tools.programs import Ending, Failure, Opening, Program
from agenttape_core.tools.reading.summary import MODELS

_NUMBER = re.compile(r"\d+")
_SHORT = 100
"""The characters of a message that says which failure it is, and not what data it was about."""
RESERVE = 6
"""The replays that are left when the search ends: to write what was found, and to prove it."""


class ReplayedRun:
    """A run of a program that fails.

    Args:
        program: The program.
        cassette: Its cassette.
        failure: The failure.
        folder: A folder for the cassettes in between.
        name: The name of their files.
        says_which: Whether the message of the failure is the same each time, so that it tells it from others of its
            class at the same line.
        options: Options of `use_cassette` for each replay.
        limit: How often the program may be replayed.
        on_replay: Called after each replay, with the number of replays so far.
    """

    def __init__(
        self,
        program: Program,
        cassette: Path,
        failure: Failure,
        *,
        folder: Path,
        name: str,
        says_which: bool,
        limit: int,
        options: Mapping[str, Any],
        on_replay: Callable[[int], object],
    ) -> None:
        self._program = program
        self._failure = failure
        self._said = _skeleton(failure.message) if says_which else ""
        self._folder = folder
        self._name = name
        self._scrap = folder / "scrap" / name  # with a file to write to, no order of threads is waited for
        self._scrap.parent.mkdir()
        self._limit = limit
        self._options = options
        self._on_replay = on_replay
        self._kept = 0
        self.replays = 0
        """The number of replays so far."""
        self._take(cassette)

    def _take(self, cassette: Path) -> None:
        opened = open_cassette(cassette)
        self.cassette = cassette
        """The smallest cassette so far."""
        self._outcomes: dict[int, Outcome] = {row.number: opened.outcome(row.number) for row in opened.entries}
        models = [row for row in opened.entries if row.kind in MODELS] or list(opened.entries)
        last = [(row.kind, row.name) for row in models[-1:]]
        self.like_last = [row.number for row in models if (row.kind, row.name) in last]
        """The numbers of the calls of the boundary that answered last, in their order."""
        self._trees: dict[int, Tree] = {number: tree_of(outcome) for number, outcome in self._outcomes.items()}

    @property
    def trees(self) -> Trees:
        """The outcomes of its calls."""
        return self._trees

    def fails(self, changed: Trees) -> bool:
        """Return whether it fails alike with other outcomes."""
        if self.replays + RESERVE >= self._limit:
            raise SpentError
        outcomes = self._with(changed)
        return outcomes is not None and self.is_alike(
            self.run(self.opening(self.cassette, outcomes, self._scrap, keeps=False))
        )

    def keep(self, changed: Trees) -> bool:
        """Write the run with these outcomes, and go on from it if it can be replayed strictly."""
        outcomes = self._with(changed)
        target = self._folder / str(self._kept) / self._name
        self._kept += 1
        target.parent.mkdir()
        if outcomes is None or not self.is_alike(self.run(self.opening(self.cassette, outcomes, target))):
            return False
        if not target.is_file() or not self.is_alike(self.run(self.opening(target))):
            return False
        self._take(target)
        return True

    def opening(self, cassette: Path, *rest: Any, **more: Any) -> Opening:
        """Return a replay of a cassette, with the options of each."""
        return Opening(cassette, self._options, *rest, **more)

    def run(self, opening: Opening) -> Ending:
        """Replay it once."""
        self.replays += 1
        try:
            return self._program.run(opening)
        finally:
            self._on_replay(self.replays)

    def is_alike(self, ending: Ending) -> bool:
        """Return whether a replay ended with the failure.

        A short message says which of several failures at one line it is: it has to stay, but for its numbers. A long
        one holds data, and an assertion's shows what it compared.
        """
        failure = ending.failure
        if failure is None or not self._failure.is_like(failure):
            return False
        if not self._said or len(self._said) > _SHORT or self._failure.name == AssertionError.__name__:
            return True
        return _skeleton(failure.message) == self._said

    def _with(self, changed: Trees) -> dict[int, Outcome] | None:
        """Return the outcomes; `None` if a call can have no such outcome."""
        try:
            return {number: outcome_with(self._outcomes[number], tree) for number, tree in changed.items()}
        except (ValidationError, AgentTapeError):
            return None


def _skeleton(message: str) -> str:
    return _NUMBER.sub("0", message.partition("\n")[0])
