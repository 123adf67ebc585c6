"""The function of a test, run inside the session of the test."""

from __future__ import annotations

import functools
import inspect
import unittest
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from agenttape_core.lifecycle.presence import PRESENCE

if TYPE_CHECKING:
    import pytest

    from agenttape_core.session import Session


def run_inside(item: pytest.Item, session: Session) -> Callable[[], None]:
    """Wrap the innermost part of the call of a test, inside everything that other plugins do around it.

    Args:
        item: The test.
        session: Its session.

    Returns:
        A function that undoes it.
    """
    test: Any = item
    runtest = test.runtest

    def inside() -> None:
        with session.extension(PRESENCE).resumed():
            runtest()

    with ExitStack() as undo:
        _replace(undo, test, "runtest", inside)
        if inspect.iscoroutinefunction(getattr(test, "obj", None)):
            function = _in_task(test.obj, session)
            _replace(undo, test, "_obj", function)
            if isinstance(getattr(test, "instance", None), unittest.TestCase):  # it calls its own attribute
                _replace(undo, test.instance, test.name, function)
        return undo.pop_all().close


def _replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute of one object until `undo`."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)


def _in_task(function: Callable[..., Any], session: Session) -> Callable[..., Any]:
    """Run a coroutine function in the session: its task may have a context that was copied earlier."""

    @functools.wraps(function)
    async def in_session(*args: Any, **kwargs: Any) -> Any:
        with session.extension(PRESENCE).resumed():
            return await function(*args, **kwargs)

    return in_session
