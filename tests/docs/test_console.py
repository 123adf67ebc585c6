"""What the pages show of a shell is what the commands print, in a copy of an example, or in a new folder.

A block that begins with ```` ```console {project="pytest_project"} ```` runs in a copy of `examples/pytest_project`,
which the blocks of a page share. Its commands begin with `$ `. A project that is no example begins as an empty folder,
and a block such as ```` ```python {project="trip" file="agent.py"} ```` is a file that the reader writes there. To
write the output anew after an edit: `pytest tests/docs/test_console.py --update-examples`.

The commands `agenttape`, `pytest` and `python` run in forks of one process that has loaded what takes long
(`kit/forks.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from agenttape_core import open_cassette

from ..kit import forks

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r'^```\w+ \{project="(?P<project>\w+)"(?: file="(?P<file>[^"]+)")?\}\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if BLOCK.search(page.read_text(encoding="utf-8"))
]
LOADED = (
    *("pydantic", "pytest", "rich.table", "yaml", "langchain.agents", "langchain_openai"),
    *("llama_index.core.agent.workflow", "genai_prices.data", "httpcore2", "langgraph.graph", "openai.resources.chat"),
    *("agenttape_core.cli.app", "agenttape_core.lifecycle.open_cassette", "agenttape_core.pytest_plugin.running"),
    *("agenttape_core.tools.reading", "agenttape_core.tools.compare"),
    *("agenttape_langchain.automatic", "agenttape_langgraph.automatic", "agenttape_llamaindex.automatic"),
)
"""Packages that many commands load."""


IMPORTED = {"llamaindex.md": "llama_index.core", "other-frameworks.md": "httpx"}
"""The package whose import opens the session of a page's programs."""

FRAMEWORKS = "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"
"""Of LlamaIndex and LangSmith, on Python 3.14."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder of commands that begin with the packages loaded."""
    with forks.commands(tmp_path_factory.mktemp("commands"), LOADED, "agenttape", "pytest") as folder:
        yield folder


@pytest.fixture
def environment(
    page: Path, tmp_path: Path, commands: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The environment of a reader's shell, in which the examples' server stands for OpenAI's service."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    python = tmp_path / "bin" / "python"
    forks.shims(python.parent, str(commands.parent / "socket"), python.name)
    monkeypatch.setenv("FORKED_PYTHON", str(python))
    if page.name in IMPORTED:
        monkeypatch.setenv("FORKED_IMPORT", IMPORTED[page.name])
    with import_module("weather_agent.server").OpenAILoopback() as server:
        others = ("AGENTTAPE_", "PYTEST_", "CI", "BUILD_NUMBER")  # where these are set, pytest prints more
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        yield {
            **kept,
            "PATH": os.pathsep.join(
                [str(commands), str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "any-text",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_{what}": "Reader" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            "PYTHONPATH": str(ROOT / "examples"),  # the client that a page of LlamaIndex takes from there
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a reader does not have the plugins of these tests
            "PYTEST_ADDOPTS": f'-p agenttape -W "{FRAMEWORKS}"',
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "COLUMNS": "110",
            "NO_COLOR": "1",
        }


def is_new(project: str) -> bool:
    """Whether a project begins as an empty folder, so that all that is recorded in it was recorded just now."""
    return not (ROOT / "examples" / project).is_dir()


def begun(project: Path) -> None:
    """Make the folder of a project."""
    if is_new(project.name):
        project.mkdir()
    else:
        ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".*")
        shutil.copytree(ROOT / "examples" / project.name, project, ignore=ignored)
        for cassette in project.rglob("cassettes/**/*.yaml"):
            cassette.write_text(recorded_today(cassette.read_text(encoding="utf-8")), encoding="utf-8")


def recorded_today(cassette: str) -> str:
    """Return a cassette as if it was recorded with the installed packages.

    So no page depends on their versions: you raise a pin, and `stale` prints what it printed before.
    """
    head, packages, rest = re.split(r"(^  packages:\n(?:    .*\n)+)", cassette, maxsplit=1, flags=re.MULTILINE)
    now = re.sub(
        r'^    ([\w.-]+): ".*"$', lambda line: f'    {line[1]}: "{version(line[1])}"', packages, flags=re.MULTILINE
    )
    return head + now + rest


def stable(text: str, project: Path) -> str:
    """Return what a command printed without what differs from run to run."""
    text = text.replace(f"{project}/", "").replace(str(project), ".").replace(f"{ROOT}/", "../agenttape/")
    text = re.sub(r"\b\d+\.\d\d?(?= ?s\b)", "0.1", text)
    text = re.sub(r" *\b\d+ (?:min|h|d)\b", lambda age: "3 d".rjust(len(age[0])), text)
    if is_new(project.name):  # a cassette names the packages that are loaded: in a fork these are more
        text = re.sub(r"\b\d\.\d KB\b", "7.5 KB", re.sub(r"\b\d+ ms\b", "7 ms", text))
    text = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:]+Z", "2026-11-21T12:59:50Z", text)
    text = re.sub(r"\.(\w+\.yaml)\.\d+-[0-9a-f]+\.journal", r".\1.4711-0a1b2c3d.journal", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_examples_are_recorded_with_what_is_installed(tmp_path: Path) -> None:
    """A copied example isn't stale, whatever versions its cassettes name; nothing else of a cassette changes."""
    source = next((ROOT / "examples" / "pytest_project").rglob("*Dune*.yaml"))
    old = re.sub(r'(langchain-core: )".*"', r'\1"0.1"', source.read_text(encoding="utf-8"))
    now = tmp_path / "now.yaml"
    now.write_text(recorded_today(old), encoding="utf-8")
    assert "0.1" in old
    packages = open_cassette(now).header.volatile.packages
    assert packages == {name: version(name) for name in packages}
    assert {"langchain-core", "openai"} <= set(packages)
    assert list(open_cassette(now).interactions()) == list(open_cassette(source).interactions())


def performed(text: str, project: Path, environment: dict[str, str]) -> str:
    """Run the commands of a block, and return the block as it should be."""
    lines = []
    for line in text.splitlines():
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            done = subprocess.run(
                command,
                shell=True,
                cwd=project,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            printed = stable(done.stdout, project).strip("\n")
            lines += [line, *([printed] if printed else [])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_is_shown(
    page: Path, tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """Each command, run in order in the folder of its project, prints what the page shows below it."""
    text = page.read_text(encoding="utf-8")
    told = text
    for block in BLOCK.finditer(text):
        project = tmp_path / block["project"]
        if not project.exists():
            begun(project)
        if block["file"]:
            (project / block["file"]).parent.mkdir(parents=True, exist_ok=True)
            (project / block["file"]).write_text(block["text"], encoding="utf-8")
            continue
        now = performed(block["text"], project, environment)
        told = told.replace(block["text"], now, 1)
        if not request.config.getoption("update_examples"):
            assert block["text"] == now
    if told != text:
        page.write_text(told, encoding="utf-8")
