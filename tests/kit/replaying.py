"""A program that is recorded, and is the same in each of its replays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agenttape_core import use_cassette

T = TypeVar("T")


def recorded_as_replayed(path: Path, run: Callable[[], T], times: int = 2) -> T:
    """Record a program and replay it so often: each replay is equal, and reports nothing; return what it returned."""
    with use_cassette(path, mode="all"):
        recorded = run()
    for _ in range(times):
        with use_cassette(path) as replay:
            found = run()
        assert found == recorded
        assert replay.report.nondeterminism == replay.report.unobserved == ()
    return recorded
