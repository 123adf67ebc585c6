"""Variations within the process of a replay: where its memory lies, and which call, thread or work is faster."""

from __future__ import annotations

import asyncio
import functools
import gc
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, cast

_THRESHOLDS = (10, 100, 5_000, 50_000)
_OBJECTS = 20_000
_FIRST = 2_000
_BYTES = 500
"""The most that one small object takes: those that are larger come from elsewhere."""
_LARGE = 4_000
"""The most that a larger one takes, such as a class."""
_LATE = 0.002
"""Seconds by which something is late at most."""

_ROUNDS = 5
"""Rounds that a loop makes more for a call, at most."""

_sleep = time.sleep  # the real one, taken before any session


class _Hole:
    """An object as small as those of most classes, with a dict."""


class Memory:
    """The layout of the memory of this process.

    Args:
        seed: Of what is allocated; 0 for nothing.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed) if seed else None  # noqa: S311 - no secret
        self._kept: list[Any] = []
        if self._random is not None:
            gc.set_threshold(self._random.choice(_THRESHOLDS), 10, 10)

    def disturb(self) -> None:
        """Allocate objects of many sizes and free some of them, so that the next ones lie in other places."""
        if self._random is None:
            return
        made: list[Any] = []
        for _ in range(_OBJECTS):
            made.append(bytes(self._random.randrange(_BYTES)))
            if self._random.random() < 0.1:  # noqa: PLR2004 - a tenth
                made.append(_Hole())
            if self._random.random() < 0.02:  # noqa: PLR2004 - a fiftieth
                made.append(bytes(self._random.randrange(_BYTES, _LARGE)))
        self._kept += made[:_FIRST]  # they lie where the next objects would
        self._random.shuffle(made)
        self._kept += made[: len(made) // 3]


def _go_round(loop: asyncio.AbstractEventLoop, rounds: int) -> None:
    """Keep a loop going for some rounds, by callbacks that belong to no session."""
    if rounds:
        loop.call_soon(_go_round, loop, rounds - 1, context=Context())


def delay(seed: int) -> Callable[[object], None]:
    """Let threads and work in pools begin and end a little late from now on.

    Args:
        seed: Of the delays.

    Returns:
        A watcher of crossings, which delays calls. In an event loop it gives the loop some rounds more besides, in
        which nothing of the program happens, so that what is counted in rounds comes later.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret

    def pause() -> None:
        _sleep(rng.random() * _LATE)

    def late(work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def later(*args: Any, **kwargs: Any) -> Any:
            pause()
            try:
                return work(*args, **kwargs)
            finally:
                pause()

        return later

    submit, run = ThreadPoolExecutor.submit, threading.Thread.run

    def submit_late(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, late(fn), *args, **kwargs)

    def run_late(self: threading.Thread) -> None:
        pause()
        run(self)

    cast("Any", ThreadPoolExecutor).submit = submit_late
    cast("Any", threading.Thread).run = run_late

    def called(_: object) -> None:
        pause()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        _go_round(loop, rng.randrange(_ROUNDS))

    return called
