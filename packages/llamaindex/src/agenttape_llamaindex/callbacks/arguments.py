"""The arguments of an observed call, as its request and its step have them."""

from __future__ import annotations

import inspect
from typing import Any

from llama_index.core.tools import BaseTool
from workflows import Context


def as_passed(bound: inspect.BoundArguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a tool as an agent passes them: by name, where they have one."""
    names = [name for name, item in bound.signature.parameters.items() if item.kind is item.POSITIONAL_OR_KEYWORD]
    named = {name: bound.arguments[name] for name in names if name in bound.arguments}
    return bound.args[len(named) :], {**named, **bound.kwargs}


def as_shown(bound: inspect.BoundArguments, tool: BaseTool) -> dict[str, Any]:
    """Return the arguments of a tool that is part of the program, without its context."""
    given = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    left_out = {"kwargs", getattr(tool, "ctx_param_name", None)}
    return {name: value for name, value in given.items() if name not in left_out and not isinstance(value, Context)}
