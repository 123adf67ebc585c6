"""Thousands of recordings: their index, and questions about it."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

from commands import recorded
from measure import FULL, Row, Scale

from agenttape_core.fleet.index import read_index, update_index
from agenttape_core.fleet.questions import QUESTIONS, ask

CALLS = 6  # the calls of a run


def recordings(folder: Path, count: int) -> Path:
    """Write recordings of six calls each, in a folder for each day, with different hashes of requests; return it."""
    chance = random.Random(1)  # noqa: S311 - the same in each run
    recorded(folder / "first.yaml", CALLS)
    text = (folder / "first.yaml").read_text(encoding="utf-8")
    (folder / "first.yaml").unlink()
    for number in range(count):
        path = folder / "runs" / f"2026-11-{number % 30 + 1:02}" / f"run{number:05}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        one = re.sub('(?<=fingerprint: )"?[0-9a-f]{32}"?', lambda _: f'"{chance.getrandbits(128):032x}"', text)
        path.write_text(one, encoding="utf-8")
    return folder / "runs"


def index(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the index of a month, and the slowest question; the processor's time, as other work may run."""
    runs, path = recordings(folder, 20_000 if scale is FULL else 3), folder / "index.parquet"
    began = time.process_time()
    done = update_index(path, [runs])
    seconds = time.process_time() - began
    found = f"{seconds:.1f} s, {path.stat().st_size / 1e6:.1f} MB"
    yield Row(f"`agenttape fleet index`, {done.calls:,} calls", found, "<= 60 s, <= 10 MB")
    calls, times = read_index(path), dict[str, float]()
    ask("select 1", calls)  # which imports DuckDB
    for name in QUESTIONS:
        began = time.perf_counter()
        ask(name, calls)
        times[name] = time.perf_counter() - began
    slowest = max(times, key=times.__getitem__)
    yield Row(
        f"`agenttape fleet query`, the slowest of {len(QUESTIONS)}: {slowest}", f"{times[slowest]:.2f} s", "<= 0.5 s"
    )
