"""Methods of stand-ins that are served by name, in both of their forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenttape_core.session import Crossing, aserve, serve

CrossMethod = Callable[[Any, tuple[Any, ...], dict[str, Any]], Crossing]
"""Begins the crossing of a call of a method of a stand-in (stand-in, positional arguments, others)."""


def served_method(
    method: str, cross: CrossMethod, async_name: str | None = None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a method that answers from the recording, and its asynchronous form.

    Args:
        method: Its name.
        cross: Begins the crossing of a call.
        async_name: The name of the asynchronous form; by default the name with an `a` before it.
    """

    def replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        return serve(cross(self, args, kwargs))

    async def areplay(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await aserve(cross(self, args, kwargs))

    replay.__name__, areplay.__name__ = method, async_name or f"a{method}"
    replay.__doc__ = areplay.__doc__ = f"Return what `{method}` returned when the cassette was recorded."
    return replay, areplay
