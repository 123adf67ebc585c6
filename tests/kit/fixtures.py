"""Fixtures for any test; `tests/conftest.py` makes them known."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from . import forks

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


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a `python` that begins with a session's modules loaded."""
    with forks.commands(tmp_path_factory.mktemp("python"), forks.SESSION, "python") as folder:
        yield folder


@pytest.fixture(scope="session")
def python_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A `python` that begins with pytest and a session's modules loaded."""
    with forks.commands(tmp_path_factory.mktemp("python"), (*forks.SESSION, "pytest"), "python") as folder:
        yield folder / "python"


@pytest.fixture
def forked_tests(python_of_tests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `sys.executable -m pytest`, as `agenttape` starts it, be a fork."""
    monkeypatch.setattr(sys, "executable", str(python_of_tests))
    monkeypatch.setenv("FORKED_PYTHON", str(python_of_tests))


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
