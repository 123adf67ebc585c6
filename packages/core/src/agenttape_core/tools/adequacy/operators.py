"""The outcome of an operator: another node, what it does, and how to see whether it is reached."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

Kind = Literal["prompts", "tools", "schemas"]
"""Texts that models read, descriptions and names of tools, or schemas of arguments and answers."""
KINDS: tuple[Kind, ...] = ("prompts", "tools", "schemas")


@dataclass(frozen=True, slots=True)
class Sought:
    """The parts that a recorded request must hold if an edit is to reach it.

    Args:
        texts: Texts, all of which stand in one request; white space does not count.
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
        new: The node in the place of the old one.
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
