"""Places in the syntax tree of a file; and edits of texts that models read: sentences, examples and placeholders."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar

Kind = Literal["prompts", "tools", "schemas"]
"""Texts that models read, descriptions and names of tools, or schemas of arguments and answers."""
KINDS: tuple[Kind, ...] = ("prompts", "tools", "schemas")


@dataclass(frozen=True, slots=True)
class Sought:
    """The parts that a recorded request must hold if an edit is to reach it."""

    texts: tuple[str, ...] = ()  # texts, all of which are in one request; white space does not count
    tool: str = ""
    fields: tuple[str, ...] = ()  # the fields of a schema

    def __bool__(self) -> bool:
        return bool(self.texts or self.tool or self.fields)


@dataclass(frozen=True, slots=True)
class Edit:
    """The outcome of an operator on a node."""

    operator: str
    kind: Kind
    new: ast.AST  # the node that replaces the old one
    sought: Sought  # what a recorded request holds if the edit reaches it
    before: str = ""  # the part that it changes, in words, if that is shorter than the statement
    after: str = ""  # what takes the place of it, in words


Way = tuple[tuple[str, int | None], ...]
"""The way from the root of a tree to a node: names of fields, with the index where a field is a list."""
Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With),
    *(ast.AsyncWith, ast.Try, ast.TryStar, ast.Match),
)


@dataclass(frozen=True, slots=True)
class Site:
    """A node of a tree, and its place."""

    node: ast.AST
    path: Way
    parents: tuple[ast.AST, ...]  # the nodes around it, the outermost first

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


def replace(tree: ast.Module, path: Way, new: ast.AST) -> ast.Module:
    """Put another node, which gets the lines of the old one, in a place of a tree; return the tree, changed."""
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


# -- Texts: a sentence dropped or negated, an example or a placeholder dropped, two swapped, all of it gone.

_FIRST_HOLE = 0xE000  # a placeholder is one character of the private area while a text is edited
_MOST_HOLES = 256
_HOLE = re.compile(f"[{chr(_FIRST_HOLE)}-{chr(_FIRST_HOLE + _MOST_HOLES - 1)}]")
_FIELD = re.compile(r"(?<!\{)\{[a-zA-Z_][\w.]*\}(?!\})")
_SENTENCE = re.compile(r"\S(?:[^\n]*?)(?:[.!?:]+(?=\s|$)|(?=\n)|$)")
_EXAMPLE = re.compile(r"(?im)^[ \t]*(?:for example|examples?|e\.g\.|q:|user:|input:)[^\n]*(?:\n(?!\s*\n)[^\n]*)*")
_LABEL = re.compile(r"^[*\-\s]*\w+\s*(?:\([^)]*\))?:\s+")
_WORD = re.compile(r"\w+")
_FEW_WORDS = 2
_MANY_WORDS = 4
_DESCRIBING = frozenset({"description", "desc", "title", "summary"})
_NAMING = frozenset({"name"})
_UNSENT = frozenset(
    {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print", "getLogger", "TypeVar"}
)
_OPPOSITES = (
    (r"\b(do|must|should|may|can|will|is|are) not\b", r"\1"),
    (r"\bdon't ", ""),
    (r"\bcannot\b", "can"),
    (r"\bnever\b", "always"),
    (r"\bNever\b", "Always"),
    (r"\balways\b", "never"),
    (r"\bAlways\b", "Never"),
    (r"\bwithout\b", "with"),
    (r"\b(must|should|may|can|will|is|are)\b", r"\1 not"),
)
_IMPERATIVE = re.compile(r"^(?!(?:The|An?|This|That|These|It|You|Your|We|I|If|When|For|In|On)\b)([A-Z])([a-z]+ )")


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of the source, with its placeholders (expressions of an f-string, or fields) as single characters."""

    flat: str
    holes: tuple[ast.expr | str, ...]
    is_formatted: bool

    def node(self, flat: str) -> ast.expr:
        """Return the expression of an edited text."""
        if not self.is_formatted:
            return ast.Constant(_HOLE.sub(self._field, flat))
        parts: list[ast.expr] = []
        for part in re.split(f"({_HOLE.pattern})", flat):
            hole = self._hole(part)
            if isinstance(hole, ast.expr):
                parts.append(hole)
            elif part:
                parts.append(ast.Constant(part))
        return ast.JoinedStr(parts)

    def shown(self, flat: str) -> str:
        """Return a part of the text on one line, as a person reads it."""
        filled = _HOLE.sub(lambda found: self._field(found) or "{…}", flat)
        return " ".join(filled.split())

    def pieces(self, flat: str) -> tuple[str, ...]:
        """Return what stands between the placeholders of a part, as far as it can be looked for."""
        found = (" ".join(_LABEL.sub("", part.strip()).split()) for part in _HOLE.split(flat))
        return tuple(piece for piece in found if _WORD.search(piece))

    def _hole(self, char: str) -> ast.expr | str | None:
        return self.holes[ord(char) - _FIRST_HOLE] if len(char) == 1 and _HOLE.match(char) else None

    def _field(self, found: re.Match[str]) -> str:
        hole = self._hole(found[0])
        if isinstance(hole, ast.FormattedValue):
            return f"{{{ast.unparse(hole.value)}}}"
        return hole if isinstance(hole, str) else ""


def _text_of(node: ast.AST) -> _Text | None:
    """Return the text that an expression is; `None` for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _HOLE.search(node.value):
        fields = [found[0] for found in _FIELD.finditer(node.value)][:_MOST_HOLES]
        numbers = iter(range(len(fields)))
        flat = _FIELD.sub(lambda _: chr(_FIRST_HOLE + next(numbers)), node.value, count=_MOST_HOLES)
        return _Text(flat, tuple(fields), is_formatted=False)
    if not isinstance(node, ast.JoinedStr):
        return None
    flat, holes = "", list[ast.expr | str]()
    for part in node.values:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            flat += part.value
        else:
            flat += chr(_FIRST_HOLE + len(holes))
            holes.append(part)
    is_plain = len(_HOLE.findall(flat)) == len(holes) <= _MOST_HOLES
    return _Text(flat, tuple(holes), is_formatted=True) if is_plain else None


def is_prose(site: Site) -> bool:
    """Return whether a text has words enough to be written for a reader, and may be sent to a model."""
    text = _text_of(site.node)
    if text is None or site.is_annotation or isinstance(site.parent, ast.JoinedStr | ast.FormattedValue):
        return False
    if site.is_docstring and isinstance(site.parents[-2], ast.Module):
        return False
    words = _words(text)
    return (words >= _FEW_WORDS or bool(text.holes and words)) and not is_unsent(site)


def _words(text: _Text) -> int:
    return sum(bool(_WORD.search(word)) for word in _HOLE.sub(" ", text.flat).split())


def is_unsent(site: Site) -> bool:
    """Return whether a text goes to people or logs: of a raised error, an assertion, a logger."""
    for node in site.parents:
        if isinstance(node, ast.Raise | ast.Assert):
            return True
        if isinstance(node, ast.Call) and name_of(node) in _UNSENT:
            return True
    return isinstance(site.parent, ast.Expr) and not site.is_docstring


def is_evident(site: Site) -> bool:
    """Return whether a text can hardly be anything but a prompt: one that no request holds is worth a line then."""
    text = _text_of(site.node)
    if text is None or site.function is not None:
        return False
    is_tool = site.is_docstring and isinstance(site.parents[-2], Function) and is_tool_like(site.parents[-2])
    return is_tool or (not site.is_docstring and _words(text) >= _MANY_WORDS)


def is_tool_like(function: Function) -> bool:
    """Return whether a function is declared as a tool by a decorator."""
    return any("tool" in name_of(decorator).lower() for decorator in function.decorator_list)


def kind_of(site: Site) -> Kind:
    """Return whether a text belongs to a prompt or describes a tool."""
    named = ""
    if isinstance(site.parent, ast.keyword):
        named = site.parent.arg or ""
    elif isinstance(site.parent, ast.AnnAssign | ast.Assign):
        target = site.parent.target if isinstance(site.parent, ast.AnnAssign) else site.parent.targets[0]
        named = name_of(target) if isinstance(site.parents[-2], ast.ClassDef) else ""
    elif isinstance(site.parent, ast.Dict) and site.field == "values":
        key = site.parent.keys[site.path[-1][1] or 0]
        named = str(key.value) if isinstance(key, ast.Constant) else ""
    return "tools" if site.is_docstring or named in _DESCRIBING | _NAMING else "prompts"


def edits_of_text(site: Site) -> Iterator[Edit]:
    """Yield the edits of a text that a model may read."""
    text = _text_of(site.node)
    if text is None or not is_prose(site):
        return
    kind = kind_of(site)
    whole = Sought(tuple(sorted(text.pieces(text.flat), key=len)[-1:]))

    def edit(operator: str, flat: str, sought: Sought, before: str, after: str) -> Edit:
        return Edit(operator, kind, text.node(flat), sought or whole, before, after)

    sentences = [found for found in _SENTENCE.finditer(text.flat) if _WORD.search(_HOLE.sub("", found[0]))]
    for found in sentences:
        sought, shown = Sought(text.pieces(found[0])), text.shown(found[0])
        rest = text.flat[: found.start()] + text.flat[found.end() :].lstrip(" ")
        if len(sentences) > 1:
            yield edit("drop_sentence", rest, sought, shown, "")
        if (other := negated(found[0])) is not None:
            flat = text.flat[: found.start()] + other + text.flat[found.end() :]
            yield edit("negate_sentence", flat, sought, shown, text.shown(other))
    for found in _EXAMPLE.finditer(text.flat):
        if "\n" in found[0] and text.pieces(found[0]):
            rest = text.flat[: found.start()] + text.flat[found.end() :]
            yield edit("drop_example", rest, Sought(text.pieces(found[0])), text.shown(found[0]), "")
    yield from _edits_of_holes(text, kind, whole)
    yield edit("empty", "", whole, text.shown(text.flat), "")


def _edits_of_holes(text: _Text, kind: Kind, whole: Sought) -> Iterator[Edit]:
    found = list(_HOLE.finditer(text.flat))
    for hole in found:
        flat = text.flat[: hole.start()] + text.flat[hole.end() :]
        yield Edit("drop_placeholder", kind, text.node(flat), whole, text.shown(hole[0]), "")
    for one, other in pairwise(found):
        if text.shown(one[0]) == text.shown(other[0]):
            continue
        between = text.flat[one.end() : other.start()]
        flat = text.flat[: one.start()] + other[0] + between + one[0] + text.flat[other.end() :]
        before, after = one[0] + between + other[0], other[0] + between + one[0]
        yield Edit("swap_placeholders", kind, text.node(flat), whole, text.shown(before), text.shown(after))


def negated(sentence: str) -> str | None:
    """Return the opposite of a sentence; `None` if it has no word to negate."""
    for pattern, other in _OPPOSITES:
        changed, count = re.subn(pattern, other, sentence, count=1)
        if count:
            return changed
    changed, count = _IMPERATIVE.subn(lambda found: f"Do not {found[1].lower()}{found[2]}", sentence, count=1)
    return changed if count else None
