"""Trees are drawn as rich draws them, also where it does not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.tree import Tree

from agenttape_core.cli.commands.show import Branch
from agenttape_core.cli.output import print_tree, printable


def _of_rich() -> Tree:
    tree = Tree(printable("a run  with two\nlines", "bold"))
    first = tree.add(printable("one\tand more", "red"))
    first.add(printable("x" * 100))
    first.add(printable("several\nlines")).add(printable("\x1b[31m below"))
    tree.add(printable("the last one\nof all")).add(printable(""))
    return tree


def _of_branches() -> Tree:
    tree = Branch("a run  with two\nlines", "bold")
    first = tree.grow(Branch("one\tand more", "red"))
    first.grow(Branch("x" * 100))
    first.grow(Branch("several\nlines")).grow(Branch("\x1b[31m below"))
    tree.grow(Branch("the last one\nof all")).grow(Branch(""))
    return tree


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("tree", [_of_rich(), _of_branches()], ids=["rich", "branches"])
def test_as_rich(tree: Tree, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into a file is what rich would have written there, but that long lines are not broken."""
    ours, theirs = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr("sys.stdout", ours)
    print_tree(tree)
    Console(file=theirs, width=200, soft_wrap=True, highlight=False, emoji=False, markup=False).print(tree)
    for written in (ours, theirs):
        written.seek(0)
    assert ours.read() == theirs.read()


def test_branches_look_as_trees_do() -> None:
    """On a terminal, a tree of branches has the colours of one of rich."""
    shown = []
    for tree in (_of_rich(), _of_branches()):
        terminal = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="256", legacy_windows=False)
        terminal.print(tree)
        shown.append(terminal.file.getvalue())  # type: ignore[attr-defined]
    assert shown[0] == shown[1]
