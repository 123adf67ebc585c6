"""The arrivals of an awaited call, at its place among all that its event loop waits for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol


class Awaited(Protocol):
    """The arrivals of one awaited call: its chunks, its effects, its answer, each at its place in its event loop."""

    @property
    def knows_effects(self) -> bool:
        """True if the recording says when the effects of the call came; otherwise they come with its answer."""

    async def next(self) -> None:
        """Wait for the moment at which the answer came in the recording, the chunk, an effect, or the end."""

    async def cancelled(self) -> None:
        """Wait for the moment at which the call, which has been cancelled or left, ended in the recording."""

    def arriving(self, unless: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[None]:
        """Await the real code of a call inside: what it brings has come at the end, unless it's cancelled.

        Args:
            unless: Returns true at the end if the call turned out to be part of the program; by default it's none.
        """

    def leaving(self) -> AbstractAsyncContextManager[None]:
        """Let the code of a stream end inside, which its reader has left: that may take a while."""

    def effected(self) -> None:
        """Note that the call has just had an effect. Thread-safe."""

    def told(self) -> None:
        """Note that the code of the call tells the program of what has come, before it returns that. Thread-safe."""

    async def atold(self) -> None:
        """Do as `told`, and wait for the moment at which what has come may reach the program."""


class _RightAway:
    """The arrivals of a call that runs by itself: nothing of it comes from outside."""

    knows_effects = False

    async def next(self) -> None: ...

    async def cancelled(self) -> None: ...

    def arriving(self, unless: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        return _NOTHING

    def leaving(self) -> AbstractAsyncContextManager[None]:
        return _NOTHING

    def effected(self) -> None: ...

    def told(self) -> None: ...

    async def atold(self) -> None: ...


_NOTHING = nullcontext()
RIGHT_AWAY: Awaited = _RightAway()
