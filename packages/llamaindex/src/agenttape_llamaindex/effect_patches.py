"""Note what tools do to their workflows, once, whether a session is open, or an observation, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

from agenttape_llamaindex._compat import RUNNING_CONTEXT
from agenttape_llamaindex.effects import RUN_METHODS, STATE_STORE, STORE_METHODS, noting_run


class _Patches:
    """What stands in the place of methods of the framework as long as anyone needs it."""

    def __init__(self) -> None:
        self._users = 0
        self._stack = ExitStack()
        self._lock = Lock()

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                for name, describe in RUN_METHODS.items():
                    self._patch(RUNNING_CONTEXT, name, noting_run(getattr(RUNNING_CONTEXT, name), describe))
                for name, wrap in STORE_METHODS.items():
                    self._patch(STATE_STORE, name, wrap(getattr(STATE_STORE, name)))
            self._users += 1

    def _patch(self, where: Any, name: str, method: Callable[..., Any]) -> None:
        real = getattr(where, name)
        setattr(where, name, method)
        self._stack.callback(setattr, where, name, real)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._stack.close()


_patches = _Patches()


@contextmanager
def noting_effects() -> Iterator[None]:
    """Note effects while inside."""
    _patches.enter()
    try:
        yield
    finally:
        _patches.leave()
