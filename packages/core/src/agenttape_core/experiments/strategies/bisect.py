"""The commit from which on a program no longer replays its recording, found by halving. No model is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, VerificationError, counted, shown_path
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.strategies.revisions import Replayed, Revisions, target_and_recording
from agenttape_core.tools.reporting import Finding


@dataclass(frozen=True, slots=True)
class Bisection(Result):
    """The commit that was found.

    Args:
        target: The program.
        cassette: Its recording.
        candidates: The first commit that doesn't replay the recording; several if those between can't be judged.
        commits: The number of commits that were searched.
        replays: The number of replays that it took.
        why: How the replay of that commit differs.
        unjudged: Why some commits can't be judged, by their ids.
        is_whole: Whether it came to its end; if not, the candidates are those that were left.
    """

    target: str
    cassette: str
    candidates: tuple[str, ...]
    commits: int
    replays: int
    why: str
    unjudged: dict[str, str]
    is_whole: bool = True

    @property
    def is_found(self) -> bool:
        """True if it is one commit, and not one of several."""
        return len(self.candidates) == 1

    ok = is_found
    experiment = "bisect"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "found": self.is_found}

    def summary(self) -> Summary:
        """Return the commit, the difference of its replay, and the commits that can't be judged."""
        searched = f"{counted(self.replays, 'replay')} of {counted(self.commits, 'commit')}"
        first = f"is the first that does not replay {self.cassette} ({searched})"
        line = self.candidates[0] if self.is_found else f"one of these {first}:"
        unjudged = (f"not judged: {commit}: {why}" for commit, why in self.unjudged.items())
        table = [*([first] if self.is_found else self.candidates), self.why, *unjudged]
        found = Finding(f"{' or '.join(self.candidates)} does not replay it", "the recorded calls", self.why)
        return Summary(self.target, self.cassette, line, [f"  {each}" for each in table], [found])


def bisect(
    target: str,
    cassette: str | Path | None = None,
    *,
    good: str,
    bad: str = "HEAD",
    on_run: Callable[[], object] | None = None,
) -> Bisection:
    """Find the first commit whose program doesn't replay a recording strictly.

    Each commit that is tried is checked out in its own worktree and replayed in a separate process. Nothing is
    called for real, so it costs nothing. Of N commits, it replays the last, and then log2(N). An interruption by the
    keyboard ends it, and the commits that are left are returned.

    Args:
        target: The program: `module:function`, `path/to/file.py:function`, or the id of a test.
        cassette: Its recording, as `use_cassette` takes it; by default the test's own, from the working tree.
        good: A commit that replays it. It is not replayed.
        bad: A later commit that doesn't.
        on_run: Called after each replay.

    Raises:
        ConfigurationError: If no commits are between both, or there's no such program or recording.
        VerificationError: If the bad commit replays the recording, or can't be judged.
    """
    name, path = target_and_recording(target, cassette)
    with Revisions(on_run) as trees:
        first, last = trees.commit(good, "--good"), trees.commit(bad, "--bad")
        commits = trees.between(first, last)
        if not commits:
            raise ConfigurationError(f"there's no commit after {good} up to {bad}\n  name the older one with --good")
        return _Search(trees, name, path, commits).found(bad)


class _Search:
    """The search among commits."""

    def __init__(self, trees: Revisions, target: str, cassette: Path, commits: list[str]) -> None:
        self._trees, self._target, self._cassette, self._commits = trees, target, cassette, commits
        self._known: dict[int, Replayed] = {}

    def _replayed(self, place: int) -> Replayed:
        if place not in self._known:
            self._known[place] = self._trees.replayed(self._commits[place], self._target, self._cassette)
        return self._known[place]

    def found(self, bad: str) -> Bisection:
        low, high = -1, len(self._commits) - 1
        shown = shown_path(self._cassette)
        last = self._replayed(high)
        if last.how == "same":
            raise VerificationError(f"{bad} replays {shown} as it was recorded, so there's nothing to find")
        if last.how == "unjudged":
            raise VerificationError(f"{bad} can't be judged: {last.why}\n  name an earlier commit with --bad")
        is_whole = True
        try:
            while (place := self._next(low, high)) is not None:
                if self._known[place].how == "same":
                    low = place
                else:
                    high = place
        except KeyboardInterrupt:
            is_whole = False
        commits = self._commits
        return Bisection(
            target=self._target,
            cassette=shown,
            candidates=tuple(self._trees.subject(commits[place]) for place in range(low + 1, high + 1)),
            commits=len(commits),
            replays=self._trees.replays,
            why=self._known[high].why,
            unjudged={
                commits[place][:10]: one.why for place, one in sorted(self._known.items()) if one.how == "unjudged"
            },
            is_whole=is_whole,
        )

    def _next(self, low: int, high: int) -> int | None:
        """Return the place between two that halves them, or the nearest to it that can be judged; `None` at the end."""
        middle = (low + high) // 2
        for place in sorted(range(low + 1, high), key=lambda one: (abs(one - middle), one)):
            if self._replayed(place).how != "unjudged":
                return place
        return None
