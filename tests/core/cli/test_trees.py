"""Trees are drawn as rich draws them, also where it does not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.tree import Tree

from agenttape_core.cli.output import _drawn, printable


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_as_rich(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into a file is what rich would have written there, but that long lines are not broken."""
    tree = Tree(printable("a run  with two\nlines", "bold"))
    first = tree.add(printable("one\tand more", "red"))
    first.add(printable("x" * 100))
    first.add(printable("several\nlines")).add(printable("\x1b[31m below"))
    tree.add(printable("the last one\nof all")).add(printable(""))
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", written)
    drawn = "\n".join(_drawn(tree)) + "\n"
    Console(file=written, width=200, soft_wrap=True, highlight=False, emoji=False, markup=False).print(tree)
    written.seek(0)
    assert drawn == written.read()
