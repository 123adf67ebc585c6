"""Substitute the work of tools.

Only `_run` and `_arun` are served: validation, callbacks, error handling and the formatting of the result are the
framework's and the tool's own, and happen on every replay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from agenttape_core import DriftError
from agenttape_core.integration import (
    Boundary,
    Crossing,
    Session,
    aintercept,
    alias_class,
    alias_of,
    current_session,
    executing,
    intercept,
)
from agenttape_langchain.effects import aapply, apply, depends_on_run, noting_effects, request_of_run
from agenttape_langchain.requests import tool_body
from agenttape_langchain.run_tree import enclosing_run

ToolT = TypeVar("ToolT", bound=BaseTool)


def _missed(crossing: Crossing, drift: DriftError) -> Any:
    """Return the error as the result of the tool, for the model to read."""
    extra = crossing.request.extra
    if not extra:
        return str(drift)
    return ToolMessage(str(drift), status="error", name=crossing.request.name, tool_call_id=crossing.request.ids[-1])


TOOL = Boundary("tool", missed=_missed)


def tape_tool(tool: ToolT) -> ToolT:
    """Return the taped alias of a tool; a taped tool is returned as it is."""
    return alias_of(tool, _tool_alias)


@functools.cache
def _tool_alias(cls: type[BaseTool]) -> type[BaseTool]:
    methods: dict[str, Any] = {"_run": _run(cls._run)}
    if cls._arun is not BaseTool._arun:
        methods["_arun"] = _arun(cls._arun)
    return alias_class(cls, methods, _tool_alias)


def _cross(tool: BaseTool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    """Begin the crossing of a tool's work, or nothing where it belongs to no session or to its own outer call."""
    session = current_session()
    if session is None:
        return None
    outer = executing()
    if outer is not None and outer.is_inside(tool.__dict__):
        return None
    run = enclosing_run(session)
    if run is None or run.tool != tool.name:  # called by hand, past `run`: the run around it is another's
        asked = {key: value for key, value in kwargs.items() if key not in {"config", "run_manager"}}
        body = recorded_body(session, tool_body(tool.name, asked or list(args)))
        return session.cross(TOOL, tool.name, body, owner=tool.__dict__)
    ids = (run.tool_call_id,) if run.tool_call_id is not None else ()
    body = recorded_body(session, tool_body(tool.name, run.inputs))
    return session.cross(TOOL, tool.name, body, position=run.position, owner=tool.__dict__, ids=ids)


def recorded_body(session: Session, seen: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a tool with what reaches it by the run; where only an observed one was recorded, without.

    Callbacks are told the arguments and nothing of what the run adds, such as the answers that a human has given in
    the node. An observed call answers whoever calls the same, unless its outcome may have come about by them.

    Args:
        session: The session.
        seen: The request as callbacks are told it.
    """
    body = {**seen, **request_of_run(None)}
    if body == seen or session.policy.replaces or session.times_recorded(TOOL, body) or not _was_observed(session):
        return body
    outcomes = session.outcomes_of(TOOL, seen)
    return body if not outcomes or depends_on_run(outcomes) else seen


def _was_observed(session: Session) -> bool:
    """Whether there is something in the cassette that whoever wrote it could not see."""
    found: bool = session.keepsake(
        "langchain.was_observed", lambda: any(step.kind == "gap" for step in session.source.steps())
    )
    return found


def finished(crossing: Crossing, tool: BaseTool, value: Any) -> Any:
    """Return a value as `_run` returns it: what callbacks observed is the finished message already."""
    if not crossing.is_served or tool.response_format != "content_and_artifact":
        return value
    if isinstance(value, ToolMessage):
        return value, value.artifact
    return (value, None) if crossing.drift is not None else value


def _run(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
        crossing = _cross(self, args, kwargs)
        if crossing is None:
            return real(self, *args, **kwargs)

        def execute() -> Any:
            with noting_effects(crossing) as watched:
                return real(self, *map(watched, args), **{key: watched(value) for key, value in kwargs.items()})

        return finished(crossing, self, intercept(crossing, execute, apply))

    return _run


def _arun(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    async def _arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        crossing = _cross(self, args, kwargs)
        if crossing is None:
            return await real(self, *args, **kwargs)

        async def execute() -> Any:
            with noting_effects(crossing) as watched:
                return await real(self, *map(watched, args), **{key: watched(value) for key, value in kwargs.items()})

        return finished(crossing, self, await aintercept(crossing, execute, aapply))

    return _arun
