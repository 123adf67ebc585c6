"""The result of a minimisation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agenttape_core.errors import shown_path
from agenttape_core.tools.programs import Failure


@dataclass(frozen=True, slots=True)
class Minimised:
    """The smallest cassette that was found with which a program fails alike.

    Args:
        cassette: The cassette.
        source: The one that it was made of.
        program: The name of the program.
        failure: The failure.
        calls: The number of calls in the source, and in the result.
        sizes: The bytes of both files.
        replays: How often the program was replayed.
        is_minimal: Whether nothing more can be left out alone; if not, the search has ended early.
        keeps: Kinds of secrets that were not looked for when the source was recorded, and that the failure needs.
        test: The file of the test that replays it; `None` if none was written.
    """

    cassette: Path
    source: Path
    program: str
    failure: Failure
    calls: tuple[int, int]
    sizes: tuple[int, int]
    replays: int
    is_minimal: bool
    keeps: tuple[str, ...] = ()
    test: Path | None = None

    @property
    def share(self) -> float:
        """The size of the result in that of the source, from 0 to 1."""
        return self.sizes[1] / self.sizes[0]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "cassette": shown_path(self.cassette),
            "source": shown_path(self.source),
            "test": shown_path(self.test) if self.test is not None else None,
            "program": self.program,
            "failure": {**asdict(self.failure), "file": shown_path(Path(self.failure.file))},
            "calls": {"before": self.calls[0], "after": self.calls[1]},
            "bytes": {"before": self.sizes[0], "after": self.sizes[1]},
            "share": round(self.share, 4),
            "replays": self.replays,
            "minimal": self.is_minimal,
            "keeps": list(self.keeps),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.program} fails alike with {shown_path(self.cassette)}",
            f"failure  {self.failure}",
            f"calls    {self.calls[0]} → {self.calls[1]}",
            f"bytes    {self.sizes[0]} → {self.sizes[1]} ({self.share:.1%})",
            f"replays  {self.replays}" + ("" if self.is_minimal else ", as many as were allowed: not minimal yet"),
        ]
        if self.keeps:
            lines.append(f"holds    what may be secret, as it fails alike only with it: {', '.join(self.keeps)}")
        if self.test is not None:
            lines.append(f"test     {shown_path(self.test)}")
        return "\n  ".join(lines)
