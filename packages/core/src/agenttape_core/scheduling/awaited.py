"""The arrivals of an awaited call, at its place among all that its event loop waits for."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Protocol

from agenttape_core.scheduling.delivery_log import Logged
from agenttape_core.scheduling.handles import answering
from agenttape_core.scheduling.line import Line
from agenttape_core.scheduling.phases import Phase
from agenttape_core.schema import Sender


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


class _Leaving:
    """The end of the code of a stream; no async generator, which would be one of the program's.

    Args:
        turn: The turn of the stream.
    """

    def __init__(self, turn: LineTurn) -> None:
        self._turn = turn

    async def __aenter__(self) -> None:
        self._turn.begins_to_leave()

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            self._turn.has_left()


class LineTurn:
    """The turn of a call in a loop; see `Awaited` for its methods.

    Args:
        line: The line of the loop.
        call: The call.
        phase: What the recording knows of it; `None` if that is nothing.
        during: Returns a context that holds while the call waits.
        knows_effects: Whether the recording says when the effects came.
    """

    def __init__(
        self,
        line: Line,
        call: Logged,
        phase: Phase | None,
        during: Callable[[], AbstractContextManager[None]],
        *,
        knows_effects: bool,
    ) -> None:
        self.knows_effects = knows_effects
        self._line = line
        self._during = during
        self._call = call
        self._phase = phase
        self._since: int | None = None

    def _waits(self) -> None:
        """Note that the call is awaited now, or the next chunk of its stream."""
        self._since = self._line.waits(self._call)

    def _came(self) -> None:
        """Note that the answer has come, the chunk, or the end of the stream."""
        if self._since is not None:
            self._line.came(self._call, self._since)
            self._since = None

    def effected(self) -> None:
        """See `Awaited`."""
        if self._line.is_here():
            self._has_effected()
        else:
            self._line.post(self._has_effected)

    def _has_effected(self) -> None:
        if self._since is not None:
            self._line.came(self._call, self._since, is_effect=True)
            self._waits()

    def told(self) -> None:
        """See `Awaited`."""
        if self._line.is_here():
            self._came()

    async def atold(self) -> None:
        """See `Awaited`."""
        self.told()

    async def next(self) -> None:
        """See `Awaited`."""
        self._waits()
        if self._phase is None or not next(self._phase.at_once, False):
            await self._comes("call")
        self._came()
        self._line.schedule.answered(self._call.address, self._phase)

    async def cancelled(self) -> None:
        """See `Awaited`."""
        if self._line.knows_end_of(self._call):
            self._waits()
            await self._comes("cancelled")

    def arriving(self, unless: Callable[[], bool] | None = None) -> LineTurn:  # noqa: ARG002 - counted all the same
        """See `Awaited`."""
        return self

    async def __aenter__(self) -> None:
        self._waits()

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None or (isinstance(error, Exception) and not isinstance(error, CancelledError)):
            self._came()  # what is cancelled has not come

    def leaving(self) -> AbstractAsyncContextManager[None]:
        """See `Awaited`."""
        return _Leaving(self)

    def begins_to_leave(self) -> None:
        """Note that the reader has left the stream."""
        self._call.is_left = True
        self._waits()

    def has_left(self) -> None:
        """Note that its code has ended."""
        if self._since is not None and self._line.is_at_once(self._since):
            self._since = None

    async def _comes(self, sender: Sender) -> None:
        with answering(), self._during():
            await self._line.comes(self._call, sender)

    def end(self) -> None:
        """Let the call be awaited no more."""
        if self._since is not None:
            self._line.cancelled(self._call)
        self._line.delivers_no_more(self._call)
        self._line.end()
