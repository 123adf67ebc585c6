"""What is kept of a failing test: to be looked at where it did not run, such as beside a CI job."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.errors import AgentTapeError
from agenttape_core.pytest_plugin.naming import safe
from agenttape_core.storage import leftover_journals, recover

if TYPE_CHECKING:
    import pytest

    from agenttape_core.pytest_plugin.fixture import TestCassette


def keep_artifacts(folder: Path, cassette: TestCassette, report: pytest.TestReport) -> Path:
    """Keep what a failing test asked and got.

    Args:
        folder: Where artifacts are kept.
        cassette: The cassette of the test, which has ended.
        report: How the test failed.

    Returns:
        A folder of the test's own with `run.json`, the cassette that it replayed, and what it recorded.
    """
    kept = folder / safe(cassette.nodeid.replace("/", "."))
    if kept.exists():
        shutil.rmtree(kept)
    kept.mkdir(parents=True)
    (kept / "run.json").write_text(json.dumps(_told(cassette, report), indent=2) + "\n", encoding="utf-8")
    path = cassette.path
    if isinstance(path, Path) and path.is_file():
        shutil.copy2(path, kept / path.name)
        assets = path.with_name(f"{path.name}.assets")
        if assets.is_dir():
            shutil.copytree(assets, kept / assets.name)
    _keep_recorded(kept, cassette)
    return kept


def _told(cassette: TestCassette, report: pytest.TestReport) -> dict[str, object]:
    told = cassette.report
    return {
        "test": cassette.nodeid,
        "cassette": str(cassette.path),
        "mode": cassette.mode.value,
        "failure": cassette.session.redactor.text(report.longreprtext),
        "served": list(map(str, told.served)),
        "executed": list(map(str, told.executed)),
        "unused": list(map(str, told.unused)),
        "missed": list(told.missed),
        "drifted": list(told.drift),
        "blocked": list(told.blocked),
    }


def _keep_recorded(kept: Path, cassette: TestCassette) -> None:
    """Make a cassette of what the test recorded before it failed, which is left in a journal beside its cassette."""
    path = cassette.path
    if not isinstance(path, Path) or not cassette.report.executed:
        return
    for number, journal in enumerate(leftover_journals(path), 1):
        name = "recorded.yaml" if number == 1 else f"recorded-{number}.yaml"
        try:
            recover(journal, kept / name)
        except AgentTapeError as problem:
            (kept / f"{name}.txt").write_text(f"{problem}\n", encoding="utf-8")
