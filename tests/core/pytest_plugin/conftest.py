"""A project of a user of the plugin, with an agent that really works only while the folder has no file `offline`."""

from __future__ import annotations

from importlib import import_module

import pytest

for each in (  # runs in this process forget what only they have imported
    "_pytest.stepwise",
    "agenttape_core.experiments.engine",
    "agenttape_core.experiments.strategies",
    "agenttape_core.experiments.verify",
    "agenttape_core.lifecycle.commit",
    "agenttape_core.lifecycle.everywhere",
    "agenttape_core.lifecycle.open_cassette",
    "agenttape_core.lifecycle.missing",
    "agenttape_core.lifecycle.replay_check",
    "agenttape_core.pytest_plugin.causes",
    "agenttape_core.pytest_plugin.experimenting",
    "agenttape_core.pytest_plugin.plain_imports",
    "agenttape_core.pytest_plugin.running",
    "agenttape_core.redaction.detection.provider_keys",
    "agenttape_core.redaction.scanner",
    "agenttape_core.session.module_dates",
    "agenttape_core.storage.pending",
    "multiprocessing.reduction",
):
    import_module(each)

INI = """
[pytest]
addopts = -p no:benchmark -p no:codspeed -p no:recording -p no:socket -p no:syrupy -p no:randomly
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
AGENT = """
from pathlib import Path
from agenttape_core import boundary

asked = []

@boundary
def ask(question):
    if Path(__file__).with_name("offline").exists():
        raise RuntimeError("nobody answers")
    asked.append(question)
    return f"{question}! {len(asked)}"

@boundary("tool")
def look_up(city, unit="C"):
    return f"{city}: 20 {unit}"
"""

LOADED = (
    "agenttape_core.pytest_plugin",
    "pytest_asyncio.plugin",
    "xdist.plugin",
    "anyio.pytest_plugin",
    "_hypothesis_pytestplugin",
)
"""The plugins of all runs; to load the others that are installed takes longer than most runs."""


class Project:
    """The project.

    Args:
        pytester: Where it lies.
    """

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        pytester.makefile(".ini", pytest=INI)
        pytester.makepyfile(agent=AGENT)

    def tests(self, body: str, name: str = "test_it") -> None:
        """Write a module of tests."""
        self.pytester.makepyfile(**{name: f"import pytest\nfrom agent import ask, look_up\n\n{body}"})

    def run(self, *args: str) -> pytest.RunResult:
        """Run pytest in the project."""
        return self.pytester.runpytest_inprocess(*args, plugins=[import_module(name) for name in LOADED])

    def record(self, *args: str) -> pytest.RunResult:
        """Record what is missing; it must pass."""
        result = self.run("--cassette-mode=once", *args)
        assert result.ret == 0, result.stdout.str()
        return result

    def go_offline(self) -> None:
        """Let nobody answer from now on."""
        (self.path / "offline").touch()

    def cassettes(self) -> list[str]:
        """Return the files that there are, from the folder of cassettes."""
        folder = self.path / "cassettes"
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml"))


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Give an empty project, whose runs load few plugins, and those that are asked for."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", ",".join(LOADED))
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "false")
    return Project(pytester)
