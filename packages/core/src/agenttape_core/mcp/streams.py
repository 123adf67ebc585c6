"""The messages that a server sends while it works on no request, recorded or replayed with its connection."""

from __future__ import annotations

from asyncio import CancelledError, Task
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from itertools import chain
from typing import Any

from agenttape_core.integration import ExecutedCall, Plain, Session, SessionCall, Slot, awaited, note_side_effect
from agenttape_core.mcp.wire import Server, label_of
from agenttape_core.scheduling import answering
from agenttape_core.session.answered_call import AnsweredCall
from agenttape_core.session.call import answered
from agenttape_core.session.intercept import RealStream, cancelled_again

Begin = Callable[[Coroutine[Any, Any, None]], Task[None]]
_AFTER = " after "
_LEAVING = "the client has left"  # the place of what comes last
_FAILS: Plain = {"fails": True}  # where the transport fails, among the messages
_PLACES: Slot[dict[int, str]] = Slot(
    lambda session: {row.number: _place(row.address, row.fingerprint) for row in session.source.entries}
)
"""The places of the recorded calls, by their numbers: recordings that were added later may have the same address."""


def _place(address: str, fingerprint: str) -> str:
    return f"{address} {fingerprint[:8]}"


class Stream:
    """The messages of a connection between requests; here, of one that was recorded before connections were.

    A message belongs to the call that was answered before it. A replay passes it on once that is answered, whatever
    other calls the program makes.
    """

    is_recorded = False  # true if the server gets all that the client sends
    failing: Task[None] | None = None  # replays the error of the transport

    def __init__(self, session: Session, server: Server) -> None:
        self._session = session
        self._server = server
        self._after = ""
        self._came = Counter[str]()

    async def open(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Connect, or replay that. Raises the error of the transport."""

    def follows(self, call: SessionCall) -> None:
        """Note that a call has been answered: later messages follow it."""
        self._after = _place(call.position.address, call.request.fingerprint)

    def leaves(self) -> None:
        """Note that the client has left: later messages follow that."""
        self._after = _LEAVING

    async def comes(self, _plain: Plain, deliver: Callable[[], object]) -> None:
        """Deliver and record something when it may reach the client."""
        deliver()
        if self._session.policy.records:
            self._session.report.add_nondeterminism(
                f"{label_of(self._server)} sent something between requests that was not recorded, as an earlier version"
                " recorded its calls: record them again"
            )

    async def fails(self, _error: Exception, fail: Callable[[], object] = bool) -> None:
        """Record the error of the transport, and fail, when it may reach the client."""
        fail()

    def close(self) -> None:
        """End the recording."""

    def _placed(self, plain: Plain) -> dict[str, Plain]:
        """Return something by its place: as a chunk, it's no piece of a text that the next continues."""
        self._came[self._after] += 1
        return {f"{self._came[self._after]}{_AFTER}{self._after}": plain}


class RecordedStream(Stream):
    """The messages of a connection that is made."""

    is_recorded = True

    def __init__(self, session: Session, server: Server, call: ExecutedCall) -> None:
        super().__init__(session, server)
        self._call = call
        self._stream = RealStream(call)
        self._kept_at = 0  # the number of chunks to keep for a recovery next
        self.follows(call)

    async def open(self, connect: Callable[[], Awaitable[None]]) -> None:
        """See `Stream`."""
        try:
            async with awaited(self._call):
                with self._stream.reading():
                    note_side_effect(f"connected to {label_of(self._server)}")
                    await connect()
        except CancelledError as error:  # maybe after it was open
            self._stream.raised(error)
            raise
        self._arrived({})
        self._call.side_effects.has_ended = True  # from now on, requests have those of the transport

    async def comes(self, plain: Plain, deliver: Callable[[], object]) -> None:
        """See `Stream`."""

        def come() -> None:
            self._arrived(self._placed(plain))
            deliver()

        await self._stream.comes(come)

    async def fails(self, error: Exception, fail: Callable[[], object] = bool) -> None:
        """See `Stream`."""

        def come() -> None:
            self._stream.arrived(self._placed(_FAILS))
            self._stream.raised(error)
            fail()

        await self._stream.comes(come)

    def close(self) -> None:
        """See `Stream`."""
        self._stream.exhaust()

    def _arrived(self, chunk: Plain) -> None:
        self._stream.arrived(chunk)
        if (count := len(self._call.offsets)) > self._kept_at:  # each of many would take too much room
            self._stream.keep_so_far()
            self._kept_at = count + count // 8


class ReplayedStream(Stream):
    """The messages of a connection that is replayed, and of the real one if a request must be sent.

    `pass_on` gives the client something recorded; `fail` ends its block with an error.
    """

    def __init__(
        self,
        session: Session,
        server: Server,
        call: AnsweredCall,
        *,
        pass_on: Callable[[dict[str, Any]], object],
        fail: Callable[[Exception], object],
        begin: Begin,
    ) -> None:
        super().__init__(session, server)
        self._call = call
        self._pass_on, self._fail, self._begin = pass_on, fail, begin
        self._paced = call.paced()
        outcome = call.outcome()
        recorded: list[Any] = list(outcome.chunks or [])
        if outcome.ended == "raised" and not any(map(_is_failure, recorded)):  # as earlier versions recorded it
            recorded.append({"": _FAILS})
        self._come = recorded[:1]  # the chunks that have come, in the order of this run
        self._pending = dict(enumerate(recorded[1:], 1))  # the others, by their numbers
        self._left: dict[str, list[int]] = {}  # the numbers of those whose place has not come, by their places
        places = {*session.extension(_PLACES).values()}
        for number, chunk in self._pending.items():
            place = next(iter(chunk)).partition(_AFTER)[2]
            self._came[place] += 1
            if place != _LEAVING and place not in places:  # its request has been redacted since, for example
                place = place.rpartition(" ")[0]
            self._left.setdefault(place, []).append(number)
        self._chunks = call.replay_chunks()

    async def open(self, _connect: Callable[[], Awaitable[None]]) -> None:
        """See `Stream`."""
        with self._call.awaiting() as self._place:
            if self._call.was_cancelled:
                await cancelled_again(self._call, self._place)
            else:
                await self._moment(0)
            next(self._chunks)  # raises if it could not connect, or was cancelled and now isn't
        answered(self._call)
        self._repeat("")
        self.follows(self._call)

    def follows(self, call: SessionCall) -> None:
        """See `Stream`."""
        super().follows(call)
        if call.is_replayed and call.recording:
            self._after = self._session.extension(_PLACES)[call.recording]
            self._repeat(self._after)
            self._repeat(self._after.rpartition(" ")[0])

    def leaves(self) -> None:
        """See `Stream`."""
        super().leaves()
        self._repeat(_LEAVING)

    async def comes(self, plain: Plain, deliver: Callable[[], object]) -> None:
        """See `Stream`."""
        session = self._session
        if not self._come:  # the connection has no recording
            await super().comes(plain, deliver)
            return

        def come() -> None:
            self._come.append(session.redactor.value(session.codec.encode(self._placed(plain))))
            self._changes()
            deliver()

        await self._place.effect_comes(come)

    def close(self) -> None:
        """See `Stream`."""
        if self._left and self._session.policy.updates:  # so are the calls before them
            for number in chain(*self._left.values()):
                del self._pending[number]
            self._changes()

    def _changes(self) -> None:
        """Note that the recording of the connection is another one now."""
        number = self._call.recording
        item = self._session.source.interaction(number)
        chunks = [*self._come, *self._pending.values()]
        update: dict[str, Any] = {"chunks": chunks}
        if item.outcome.ended == "raised" and not any(map(_is_failure, chunks)):
            update |= {"ended": "exhausted", "error": None}
        outcome = item.outcome.model_copy(update=update)
        self._session.ledger.again[number] = item.model_copy(update={"outcome": outcome})

    def _repeat(self, place: str) -> None:
        """Pass on what follows a place."""
        numbers = self._left.pop(place, ())
        if numbers:
            task = self._begin(self._pass_all_on(numbers))
            if _is_failure(self._pending[numbers[-1]]):
                self.failing = task

    async def _pass_all_on(self, numbers: list[int]) -> None:
        try:
            for number in numbers:
                await self._moment(number)
                chunk = self._pending[number]
                if _is_failure(chunk):
                    deque(self._chunks, 0)  # its end raises the error
                self._come.append(self._pending.pop(number))
                self._pass_on(self._call.decoded(chunk))
        except Exception as error:  # noqa: BLE001 - of a transport, it may be any
            self._fail(error)

    async def _moment(self, number: int) -> None:
        if self._paced is not None:
            with answering():
                await self._paced.await_(number)
        await self._place.next()


def _is_failure(chunk: Any) -> bool:
    return isinstance(chunk, dict) and _FAILS in chunk.values()
