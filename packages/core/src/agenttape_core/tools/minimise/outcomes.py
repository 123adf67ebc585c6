"""Outcomes as the trees that are made smaller, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenttape_core.schema import Outcome, Plain
from agenttape_core.tools.minimise.trees import emptied, hollow

Tree = dict[str, Plain]
"""The fields of an outcome that have content, as plain data."""

_OF_ERRORS = ("message", "args", "attributes")


def tree_of(outcome: Outcome) -> Tree:
    """Return the fields of an outcome that can be made smaller."""
    plain = outcome.model_dump()
    tree: Tree = {}
    if plain["value"] is not None:
        tree["value"] = plain["value"]
    if plain["chunks"] is not None:
        tree["chunks"] = plain["chunks"]
    if plain["effects"]:
        tree["effects"] = plain["effects"]
    if plain["error"] is not None:
        tree["error"] = {name: plain["error"][name] for name in _OF_ERRORS}
    return tree


def outcome_with(outcome: Outcome, tree: Tree) -> Outcome:
    """Return an outcome with other fields.

    Args:
        outcome: The recorded one.
        tree: The fields; one that is not there stays as it is.

    Raises:
        ValidationError: If no outcome can have them.
    """
    plain: dict[str, Any] = outcome.model_dump()
    plain.update({name: part for name, part in tree.items() if name != "error"})
    plain["usage"] = None
    if outcome.error is not None and "error" in tree:
        plain["error"] = {**plain["error"], **tree["error"]}
    chunks = plain["chunks"]
    if chunks is not None:
        plain["effects"] = [{**one, "after": min(one["after"], len(chunks))} for one in plain["effects"]]
        plain["given_up"] = min(plain["given_up"], len(chunks)) if plain["given_up"] is not None else None
    return Outcome.model_validate(plain)


def emptied_tree(tree: Tree) -> Tree:
    """Return the fields of an outcome that brings nothing: an empty message, an empty text, no documents."""
    return _small(tree, emptied)


def hollow_tree(tree: Tree) -> Tree:
    """Return the fields of an outcome of the same form that brings nothing: the keys of dicts stay."""
    return _small(tree, hollow)


def _small(tree: Tree, smaller: Callable[[Plain], Plain]) -> Tree:
    small: Tree = {}
    for name, part in tree.items():
        if name == "chunks":
            small[name] = [smaller(chunk) for chunk in part[-1:]]  # readers of streams want at least one
        elif name == "effects":
            small[name] = []
        elif name == "error":
            small[name] = {"message": "", "args": [], "attributes": {}}
        else:
            small[name] = smaller(part)
    return small
