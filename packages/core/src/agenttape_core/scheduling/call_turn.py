"""The turn of an awaited call: its place among all that its event loop waits for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from agenttape_core.scheduling.delivery_log import Logged
from agenttape_core.scheduling.handles import answering
from agenttape_core.scheduling.line import Line
from agenttape_core.scheduling.phases import Phase
from agenttape_core.schema import Sender


class Turn(Protocol):
    """The place of one awaited call among all that its event loop waits for."""

    def waits(self) -> None:
        """Note that the call is awaited now, or the next chunk of its stream."""

    def came(self) -> None:
        """Note that the answer has come, the chunk, or the end of the stream."""

    def effected(self) -> None:
        """Note that the call has just had an effect. Thread-safe."""

    def told(self) -> None:
        """Note that the code of the call tells the program of what has come, before it returns that. Thread-safe."""

    @property
    def knows_effects(self) -> bool:
        """True if the recording says when the effects of the call came; otherwise they come with its answer."""

    async def comes(self) -> None:
        """Wait for the moment at which the answer came in the recording, the chunk, an effect, or the end."""

    async def was_cancelled(self) -> None:
        """Wait for the moment at which the call, which has been cancelled or left, ended in the recording."""

    def leaves(self) -> None:
        """Note that the reader of a stream leaves it: its code ends now, which may take a while."""

    def has_left(self) -> None:
        """Note that the code of a stream has ended that its reader has left."""


class _NoTurn:
    """The turn of a call that runs by itself: nothing of it comes from outside."""

    def waits(self) -> None: ...

    def came(self) -> None: ...

    def effected(self) -> None: ...

    def told(self) -> None: ...

    @property
    def knows_effects(self) -> bool:
        return False

    async def comes(self) -> None: ...

    async def was_cancelled(self) -> None: ...

    def leaves(self) -> None: ...

    def has_left(self) -> None: ...


NO_TURN: Turn = _NoTurn()


class LineTurn:
    """The turn of a call in a loop; see `Turn` for its methods.

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

    def waits(self) -> None:
        """See `Turn`."""
        self._since = self._line.waits(self._call)

    def came(self) -> None:
        """See `Turn`."""
        if self._since is not None:
            self._line.came(self._call, self._since)
            self._since = None

    def effected(self) -> None:
        """See `Turn`."""
        if self._line.is_here():
            self._has_effected()
        else:
            self._line.post(self._has_effected)

    def _has_effected(self) -> None:
        if self._since is not None:
            self._line.came(self._call, self._since, is_effect=True)
            self.waits()

    def told(self) -> None:
        """See `Turn`."""
        if self._line.is_here():
            self.came()

    async def comes(self) -> None:
        """See `Turn`."""
        self.waits()
        if self._phase is None or not next(self._phase.at_once, False):
            await self._comes("call")
        self.came()
        self._line.schedule.answered(self._call.address, self._phase)

    async def was_cancelled(self) -> None:
        """See `Turn`."""
        if self._line.knows_end_of(self._call):
            self.waits()
            await self._comes("cancelled")

    def leaves(self) -> None:
        """See `Turn`."""
        self._call.is_left = True
        self.waits()

    def has_left(self) -> None:
        """See `Turn`."""
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
