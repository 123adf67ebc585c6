"""Modules named in a text, to be imported late, stand on the same floor or below; core's tests import no framework."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "packages" / "core" / "src"
_MODULE = re.compile(r"agenttape_core(?:\.\w+)+")


def named(source: str) -> Iterator[str]:
    """Yield the modules of core that texts of a module name, but for its docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or id(node) in docstrings:
            continue
        if _MODULE.fullmatch(node.value):
            yield node.value


def test_no_late_import_goes_upward() -> None:
    """No text of a module of core names a module of a floor above, as one that is imported late."""
    # The plugins that a command names to the pytest of a child process, which imports them.
    of_children = {
        "experiments/targets.py": ["agenttape_core.pytest_plugin.programs"],
        "experiments/strategies/mutants/running.py": ["agenttape_core.pytest_plugin.mutated"],
    }

    def floors() -> dict[str, int]:
        """Return the floor of each part of core, counted from the top, as the contract of layers has it."""
        contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
        (layers,) = [each["layers"] for each in contracts if each.get("containers") == ["agenttape_core"]]
        return {part.strip(): number for number, floor in enumerate(layers) for part in floor.split(":")}

    def is_module(name: str) -> bool:
        """Return whether core has a module or a package of this name."""
        path = CORE.joinpath(*name.split("."))
        return path.is_dir() or path.with_suffix(".py").exists()

    def upward(path: Path) -> list[str]:
        """Return the modules of floors above that a module names."""
        parts = path.relative_to(CORE / "agenttape_core").with_suffix("").parts
        own = order.get(parts[0], -1)  # the root is above all
        text = path.read_text("utf-8")
        found = named(text) if '"agenttape_core.' in text else ()
        return [name for name in found if is_module(name) and order[name.split(".")[1]] < own]

    order = floors()
    found = {
        path.relative_to(CORE / "agenttape_core").as_posix(): upward(path)
        for path in sorted((CORE / "agenttape_core").rglob("*.py"))
    }
    assert {path: names for path, names in found.items() if names} == of_children


def test_an_upward_import_is_found() -> None:
    """A text with the name of a module counts, in a call as in a constant; a docstring does not."""
    source = '"""agenttape_core.cli"""\nCHILD = "agenttape_core.checks"\nimport_module("agenttape_core.asgi.client")\n'
    assert list(named(source)) == ["agenttape_core.checks", "agenttape_core.asgi.client"]


def test_parts_import_their_whole_for_types_alone() -> None:
    """Where a part of a package imports the module that is made of it, it does so for types, and at no run time."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (ignored,) = [each["ignore_imports"] for each in contracts if each["type"] == "acyclic_siblings"]
    pairs = [text.split(" -> ") for text in ignored]
    assert pairs
    for part, whole in pairs:
        body = ast.parse(CORE.joinpath(*part.split(".")).with_suffix(".py").read_text("utf-8")).body
        at_run_time = [each.module for each in body if isinstance(each, ast.ImportFrom)]
        assert whole not in at_run_time, f"{part} imports {whole} when it runs"


TESTS = Path(__file__).resolve().parents[1]
DEAR = {"anthropic", "langchain", "langchain_core", "langgraph", "llama_index", "openai"}
"""A session connects these where they are imported, for a millisecond or two each time."""


_IMPORT = re.compile(rf"^(?:from|import) (?:{'|'.join(sorted(DEAR))})\b", re.MULTILINE)


def test_tests_of_core_import_no_framework() -> None:
    """No module of core's tests imports one where it is collected; `tests/conformance` has those that need one."""

    def imported(path: Path) -> list[str]:
        """Return the modules that a module imports at import time, without those in programs that it holds as text."""
        text = path.read_text("utf-8")
        names = []
        for statement in ast.parse(text).body if _IMPORT.search(text) else []:
            if isinstance(statement, ast.Import):
                names += [each.name for each in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                names.append(statement.module or "")
        return [name.partition(".")[0] for name in names]

    dear = {str(path): DEAR.intersection(imported(path)) for path in (TESTS / "core").rglob("*.py")}
    assert {name: found for name, found in dear.items() if found} == {}
