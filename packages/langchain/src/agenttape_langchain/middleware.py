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
    """`TapeMiddleware` is not last in the list, so a middleware behind it may replace the taped model or tool."""


class TapeMiddleware(AgentMiddleware[Any, Any, Any]):
    """Tapes the model and the tools of its agent, whichever they are, in the current session.

    It belongs at the end of the list: there it tapes the model or tool that is really called, after other middleware
    has chosen one, or a fallback. Each attempt of a retry is its own call. In an automatic session the agent takes
    part anyway, and no call is recorded twice. Outside any session it has no effect.
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
    """Return the request with its tool taped; a request for an unknown tool doesn't change."""
    return request.override(tool=tape(request.tool)) if request.tool is not None else request


def _check_order(handler: Callable[..., Any]) -> None:
    """Warn if the order matters: an automatic session tapes every model and tool, whatever the order."""
    session = current_session()
    if session is not None and not session.auto and wraps_more_middleware(handler):
        warnings.warn(
            "TapeMiddleware is not the last middleware of its agent, so a model or tool that a later one calls is not "
            "taped\n  put it at the end: create_agent(..., middleware=[..., TapeMiddleware()])",
            MiddlewareOrderWarning,
            stacklevel=3,
        )
