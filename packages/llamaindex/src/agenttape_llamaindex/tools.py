"""Substitute the work of tools.

Of a `FunctionTool` only the function is served: what its tool makes of the result (blocks, callbacks, `ToolOutput`) is
the framework's and the user's own, and happens on every replay. A tool of a class of somebody else's is served whole.
Tools that LlamaIndex makes of its own engines and retrievers run; what they call is served.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolOutput

from agenttape_core import DriftError
from agenttape_core.integration import (
    Boundary,
    Cross,
    Crossing,
    Family,
    Leaf,
    aintercept,
    alias_of,
    begin,
    intercept,
    named_arguments,
    original_of,
)
from agenttape_llamaindex._compat import functions_of, static, with_functions, within_decorators
from agenttape_llamaindex.components import (
    component_alias_for,
    is_boundary_but,
    is_function_of_core,
    spanned_coroutine,
    spanned_plain,
)
from agenttape_llamaindex.effects import Effects, effects_of
from agenttape_llamaindex.requests import tool_body

ToolT = TypeVar("ToolT", bound=BaseTool)


def _missed_output(crossing: Crossing, drift: DriftError) -> Any:
    name = crossing.question.name
    return ToolOutput(tool_name=name, content=str(drift), raw_input={}, raw_output=str(drift), is_error=True)


FUNCTION = Boundary("tool")
"""The function of a tool. Where the run lives on without a recording, it raises: its caller makes an output of it."""
TOOL = Boundary("tool", missed=_missed_output)
"""A tool that makes its output itself."""


def tape_tool(tool: ToolT) -> ToolT:
    """Return the taped alias of a tool; a taped tool is returned as it is."""
    return alias_of(tool, _function_alias if isinstance(tool, FunctionTool) else _tool_alias)


@functools.cache
def _function_alias(cls: type) -> type:
    return component_alias_for(cls, FUNCTION_TOOLS, _function_alias)


@functools.cache
def _tool_alias(cls: type) -> type:
    family = TOOLS
    if static(cls, "__call__") is static(AsyncBaseTool, "__call__"):  # it is `call` under another name
        family = replace(TOOLS, leaves={name: leaf for name, leaf in TOOLS.leaves.items() if name != "__call__"})
    return component_alias_for(cls, family, _tool_alias)


def _name(tool: BaseTool) -> str:
    return tool.metadata.name or type(tool).__name__


def _arguments(tool: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, without the context that the framework passes."""
    names = tuple(tool.metadata.get_parameters_dict().get("properties", {})) if args else ()
    asked = named_arguments(method, names, args, kwargs)
    asked.pop(getattr(tool, "ctx_param_name", None) or "", None)
    return asked


_SERVED = "_agenttape_served"
"""Marks a function that crosses already. What is taped first in an ambient session is made of the patched method."""


# -- tools of a function ----------------------------------------------------------------------------------------------


def _effects(tool: Any, kwargs: dict[str, Any]) -> Effects:
    return effects_of(kwargs.get(tool.ctx_param_name or ""))


def _cross_function(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    if is_function_of_core(self.real_fn) or any(hasattr(function, _SERVED) for function in functions_of(self)):
        return None
    name, asked = _name(self), _arguments(self, None, args, kwargs)
    answers = _effects(self, kwargs).answers()
    return begin(
        FUNCTION, self, name, lambda _: {**tool_body(name, asked), **({"answers": answers} if answers else {})}
    )


def _function(real: Any, cross: Cross) -> Any:
    """Wrap `call`: its tool calls a function that is served."""

    def make(inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = cross(self, args, kwargs)
            if crossing is None:
                return inner(original_of(self), *args, **kwargs)
            (function, _), effects = functions_of(self), _effects(self, kwargs)

            def served(*args: Any, **kwargs: Any) -> Any:
                with effects.noted(crossing):
                    return intercept(crossing, lambda: function(*args, **kwargs), effects.apply)

            setattr(served, _SERVED, True)
            return inner(with_functions(original_of(self), served, None), *args, **kwargs)

        return call

    return within_decorators(real, make)


def _coroutine(real: Any, cross: Cross) -> Any:
    """Wrap `acall` likewise."""

    def make(inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        async def acall(self: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = cross(self, args, kwargs)
            if crossing is None:
                return await inner(original_of(self), *args, **kwargs)
            (_, function), effects = functions_of(self), _effects(self, kwargs)

            async def served(*args: Any, **kwargs: Any) -> Any:
                with effects.noted(crossing):
                    return await aintercept(crossing, lambda: function(*args, **kwargs), effects.aapply)

            setattr(served, _SERVED, True)
            return await inner(with_functions(original_of(self), None, served), *args, **kwargs)

        return acall

    return within_decorators(real, make)


FUNCTION_TOOLS = Family(
    FunctionTool,
    {"call": Leaf(_function, _cross_function), "acall": Leaf(_coroutine, _cross_function)},
    defaults=frozenset({"call", "acall"}),
)
"""Every tool that is made of a function."""


# -- tools of other classes -------------------------------------------------------------------------------------------


def _cross_tool(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    if isinstance(self, FunctionTool):
        return None
    name = _name(self)
    asked = _arguments(self, static(type(self), method), args, kwargs)
    return begin(TOOL, self, name, lambda _: tool_body(name, asked))


TOOLS = Family(
    BaseTool,
    {
        "call": Leaf(spanned_plain, functools.partial(_cross_tool, "call")),
        "acall": Leaf(spanned_coroutine, functools.partial(_cross_tool, "acall")),
        "__call__": Leaf(spanned_plain, functools.partial(_cross_tool, "__call__")),
    },
    is_boundary=is_boundary_but(BaseTool, AsyncBaseTool),
)
"""Every tool of another class. Those of LlamaIndex's own classes are served whole only where they are taped by hand."""
