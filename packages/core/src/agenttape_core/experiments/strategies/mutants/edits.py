"""The mutants of a file: all small edits of it, each with an id from which it can be made again."""

from __future__ import annotations

import ast
import difflib
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.experiments.strategies.mutants.schemas import edits_of_schema, is_schema_like
from agenttape_core.experiments.strategies.mutants.sites import (
    Edit,
    Function,
    Kind,
    Site,
    Sought,
    name_of,
    replace,
    sites,
    with_fields,
)
from agenttape_core.experiments.strategies.mutants.texts import edits_of_text, is_evident

_SHOWN = 100
"""Characters of a line of a diff."""
_AROUND = 30
"""Characters before what differs, if a line is too long."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small edit of a file.

    Args:
        id: The file, the line and the operator, with a number if there are several: `desk.py:12:compare~2`.
        file: The file, as it is shown.
        line: The number of the line.
        last: The number of the last line of what is edited.
        kind: What is edited.
        operator: The name of the operator.
        before: What stands there, on one line.
        after: What stands there then; empty if it is gone.
        sought: What a recorded request holds if the edit reaches it.
        lines: The first and the last of the lines that are run if the edit is.
        is_evident: Whether it is worth a line if nothing reaches it.
        in_function: Whether it stands in a function, and not at the top of a module or a class.
    """

    id: str
    file: str
    line: int
    last: int
    kind: Kind
    operator: str
    before: str
    after: str
    sought: Sought = field(default=Sought(), repr=False)
    lines: tuple[int, int] = (0, 0)
    is_evident: bool = False
    in_function: bool = False

    @property
    def diff(self) -> str:
        """The edit as a diff of one line: what goes, and what comes."""
        return f"- {self.before}" + (f"\n+ {self.after}" if self.after else "")


def read_source(path: Path) -> str:
    """Return the text of a Python file, in the encoding that it declares.

    Raises:
        ConfigurationError: If it cannot be read, or is no Python.
    """
    try:
        with tokenize.open(path) as file:
            text = file.read()
        ast.parse(text)
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise ConfigurationError(
            f"{shown_path(path)} cannot be read as Python: {error}\n  mend it, or leave it out with --source"
        ) from error
    return text


def mutants_of(source: str, file: str, *, is_test: bool = False) -> list[Mutant]:
    """Return the mutants of a file, in the order of its lines.

    Args:
        source: Its text.
        file: Its name, as ids have it.
        is_test: Whether it holds tests, whose own functions stay as they are.
    """
    edits = _edits_of(ast.parse(source), file, is_test=is_test)
    return [_mutant(one, file, site, edit) for one, site, edit in edits]


def mutated(source: str, mutant: str, *, file: str, is_test: bool = False) -> ast.Module:
    """Return the tree of a file with one edit.

    Args:
        source: Its text.
        mutant: The id of the mutant.
        file: The name of the file, as ids have it.
        is_test: Whether it holds tests.

    Raises:
        ConfigurationError: If the file has no such mutant.
    """
    tree = ast.parse(source)
    found = {one: (site, edit) for one, site, edit in _edits_of(tree, file, is_test=is_test)}
    if mutant in found:
        site, edit = found[mutant]
        return replace(tree, site.path, edit.new)
    known = list(found)
    near = difflib.get_close_matches(mutant, known, n=3)
    raise ConfigurationError(
        f"there is no mutant {mutant!r}; {file} has {len(known)}" + (f", such as {', '.join(near)}" if near else "")
    )


def _edits_of(tree: ast.Module, file: str, *, is_test: bool) -> Iterator[tuple[str, Site, Edit]]:
    """Yield all edits of a file with their ids, in the order of its lines."""
    numbers: Counter[tuple[int, str]] = Counter()
    found = [(site, edit) for site in sites(tree) if not (is_test and _is_of_test(site)) for edit in _edits(site)]
    for site, edit in sorted(found, key=lambda pair: _line(pair[0])):
        at = (_line(site), edit.operator)
        numbers[at] += 1
        yield f"{file}:{at[0]}:{edit.operator}" + (f"~{numbers[at]}" if numbers[at] > 1 else ""), site, edit


def _mutant(name: str, file: str, site: Site, edit: Edit) -> Mutant:
    before, after = _shown(site, edit)
    line = _line(site)
    return Mutant(
        id=name,
        file=file,
        line=line,
        last=_last(site, line),
        kind=edit.kind,
        operator=edit.operator,
        before=before,
        after=after,
        sought=edit.sought,
        lines=(site.lines.start, site.lines.stop - 1),
        is_evident=is_evident(site) if edit.operator == "empty" else is_schema_like(site),
        in_function=_is_in_function(site),
    )


def _edits(site: Site) -> Iterator[Edit]:
    yield from edits_of_text(site)
    yield from edits_of_schema(site)


def _line(site: Site) -> int:
    for node in (site.node, *reversed(site.parents)):
        if line := getattr(node, "lineno", 0):
            return int(line)
    return 1


def _last(site: Site, line: int) -> int:
    node = site.node
    if isinstance(node, ast.If):
        node = node.test
    if isinstance(node, Function):
        return max(line, node.body[0].lineno - 1)
    return int(getattr(node, "end_lineno", None) or line)


def _is_in_function(site: Site) -> bool:
    """Return whether an edit takes effect when a function is called: a docstring or a signature does so before."""
    return site.function is not None and not site.is_docstring and not isinstance(site.node, Function)


def _is_of_test(site: Site) -> bool:
    """Return whether a place belongs to a test or a fixture: to edit these would be to edit what judges."""
    for node in (*site.parents, site.node):
        if isinstance(node, ast.ClassDef | Function) and node.name.lower().startswith("test"):
            return True
        if isinstance(node, Function) and any(name_of(one) == "fixture" for one in node.decorator_list):
            return True
    top = next((node for node in site.parents if isinstance(node, ast.stmt)), None)
    return isinstance(top, ast.Assign) and any(name_of(target) == "pytestmark" for target in top.targets)


def _shown(site: Site, edit: Edit) -> tuple[str, str]:
    """Return what stands in a place and what comes there, each as one line that holds what differs."""
    if edit.before:
        return _cut(edit.before, edit.after)
    anchor = site.anchor
    before = _unparsed(anchor)
    if anchor is site.node:
        return _cut(before, _unparsed(edit.new))
    return _cut(before, _unparsed(_exchanged(anchor, site.node, edit.new)))


def _exchanged(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """Return a small tree with another node in the place of one; what does not change is shared."""
    if tree is old:
        return new

    def other(value: Any) -> Any:
        if isinstance(value, list):
            return [other(item) for item in value]
        return _exchanged(value, old, new) if isinstance(value, ast.AST) else value

    return with_fields(tree, **{name: other(value) for name, value in ast.iter_fields(tree)})


def _unparsed(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


def _cut(before: str, after: str) -> tuple[str, str]:
    """Return two lines, cut around the first place where they differ if they are long."""
    if max(len(before), len(after)) <= _SHOWN:
        return before, after
    common = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    first = max(0, common - _AROUND)
    return _window(before, first), _window(after, first)


def _window(line: str, first: int) -> str:
    start = "…" if first else ""
    cut = line[first : first + _SHOWN]
    return f"{start}{cut}…" if len(line) > first + _SHOWN else f"{start}{cut}"
