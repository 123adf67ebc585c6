"""Tasks of the functional API, each served as a whole."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from agenttape_core.integration import Crossing, aintercept, current_session, intercept
from agenttape_langchain.integration import aapply, apply, current_config, noting_effects
from agenttape_langgraph._compat import CALL, TaskFunction, is_async_callable, name_of_task, writer_of
from agenttape_langgraph.node_boundary import Serves, cross_node, is_served, with_config

TaskT = TypeVar("TaskT")

_TAPED = "__agenttape_task__"


def is_task(value: Any) -> bool:
    """Whether something is a task of the functional API, as `@task` makes it."""
    return isinstance(value, TaskFunction)


def tape_task(task: TaskT) -> TaskT:
    """Return a task like this one, which stays as it is, whose calls are served; a taped task is returned as it is."""
    real: Any = task
    if hasattr(real.func, _TAPED):
        return task
    twin = copy.copy(real)
    twin.func = served_function(real.func)
    return twin  # type: ignore[no-any-return]


def served_function(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what a task's function does, and is served."""
    return _named(_coroutine(func) if is_async_callable(func) else _plain(func), func)


def _named(task: Callable[..., Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that goes by the name of the task, also where what it stands for has none itself."""
    if not hasattr(func, "__name__"):
        task.__name__ = task.__qualname__ = name_of_task(func)
    setattr(task, _TAPED, True)
    return task


def _plain(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def task(*args: Any, **kwargs: Any) -> Any:
        crossing = _cross(func, args, kwargs)
        if crossing is None:
            return func(*args, **kwargs)

        def execute() -> Any:
            with _telling(crossing, kwargs) as watched:
                return func(*args, **watched)

        return intercept(crossing, execute, apply)

    return task


def _coroutine(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    async def task(*args: Any, **kwargs: Any) -> Any:
        crossing = _cross(func, args, kwargs)
        if crossing is None:
            return await func(*args, **kwargs)

        async def execute() -> Any:
            with _telling(crossing, kwargs) as watched:
                return await func(*args, **watched)

        return await aintercept(crossing, execute, aapply)

    return task


@contextmanager
def _telling(crossing: Crossing, kwargs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a real task inside, with the arguments that are yielded, so that its crossing is told what else it does."""
    writer = writer_of(current_config())
    with noting_effects(crossing) as watched:
        own = {key: watched(value) for key, value in kwargs.items()}
        if writer is not None and own.get("writer") is writer:
            own["writer"] = writer_of(current_config())
        yield own


def _cross(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Crossing | None:
    session = current_session()
    if session is None:
        return None
    try:
        given = dict(inspect.signature(func).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # one that says nothing of its arguments, or will refuse them itself
        given = {**{f"argument_{n}": value for n, value in enumerate(args)}, **kwargs}
    return cross_node(session, name_of_task(func), {k: v for k, v in given.items() if not _is_injected(k, v)}, None)


def _is_injected(name: Any, value: Any) -> bool:
    """Whether LangGraph has given an argument to the function, by its name; the caller has not."""
    if name == "config":
        return isinstance(value, dict) and "configurable" in value
    if name == "writer":
        return callable(value)
    return isinstance(value, Runtime | BaseStore) and name in {"runtime", "store"}


# -- tasks by their names, wherever a function calls them --------------------------------------------------------------


def calling(config: Any, serves: Serves) -> Any:
    """Return a config of a run in which calls of tasks of these names are served."""
    call = (config.get("configurable") or {}).get(CALL)
    if call is None:
        return config

    def calls(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return call(_as_called(func, serves), *args, **kwargs)

    return {**config, "configurable": {**config["configurable"], CALL: calls}}


@contextmanager
def calling_here(serves: Serves) -> Iterator[None]:
    """Do the same for what is inside, by the config that it executes in."""
    config = current_config()
    with with_config(calling(config, serves) if config is not None else None):
        yield


def _as_called(func: Callable[..., Any], serves: Serves) -> Callable[..., Any]:
    """Return the function of a task, served or such that the tasks that it calls in its turn are."""
    if hasattr(func, _TAPED):
        return func
    if is_served(serves, name_of_task(func)):
        return served_function(func)
    return _passing_on(func, serves)


def _passing_on(func: Callable[..., Any], serves: Serves) -> Callable[..., Any]:
    if is_async_callable(func):

        @functools.wraps(func)
        async def task(*args: Any, **kwargs: Any) -> Any:
            with calling_here(serves):
                return await func(*args, **kwargs)

    else:

        @functools.wraps(func)
        def task(*args: Any, **kwargs: Any) -> Any:
            with calling_here(serves):
                return func(*args, **kwargs)

    return _named(task, func)
