"""Tape every chat model and tool of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langchain_core.tools import BaseTool

from agenttape_core.integration import (
    current_branch,
    current_session,
    enter_branch,
    register_codecs,
    register_scope,
    register_seam,
)
from agenttape_langchain._compat import PUBLIC_MODEL_CALLS, hook_handler
from agenttape_langchain.alias import is_alias
from agenttape_langchain.chat_models import tape_chat_model
from agenttape_langchain.codec import CODECS
from agenttape_langchain.positions import current_tree, scope
from agenttape_langchain.tools import tape_tool

register_codecs(CODECS)
register_scope(scope)
for module in ("langchain_core.callbacks.manager", "langchain_core.tracers.event_stream"):  # where run ids are made
    register_seam(module, "uuid7", "uuid", lambda frozen, _: lambda: frozen.next_uuid("uuid7", 7))


@contextmanager
def integration() -> Iterator[None]:
    """Connect LangChain to the sessions of this process; core enters it with the first and leaves it with the last."""
    with ExitStack() as stack:
        stack.callback(hook_handler(current_tree))
        for name in PUBLIC_MODEL_CALLS:
            _patch(stack, BaseChatModel, name, _redirected(tape_chat_model))
        for name in ("run", "arun"):
            _patch(stack, BaseTool, name, _redirected(tape_tool))
        _patch(stack, ContextThreadPoolExecutor, "map", _forking_map)
        yield


def _patch(stack: ExitStack, cls: type, name: str, wrap: Callable[[Any], Any]) -> None:
    real = getattr(cls, name)
    setattr(cls, name, wrap(real))
    stack.callback(setattr, cls, name, real)


def _redirected(tape: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a public method so that a call on an untaped object goes to its taped alias."""

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            session = current_session()
            if session is not None and session.ambient and not is_alias(self):
                self = tape(self)
            return real(self, *args, **kwargs)

        return method

    return wrap


def _forking_map(real: Callable[..., Any]) -> Callable[..., Any]:
    """Give each item of a parallel map its branch where their order is still certain, before a thread starts."""

    @functools.wraps(real)
    def map_(self: Any, fn: Callable[..., Any], *iterables: Any, **kwargs: Any) -> Any:
        branch = current_branch()
        if branch is None:
            return real(self, fn, *iterables, **kwargs)
        columns = [list(items) for items in iterables]
        branches = branch.split(min(map(len, columns)))
        return real(self, functools.partial(_call_in_branch, fn), branches, *columns, **kwargs)

    return map_


def _call_in_branch(fn: Callable[..., Any], branch: Any, /, *args: Any) -> Any:
    enter_branch(branch)
    return fn(*args)
