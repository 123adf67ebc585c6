"""To which strand of the run LangGraph's own work belongs, so that ids do not depend on the schedule.

- When a task has ended, its graph writes the state, streams the result and asks the saver in a callback of the task's
  future: in a thread of the pool without any context, or in that of the graph, in the order in which tasks happen to
  end. It belongs to the session of the graph, in a strand of the task's own.
- What a graph puts into its pool besides its tasks, such as saving and waiting for parts to stream, is as often and as
  early as it happens to be. It makes no strand.
- The interrupts of several tasks of a subgraph are gathered from a set. They are put in the order of the tasks.
- What a task wrote is saved in the background, while the state gives ids to the messages in it that have none. It is
  saved as it was written.
"""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.errors import GraphInterrupt

from agenttape_core.integration import current_branch, current_session, enter_branch, here, register_scope
from agenttape_langgraph._compat import (
    EXECUTORS,
    SAVERS_OF_WRITES,
    TASK_RUNNERS,
    FuturesDict,
    runner,
    task_path_str,
)
from agenttape_langgraph.stable_ids import asked_in

_CONTEXT = "__agenttape_context__"
_PATH = "__agenttape_path__"
_strand: ContextVar[str | None] = ContextVar("agenttape_langgraph_strand", default=None)


def _scope() -> str | None:
    """Return the strand of a task that has ended, below its graph; nothing where nothing is done for one."""
    strand, session = _strand.get(), current_session()
    return f"{here(session).address}|{strand}" if strand is not None and session is not None else None


register_scope(_scope)


@contextmanager
def stranding() -> Iterator[None]:
    """Keep LangGraph's own work in its strands while inside."""
    with ExitStack() as undo:
        _patch(undo, FuturesDict, "__init__", _noting)
        _patch(undo, FuturesDict, "on_done", _committing)
        _patch(undo, runner, "_panic_or_proceed", _gathering)
        for executor in EXECUTORS:
            _patch(undo, executor, "submit", _submitting)
        yield


def _patch(undo: ExitStack, cls: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    real = getattr(cls, name)
    setattr(cls, name, functools.wraps(real)(wrap(real)))
    undo.callback(setattr, cls, name, real)


def _noting(real: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
        real(self, *args, **kwargs)
        if current_session() is not None:
            setattr(self, _CONTEXT, copy_context())

    return __init__


def _committing(real: Callable[..., None]) -> Callable[..., None]:
    def on_done(self: Any, task: Any, future: Any) -> None:
        context: Context | None = getattr(self, _CONTEXT, None)
        if context is None:
            real(self, task, future)
        else:
            error = _error_of(future)
            if asked_in(error):
                setattr(error, _PATH, task_path_str(task.path))
            context.copy().run(_in_strand, f"{task.name} {task.path}", real, self, task, future)

    return on_done


def _gathering(real: Callable[..., None]) -> Callable[..., None]:
    def panic_or_proceed(futures: Collection[Any], **kwargs: Any) -> None:
        try:
            real(futures, **kwargs)
        except GraphInterrupt as gathered:
            asked = asked_in(gathered)
            if len(asked) <= 1 or current_session() is None:
                raise
            errors = [error for error in map(_error_of, futures) if error is not None]
            paths = {id(one): getattr(error, _PATH, "") for error in errors for one in asked_in(error)}
            raise GraphInterrupt(tuple(sorted(asked, key=lambda one: paths.get(id(one), "")))) from None

    return panic_or_proceed


def _error_of(future: Any) -> BaseException | None:
    """Return what a task raised, if it has ended."""
    return future.exception() if future.done() and not future.cancelled() else None


def _in_strand(strand: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    before = _strand.get()
    _strand.set(strand)
    try:
        return real(*args, **kwargs)
    finally:
        _strand.set(before)


def _submitting(real: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        branch = current_branch()
        if branch is None or getattr(fn, "__name__", "") in TASK_RUNNERS:
            return real(self, fn, *args, **kwargs)
        if getattr(fn, "__name__", "") in SAVERS_OF_WRITES and len(args) > 1:
            args = (args[0], _as_written(args[1]), *args[2:])
        enter_branch(None)
        try:
            return real(self, fn, *args, **kwargs)
        finally:
            enter_branch(branch)

    return submit


def _as_written(value: Any) -> Any:
    """Return a value with copies of the messages in it that have no id yet; without any, the value itself."""
    if isinstance(value, BaseMessage):
        return value if value.id is not None else value.model_copy()
    if type(value) in (list, tuple, deque):
        items = [_as_written(item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if type(value) is dict:
        parts = {key: _as_written(item) for key, item in value.items()}
        return value if all(part is value[key] for key, part in parts.items()) else parts
    return value
