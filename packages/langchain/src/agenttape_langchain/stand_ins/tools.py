"""A tool made of a cassette."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Session, SessionCall, areplay_call, replay_call
from agenttape_core.integration.stand_ins import OnRepeat, Options, Pace, RecordedPart, StandIn
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.effects import aapply, apply
from agenttape_langchain.requests import tool_body
from agenttape_langchain.stand_ins.methods import InOrder
from agenttape_langchain.tools import TOOL, finished

_tool_call_id: ContextVar[str | None] = ContextVar("agenttape_tool_call_id", default=None)


class ReplayTool(StandIn, InOrder, BaseTool):
    """A tool that returns the recorded results.

    A recorded call has no description of its tool. If the cassette also holds a chat whose model had the tool, its
    description is taken from there; if not, pass `description` and `args_schema`.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The tool.
        on_repeat: The answer to more calls of a request than were recorded: `fail`, `last`, `cycle`; by default the
            setting of the project.
        pace: The duration of an answer, as for `ReplayChatModel`.
        options: Options of every tool. `response_format` is `content_and_artifact` by default if every recorded call
            returned a tuple of two.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of the tool, or no description of it.
    """

    cassette: str | Path
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, name: str, **options: Any) -> None:
        replay: Options = {"on_repeat": options.get("on_repeat"), "pace": options.get("pace")}
        recorded = RecordedPart(cassette, frozenset({TOOL.kind}), lambda _: {}, name=name, **replay)
        if "description" not in options or "args_schema" not in options:
            options = {**_description(recorded.session, name), **options}
        options.setdefault("response_format", _response_format(recorded.session, name))
        super().__init__(cassette=cassette, name=name, **options)
        self._recorded = recorded

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run as every tool does."""
        before = _tool_call_id.set(kwargs.get("tool_call_id"))
        try:
            return super().run(*args, **kwargs)
        finally:
            _tool_call_id.reset(before)

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        """Run as every tool does."""
        before = _tool_call_id.set(kwargs.get("tool_call_id"))
        try:
            return await super().arun(*args, **kwargs)
        finally:
            _tool_call_id.reset(before)

    def _run(self, **arguments: Any) -> Any:
        session_call = self._cross(arguments)
        return finished(session_call, self, replay_call(session_call, apply))

    async def _arun(self, **arguments: Any) -> Any:
        session_call = self._cross(arguments)
        return finished(session_call, self, await areplay_call(session_call, aapply))

    def _cross(self, arguments: dict[str, Any]) -> SessionCall:
        tool_call_id = _tool_call_id.get()
        ids = (tool_call_id,) if tool_call_id is not None else ()
        return self._recorded.cross(TOOL, lambda _: tool_body(self.name, arguments), ids=ids)


def _description(session: Session, name: str) -> dict[str, Any]:
    """Return the description of a tool that the models of a cassette had."""
    for tool in _tools_of_chats(session):
        spelled = convert_to_openai_tool(tool) if isinstance(tool, Mapping) else {}
        function = spelled.get("function", {})
        if function.get("name") == name:
            schema = {"type": "object", "properties": {}, **function.get("parameters", {})}
            return {"description": function.get("description", ""), "args_schema": schema}
    raise ConfigurationError(
        f"{session.path} holds calls of the tool {name!r}, but no chat with a description of it\n"
        f"  pass one: ReplayTool(..., {name!r}, description=..., args_schema=...)"
    )


def _tools_of_chats(session: Session) -> Iterator[Any]:
    for row in session.source.entries:
        if row.kind == CHAT.kind:
            yield from session.source.interaction(row.number).request.get("tools") or ()


def _response_format(session: Session, name: str) -> str:
    rows = [row for row in session.source.entries if row.kind == TOOL.kind and row.name == name]
    outcomes = [session.source.outcome(row.number) for row in rows]
    values = [outcome.value for outcome in outcomes if outcome.status == "returned"]
    pairs = [isinstance(value, dict) and len(value.get("$tuple", ())) == 2 for value in values]  # noqa: PLR2004
    return "content_and_artifact" if pairs and all(pairs) else "content"
