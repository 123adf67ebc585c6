"""Places in the syntax tree of a file, and edits at them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Kind = Literal["prompts", "tools", "schemas"]
"""Texts that models read, descriptions and names of tools, or schemas of arguments and answers."""
KINDS: tuple[Kind, ...] = ("prompts", "tools", "schemas")


@dataclass(frozen=True, slots=True)
class Sought:
    """The parts that a recorded request must hold if an edit is to reach it.

    Args:
        texts: Texts, all of which are in one request; white space does not count.
        tool: The name of a tool.
        fields: The fields of a schema.
    """

    texts: tuple[str, ...] = ()
    tool: str = ""
    fields: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.texts or self.tool or self.fields)


@dataclass(frozen=True, slots=True)
class Edit:
    """The outcome of an operator on a node.

    Args:
        operator: The name of the operator.
        kind: What it edits.
        new: The node that replaces the old one.
        sought: What a recorded request holds if the edit reaches it.
        before: The part that it changes, in words, if that is shorter than the statement.
        after: What takes the place of it, in words.
    """

    operator: str
    kind: Kind
    new: ast.AST
    sought: Sought
    before: str = ""
    after: str = ""


Path = tuple[tuple[str, int | None], ...]
"""The way from the root of a tree to a node: names of fields, with the index where a field is a list."""
Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With),
    *(ast.AsyncWith, ast.Try, ast.TryStar, ast.Match),
)


@dataclass(frozen=True, slots=True)
class Site:
    """A node of a tree, and its place.

    Args:
        node: The node.
        path: The way to it.
        parents: The nodes around it, the outermost first.
    """

    node: ast.AST
    path: Path
    parents: tuple[ast.AST, ...]

    @property
    def parent(self) -> ast.AST:
        """The node around it; itself for the root."""
        return self.parents[-1] if self.parents else self.node

    @property
    def field(self) -> str:
        """The name of its field in the parent; empty for the root."""
        return self.path[-1][0] if self.path else ""

    @property
    def function(self) -> Function | None:
        """The innermost function in whose body it stands."""
        for at in range(len(self.parents) - 1, -1, -1):
            parent = self.parents[at]
            if isinstance(parent, Function) and self.path[at][0] == "body":
                return parent
        return None

    @property
    def is_annotation(self) -> bool:
        """True if it is part of an annotation."""
        return any(name in {"annotation", "returns"} for name, _ in self.path)

    @property
    def is_docstring(self) -> bool:
        """True if it is the docstring of a function or of a class."""
        if len(self.parents) < 2 or not isinstance(self.parent, ast.Expr):  # noqa: PLR2004 - the statement and its owner
            return False
        owner = self.parents[-2]
        return isinstance(owner, (*Function.__args__, ast.ClassDef, ast.Module)) and self.path[-2] == ("body", 0)

    @property
    def anchor(self) -> ast.AST:
        """The node to show it in: its statement, or of a compound one the part of the header that it stands in."""
        for at in range(len(self.parents), -1, -1):
            node = self.parents[at] if at < len(self.parents) else self.node
            if isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND):
                return node
            if isinstance(node, _COMPOUND):
                inner = self.parents[at + 1] if at + 1 < len(self.parents) else self.node
                return inner if at < len(self.parents) else node
        return self.node

    @property
    def lines(self) -> range:
        """The numbers of the lines that are run if it is: those of what it is shown in."""
        node: Any = self.anchor
        if isinstance(node, ast.If | ast.While):
            node = node.test
        first = getattr(node, "lineno", 0)
        return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def sites(tree: ast.AST) -> Iterator[Site]:
    """Yield all nodes of a tree with their places, each before its children."""
    waiting: list[Site] = [Site(tree, (), ())]
    while waiting:
        site = waiting.pop()
        yield site
        waiting += reversed(list(_inside(site)))


def _inside(site: Site) -> Iterator[Site]:
    parents = (*site.parents, site.node)
    for name, value in ast.iter_fields(site.node):
        if isinstance(value, ast.AST):
            yield Site(value, (*site.path, (name, None)), parents)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield Site(item, (*site.path, (name, index)), parents)


def replace(tree: ast.Module, path: Path, new: ast.AST) -> ast.Module:
    """Put another node in a place of a tree, and return the tree.

    Args:
        tree: The tree, which is changed.
        path: The place.
        new: The node, which takes the lines of the old one.
    """
    owner: Any = tree
    for name, index in path[:-1]:
        owner = getattr(owner, name) if index is None else getattr(owner, name)[index]
    name, index = path[-1]
    old = getattr(owner, name) if index is None else getattr(owner, name)[index]
    if hasattr(old, "lineno"):
        ast.copy_location(new, old)
    if index is None:
        setattr(owner, name, new)
    else:
        getattr(owner, name)[index] = new
    return ast.fix_missing_locations(tree)


def with_fields(node: Node, **fields: Any) -> Node:
    """Return a copy of a node with other fields; its children are shared."""
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def without(items: list[Any], at: int) -> list[Any]:
    """Return a list without one of its items."""
    return [*items[:at], *items[at + 1 :]]


def name_of(node: ast.AST) -> str:
    """Return the last word of a name (`Field` for `pydantic.Field`), or of the callee of a call or a subscript."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
