"""Streams and coroutines that are made in a session and begin after its end.

Python gives a generator or a coroutine the context of whoever reads it, so no context tells where it was made. Those
that the program hasn't begun to read are therefore searched when a session ends, among the objects that the collector
of garbage follows (https://docs.python.org/3/library/gc.html#gc.get_objects); their frames tell later that they run.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Container, Mapping
from functools import partial
from itertools import chain, compress, repeat
from opcode import opmap
from pathlib import Path
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from agenttape_core.errors import AfterRecordingWarning, shown_path
from agenttape_core.locks import Lock

_FRAMES: dict[type, str] = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}
_BEFORE = {opmap["RETURN_GENERATOR"], opmap["POP_TOP"]}
"""The instructions at which a stream is that hasn't begun, whatever the version of Python."""
_WIDTH, _FIRST = 2, 3
"""The bytes of an instruction, and how many of them come first at most, besides one for each cell of the function."""


class Unread:
    """The streams that had not begun when the sessions ended that they were made in, whose memberships they hold.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._streams: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._streams)

    def note(self, membership: Any, since: tuple[int, ...], *, thoroughly: bool) -> None:
        """Note the streams and coroutines that aren't read yet, as a session ends, and those that are lazy.

        Args:
            membership: The session's.
            since: How often the collector of garbage had run when the session began: see `collections`.
            thoroughly: Whether to look at all objects of the process where what the session has made may be old.
        """
        asyncio = sys.modules.get("asyncio")
        kinds = {*_FRAMES, asyncio.Task} if asyncio is not None else {*_FRAMES}
        streams = _left(_made_since(since, kinds, thoroughly=thoroughly), membership.session)
        if streams:
            with self._lock:
                for stream in streams:
                    self._streams.setdefault(stream, membership)

    def holds(self, membership: Any) -> bool:
        """Return whether there still is a stream of a session that had not begun when it ended."""
        with self._lock:
            return any(each is membership for each in self._streams.values())

    def membership(self) -> Any:
        """Return the membership of the replay in which a stream was made that the caller runs in; `None` for none.

        Of a stream that was made in a recording, warn once.
        """
        if not self._streams:
            return None
        with self._lock:
            for stream in [stream for stream in self._streams if _frame(stream) is None]:
                del self._streams[stream]  # it was read to its end
            of_frames = {id(_frame(stream)): (stream, each) for stream, each in self._streams.items()}
        at: FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
        while at is not None and id(at) not in of_frames:
            at = at.f_back
        if at is None:
            return None
        stream, membership = of_frames[id(at)]
        if membership.session.is_replay:
            return membership
        with self._lock:
            for each in [each for each, of in self._streams.items() if of is membership]:
                del self._streams[each]  # one warning for each recording will do
        warnings.warn(AfterRecordingWarning(_told(stream, membership.session.path)), stacklevel=2)
        return None


UNREAD = Unread()
"""Those of this process."""


def collections() -> tuple[int, ...]:
    """Return how often the collector of garbage has run, by generation; what outlives that is older."""
    # A list first: a tuple that grows while another thread lists all objects is one that Python refuses to finish.
    counts = [int(generation["collections"]) for generation in gc.get_stats()]
    return tuple(counts)


def _made_since(since: tuple[int, ...], kinds: Container[type], *, thoroughly: bool) -> list[Any]:
    """Return what was made lately; to look at all objects of a process with a large framework takes far longer.

    The counts are looked at after the objects: to list those may let the collector run.
    """
    young = _objects(kinds, 0)
    if collections() != since:
        young += _objects(kinds, 1)
    if thoroughly and collections()[1:] != since[1:]:
        return _objects(kinds, None)  # only then is anything that was made since among the oldest
    return young


def _objects(kinds: Container[type], generation: int | None) -> list[Any]:
    """Return the objects of some classes that the collector of garbage follows.

    This is one call of functions in C, so no other thread runs while there is a list of all objects: a tuple that a
    thread is about to finish must be in none, or Python refuses it (`tuple(number for number in numbers)` in the midst
    of it). No iterator here may keep the list, which holds them, too: that would be garbage with all objects in it.

    Args:
        kinds: The classes.
        generation: The generation to look at; `None` for all.
    """
    twice = chain.from_iterable(map(repeat, map(gc.get_objects, (generation,)), (2,)))
    chosen = map(partial(map, kinds.__contains__), map(partial(map, type), twice))
    return list(chain.from_iterable(map(compress, twice, chosen)))


Began: TypeAlias = Callable[[Any, Mapping[str, Any]], bool]
"""Tells from the local variables of a lazy stream whether it was begun in a session."""
_lazy: dict[CodeType, Began] = {}


def register_lazy_stream(function: Callable[..., Any], began: Began) -> None:
    """Name a generator function of a framework that does its work while it is read, such as the stream of a graph.

    One that was begun in a session is still of it where its reader continues after the end.

    Args:
        function: The generator function, plain or asynchronous.
        began: Tells whether one was begun in a session, given that and the local variables of the generator.
    """
    code: CodeType = cast("Any", function).__code__
    _lazy[code] = began


def _left(found: list[Any], session: Any) -> list[Any]:
    """Return those of some streams and tasks that may continue when a session has ended; not the streams of tasks.

    A task has a context of its own, which tells where it belongs; so has what its coroutine was given to await.
    """
    left: dict[int, Any] = {}
    waiting: list[Any] = []
    for each in found:  # hundreds in a process with a large framework, so nothing is called for most of them
        name = _FRAMES.get(type(each))
        if name is None:
            if not each.done():  # Python 3.12.1 crashes if you ask an eager task that's done for its coroutine
                waiting.append(each.get_coro())
            continue
        frame = getattr(each, name)
        if frame is None:
            continue
        code = frame.f_code
        may_go_on = code in _lazy or frame.f_lasti <= _WIDTH * (len(code.co_cellvars) + _FIRST)
        if may_go_on and _goes_on(frame, session):
            left[id(each)] = each
    while left and waiting:
        of_task = left.pop(id(waiting.pop()), None)
        frame = _frame(of_task) if of_task is not None else None
        if frame is not None:  # in another thread it may have ended since
            waiting += frame.f_locals.values()  # it was given others to await
    return list(left.values())


def _goes_on(frame: FrameType, session: Any) -> bool:
    code = frame.f_code
    may_be_first = frame.f_lasti <= _WIDTH * (len(code.co_cellvars) + _FIRST)  # `co_code` is made again for each look
    if may_be_first and code.co_code[frame.f_lasti] in _BEFORE:
        return True
    began = _lazy.get(code)
    return began is not None and began(session, frame.f_locals)


def _frame(stream: Any) -> Any:
    return getattr(stream, _FRAMES[type(stream)])


def _told(stream: Any, path: Path | str) -> str:
    return (
        f"{stream.__qualname__} was made in the recording of {shown_path(path)}, and is read after its end: what it "
        "calls is really called, and not recorded\n  read it to its end, or await it, before the block ends"
    )
