"""The stand-in for tools: its results come from a cassette."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.function_tool import sync_to_async
from pydantic import BaseModel

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Session, SessionCall, areplay_call, replay_call
from agenttape_core.integration.answers import recorded_text
from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.effects import effects_of
from agenttape_llamaindex.llms import CHAT
from agenttape_llamaindex.requests import tool_body
from agenttape_llamaindex.tools import FUNCTION, arguments_of
from agenttape_llamaindex.workflows.halts import halts_end_streams_for

_text: ContextVar[str | None] = ContextVar("agenttape_text_of_result", default=None)
"""The text of the result that a tool has just returned, if it is not the one that this process writes."""


@dataclass
class _RecordedMetadata(ToolMetadata):
    """The description of a tool as the models of a cassette had it: with a schema, and no class that it was made of."""

    fn_schema: type[BaseModel] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the recorded schema."""
        return self.parameters

    @property
    def fn_schema_str(self) -> str:
        """The recorded schema, as JSON."""
        return json.dumps(self.parameters, ensure_ascii=False)


class ReplayTool(StandIn, FunctionTool):
    """A tool that returns the recorded results, and has the recorded effects on a workflow.

    A recorded call has no description of its tool. If the cassette also holds a chat whose model had the tool, its
    description is taken from there; if not, pass `metadata`.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The tool.
        metadata: The description of the tool, by default the recorded one.
        callback: Called with each result, like the callback of a `FunctionTool`.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of the tool, or no description of it.
    """

    _recorded: RecordedPart

    def __init__(
        self,
        cassette: str | Path,
        name: str,
        *,
        metadata: ToolMetadata | None = None,
        callback: Callable[[Any], Any] | None = None,
        **options: Unpack[Options],
    ) -> None:
        kinds = frozenset({FUNCTION.kind})
        self._recorded = RecordedPart(cassette, kinds, lambda _: {}, name=name, **options)
        halts_end_streams_for(self._recorded)
        self._callback_given = callback
        super().__init__(  # with methods alone: a tool that holds an inner function can't be pickled
            fn=self._replay_call,
            async_fn=self._areplay_call,
            metadata=metadata or _description(self._recorded.session, name),
            callback=self._finished,
            async_callback=self._afinished,
        )

    def _finished(self, result: Any) -> Any:
        """Return an output that the recorded tool made itself, the callback's output for a result, or its text."""
        if isinstance(result, ToolOutput):
            return result
        made = self._callback_given(result) if self._callback_given is not None else None
        return _text.get() if made is None else made

    async def _afinished(self, result: Any) -> Any:
        return await sync_to_async(self._finished)(result)

    def _replay_call(self, *args: Any, **kwargs: Any) -> Any:
        session_call = self._cross(args, kwargs)
        return _noted(session_call, replay_call(session_call, effects_of(None).apply))

    async def _areplay_call(self, *args: Any, **kwargs: Any) -> Any:
        session_call = self._cross(args, kwargs)
        return _noted(session_call, await areplay_call(session_call, effects_of(None).aapply))

    def _cross(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall:
        arguments = arguments_of(self, None, args, kwargs)
        answers = effects_of(None).answers()
        more = {"answers": answers} if answers else {}
        return self._recorded.cross(FUNCTION, lambda _: {**tool_body(self._recorded.name, arguments), **more})


def _noted(session_call: SessionCall, result: Any) -> Any:
    """Note the recorded text of a result, if this process would write it in another way."""
    text = "" if isinstance(result, str) else str(result)
    shown = recorded_text(session_call, text)
    _text.set(shown if shown != text else None)
    return result


def _description(session: Session, name: str) -> ToolMetadata:
    """Return the description of a tool that the models of a cassette had."""
    for tool in _tools_of_chats(session):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
        if function.get("name") == name:
            schema = {"type": "object", "properties": {}, **(function.get("parameters") or {})}
            return _RecordedMetadata(description=function.get("description") or "", name=name, parameters=schema)
    raise ConfigurationError(
        f"{session.path} holds calls of the tool {name!r}, but no chat with a description of it\n"
        f"  pass one: ReplayTool(..., {name!r}, metadata=ToolMetadata(...))"
    )


def _tools_of_chats(session: Session) -> Iterator[Any]:
    for row in session.source.entries:
        if row.kind == CHAT.kind:
            yield from session.source.interaction(row.number).request.get("tools") or ()
