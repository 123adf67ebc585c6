"""LangChain's own standard suites (`langchain-tests`) pass on taped components: recording, and replaying.

The suites bring plugins of pytest that this project's tests do without, so each run is a process of its own: a fork of
one that has loaded what all of them import. The second has no sockets, no model service, and components whose methods
raise.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..kit import forks

pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")

pytestmark = pytest.mark.process

SUITES = Path(__file__).with_name("standard_suites")
ROOT = SUITES.parents[2]
UNNEEDED = "agenttape anyio examples hypothesispytest langsmith_plugin platformdirs randomly xdist xdist.looponfail"
"""Plugins that are installed and that the suites do without: to load them takes as long as many tests."""


LOADED = ("pytest", "langchain_openai", "langchain_core.indexing", "agenttape_langchain.automatic")


def test_suites_pass(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """All tests pass in both runs, and what recorded something is replayed from it, with nothing left over.

    At night, they do so for components that take part without being taped, too.
    """
    runs = {
        "recording": ("--snapshot-update",),
        "replaying": ("--disable-socket", "--allow-unix-socket"),  # an event loop wakes itself by a pair of sockets
    }

    def counts_of(run: str, folder: Path) -> Any:
        """The number of interactions that each test recorded or was replayed."""
        return json.loads((folder / f"{run}.json").read_text(encoding="utf-8"))

    def outcome_of(run: str, folder: Path, commands: Path) -> str:
        """Run all suites in a process of their own; the last lines that it printed."""
        command = [str(commands / "pytest"), str(SUITES), "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += ["-o", "addopts=--import-mode=importlib --strict-markers", "-o", "python_files=suite_*.py"]
        command += [word for plugin in UNNEEDED.split() for word in ("-p", f"no:{plugin}")]
        command += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # for what the fork has loaded
        command += ["--benchmark-disable", f"--suite-run={run}", f"--suite-folder={folder}", *runs[run]]
        command += [] if pytestconfig.getoption("night") else ["-k", "Taped or Unit or Cache"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTAPE_", "PYTEST_"))}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{run}:\n{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    passed = {}
    with forks.commands(tmp_path / "commands", LOADED, "pytest") as commands:
        for run in runs:
            (summary,) = re.findall(r"(\d+) passed, (\d+) skipped", outcome_of(run, tmp_path, commands))
            passed[run] = summary
    assert len(set(passed.values())) == 1, passed
    recorded = counts_of("recording", tmp_path)
    replayed = counts_of("replaying", tmp_path)  # fewer: what is inside of something replayed is not asked for
    assert {name: bool(count) for name, count in recorded.items()} == {name: bool(n) for name, n in replayed.items()}
    silent = {name.rpartition("::")[2] for name, count in recorded.items() if not count and "Integration" in name}
    assert silent == {"test_no_overrides_DO_NOT_OVERRIDE", "test_stream_time"}  # the latter wants vcrpy
    (plain, taped) = re.findall(r"TestUnit\w*\.test_serdes.*?\n(.*?)# ---", snapshots(tmp_path), re.DOTALL)
    assert taped == plain


def snapshots(folder: Path) -> str:
    """The serialised models that the first run saw, of the provider's own client and of a taped one."""
    (file,) = (folder / "snapshots").glob("*.ambr")
    return file.read_text(encoding="utf-8")
