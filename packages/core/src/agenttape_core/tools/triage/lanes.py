"""Lanes, in each of which one part of a program varies and all others are held still; and the verdict on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agenttape_core.tools.verdicts import share_of

Part = Literal["code", "order", "tool", "model", "judge", "together"]
"""The part that varies in a lane: the code and its surroundings, the order of answers, a tool, the model, the judge, or
tools, model and judge together."""
End = Literal["passed", "failed", "left"]
"""The end of a sample: well, by a failure, or by leaving the recorded world."""

_PARTS: dict[Part, str] = {
    "code": "code",
    "order": "order",
    "tool": "tool",
    "model": "model",
    "judge": "judge",
    "together": "all together",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One run in a lane.

    Args:
        end: How it ended.
        why: The first line of the failure, or the call that left the recorded world; empty if it passed.
        moved: Whether a call asked for something else than was recorded.
    """

    end: End
    why: str = ""
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """The samples in which one part varied.

    Args:
        part: The part.
        name: The name of the tool; empty for other parts.
        samples: The samples.
        skipped: The reason for which there are none, or fewer than were wanted.
        dollars: The cost of the calls that were made, as far as it is known.
        calls: The number of calls of models that were made.
    """

    part: Part
    name: str = ""
    samples: tuple[Sample, ...] = ()
    skipped: str = ""
    dollars: float = 0.0
    calls: int = 0

    @property
    def title(self) -> str:
        """The part, with the name of the tool."""
        return f"{_PARTS[self.part]} {self.name}".strip()

    def count(self, end: End) -> int:
        """Return how many samples ended in a way."""
        return sum(sample.end == end for sample in self.samples)

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the share of failures; each holds with a probability of 95 %."""
        low, high = share_of(self.count("failed"), len(self.samples))
        return round(low, 3), round(high, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "part": self.part,
            "name": self.name or None,
            "samples": len(self.samples),
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "left": self.count("left"),
            "moved": sum(sample.moved for sample in self.samples),
            "interval": list(self.interval),
            "reasons": list(dict.fromkeys(sample.why for sample in self.samples if sample.why)),
            "skipped": self.skipped or None,
            "dollars": round(self.dollars, 6),
            "calls": self.calls,
        }

    def __str__(self) -> str:
        count = len(self.samples)
        if not count:
            return f"{self.title}: not tried, {self.skipped}"
        failed, left, moved = self.count("failed"), self.count("left"), sum(one.moved for one in self.samples)
        parts = [f"{failed} of {count} failed" if failed else f"none of {count} failed"]
        if not failed:
            parts.append(f"which leaves up to {self.interval[1]:.0%}")
        if left:
            parts.append(f"{left} left the recorded world")
        if moved:
            parts.append(f"{moved} with another answer, after which something else was asked")
        if self.calls:
            parts.append(f"{self.calls} calls of models for ${self.dollars:.4f}")
        return f"{self.title}: {', '.join(parts)}" + (f"; {self.skipped}" if self.skipped else "")


@dataclass(frozen=True, slots=True)
class Triage:
    """The result of a triage: the lanes, and the verdict on them.

    Args:
        program: The name of the program.
        cassette: The cassette as a message shows it.
        lanes: The lanes, those without a cost first.
        seed: Of the orders that were chosen by chance.
        notes: What has to be known besides, a line each.
    """

    program: str
    cassette: str
    lanes: tuple[Lane, ...]
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def culprits(self) -> list[str]:
        """The parts that made the program fail when they varied alone; `together` if only all of them did.

        A lane in which nothing failed clears a part of nothing: it may fail more seldom than there were samples.
        """
        failed = [lane for lane in self.lanes if lane.count("failed")]
        alone = [lane.title for lane in failed if lane.part != "together"]
        return alone or ["together" for _ in failed[:1]]

    @property
    def verdict(self) -> str:
        """The parts, in words."""
        if found := self.culprits:
            return "several together" if found == ["together"] else " and ".join(found)
        return "nothing has failed"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            **{name: value for name, value in asdict(self).items() if name in {"program", "cassette", "seed"}},
            "verdict": self.verdict,
            "culprits": self.culprits,
            "lanes": [lane.to_dict() for lane in self.lanes],
            "dollars": round(sum(lane.dollars for lane in self.lanes), 6),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{self.program}, replayed from {self.cassette}: {self.verdict}", *map(str, self.lanes)]
        for lane in self.lanes:
            lines += [f"{lane.title}: {why}" for why in _reasons(lane.samples)]
        return "\n  ".join([*lines, *self.notes])


def _reasons(samples: Sequence[Sample]) -> list[str]:
    return list(dict.fromkeys(sample.why for sample in samples if sample.why))[:3]
