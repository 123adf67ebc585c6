"""`Branch`: a tree of lines for cassettes of any size."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from rich.tree import Tree

from agenttape_core.cli.output import printable


class Branch(Tree):
    """A line, with those below it. It is drawn as a tree of rich, and takes a quarter of the memory.

    Args:
        text: The line.
        look: Its style, in the words of rich.
    """

    style = "tree"
    guide_style = "tree.line"
    expanded = True
    highlight = False
    hide_root = False
    children: Any = ()
    """The branches below. Most lines have none, and no list for them either."""

    def __init__(self, text: str, look: str = "") -> None:  # that of rich gives each tree seven attributes
        self._text = text
        if look:
            self._look = look

    _look = ""

    @property
    def label(self) -> Text:  # type: ignore[override]
        """The line as it is shown."""
        return printable(self._text, self._look)

    def grow(self, branch: Branch) -> Branch:
        """Add a branch below the others, and return it."""
        if not self.children:
            self.children = []
        self.children.append(branch)
        return branch
