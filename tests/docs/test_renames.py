"""The release notes' table of renames: each new name exists, and no old one is left."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

import click
import pytest

from agenttape_core import Report, Variation, errors, results, use_cassette
from agenttape_core.cli.app import MEANT, agenttape
from agenttape_core.engine import Mode, parse_mode
from agenttape_core.pytest_plugin import TestCassette as Fixture
from agenttape_core.pytest_plugin import pytest_addoption
from agenttape_core.settings import Settings
from agenttape_core.storage import SNAPSHOT

ROOT = Path(__file__).resolve().parents[2]
_, _, NOTES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("#### Renames\n")
ROWS = [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in NOTES.splitlines() if "| `" in line]
CODE = re.compile(r"`([^`]+)`")


def of(group: str, column: int) -> list[str]:
    """Return the words in code of a column of the rows of a kind."""
    return [word for row in ROWS if row[0] == group for word in CODE.findall(row[column])]


def commands(group: click.Command = agenttape, path: str = "") -> dict[str, set[str]]:
    """Return each command with its options."""
    options = {name for each in group.params if isinstance(each, click.Option) for name in each.opts}
    found = {path: options}
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            found |= commands(command, f"{path} {name}".strip())
    return found


COMMANDS = commands()
PARSER = pytest.Parser(_ispytest=True)
pytest_addoption(PARSER)
PYTEST = {name for group in PARSER._groups for option in group.options for name in option.names()}
OPTIONS = {name for options in COMMANDS.values() for name in options}
INTEGRATION = [
    import_module(f"agenttape_core.integration{part}")
    for part in ("", ".answers", ".patching", ".request_values", ".stand_ins", ".threads")
]


def test_kinds_of_rows_are_checked() -> None:
    """Each row has three cells, and a kind that a test below reads."""
    kinds = {"option, setting, marker", "mode", "command", "option of a command", "pytest option", "fixture", "file"}
    kinds |= {"error, warning", "Python", "reports", "what-if", "mutants", "serve", "integration", "event"}
    assert {row[0] for row in ROWS} == kinds
    assert {len(row) for row in ROWS} == {3}


@pytest.mark.parametrize(
    ("group", "name", "known", "again", "elsewhere"),
    [
        (
            "option, setting, marker",
            r"^\w+",
            {*inspect.signature(use_cassette).parameters, *Settings._fields},
            {"faults"},
            {"faults", "keep"},
        ),
        # Others have these names again: `lab mutants`, `lab change`, `fleet merge`, and pytest's `--rerecord=failed`.
        ("option of a command", r"(?<!\S)--?[a-z][\w-]*", OPTIONS, {"--source", "--to", "--report", "--plan"}, set()),
        ("pytest option", r"^--[\w-]+", PYTEST, {"--rerecord", "--cassette-samples"}, set()),
        ("fixture", r"^\w+", dir(Fixture), set(), set()),
        ("error, warning", r"^\w+", dir(errors), set(), set()),
        ("reports", r"(?<=^report\.)\w+", dir(Report), set(), set()),
        ("what-if", r"^\w+", {*dir(results.WhatIf), *results.WhatIf.__dataclass_fields__}, set(), set()),
        (
            "integration",
            r"^\w+$",
            {name for module in INTEGRATION for name in getattr(module, "__all__", vars(module))},
            {"ambient", "served"},
            {"automatic", "replayed"},
        ),
    ],
)
def test_names(group: str, name: str, known: Collection[str], again: set[str], elsewhere: set[str]) -> None:
    """No old name is left, except where something else has it again; each new one exists, there or elsewhere."""
    old, new = ({each for text in of(group, column) for each in re.findall(name, text)} for column in (1, 2))
    assert old
    assert new
    assert (old - again) & set(known) == set()
    assert new - elsewhere <= set(known)


def test_variations() -> None:
    """What a session varies is said by the new parameters of `Variation`."""
    assert {"changes", "on_new_call", "order"} <= set(inspect.signature(Variation).parameters)


def test_modes() -> None:
    """VCR's names of modes keep working, and members of `Mode` have the new ones."""
    pairs = [(CODE.findall(row[1]), CODE.findall(row[2])) for row in ROWS if row[0] == "mode"]
    for old, new in pairs:
        for before, now in zip(old, new, strict=True):
            if "." in now:
                assert hasattr(Mode, now.partition(".")[2])
                assert not hasattr(Mode, before.partition(".")[2])
            else:
                assert parse_mode(before) is parse_mode(now)


def test_commands() -> None:
    """No old command is left; typing one names the new command, which exists with its options."""
    for row in (row for row in ROWS if row[0] == "command"):
        for old in CODE.findall(row[1]):
            assert old not in COMMANDS
            assert MEANT.get(old, "").split()
        for new in CODE.findall(row[2]):
            if new.startswith("--"):
                assert new.split()[0] in COMMANDS["check"]
                continue
            words = new.split()
            command = " ".join(word for word in words if word in " ".join(COMMANDS).split())
            assert command.removesuffix(" list").removesuffix(" accept").removesuffix(" reject") in COMMANDS, new
            assert {word for word in words if word.startswith("--")} <= COMMANDS[words[0]] | OPTIONS


def test_files() -> None:
    """Snapshots have the new suffix."""
    assert [name.removeprefix("NAME") for name in of("file", 2)] == [SNAPSHOT]
    assert SNAPSHOT not in of("file", 1)


def test_results() -> None:
    """Classes of results are in `agenttape_core.results`, and the root has none of them."""
    root = import_module("agenttape_core")
    rows = [row for row in ROWS if row[0] == "Python" and "agenttape_core.results" in row[2]]
    assert len(rows) == 2
    for row in rows:
        old = [name.rpartition(".")[2] for name in CODE.findall(row[1])]
        new = [name for name in CODE.findall(row[2]) if "." not in name] or old
        assert set(new) <= set(results.__all__)
        assert not set(old) & set(root.__all__)


def test_verdicts_on_mutants() -> None:
    """Mutation scores have the new words, in their data too."""
    verdicts = import_module("agenttape_core.experiments.strategies.mutants.result")
    source = inspect.getsource(verdicts)
    assert not [word for word in of("mutants", 1) if word in source]
    assert all(word in source for word in of("mutants", 2))


def test_the_server() -> None:
    """The server of an oracle answers the new path only."""
    server = inspect.getsource(import_module("agenttape_core.tools.oracle"))
    assert [f'"{text.split()[1]}"' in server for column in (1, 2) for text in of("serve", column)] == [False, True]


def test_the_conformance_suite() -> None:
    """The suite for authors of integrations has no method of an old name."""
    suite = import_module("agenttape_core.testing").IntegrationConformance
    assert hasattr(suite, "automatic")
    assert not [name for name in dir(suite) if "ambient" in name or "served" in name]


def test_events() -> None:
    """The page on events lists the new names, and none of the old ones."""
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    assert not [name for name in of("event", 1) if f"`{name}`" in page]
    assert all(f"`{name}`" in page for name in of("event", 2))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_no_page_names_an_old_option(page: Path) -> None:
    """An option on a page that is ours by its name is one of today's."""
    text = page.read_text(encoding="utf-8")
    old = {word for text in of("option of a command", 1) for word in text.split() if word.startswith("--")}
    old |= {name.partition("=")[0] for name in of("pytest option", 1) if name.startswith("--")}
    old -= OPTIONS | PYTEST | {"--check", "--markdown", "--max", "--times", "--test"}
    found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) & old
    assert found == set()
