"""Fixtures for any test; `tests/conftest.py` makes them known."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def prices(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A price for the model `gpt-x`, a tenth of a cent for each call."""
    (project / "prices.json").write_text('{"gpt-x": {"input": 0.5, "output": 0.5}}')
    monkeypatch.setenv("AGENTTAPE_PRICES", "prices.json")


@pytest.fixture
def replays(pytestconfig: pytest.Config) -> int:
    """How often a program whose tasks or threads race is recorded, or replayed: twice, and more often at night."""
    return max(2, int(pytestconfig.getoption("replays")))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt the processes that a test starts, also where it is ignored, as under `nohup`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def often() -> Iterator[None]:
    """Let threads take the interpreter from each other often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let the collector of garbage come only when a test calls it."""
    gc.collect()
    gc.disable()
    # It looks at what the test makes, and not at all that other tests have imported.
    gc.freeze()
    yield
    gc.enable()
