"""Events that a model tells while it is executed: whoever is told is outside of the call.

Inside an executed call the clock and ids are real (decision 2). The handlers and tracers of the program are part of the
run all the same: what they read from the clock when a chunk arrives is that of the session, as it is on replay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agenttape_core.integration import told_outside


def telling_outside(handle: Callable[..., None]) -> Callable[..., None]:
    """Return `handle_event` so that handlers are told outside of the call that tells them."""

    @functools.wraps(handle)
    def told(*args: Any, **kwargs: Any) -> None:
        with told_outside():
            handle(*args, **kwargs)

    return told


def atelling_outside(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ahandle_event` as `telling_outside` returns `handle_event`."""

    @functools.wraps(handle)
    async def told(*args: Any, **kwargs: Any) -> None:
        with told_outside():
            await handle(*args, **kwargs)

    return told
