"""Tasks of the functional API, each replayed as a whole."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from agenttape_core.integration import Call, SessionCall, coroutine, current_session, plain
from agenttape_langchain.integration import aapply, apply, current_config, noting_effects
from agenttape_langgraph._compat import CALL, TaskFunction, is_async_callable, name_of_task, writer_of
from agenttape_langgraph.node_boundary import ReplayNodes, cross_node, is_replayed, with_config

TaskT = TypeVar("TaskT")

_TAPED = "__agenttape_task__"


def is_task(value: Any) -> bool:
    """Return true for a task of the functional API, as `@task` makes it."""
    return isinstance(value, TaskFunction)


def tape_task(task: TaskT) -> TaskT:
    """Return a task like this one whose calls are replayed; a recorded task is returned unchanged."""
    real: Any = task
    if hasattr(real.func, _TAPED):
        return task
    twin = copy.copy(real)
    twin.func = replayed_function(real.func)
    return twin  # type: ignore[no-any-return]


def replayed_function(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function like a task's function, with its calls replayed."""
    shape = coroutine if is_async_callable(func) else plain
    return _named(shape(func, functools.partial(_describe, func)), func)


def _named(task: Callable[..., Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function under the name of its task, even if the real function has no name."""
    if not hasattr(func, "__name__"):
        task.__name__ = task.__qualname__ = name_of_task(func)
    setattr(task, _TAPED, True)
    return task


def _describe(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call:
    session_call = _cross(func, args, kwargs)
    return Call(
        session_call,
        lambda: func(*args, **kwargs),
        executing=lambda: _executing(func, session_call, args, kwargs),
        apply=apply,
        aapply=aapply,
    )


@contextmanager
def _executing(
    func: Callable[..., Any], session_call: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[Callable[[], Any]]:
    """Yield the real task, whose effects through its injected arguments are noted."""
    writer = writer_of(current_config())
    with noting_effects(session_call) as watched:
        own = {key: watched(value) for key, value in kwargs.items()}
        if writer is not None and own.get("writer") is writer:
            own["writer"] = writer_of(current_config())
        yield lambda: func(*args, **own)


def _cross(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SessionCall | None:
    session = current_session()
    if session is None:
        return None
    try:
        given = dict(inspect.signature(func).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # it has no signature, or will refuse these arguments itself
        given = {**{f"argument_{n}": value for n, value in enumerate(args)}, **kwargs}
    return cross_node(session, name_of_task(func), {k: v for k, v in given.items() if not _is_injected(k, v)}, None)


def _is_injected(name: Any, value: Any) -> bool:
    """Return true for an argument that LangGraph has injected by its name."""
    if name == "config":
        return isinstance(value, dict) and "configurable" in value
    if name == "writer":
        return callable(value)
    return isinstance(value, Runtime | BaseStore) and name in {"runtime", "store"}


# -- tasks by name, called by any function -----------------------------------------------------------------------------


def with_replayed_tasks(config: Any, replay_nodes: ReplayNodes) -> Any:
    """Return a config of a run in which the calls of these tasks are replayed."""
    call = (config.get("configurable") or {}).get(CALL)
    if call is None:
        return config

    def calls(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return call(_as_called(func, replay_nodes), *args, **kwargs)

    return {**config, "configurable": {**config["configurable"], CALL: calls}}


@contextmanager
def replaying_tasks(replay_nodes: ReplayNodes) -> Iterator[None]:
    """Replay the calls of these tasks while inside, by the config in force."""
    config = current_config()
    with with_config(with_replayed_tasks(config, replay_nodes) if config is not None else None):
        yield


def _as_called(func: Callable[..., Any], replay_nodes: ReplayNodes) -> Callable[..., Any]:
    """Return the function of a task: replayed, or with the calls that it makes of other tasks replayed."""
    if hasattr(func, _TAPED):
        return func
    if is_replayed(replay_nodes, name_of_task(func)):
        return replayed_function(func)
    return _with_replayed_calls(func, replay_nodes)


def _with_replayed_calls(func: Callable[..., Any], replay_nodes: ReplayNodes) -> Callable[..., Any]:
    if is_async_callable(func):

        @functools.wraps(func)
        async def task(*args: Any, **kwargs: Any) -> Any:
            with replaying_tasks(replay_nodes):
                return await func(*args, **kwargs)

    else:

        @functools.wraps(func)
        def task(*args: Any, **kwargs: Any) -> Any:
            with replaying_tasks(replay_nodes):
                return func(*args, **kwargs)

    return _named(task, func)
