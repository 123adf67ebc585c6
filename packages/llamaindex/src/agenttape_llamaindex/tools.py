"""Substitute the work of tools.

For a `FunctionTool`, only the function is replayed: the tool makes its output from the result (blocks, callbacks,
`ToolOutput`) in every replay. A tool of a class that is not LlamaIndex's is replayed whole. Tools that LlamaIndex makes
from its own engines and retrievers run, and their calls are replayed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolOutput

from agenttape_core.errors import UnrecordedCallError
from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Family,
    Leaf,
    SessionCall,
    aintercept,
    begin,
    coroutine,
    intercept,
    named_arguments,
    original_of,
    plain,
)
from agenttape_core.integration.answers import note_text, recorded_text
from agenttape_core.integration.changed_arguments import changing_arguments, that_may_change
from agenttape_llamaindex._compat import functions_of, static, with_functions, within_decorators
from agenttape_llamaindex.components import is_boundary_but, is_function_of_core, spanned
from agenttape_llamaindex.effects import Effects, effects_of
from agenttape_llamaindex.requests import tool_body


def _missed_output(session_call: SessionCall, unrecorded: UnrecordedCallError) -> Any:
    name = session_call.request.name
    return ToolOutput(tool_name=name, content=unrecorded.said, raw_input={}, raw_output=unrecorded.said, is_error=True)


def _faked_output(session_call: SessionCall, value: Any) -> Any:
    if isinstance(value, ToolOutput):
        return value
    return ToolOutput(tool_name=session_call.request.name, content=str(value), raw_input={}, raw_output=value)


_HINTS = ("idempotent", "read_only", "idempotentHint", "readOnlyHint")


def _is_idempotent(tool: BaseTool) -> bool:
    """Return whether the metadata of a tool marks it as repeatable or read-only."""
    return any(getattr(tool.metadata, hint, None) is True for hint in _HINTS)


FUNCTION = Boundary("tool")
"""The function of a tool. If it has no recording and the run continues, it raises: its caller makes an output from
that."""
TOOL = Boundary("tool", missed=_missed_output, faked=_faked_output)
"""A whole tool, which makes its output itself."""


def _name(tool: BaseTool) -> str:
    return tool.metadata.name or type(tool).__name__


def arguments_of(tool: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, without the context that the framework passes.

    The framework gives a tool without a schema one of a single `input`, whatever its method calls its parameters.
    """
    has_names = method is None or tool.metadata.fn_schema is not None
    names = tuple(tool.metadata.get_parameters_dict().get("properties", {})) if args and has_names else ()
    arguments = named_arguments(method, names, args, kwargs)
    arguments.pop(getattr(tool, "ctx_param_name", None) or "", None)
    return arguments


_REPLAYED = "_agenttape_replayed"
"""Marks a function that crosses already: an alias made in an automatic session is made of the wrapped method."""


# -- tools of a function ----------------------------------------------------------------------------------------------


def _effects(tool: Any, kwargs: dict[str, Any]) -> Effects:
    return effects_of(kwargs.get(tool.ctx_param_name or ""))


def _cross_function(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if is_function_of_core(self.real_fn) or any(hasattr(function, _REPLAYED) for function in functions_of(self)):
        return None
    name, arguments = _name(self), arguments_of(self, None, args, kwargs)
    answers = _effects(self, kwargs).answers()
    return begin(
        FUNCTION,
        self,
        name,
        lambda _: {**tool_body(name, arguments), **({"answers": answers} if answers else {})},
        is_idempotent=_is_idempotent(self),
    )


def _changing(
    session_call: SessionCall, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AbstractContextManager[None]:
    may_change = that_may_change(arguments_of(tool, None, args, kwargs))
    return changing_arguments(session_call, may_change) if may_change else nullcontext()


def _describe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe `call`: the tool runs on every replay, and calls a function that is replayed."""
    session_call = cross(self, args, kwargs)
    if session_call is None:
        return Call(None, lambda: real(original_of(self), *args, **kwargs))
    (function, _), effects = functions_of(self), _effects(self, kwargs)

    def executed(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        note_text(session_call, value)
        return value

    def replayed(*args: Any, **kwargs: Any) -> Any:
        with effects.noted(session_call), _changing(session_call, self, args, kwargs):
            return intercept(session_call, lambda: executed(*args, **kwargs), effects.apply)

    return Call(None, lambda: _shown(session_call, real(_with_replayed(self, replayed, None), *args, **kwargs)))


def _adescribe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe `acall`; see `_describe`."""
    session_call = cross(self, args, kwargs)
    if session_call is None:
        return Call(None, lambda: real(original_of(self), *args, **kwargs))
    (_, function), effects = functions_of(self), _effects(self, kwargs)

    async def executed(*args: Any, **kwargs: Any) -> Any:
        value = await function(*args, **kwargs)
        note_text(session_call, value)
        return value

    async def replayed(*args: Any, **kwargs: Any) -> Any:
        with effects.noted(session_call), _changing(session_call, self, args, kwargs):
            return await aintercept(session_call, lambda: executed(*args, **kwargs), effects.aapply)

    async def called() -> Any:
        return _shown(session_call, await real(_with_replayed(self, None, replayed), *args, **kwargs))

    return Call(None, called)


def _shown(session_call: SessionCall, output: Any) -> Any:
    """Return the output of a tool with the text that the model saw, if this process would write it differently."""
    blocks: list[Any] = output.blocks if isinstance(output, ToolOutput) else []
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock) and not isinstance(output.raw_output, str):
        blocks[0].text = recorded_text(session_call, blocks[0].text)
    return output


def _with_replayed(tool: Any, *functions: Any) -> Any:
    """Return a tool like the original of a tool, which calls a function that is replayed."""
    for function in filter(None, functions):
        setattr(function, _REPLAYED, True)
    return with_functions(original_of(tool), *functions)


FUNCTION_TOOLS = Family(
    FunctionTool,
    {
        "call": Leaf(plain, _cross_function, _describe, within=within_decorators),
        "acall": Leaf(coroutine, _cross_function, _adescribe, within=within_decorators),
    },
    defaults=frozenset({"call", "acall"}),
)
"""Every tool that is made of a function."""


# -- tools of other classes -------------------------------------------------------------------------------------------


def _cross_tool(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if isinstance(self, FunctionTool):
        return None
    name = _name(self)
    arguments = arguments_of(self, static(type(self), method), args, kwargs)
    return begin(TOOL, self, name, lambda _: tool_body(name, arguments), is_idempotent=_is_idempotent(self))


TOOLS = Family(
    BaseTool,
    {
        "call": spanned(plain, functools.partial(_cross_tool, "call")),
        "acall": spanned(coroutine, functools.partial(_cross_tool, "acall")),
        "__call__": spanned(plain, functools.partial(_cross_tool, "__call__")),
    },
    is_boundary=is_boundary_but(BaseTool, AsyncBaseTool),
    delegating=(AsyncBaseTool,),  # its `__call__` is `call` under another name
)
"""Every tool of another class. Those of LlamaIndex's own classes are replayed whole only if they are taped by hand."""
