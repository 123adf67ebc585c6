"""Substitute the work of tools.

Only `_run` and `_arun` are replayed: validation, callbacks, error handling and the formatting of the result are the
framework's and the tool's own, and happen on every replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from agenttape_core.errors import UnrecordedCallError
from agenttape_core.integration import (
    Boundary,
    Call,
    Cross,
    Crossing,
    Family,
    Leaf,
    Session,
    as_recorded,
    changing_arguments,
    coroutine,
    note_text,
    original_of,
    outcomes_of,
    plain,
    recorded_text,
    session_of_call,
    state_of,
    that_may_change,
)
from agenttape_langchain.answers import chosen_output
from agenttape_langchain.effects import aapply, apply, depends_on_run, noting_effects, request_of_run
from agenttape_langchain.requests import tool_body
from agenttape_langchain.session_tree import enclosing_run


def _missed(crossing: Crossing, unrecorded: UnrecordedCallError) -> Any:
    """Return the error as the result of the tool, for the model to read."""
    extra = crossing.request.extra
    if not extra:
        return unrecorded.said
    return ToolMessage(
        unrecorded.said, status="error", name=crossing.request.name, tool_call_id=crossing.request.ids[-1]
    )


TOOL = Boundary("tool", missed=_missed, faked=chosen_output)
_PAIR = 2
_HINTS = ("idempotent", "read_only", "idempotentHint", "readOnlyHint")


def _cross(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    """Begin the crossing of a tool's work."""
    session = session_of_call(tool)
    if session is None:
        return None
    run = enclosing_run(session)
    if run is None or run.tool != tool.name:  # called by hand, past `run`: the run around it is another's
        arguments = {key: value for key, value in kwargs.items() if key not in {"config", "run_manager"}}
        body = recorded_body(session, tool_body(tool.name, arguments or list(args)))
        crossing = session.cross(TOOL, tool.name, body, owner=state_of(tool), is_idempotent=_is_idempotent(tool))
        return _running(tool, crossing)
    ids = (run.tool_call_id,) if run.tool_call_id is not None else ()
    body = recorded_body(session, tool_body(tool.name, run.inputs))
    crossing = session.cross(
        TOOL,
        tool.name,
        body,
        position=run.position,
        owner=state_of(tool),
        ids=ids,
        ids_around=run.ids_around,
        is_idempotent=_is_idempotent(tool),
    )
    return _running(tool, crossing)


def _is_idempotent(tool: Any) -> bool:
    """Return whether a tool shows that it may be called again, or only reads: by its metadata, its extras or MCP."""
    said = (getattr(tool, "metadata", None), getattr(tool, "extras", None))
    return any(isinstance(facts, dict) and facts.get(hint) is True for facts in said for hint in _HINTS)


def _running(tool: Any, crossing: Crossing) -> Crossing:
    """Note the code that a call executes."""
    if not crossing.is_replayed:
        crossing.code = original_of(tool)
    return crossing


def recorded_body(session: Session, seen: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a tool, with what reaches it through the run unless only an observed call was recorded.

    Callbacks receive the arguments, but not the additions of the run, such as a human's answers in the node. An
    observed call serves every equal call, unless its outcome may depend on those.

    Args:
        session: The session.
        seen: The request as callbacks see it.
    """
    body = {**seen, **request_of_run(None)}
    recorded = as_recorded(session, TOOL, body, seen)
    return body if recorded is body or depends_on_run(outcomes_of(session, TOOL, seen)) else seen


def _packed(crossing: Crossing, tool: BaseTool, value: Any) -> Any:
    """Return the recorded form of a value: itself, with its text if another process would write it differently."""
    if tool.response_format == "content":
        note_text(crossing, value)
    return value


def finished(crossing: Crossing, tool: BaseTool, value: Any) -> Any:
    """Return a replayed value as `_run` returns it: an observed call has the finished message instead."""
    if tool.response_format != "content_and_artifact":
        return _shown(crossing, value)
    if isinstance(value, ToolMessage):
        return value, value.artifact
    is_pair = isinstance(value, tuple) and len(value) == _PAIR  # a refused call and a fake return the content alone
    return value if is_pair else (value, None)


def _shown(crossing: Crossing, value: Any) -> Any:
    """Return a value, or the text of it that the model saw, if this process writes it differently."""
    if not crossing.request.extra or isinstance(value, str | ToolMessage):  # only a tool call is answered by a text
        return value
    text = str(value)
    shown = recorded_text(crossing, text)
    return value if shown == text else shown


_OF_THE_RUN = frozenset({"callbacks", "config", "run_manager", "runtime"})
"""The arguments by which the framework gives a tool its run, apart from its input."""


def _describe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call: its effects are noted while it executes, and applied again when it is replayed."""
    crossing = cross(self, args, kwargs)
    if crossing is None:
        return Call(None, lambda: real(self, *args, **kwargs))

    @contextmanager
    def executing() -> Iterator[Callable[[], Any]]:
        assert not crossing.is_replayed  # a shell executes it
        with noting_effects(crossing) as watched:
            yield lambda: real(self, *map(watched, args), **{key: watched(value) for key, value in kwargs.items()})

    given = {**{f"argument {n}": value for n, value in enumerate(args)}, **kwargs}
    may_change = that_may_change({name: value for name, value in given.items() if name not in _OF_THE_RUN})
    return Call(
        crossing,
        lambda: real(self, *args, **kwargs),
        around=lambda: changing_arguments(crossing, may_change) if may_change else nullcontext(),
        executing=executing,
        apply=apply,
        aapply=aapply,
        pack=lambda value: _packed(crossing, self, value),
        unpack=lambda value: finished(crossing, self, value),
    )


TOOLS = Family(
    BaseTool,
    {
        "_run": Leaf(plain, _cross, _describe, is_inspected=True),
        "_arun": Leaf(coroutine, _cross, _describe, is_inspected=True),
    },
)
"""Every tool."""
