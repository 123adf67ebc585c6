"""Rate limiters wait as a part of the call that they let through.

A framework waits for its limiter before it makes a leaf call. For how long that sleeps follows from a clock that is
never frozen, so as a step of the program it was another one in each run. In a session, the leaf call waits where it is
executed for real; where it is served, no service has to be spared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from typing import Any

from agenttape_core.integration.leaves import Cross, Leaf
from agenttape_core.integration.limiter_waits import leave_to_call
from agenttape_core.integration.shapes import Call, Describe, Shape
from agenttape_core.session import current_session


def limiter_leaves(acquire: str, async_acquire: str, *, before: Collection[str]) -> dict[str, Leaf]:
    """Return the leaf methods of a family of rate limiters.

    Args:
        acquire: The name of the method that waits.
        async_acquire: The name of the one that is awaited.
        before: The modules of the framework that call these right before a leaf call. A limiter that other code calls
            waits immediately.
    """
    return {acquire: _leaf(_plain, _now, before), async_acquire: _leaf(_coroutine, _awaited_now, before)}


def _leaf(shape: Shape, let_through: Callable[[], Any], before: Collection[str]) -> Leaf:
    def describe(real: Callable[..., Any], _: Cross, /, *args: Any, **kwargs: Any) -> Call:
        acquire = functools.partial(real, *args, **kwargs)
        if current_session() is None or _caller() not in before:
            return Call(None, acquire)
        leave_to_call(acquire)
        return Call(None, let_through)

    return Leaf(shape, _no_crossing, describe)


def _plain(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap a limiter's method that returns; it isn't a leaf call, which would wait for the limiter itself."""

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        return describe(*args, **kwargs).real()

    return call


def _coroutine(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap one that is awaited."""

    @functools.wraps(real)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await describe(*args, **kwargs).real()

    return call


def _caller() -> str:
    """Return the module of the code that calls the method, or awaits it: the first on the stack that is not ours."""
    frame = sys._getframe(1)  # noqa: SLF001 - the way to look at one's callers
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("agenttape_core."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _now() -> bool:
    return True


async def _awaited_now() -> bool:
    return True


def _no_crossing(*_: Any) -> None:
    return None
