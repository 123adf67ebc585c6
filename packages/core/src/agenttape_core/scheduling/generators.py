"""Close async generators that the program left without closing them: their ends are arrivals (decision 14).

An event loop closes such a generator where its last reference goes, or when Python's garbage collector comes to it, at
a moment of the collector's. A generator that raises keeps all that it held in a cycle of its error, its frame and its
task; so it's the collector that decides when the streams next to one that fails are closed.

A recording notes when that
was, and a replay calls the collector where such an end is the next arrival.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import sys
from asyncio import Handle
from collections.abc import Iterable, Iterator
from contextvars import Context
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from agenttape_core.guard.caller import is_own
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling.participants import Key
from agenttape_core.scheduling.scopes import SCOPES

_order = itertools.count(1)


class Abandoned(NamedTuple):
    """A generator of a program.

    Args:
        number: The number by which a schedule knows it: what comes of its end is put into the loop, as by a thread.
        place: Its place among all in the order in which they began.
        line: The line that it belongs to.
        membership: That of the context in which it began.
        reader: The place of the generator that reads it; 0 if none does that is followed.
        generator: It; `None` while it is in use.
    """

    number: int
    place: int
    line: Any
    membership: Any
    reader: int = 0
    generator: Any = None

    def is_read_by(self, others: Iterable[Abandoned]) -> bool:
        """Return True if one of some generators reads it: it is closed after that, as if it had been held by it."""
        return self.reader > 0 and any(other.place == self.reader for other in others)

    def close(self, loop: Any) -> None:
        """Begin to close it, in a context of its own: the collector may have found it in any."""
        context = Context()
        context.run(SCOPES.variable.set, self.membership)
        context.run(loop.create_task, self._closed())

    async def _closed(self) -> None:
        try:
            await self.generator.aclose()
        finally:
            self.line.has_closed(self)


_begun: WeakKeyDictionary[Any, dict[int, Abandoned]] = WeakKeyDictionary()
"""Those of programs by their loops and identities. One that has ended stays until another one has its identity; so
lines and memberships are weak references here."""
_readers: WeakKeyDictionary[Any, dict[int, int]] = WeakKeyDictionary()
"""The places of those by their loops and the identities of their frames.

Python makes the object of a frame when code reads it. So each is read as its generator begins: it lives as
long as that, and no frame that's made later has its identity.
"""


def follow_running(real: Any) -> None:
    """Follow the generators of the loop that runs here: it took its functions for that when it began to run.

    Args:
        real: The function of loops that closes what the program no longer holds.
    """
    loop: Any = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if loop is not None and getattr(sys.get_asyncgen_hooks().finalizer, "__func__", None) is real:
        sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)  # noqa: SLF001


def begins(loop: Any, generator: Any, line: Any, is_read_by_ours: bool) -> None:
    """Note that a generator begins.

    Args:
        loop: Its loop.
        generator: It.
        line: The line of the program that it belongs to; `None` if it belongs to none, or to the code of a call.
        is_read_by_ours: Whether a generator of ours reads it. How many there are depends on whether it's replayed.
    """
    begun, readers, frame = _begun.setdefault(loop, {}), _readers.setdefault(loop, {}), id(generator.ag_frame)
    if line is None and not is_read_by_ours:
        readers.pop(frame, None)
        begun.pop(id(generator), None)
        return
    number = 0 if is_read_by_ours else line.begins_generator()
    reader, place = readers.get(id(sys._getframe(2)), 0), next(_order)  # noqa: SLF001 - the reader's frame
    readers[frame] = place
    its_line, membership = (ref(line), ref(SCOPES.of_program())) if line is not None else (_none, _none)
    begun[id(generator)] = Abandoned(number, place, its_line, membership, reader)


def _none() -> None:
    return None


def is_ours(frame: FrameType) -> bool:
    """Return True for a generator of an integration or of a call. That of a transport leaves it to the client."""
    is_generator = bool(frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR)
    return is_generator and is_own(frame) and "transports" not in frame.f_globals["__name__"]


def is_read_by_ours(loop: Any, generator: Any) -> bool:
    """Return True for a generator that one of ours reads, and mostly closes."""
    known = _begun.get(loop, {}).get(id(generator))
    return known is not None and not known.number


def found(loop: Any, generator: Any) -> Abandoned | None:
    """Return what is known of a generator; `None` if it is of no program that is followed. Thread-safe."""
    known = _begun.get(loop, {}).get(id(generator))
    line, membership = (known.line(), known.membership()) if known is not None else (None, None)
    if known is None or line is None or membership is None:
        return None
    return known._replace(line=line, membership=membership, generator=generator)


class Closing:
    """The callback of a loop that closes a generator.

    Args:
        one: The generator.
    """

    __slots__ = ("one",)

    def __init__(self, one: Abandoned) -> None:
        self.one = one

    def __call__(self) -> None:
        """Close it."""
        line = self.one.line
        if line.may_close(self.one):
            line.takes(self.one)
            self.one.close(line.loop)

    def handle(self) -> Handle:
        """Return it as a loop calls it."""
        return Handle(self, (), self.one.line.loop, Context())


class InOrder(WeakSet[Any]):
    """The generators of a loop, in the order in which they began.

    Args:
        loop: The loop.
        generators: They.
    """

    def __init__(self, loop: Any, generators: Any) -> None:
        super().__init__(generators)
        self._begun = _begun.get(loop, {})

    def __iter__(self) -> Iterator[Any]:
        """Iterate in order."""
        return iter(sorted(super().__iter__(), key=self._place_of))

    def _place_of(self, generator: Any) -> int:
        known = self._begun.get(id(generator))
        return known.place if known is not None else 0


MARK = "&"
"""The beginning of the number of a generator in the origin of its end."""


class Generators:
    """The generators of the program in one loop; `abandoned` knows them by this.

    Args:
        room: The loop, as the session sees it.
    """

    def __init__(self, room: Any) -> None:
        self._room = room
        self._begun = 0
        self._left: dict[int, Abandoned] = {}
        self._ending: list[Abandoned] = []
        self._sought: set[Key] = set()

    @property
    def loop(self) -> Any:
        """The loop."""
        return self._room.loop

    def begins_generator(self) -> int:
        """Note that one begins, and return its number."""
        self._begun += 1
        return self._begun

    def keeps(self, one: Abandoned) -> bool:
        """Keep one that the program no longer holds, until its end is admitted; false where nothing has an order."""
        turn = self._room.turn
        if turn.is_over or not turn.is_on:
            return False
        self._left[one.number] = one
        self._room.offer(f"{self._room.name}{MARK}{one.number}", Closing(one).handle())
        return True

    def may_close(self, one: Abandoned) -> bool:
        """Return whether one is closed now, and not after the one that reads it."""
        return one.number in self._left and not one.is_read_by((*self._left.values(), *self._ending))

    def takes(self, one: Abandoned) -> None:
        """Take one that is closed now."""
        self._ending.append(self._left.pop(one.number))

    def has_closed(self, closed: Abandoned) -> None:
        """Note that one has been closed: those that it read have lost their last reference by that."""
        self._ending = [one for one in self._ending if one.generator is not closed.generator]
        for one in [one for one in self._left.values() if one.reader == closed.place]:
            if not self.keeps(one._replace(reader=0)):
                one.close(self.loop)

    def take_all(self) -> list[Any]:
        """Take all that are kept: the loop closes them at its end."""
        left, self._left = self._left, {}
        return [one.generator for one in left.values()]

    def seek(self, key: Key) -> bool:
        """Let the collector find the generator whose end comes next, once the program has left it."""
        if not key.base.startswith(f"{self._room.name}{MARK}"):
            return False
        turn = self._room.turn
        if key not in self._sought and key not in turn.ready and turn.is_settled():
            self._sought.add(key)  # a collection takes a while, and what isn't there mostly comes by itself
            gc.collect()
        return True

    def seek_again(self, key: Key) -> bool:
        """Let the collector look once more, as nothing else comes; return whether it has found the generator."""
        if not key.base.startswith(f"{self._room.name}{MARK}"):
            return False
        gc.collect()
        return key in self._room.turn.ready
