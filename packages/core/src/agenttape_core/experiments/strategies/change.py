"""A changed program on what was recorded: two revisions replay each recording strictly. No model is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.experiments.strategies.revisions import Replayed, Revisions, target_and_recording
from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

Verdict = Literal["SAME", "CHANGED", "BETTER", "UNCLEAR"]
"""Both revisions do what was recorded; only the base does; only the changed one does; or the base doesn't, so that the
recording shows nothing about the change."""


@dataclass(frozen=True, slots=True)
class Case:
    """One recording, replayed by both revisions.

    Args:
        target: The program.
        cassette: The recording.
        base: How the replay of the base ended.
        changed: How that of the changed revision ended.
    """

    target: str
    cassette: str
    base: Replayed
    changed: Replayed

    @property
    def verdict(self) -> Verdict:
        """The verdict on it."""
        if self.base.how == "same":
            return "SAME" if self.changed.how == "same" else "CHANGED"
        return "BETTER" if self.changed.how == "same" else "UNCLEAR"

    @property
    def why(self) -> str:
        """The difference of the changed revision, or of the base where that is no measure."""
        return self.base.why if self.verdict == "UNCLEAR" else self.changed.why

    def __str__(self) -> str:
        line = f"{self.verdict:<8} {self.target} over {self.cassette}"
        return f"{line}\n         {self.why}" if self.why else line


@dataclass(frozen=True, slots=True)
class Changed:
    """The verdicts on all recordings.

    Args:
        base: The revision that is compared with.
        to: The changed one; empty for the working tree.
        cases: The recordings.
    """

    base: str
    to: str
    cases: tuple[Case, ...]

    def count(self) -> Counter[Verdict]:
        """Return how often there is each verdict."""
        return Counter(case.verdict for case in self.cases)

    @property
    def ok(self) -> bool:
        """True if no recording is CHANGED or UNCLEAR."""
        return not {"CHANGED", "UNCLEAR"} & set(self.count())

    @property
    def is_whole(self) -> bool:
        """True, as an interruption leaves nothing that could be shown."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        cases = [{**asdict(case), "verdict": case.verdict, "why": case.why} for case in self.cases]
        return {"base": self.base, "to": self.to or None, "counts": dict(self.count()), "cases": cases}

    def to_checked(self) -> list[Checked]:
        """Return it for the reporters of checks: a check for each recording."""
        return [Checked(case.target, case.cassette, "", (_judged(case),)) for case in self.cases]

    def __str__(self) -> str:
        counts = self.count()
        said = ", ".join(f"{counts[one]} {one}" for one in ("CHANGED", "UNCLEAR", "BETTER", "SAME") if counts[one])
        first = f"{self.to or 'the working tree'} against {self.base}: {counted(len(self.cases), 'recording')}, {said}"
        lines = [first, *map(str, self.cases)]
        if counts["CHANGED"]:
            lines.append("to record only what has changed, within a limit:  agenttape update --max-usd 1")
        return "\n".join(lines)


def _judged(case: Case) -> Judged:
    if case.verdict in {"SAME", "BETTER"}:
        return Judged("change", case.target)
    level: Literal["error", "warning"] = "error" if case.verdict == "CHANGED" else "warning"
    found = Finding(
        f"{case.verdict}: {case.target}",
        expected="the recorded calls",
        found=case.why,
        level=level,
        rule="change",
        path=case.cassette,
    )
    return Judged("change", case.target, (found,))


def change(
    target: str | Sequence[str],
    cassette: str | Path | Sequence[str | Path] | None = None,
    *,
    base: str,
    to: str | None = None,
    on_run: Callable[[], object] | None = None,
) -> Changed:
    """Compare a changed program with its base on what was recorded, for free.

    Both revisions replay each recording strictly, each in a worktree and a separate process. Where both make the
    recorded calls, and no other, the case is decided. A new request of the changed revision is shown.

    Args:
        target: The program: `module:function`, `path/to/file.py:function`, or ids of tests.
        cassette: The recording of a function, or several; by default the test's own.
        base: The revision to compare with, in git's words.
        to: The changed revision; by default the working tree.
        on_run: Called after each replay.

    Raises:
        ConfigurationError: If there's no such revision, program or recording.
    """
    targets = [target] if isinstance(target, str) else list(target)
    given = [cassette] if cassette is None or isinstance(cassette, str | Path) else list(cassette)
    if not targets or not given:
        raise ConfigurationError("change: name a program and its recording")
    pairs = [target_and_recording(one, each) for one in targets for each in given]
    with Revisions(on_run) as trees:
        before = trees.commit(base, "--base")
        after = trees.commit(to, "--to") if to is not None else None
        of_base = [trees.replayed(before, name, path) for name, path in pairs]  # one checkout for all
        of_change = [trees.replayed(after, name, path) for name, path in pairs]
    cases = tuple(
        Case(name, shown_path(path), one, other)
        for (name, path), one, other in zip(pairs, of_base, of_change, strict=True)
    )
    return Changed(base, to or "", cases)
