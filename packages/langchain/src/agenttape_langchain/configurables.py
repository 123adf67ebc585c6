"""The configurable part of the config of outermost runs, such as the `thread_id` of a conversation.

Callbacks do not get it: LangChain copies a part of it into the metadata for tracers alone. It is kept with the
callback manager that is made of the config, and can be read while that manager begins the run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, CallbackManager

from agenttape_core.integration import Session, current_session
from agenttape_langchain._compat import config_of_caller, is_for_model

_KEY = "__agenttape_configurable__"
_OF_FRAMEWORKS = ("__", "checkpoint_")
"""Prefixes of the keys under which frameworks pass their own objects, and ids that a process makes."""
_of_run: ContextVar[Mapping[str, Any] | None] = ContextVar("agenttape_configurable", default=None)


def begun_with() -> Mapping[str, Any]:
    """Return the configurable part of the config that the outermost run which begins here has; empty for other runs."""
    return _of_run.get() or {}


def noting(real: Callable[..., Any], handler_of: Callable[[Session], BaseCallbackHandler]) -> Callable[..., Any]:
    """Wrap the function of `CallbackManager.configure`, which makes the callback manager of a run.

    `langchain_core.tracers.context.register_configure_hook` also attaches a handler to every run, but can't be undone,
    and calls its hook several times. Here threads are reached that were started without a context.

    `handler_of` returns the handler of a session, which is attached to every run; its children inherit it.
    """

    @functools.wraps(real)
    def configure(cls: type, *args: Any, **kwargs: Any) -> Any:
        manager = real(cls, *args, **kwargs)
        session = current_session()
        if session is None:
            return manager
        manager.add_handler(handler_of(session), inherit=True)
        if manager.parent_run_id is None and not is_for_model(args, kwargs):
            config = config_of_caller()
            if config.get("configurable") and (given := of_config(config)):
                setattr(manager, _KEY, given)
        return manager

    return configure


def of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configurable part of a config as far as it's plain data, without the framework's own keys."""
    given = config.get("configurable") or {}
    return {key: value for key, value in given.items() if not key.startswith(_OF_FRAMEWORKS) and _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | bool | UUID)


def telling(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `CallbackManager.on_chain_start`."""

    @functools.wraps(real)
    def on_chain_start(self: CallbackManager, *args: Any, **kwargs: Any) -> Any:
        given = vars(self).get(_KEY)
        if given is None:
            return real(self, *args, **kwargs)
        _of_run.set(given)
        try:
            return real(self, *args, **kwargs)
        finally:
            _of_run.set(None)

    return on_chain_start


def atelling(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `AsyncCallbackManager.on_chain_start`."""

    @functools.wraps(real)
    async def on_chain_start(self: AsyncCallbackManager, *args: Any, **kwargs: Any) -> Any:
        given = vars(self).get(_KEY)
        if given is None:
            return await real(self, *args, **kwargs)
        _of_run.set(given)
        try:
            return await real(self, *args, **kwargs)
        finally:
            _of_run.set(None)

    return on_chain_start
