"""Edits of texts that models read: a sentence dropped or negated, a placeholder dropped or swapped, all of it gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from agenttape_core.experiments.strategies.mutants.sites import Edit, Function, Kind, Site, Sought, name_of

_FIRST_HOLE = 0xE000
"""A placeholder is one character of the private area while a text is edited."""
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
class Text:
    """A text of the source, with its placeholders as single characters.

    Args:
        flat: The text.
        holes: The placeholders: expressions of an f-string, or fields such as `{name}`.
        is_formatted: Whether it is an f-string.
    """

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


def text_of(node: ast.AST) -> Text | None:
    """Return the text that an expression is; `None` for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _HOLE.search(node.value):
        fields = [found[0] for found in _FIELD.finditer(node.value)][:_MOST_HOLES]
        numbers = iter(range(len(fields)))
        flat = _FIELD.sub(lambda _: chr(_FIRST_HOLE + next(numbers)), node.value, count=_MOST_HOLES)
        return Text(flat, tuple(fields), is_formatted=False)
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
    return Text(flat, tuple(holes), is_formatted=True) if is_plain else None


def is_prose(site: Site) -> bool:
    """Return whether a text has words enough to be written for a reader, and may be sent to a model."""
    text = text_of(site.node)
    if text is None or site.is_annotation or isinstance(site.parent, ast.JoinedStr | ast.FormattedValue):
        return False
    if site.is_docstring and isinstance(site.parents[-2], ast.Module):
        return False
    words = _words(text)
    return (words >= _FEW_WORDS or bool(text.holes and words)) and not is_unsent(site)


def _words(text: Text) -> int:
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
    text = text_of(site.node)
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
    text = text_of(site.node)
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


def _edits_of_holes(text: Text, kind: Kind, whole: Sought) -> Iterator[Edit]:
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
