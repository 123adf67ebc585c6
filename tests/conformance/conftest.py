"""What holds for every run of the suite here: no settings of this project, and few processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttape_core.testing.checks.files import one_child


@pytest.fixture(autouse=True, scope="session")
def _one_child() -> Iterator[None]:
    """Have one child process of each worker serve the checks about other processes."""
    with one_child():
        yield


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
