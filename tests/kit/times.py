"""Other recorded times in a cassette."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMINGS = re.compile(r"  timings: \|\n(?:    .*\n)+")


def took(path: Path, seconds: Mapping[int, float | Sequence[float]]) -> None:
    """Let the calls of a cassette, by their numbers, have taken so many seconds; for a stream, those of its chunks too.

    Args:
        path: The cassette.
        seconds: The duration of each call; or, for a stream, the moments of its chunks and that of its end.
    """
    lines = []
    for number, times in seconds.items():
        *chunks, end = times if isinstance(times, Sequence) else (times,)
        lines.append(" ".join([f"    {number} 0.0+{end * 1000:.1f}", *(f"{chunk * 1000:.1f}" for chunk in chunks)]))
    text, count = _TIMINGS.subn("  timings: |\n" + "\n".join(lines) + "\n", path.read_text())
    assert count == 1
    path.write_text(text)
