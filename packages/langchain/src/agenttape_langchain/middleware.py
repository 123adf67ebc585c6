"""Tape the model and the tools of one agent of `create_agent`, from inside it."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agenttape_core.integration import current_session
from agenttape_langchain._compat import wraps_more_middleware
from agenttape_langchain.tape import tape

Model = Callable[[ModelRequest], ModelResponse]
AsyncModel = Callable[[ModelRequest], Awaitable[ModelResponse]]
ToolResult = ToolMessage | Command[Any]


class MiddlewareOrderWarning(UserWarning):
    """`TapeMiddleware` is not the last in the list, so a middleware behind it may exchange what it has taped."""


class TapeMiddleware(AgentMiddleware[Any, Any, Any]):
    """Lets the agent that it is given to take part in the session in force, whichever model and tools it uses.

    It belongs at the end of the list: there it tapes what is really called, after other middleware has chosen a model,
    a fallback or a tool. Each attempt of a retry is a call of its own. In an ambient session the agent takes part
    anyway, and nothing is recorded twice. Outside any session the agent does what it does without it.
    """

    def wrap_model_call(self, request: ModelRequest, handler: Model) -> ModelResponse:
        """Call the taped model."""
        _check_order(handler)
        return handler(request.override(model=tape(request.model)))

    async def awrap_model_call(self, request: ModelRequest, handler: AsyncModel) -> ModelResponse:
        """Call the taped model."""
        _check_order(handler)
        return await handler(request.override(model=tape(request.model)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Call the taped tool."""
        _check_order(handler)
        return handler(_with_taped_tool(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Call the taped tool."""
        _check_order(handler)
        return await handler(_with_taped_tool(request))


def _with_taped_tool(request: ToolCallRequest) -> ToolCallRequest:
    """Return the request with its tool taped; one that asks for a tool that there is not stays as it is."""
    return request.override(tool=tape(request.tool)) if request.tool is not None else request


def _check_order(handler: Callable[..., Any]) -> None:
    """Warn where the order matters: an ambient session tapes whatever is called in the end."""
    session = current_session()
    if session is not None and not session.ambient and wraps_more_middleware(handler):
        warnings.warn(
            "TapeMiddleware is not the last middleware of its agent: what a later one calls instead of the model or "
            "the tool is not taped\n  put it at the end: create_agent(..., middleware=[..., TapeMiddleware()])",
            MiddlewareOrderWarning,
            stacklevel=3,
        )
