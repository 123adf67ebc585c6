"""Artifacts of a failing test, to be inspected away from the machine that ran it, such as a CI job."""

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
    """Keep the calls of a failing test.

    The cassette has ended. Returns the folder of the test, with `run.json`, the cassette that it replayed, and its new
    recording.
    """
    kept = folder / safe(cassette.nodeid.replace("/", "."))
    if kept.exists():
        shutil.rmtree(kept)
    kept.mkdir(parents=True)
    (kept / "run.json").write_text(json.dumps(_summary(cassette, report), indent=2) + "\n", encoding="utf-8")
    path = cassette.path
    if isinstance(path, Path) and path.is_file():
        shutil.copy2(path, kept / path.name)
        assets = path.with_name(f"{path.name}.assets")
        if assets.is_dir():
            shutil.copytree(assets, kept / assets.name)
    _keep_recorded(kept, cassette)
    return kept


def _summary(cassette: TestCassette, report: pytest.TestReport) -> dict[str, object]:
    run = cassette.report
    return {
        "test": cassette.nodeid,
        "cassette": str(cassette.path),
        "mode": cassette.mode.value,
        "failure": cassette.session.redactor.text(report.longreprtext),
        "replayed": list(map(str, run.replayed)),
        "stepped_into": list(map(str, run.stepped_into)),
        "not_run": list(map(str, run.not_run)),
        "recorded": list(map(str, run.recorded)),
        "unused": list(map(str, run.unused)),
        "missed": list(run.missed),
        "unrecorded": list(run.unrecorded),
        "blocked": list(run.blocked),
    }


def _keep_recorded(kept: Path, cassette: TestCassette) -> None:
    """Make a cassette of the journal that a failed recording leaves beside its cassette."""
    path = cassette.path
    if not isinstance(path, Path) or not cassette.report.recorded:
        return
    for number, journal in enumerate(leftover_journals(path), 1):
        name = "recorded.yaml" if number == 1 else f"recorded-{number}.yaml"
        try:
            recover(journal, kept / name)
        except AgentTapeError as problem:
            (kept / f"{name}.txt").write_text(f"{problem}\n", encoding="utf-8")
