"""Measure the size of the packages: lines, modules, names, options and classes."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from types import ModuleType

import click
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "langchain", "langgraph", "llamaindex")
KERNEL = ("scheduling", "session")
"""The rooms of core that each call goes through."""
FACES = (
    "agenttape_core",
    "agenttape_core.integration",
    "agenttape_core.scheduling",
    "agenttape_core.session",
    "agenttape_langchain",
    "agenttape_langgraph",
    "agenttape_llamaindex",
)


def measured() -> dict[str, dict[str, int]]:
    """Return all figures, by table and name."""
    files = {package: sorted((ROOT / "packages" / package / "src").rglob("*.py")) for package in PACKAGES}
    files["tests"] = sorted((ROOT / "tests").rglob("*.py"))
    files |= {f"core/{room}": [file for file in files["core"] if room in file.parts] for room in KERNEL}
    return {
        "lines": {name: sum(len(_text(path).splitlines()) for path in paths) for name, paths in files.items()},
        "modules": {name: len(paths) for name, paths in files.items()},
        "names": {name: len(importlib.import_module(name).__all__) for name in FACES},
        "options": _options(),
        "class": _largest_classes(),
        "places": {"words of scheduling, outside of it": sum(map(_words_of_scheduling, _outside_scheduling()))},
    }


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _command(group: click.Command | None, words: list[str]) -> click.Command | None:
    for word in words:
        group = group.get_command(click.Context(group), word) if isinstance(group, click.Group) else None
    return group


def _options() -> dict[str, int]:
    """Return how many options you can give: in code, in settings, to the command and to pytest."""
    from agenttape_core import use_cassette
    from agenttape_core.cli.app import COMMANDS, EXPERIMENTS, agenttape
    from agenttape_core.pytest_plugin import pytest_addoption
    from agenttape_core.settings import Settings

    commands = [_command(agenttape, name.split()) for name in (*COMMANDS, *(f"lab {name}" for name in EXPERIMENTS))]
    # One that several commands share counts once, as you learn it once: it must mean the same in all of them.
    given = {
        each.opts[-1]
        for subcommand in commands
        if subcommand
        for each in subcommand.params
        if isinstance(each, click.Option) and each.name != "as_json"  # all have --json
    }
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    return {
        "use_cassette": sum(each.kind is each.KEYWORD_ONLY for each in signature(use_cassette).parameters.values()),
        "settings": len(Settings._fields),
        "commands": len(COMMANDS),
        "options of commands": len(given),
        "pytest": sum(len(group.options) for group in parser._groups),
    }


_WORDS = frozenset(
    {"gate", "gates", "handed", "lend", "lent", "loose", "participant", "participants", "turn", "turns", "withdrawn"}
)
"""The words of scheduling: code outside knows its port, and none of them."""
_OTHER_MEANINGS = frozenset(
    {"checks", "experiments", "format", "redaction", "scheduling", "schema", "testing", "tools"}
)
"""The rooms of core in which they mean something else: turns of a conversation, gates of CI, loose rules."""


def _outside_scheduling() -> Iterator[Path]:
    for path in (ROOT / "packages").glob("*/src/**/*.py"):
        if not _OTHER_MEANINGS.intersection(path.relative_to(ROOT).parts[4:5]):
            yield path


def _words_of_scheduling(path: Path) -> int:
    """Return how many names in a module have one of the words in them."""
    named = [_name(node) for node in ast.walk(ast.parse(_text(path)))]
    return sum(not _WORDS.isdisjoint(re.findall("[a-z]+", name.lower())) for name in named)


def _name(node: ast.AST) -> str:
    for attribute in ("id", "attr", "arg", "name"):
        if isinstance(name := getattr(node, attribute, None), str):
            return name
    return ""


def _largest_classes() -> dict[str, int]:
    """Return the lines of the largest class of each package, with those of its bases in this project."""
    lengths: dict[str, int] = {}
    for package in PACKAGES:
        for folder in (ROOT / "packages" / package / "src").iterdir():
            if (folder / "__init__.py").exists():
                found = [_with_bases(cls) for module in _modules(folder.name) for cls in _classes(module)]
                lengths[package] = max(lengths.get(package, 0), *found)
    return lengths


def _modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        yield importlib.import_module(module.name)


def _classes(module: ModuleType) -> list[type]:
    return [cls for cls in vars(module).values() if inspect.isclass(cls) and cls.__module__ == module.__name__]


def _with_bases(cls: type) -> int:
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0].startswith("agenttape")]
    return sum(_lengths(base.__module__).get(base.__name__, 0) for base in ours)


@cache
def _lengths(module: str) -> Mapping[str, int]:
    """Return the lines of each class that a module defines at its top."""
    file = importlib.import_module(module).__file__
    assert file is not None
    classes = [each for each in ast.parse(_text(Path(file))).body if isinstance(each, ast.ClassDef)]
    return {each.name: (each.end_lineno or each.lineno) - each.lineno + 1 for each in classes}
