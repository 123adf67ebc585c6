"""Keeps what LangGraph does beside its tasks independent of their schedule: ids, and the order of interrupts.

- When a task has ended, its graph writes the state, streams the result and calls the saver in a callback of the task's
  future: in a thread of the pool without any context, or in the thread of the graph, in the order in which tasks happen
  to end. This work belongs to the session of the graph, in a branch of the task's own.
- Work that a graph submits to its pool in addition to its tasks, for example to save or to wait for parts of a stream,
  happens as often and as early as in the schedule. It makes no branch.
- LangGraph gathers the interrupts of several tasks of a subgraph from a set. They are put in the order of the tasks.
- Threads put parts on a stream, commit what tasks wrote, and write into a saver in memory in turns. A replay takes them
  in the recorded order.
- Checkpoints in memory are saved synchronously: in the background, a graph and its subgraph would each save in their
  own order.
- The error of a node that ran out of time shows how long it ran, on a clock that is never frozen. In a session with a
  frozen clock it shows that it ran for as long as it might: error handlers put the error into prompts.
- The writes of a task are saved in the background, while the state gives ids to messages in them that have none. They
  are saved in the order of the writes.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt

from agenttape_core.integration import Session, Slot, current_session, here, register_scope
from agenttape_core.integration.patching import Wrappers
from agenttape_core.integration.request_values import was_observed
from agenttape_core.integration.threads import current_branch, enter_branch, in_order
from agenttape_langchain.integration import RAISED, placement
from agenttape_langgraph._compat import (
    EXECUTORS,
    RAISED_BY_OTHERS,
    SAVERS_OF_WRITES,
    TASK_RUNNERS,
    FuturesDict,
    NodeTimeoutError,
    PartsQueue,
    runner,
    saves_in_memory,
    task_path_str,
)
from agenttape_langgraph.stable_ids import interrupts_of

# -- Has a graph raise the same error in each replay, where several of its tasks have failed or handed over at once.
#
# LangGraph waits for all of them, and raises the error of one, from a set: which one follows from where objects lie
# in memory. In a session it is that of the task that ended first, as tasks end in the recorded order. In a replay of
# a run that a handler has observed, it is the one that the handler saw.

_ended: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()
"""The places of the futures of tasks that have failed, in the order in which these ended, and their nodes' labels."""
_places = itertools.count()
_AGAIN = re.compile(r"#\d+$")
"""The end of the label of a node that was tried again."""


def error_of(future: Any) -> BaseException | None:
    """Return the exception of a task, if it has ended with one."""
    return future.exception() if future.done() and not future.cancelled() else None


def note_failure(task: Any, future: Any) -> None:
    """Note that a task has ended with an error."""
    metadata = (getattr(task, "config", None) or {}).get("metadata") or {}  # a test of a runner has no real tasks
    place = placement(getattr(task, "name", ""), [f"graph:step:{metadata.get('langgraph_step', 0)}"], metadata)
    _ended[future] = next(_places), place["label"]


def raising_alike(real: Callable[..., None]) -> Callable[..., None]:
    """Return LangGraph's function that raises the error of a superstep, given no more than one to raise."""

    def panic_or_proceed(futures: Collection[Any], **kwargs: Any) -> None:
        session = current_session()
        if session is not None:
            handled, ids = kwargs.get("handled_futures") or (), kwargs.get("handled_exception_ids") or ()
            failed = [one for one in futures if _is_raised(one) and one not in handled and id(error_of(one)) not in ids]
            if len(failed) > 1:
                seen = _seen(session).get(here(session).address) if was_observed(session) else None
                ordered = sorted(failed, key=functools.partial(_place, seen))
                futures = set(futures).difference(ordered[1:])
        real(futures, **kwargs)

    return panic_or_proceed


def _is_raised(future: Any) -> bool:
    """Return True if a graph may raise a task's error itself: it gathers interrupts."""
    error = error_of(future)
    return error is not None and not isinstance(error, GraphInterrupt) and future not in RAISED_BY_OTHERS


def _place(seen: str | None, future: Any) -> tuple[bool, int]:
    """Return the place of a task that has failed: before all others, if its error was seen to be raised."""
    number, label = _ended.get(future, (0, ""))
    return label != seen, number


def _read(session: Any) -> Mapping[str, str]:
    """Return the labels of the nodes whose errors graphs were seen to raise, by the addresses of these graphs."""
    data = ((step.address, step.data) for step in session.source.steps())
    raised = ((address, str(given[RAISED])) for address, given in data if isinstance(given, dict) and RAISED in given)
    return {address: _AGAIN.sub("", label) for address, label in raised}


_SEEN: Slot[Mapping[str, str]] = Slot(_read)


def _seen(session: Session) -> Mapping[str, str]:
    return session.extension(_SEEN)


_CONTEXT = "__agenttape_context__"
_PATH = "__agenttape_path__"
_branch: ContextVar[str | None] = ContextVar("agenttape_langgraph_branch", default=None)
"""The branch of a task that has ended, while its graph does the work above."""


def _scope() -> str | None:
    """Return the branch of a task that has ended, below its graph; `None` outside the work that follows a task."""
    branch, session = _branch.get(), current_session()
    return f"{here(session).address}|{branch}" if branch is not None and session is not None else None


register_scope(_scope)


def be_independent_of_schedule(wrappers: Wrappers) -> None:
    """Keep LangGraph's own work in its branches while wrappers are in place."""

    def patch(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        wrappers.patch(owner, name, lambda real: functools.wraps(real)(wrap(real)))

    patch(FuturesDict, "__init__", _with_context)
    patch(FuturesDict, "on_done", _commit_in_branch)
    patch(FuturesDict, "on_done", in_order)
    patch(PartsQueue, "put", in_order)
    for name in ("put", "put_writes"):
        patch(InMemorySaver, name, in_order)
    if NodeTimeoutError is not None:
        patch(NodeTimeoutError, "__init__", _ran_as_long_as_it_might)
    patch(runner, "_panic_or_proceed", _sorting_interrupts)
    patch(runner, "_panic_or_proceed", raising_alike)
    for executor in EXECUTORS:
        patch(executor, "submit", _submit_without_branch)


def _with_context(real: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
        real(self, *args, **kwargs)
        if current_session() is not None:
            setattr(self, _CONTEXT, copy_context())

    return __init__


def _commit_in_branch(real: Callable[..., None]) -> Callable[..., None]:
    def on_done(self: Any, task: Any, future: Any) -> None:
        context: Context | None = getattr(self, _CONTEXT, None)
        if context is None:
            real(self, task, future)
        else:
            error = error_of(future)
            if error is not None:
                note_failure(task, future)
            if interrupts_of(error):
                setattr(error, _PATH, task_path_str(task.path))
            branch = f"{getattr(task, 'name', '')} {getattr(task, 'path', '')}"  # a test of a runner has no real tasks
            context.copy().run(_in_branch, branch, real, self, task, future)

    return on_done


def _ran_as_long_as_it_might(real: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, node: str, elapsed: float, **limits: Any) -> None:  # noqa: N807 - as above
        session = current_session()
        is_frozen = session is not None and session.frozen is not None and "clock" in session.frozen.kinds
        if is_frozen and limits.get("kind") == "run":
            elapsed = limits.get("run_timeout") or elapsed
        real(self, node, elapsed, **limits)

    return __init__


def _sorting_interrupts(real: Callable[..., None]) -> Callable[..., None]:
    def panic_or_proceed(futures: Collection[Any], **kwargs: Any) -> None:
        try:
            real(futures, **kwargs)
        except GraphInterrupt as gathered:
            interrupts = interrupts_of(gathered)
            if len(interrupts) <= 1 or current_session() is None:
                raise
            errors = [error for error in map(error_of, futures) if error is not None]
            # By identity: two tasks may ask equal questions, and LangGraph gathers the very objects that they raised.
            paths = {id(one): getattr(error, _PATH, "") for error in errors for one in interrupts_of(error)}
            raise GraphInterrupt(tuple(sorted(interrupts, key=lambda one: paths.get(id(one), "")))) from None

    return panic_or_proceed


def _in_branch(branch: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    before = _branch.get()
    _branch.set(branch)
    try:
        return real(*args, **kwargs)
    finally:
        _branch.set(before)


def _submit_without_branch(real: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        branch = current_branch()
        if branch is None or getattr(fn, "__name__", "") in TASK_RUNNERS:
            return real(self, fn, *args, **kwargs)
        if getattr(fn, "__name__", "") in SAVERS_OF_WRITES and len(args) > 1:
            args = (args[0], _as_written(args[1]), *args[2:])
        enter_branch(None)
        try:
            if isinstance(self, EXECUTORS[0]) and saves_in_memory(fn):
                return _done(self, fn, *args)
            return real(self, fn, *args, **kwargs)
        finally:
            enter_branch(branch)

    return submit


def _done(executor: Any, fn: Callable[..., Any], *args: Any) -> Future[Any]:
    """Return a future of work that is done right away; the executor raises its error at its end."""
    future: Future[Any] = Future()
    try:
        future.set_result(copy_context().run(fn, *args))
    except Exception as error:  # noqa: BLE001 - it is the outcome of the work
        future.set_exception(error)
        executor.tasks[future] = (False, True)
    return future


def _as_written(value: Any) -> Any:
    """Return a value with copies of the messages that have no id yet; the value itself if there are none."""
    if isinstance(value, BaseMessage):
        return value if value.id is not None else value.model_copy()
    if type(value) in (list, tuple, deque):
        items = [_as_written(item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if type(value) is dict:
        parts = {key: _as_written(item) for key, item in value.items()}
        return value if all(part is value[key] for key, part in parts.items()) else parts
    return value
