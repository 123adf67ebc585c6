"""The release notes' table of renames: each new name exists, and no old one is left."""

from __future__ import annotations

import inspect
import re
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


def names(words: list[str]) -> set[str]:
    """Return the first names in words: `frozen` of `frozen`, `accept` of `accept={"lossy"}`."""
    return {match[0] for word in words if (match := re.match(r"\w+", word))}


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


def test_kinds_of_rows_are_checked() -> None:
    """Each row has three cells, and a kind that a test below reads."""
    kinds = {"option, setting, marker", "mode", "command", "option of a command", "pytest option", "fixture", "file"}
    kinds |= {"error, warning", "Python", "reports", "what-if", "mutants", "serve", "integration", "event"}
    assert {row[0] for row in ROWS} == kinds
    assert {len(row) for row in ROWS} == {3}


def test_parameters_and_settings() -> None:
    """No old parameter or setting is left, and each new one exists."""
    known = set(inspect.signature(use_cassette).parameters) | set(Settings._fields)
    old, new = names(of("option, setting, marker", 1)), names(of("option, setting, marker", 2))
    assert old - {"faults"} & known == set()
    assert new - {"faults", "keep"} <= known
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


def test_options_of_commands() -> None:
    """No old option of a command is left, except where another one has its name; each new one exists."""
    group = "option of a command"
    old = {word for text in of(group, 1) for word in text.split() if word.startswith("--")}
    new = {word for text in of(group, 2) for word in text.split() if word.startswith("-")}
    again = {"--source", "--to", "--report", "--plan"}  # of `lab mutants`, `lab change`, `fleet merge` and many others
    assert (old - again) & OPTIONS == set()
    assert new - {"-o"} <= OPTIONS
    assert "-o" in OPTIONS


def test_options_of_pytest() -> None:
    """No old option of pytest is left, and each new one exists."""
    old = {text.partition("=")[0] for text in of("pytest option", 1) if text.startswith("--")}
    new = {text.partition("=")[0] for text in of("pytest option", 2) if text.startswith("--")}
    assert (old - {"--rerecord", "--cassette-samples"}) & PYTEST == set()
    assert new <= PYTEST


def test_the_fixture() -> None:
    """No old method of the fixture is left, and each new one exists."""
    assert not [name for name in of("fixture", 1) if hasattr(Fixture, name)]
    assert all(hasattr(Fixture, name) for name in of("fixture", 2))


def test_files() -> None:
    """Snapshots have the new suffix."""
    assert [name.removeprefix("NAME") for name in of("file", 2)] == [SNAPSHOT]
    assert SNAPSHOT not in of("file", 1)


def test_errors() -> None:
    """Errors and warnings have the new names only, in `agenttape_core.errors`."""
    assert not [name for name in of("error, warning", 1) if hasattr(errors, name)]
    assert all(hasattr(errors, name) for name in of("error, warning", 2))


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


def test_reports() -> None:
    """A report has the new attributes, and none of the old ones."""
    old = {name.partition(".")[2] for name in of("reports", 1) if name.startswith("report.")}
    new = {name.partition(".")[2] for name in of("reports", 2) if name.startswith("report.")}
    assert not [name for name in old if hasattr(Report, name)]
    assert all(hasattr(Report, name) for name in new)


def test_verdicts_on_mutants() -> None:
    """Mutation scores have the new words, in their data too."""
    verdicts = import_module("agenttape_core.experiments.strategies.mutants.result")
    source = inspect.getsource(verdicts)
    assert not [word for word in of("mutants", 1) if word in source]
    assert all(word in source for word in of("mutants", 2))


def test_what_ifs_and_the_server() -> None:
    """Results of what-ifs have the new attributes, and the server of an oracle answers the new path only."""
    fields = {name for name in dir(results.WhatIf) if not name.startswith("_")} | set(
        results.WhatIf.__dataclass_fields__
    )
    assert names(of("what-if", 2)) <= fields
    assert not names(of("what-if", 1)) & fields
    server = inspect.getsource(import_module("agenttape_core.tools.oracle"))
    assert [f'"{text.split()[1]}"' in server for column in (1, 2) for text in of("serve", column)] == [False, True]


def test_integrations() -> None:
    """Names for authors of integrations: the new ones exist, and none of the old ones does."""
    parts = ("", ".answers", ".patching", ".request_values", ".stand_ins", ".threads")
    modules = [import_module(f"agenttape_core.integration{part}") for part in parts]
    offered = {name for module in modules for name in getattr(module, "__all__", vars(module))}
    plain = re.compile(r"\w+$")
    old = {name for name in of("integration", 1) if plain.match(name)} - {"ambient", "served"}
    new = {name for name in of("integration", 2) if plain.match(name)} - {"automatic", "replayed"}
    assert old & offered == set()
    assert new <= offered
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
