"""Sessions measured by coverage, whose tracers take its lock at any line."""

from __future__ import annotations

import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coverage import Coverage
from coverage.collector import Collector

from agenttape_core import boundary, use_cassette


@boundary("tool")
def ask(question: str) -> str:
    """Answer."""
    return question


def test_a_tracer_takes_its_lock_without_our_code(tmp_path: Path) -> None:
    """A thread that starts in a session is traced with the real methods of coverage's lock, and takes no turn at it."""
    measured = Coverage(data_file=None, include=["*"], concurrency="thread")
    measured.start()
    try:
        for mode in ("record", "replay"):
            with use_cassette(tmp_path / "c.yaml", mode=mode), ThreadPoolExecutor(2) as pool:
                assert list(pool.map(ask, "abcd")) == list("abcd")
                lock = Collector._collectors[-1].data_lock
                assert lock is not None
                assert not isinstance(lock.acquire, types.MethodType)
                assert not isinstance(lock.release, types.MethodType)
    finally:
        measured.stop()
