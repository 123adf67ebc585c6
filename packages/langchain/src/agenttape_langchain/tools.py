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
    Family,
    Leaf,
    Session,
    SessionCall,
    coroutine,
    original_of,
    outcomes_of,
    plain,
    session_of_call,
    state_of,
)
from agenttape_core.integration.answers import note_text, recorded_text
from agenttape_core.integration.changed_arguments import changing_arguments, that_may_change
from agenttape_core.integration.request_values import as_recorded
from agenttape_langchain.answers import chosen_output
from agenttape_langchain.effects import aapply, apply, depends_on_run, noting_effects, request_of_run
from agenttape_langchain.requests import tool_body
from agenttape_langchain.session_tree import enclosing_run


def _missed(session_call: SessionCall, unrecorded: UnrecordedCallError) -> Any:
    """Return the error as the result of the tool, for the model to read."""
    extra = session_call.request.extra
    if not extra:
        return unrecorded.said
    return ToolMessage(
        unrecorded.said, status="error", name=session_call.request.name, tool_call_id=session_call.request.ids[-1]
    )


TOOL = Boundary("tool", missed=_missed, faked=chosen_output)
_PAIR = 2
_HINTS = ("idempotent", "read_only", "idempotentHint", "readOnlyHint")


def _cross(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    """Begin a tool's work."""
    session = session_of_call(tool)
    if session is None:
        return None
    run = enclosing_run(session)
    if run is None or run.tool != tool.name:  # called by hand, past `run`: the run around it is another's
        arguments = {key: value for key, value in kwargs.items() if key not in {"config", "run_manager"}}
        body = recorded_body(session, tool_body(tool.name, arguments or list(args)))
        session_call = session.cross(TOOL, tool.name, body, owner=state_of(tool), is_idempotent=_is_idempotent(tool))
        return _running(tool, session_call)
    ids = (run.tool_call_id,) if run.tool_call_id is not None else ()
    body = recorded_body(session, tool_body(tool.name, run.inputs))
    session_call = session.cross(
        TOOL,
        tool.name,
        body,
        position=run.position,
        owner=state_of(tool),
        ids=ids,
        ids_around=run.ids_around,
        is_idempotent=_is_idempotent(tool),
    )
    return _running(tool, session_call)


def _is_idempotent(tool: Any) -> bool:
    """Return whether a tool shows that it may be called again, or only reads: by its metadata, its extras or MCP."""
    said = (getattr(tool, "metadata", None), getattr(tool, "extras", None))
    return any(isinstance(facts, dict) and facts.get(hint) is True for facts in said for hint in _HINTS)


def _running(tool: Any, session_call: SessionCall) -> SessionCall:
    """Note the code that a call executes."""
    if not session_call.is_replayed:
        session_call.code = original_of(tool)
    return session_call


def recorded_body(session: Session, seen: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a tool, with what reaches it through the run unless only an observed call was recorded.

    Callbacks receive the arguments, but not the additions of the run, such as a human's answers in the node. An
    observed call serves every equal call, unless its outcome may depend on those. `seen` is the request as callbacks
    see it.
    """
    body = {**seen, **request_of_run(None)}
    recorded = as_recorded(session, TOOL, body, seen)
    return body if recorded is body or depends_on_run(outcomes_of(session, TOOL, seen)) else seen


def _packed(session_call: SessionCall, tool: BaseTool, value: Any) -> Any:
    """Return the recorded form of a value: itself, with its text if another process would write it differently."""
    if tool.response_format == "content":
        note_text(session_call, value)
    return value


def finished(session_call: SessionCall, tool: BaseTool, value: Any) -> Any:
    """Return a replayed value as `_run` returns it: an observed call has the finished message instead."""
    if tool.response_format != "content_and_artifact":
        return _shown(session_call, value)
    if isinstance(value, ToolMessage):
        return value, value.artifact
    is_pair = isinstance(value, tuple) and len(value) == _PAIR  # a refused call and a fake return the content alone
    return value if is_pair else (value, None)


def _shown(session_call: SessionCall, value: Any) -> Any:
    """Return a value, or the text of it that the model saw, if this process writes it differently."""
    if not session_call.request.extra or isinstance(value, str | ToolMessage):  # only a tool call is answered by a text
        return value
    text = str(value)
    shown = recorded_text(session_call, text)
    return value if shown == text else shown


_OF_THE_RUN = frozenset({"callbacks", "config", "run_manager", "runtime"})
"""The arguments by which the framework gives a tool its run, apart from its input."""


def _describe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call: its effects are noted while it executes, and applied again when it is replayed."""
    session_call = cross(self, args, kwargs)
    if session_call is None:
        return Call(None, lambda: real(self, *args, **kwargs))

    @contextmanager
    def executing() -> Iterator[Callable[[], Any]]:
        assert not session_call.is_replayed  # a shell executes it
        with noting_effects(session_call) as watched:
            yield lambda: real(self, *map(watched, args), **{key: watched(value) for key, value in kwargs.items()})

    given = {**{f"argument {n}": value for n, value in enumerate(args)}, **kwargs}
    may_change = that_may_change({name: value for name, value in given.items() if name not in _OF_THE_RUN})
    return Call(
        session_call,
        lambda: real(self, *args, **kwargs),
        around=lambda: changing_arguments(session_call, may_change) if may_change else nullcontext(),
        executing=executing,
        apply=apply,
        aapply=aapply,
        pack=lambda value: _packed(session_call, self, value),
        unpack=lambda value: finished(session_call, self, value),
    )


TOOLS = Family(
    BaseTool,
    {
        "_run": Leaf(plain, _cross, _describe, is_inspected=True),
        "_arun": Leaf(coroutine, _cross, _describe, is_inspected=True),
    },
)
"""Every tool."""
