"""The edits of a program in this process, where its framework is imported already."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Collection
from pathlib import Path
from typing import Any

from agenttape_core import Variation, open_cassette, use_cassette
from agenttape_core.experiments.program import FunctionProgram
from agenttape_core.experiments.strategies.mutants import Requests
from agenttape_core.experiments.strategies.mutants.edits import mutants_of, mutated
from agenttape_core.tools.target import run_to_end

_NAME = "edited_program"


def _answer(tree: ast.Module, given: dict[str, Any]) -> Any:
    """Return the function `answer` of a program."""
    module = types.ModuleType(_NAME)
    module.__dict__.update(given)
    sys.modules[_NAME] = module  # where annotations are looked up
    exec(compile(tree, _NAME, "exec"), module.__dict__)
    return module.answer


def recorded(source: str, given: dict[str, Any], cassette: Path) -> None:
    """Record the function `answer` of a program.

    Args:
        source: The program.
        given: What it finds among its globals.
        cassette: The file to write.
    """
    with use_cassette(cassette, mode="all"):
        run_to_end(_answer(ast.parse(source), given))


def noticed(source: str, given: dict[str, Any], cassette: Path, kinds: Collection[str]) -> dict[str, bool]:
    """Return for each edit of what stands in a recorded request whether the replay notices it.

    Args:
        source: The program.
        given: What it finds among its globals.
        cassette: Its recording.
        kinds: The kinds of edits.
    """
    opened = open_cassette(cassette)
    requests = Requests.of(opened.interaction(row.number).request for row in opened.entries)
    found = {}
    for one in mutants_of(source, "a.py"):
        if one.kind not in kinds or not requests.holds(one.sought):
            continue
        try:
            answer = _answer(mutated(source, one.id, file="a.py"), given)
        except (TypeError, ValueError):  # the framework refuses it
            found[one.id] = True
            continue
        ending = FunctionProgram(answer, options={}).run(Variation(cassette))
        found[one.id] = ending.left is not None or ending.error is not None
    return found
