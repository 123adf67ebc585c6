"""The sinks of events: a file, standard error, a function, or a package's sink for a scheme of URLs.

A sink never breaks a run and never delays it: it counts the events that it can't take. A file drops none, unless
the disk is full.
"""

from __future__ import annotations

import _thread
import json
import logging
import os
import sys
import threading
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from time import perf_counter
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.guard import exempt_thread
from agenttape_core.session import Event
from agenttape_core.session.events import EventSink
from agenttape_core.settings import STDERR

_log = logging.getLogger("agenttape")

GROUP = "agenttape.sinks"
"""The entry points of further sinks, each by the scheme of its URLs: a function from a URL to an `EventSink`."""

_ENCODER = json.JSONEncoder(default=str)  # `json.dumps` would make one for each event

EventsOption = str | Path | Callable[[Event], object]
"""The place of events: a file, `stderr`, a URL such as `nats://127.0.0.1:4222`, or a function that takes them."""

_WAITING = 10_000  # the most events that wait for a slow sink
_PATIENCE = 2.0  # seconds that a slow sink has to pass on the rest when a session ends
_DELAY = 0.5  # seconds that a run waits for a function in all
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""For a pipe without a reader: it's refused, or drops events, and the run doesn't wait."""


def sink_of(option: EventsOption) -> EventSink:
    """Return the sink that an option, a setting or a variable names.

    It's a file that ends with `.jsonl` or `.ndjson`, to which lines are added; `stderr`; a URL; or a function. Raises
    `ConfigurationError` if it is none of these, or cannot be reached.
    """
    if callable(option):
        return Calling(option)
    named = str(option)
    if named == STDERR:
        return ToStderr()
    if "://" in named:
        return _of_scheme(named)
    if not named.endswith((".jsonl", ".ndjson")):
        raise ConfigurationError(
            f"events={named!r}: expected a file that ends with .jsonl or .ndjson, 'stderr', a URL such as\n"
            "  nats://127.0.0.1:4222, or a function that takes events"
        )
    return ToFile(Path(named))


def _of_scheme(url: str) -> EventSink:
    scheme = url.partition("://")[0]
    known = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in known:
        raise ConfigurationError(f"events={url!r}: no sink for {scheme}://; known are {', '.join(sorted(known))}")
    sink: EventSink = known[scheme].load()(url)
    return sink


def line_of(event: Event) -> str:
    """Return an event as a line of JSON, in ASCII: whatever a name holds cannot do anything to a terminal."""
    return _ENCODER.encode(event) + "\n"


class Calling:
    """Calls a function with each event, in a separate thread, which the run waits for as long as it's fast.

    Once the run has waited for half a second, another thread calls it, and the run continues: a call that never returns
    costs its own event, and no other. An exception of the function counts as a dropped event.
    """

    def __init__(self, function: Callable[[Event], Any]) -> None:
        self._function = function
        self._process = os.getpid()
        self._failed = 0
        self._left = _DELAY
        self._awaited = Queued(lambda: (function, _nothing), "events")
        self._queued: Queued | None = None

    @property
    def dropped(self) -> int:
        """The events that were not taken."""
        return self._failed + self._awaited.dropped + (self._queued.dropped if self._queued is not None else 0)

    def put(self, event: Event) -> None:
        """Let the function be called."""
        if os.getpid() != self._process:
            self._call(event)
        elif self._queued is not None:
            self._queued.put(event)
        else:
            began = perf_counter()
            awaited = self._awaited.put(event)
            awaited.acquire(timeout=max(self._left, 0.0))
            self._left -= perf_counter() - began
            if self._left <= 0:
                self._queued = Queued(lambda: (self._after(awaited), _nothing), "events")

    def close(self) -> None:
        """Wait until all events were passed on, two seconds at most, and report the rest."""
        if os.getpid() != self._process:
            return
        left = self._queued.end(_PATIENCE) if self._queued is not None else 0
        _tell(left + self._awaited.end(_PATIENCE if self._queued is None else 0.0), "a function that takes events")

    def _call(self, event: Event) -> None:
        """Call the function here: in a forked process, which has none of the threads."""
        try:
            self._function(event)
        except Exception:  # noqa: BLE001 - a dashboard that is down must not fail a test
            self._failed += 1

    def _after(self, awaited: LockType) -> Callable[[Event], object]:
        """Return the function, which first gives the call that took too long two seconds more to end."""
        has_waited = False

        def calling(event: Event) -> None:
            nonlocal has_waited
            if not has_waited:
                awaited.acquire(timeout=_PATIENCE)
                has_waited = True
            self._function(event)

        return calling


class ToStderr:
    """Writes a line to standard error for each event, where it happens: the lines of the program stand between them."""

    def __init__(self) -> None:
        self.dropped = 0

    def put(self, event: Event) -> None:
        """Write a line."""
        try:
            sys.stderr.write(line_of(event))
        except Exception:  # noqa: BLE001 - whatever stands there must not fail a test
            self.dropped += 1

    def close(self) -> None:
        """Leave it open."""


def _tell(left: int, where: str) -> None:
    if left:
        _log.warning("%s: %d events of a run had not been taken when it ended", where, left)


def _nothing() -> None:
    """End a function's events: there's no file to close."""


class ToFile:
    """Adds each event's line to a file right away: processes may share it. `ConfigurationError` if it's unwritable."""

    def __init__(self, path: Path) -> None:
        self.dropped = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _AT_ONCE, 0o600)
        except OSError as error:
            raise ConfigurationError(f"events={str(path)!r} cannot be written: {error.strerror or error}") from None

    def put(self, event: Event) -> None:
        """Add a line."""
        try:
            os.write(self._file, line_of(event).encode())
        except OSError:
            self.dropped += 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Queued:
    """Passes events on in a separate thread that no guard watches, for sinks that are slow or away.

    The oldest of too many events that wait are dropped. `begin` is called in the thread first, and returns the function
    that passes an event on and the one that ends it; `name` is the destination, in errors. Raises `ConfigurationError`
    if `begin` raises it, or takes longer than two seconds.
    """

    def __init__(self, begin: Callable[[], tuple[Callable[[Event], object], Callable[[], object]]], name: str) -> None:
        self.dropped = 0
        self._begin = begin
        self._name = name
        self._waiting: deque[tuple[Event, LockType]] = deque(maxlen=_WAITING)
        self._is_passing = False
        self._more = threading.Event()
        self._ready = threading.Event()
        self._is_closing = False
        self._problem: ConfigurationError | None = None
        self._ended = threading.Event()
        _thread.start_new_thread(self._work, ())  # not a thread of the program, which a session would order
        if not self._ready.wait(_PATIENCE):
            self._problem = ConfigurationError(f"{name}: not reached within {_PATIENCE:g} seconds")
        if self._problem is not None:
            raise self._problem

    def put(self, event: Event) -> LockType:
        """Let an event wait for the thread. Returns a lock, which is held until the event was passed on."""
        held = allocate_lock()
        held.acquire()
        self.dropped += len(self._waiting) == _WAITING
        self._waiting.append((event, held))
        self._more.set()
        return held

    def close(self) -> None:
        """Wait until all events were passed on, two seconds at most, and report the rest."""
        _tell(self.end(_PATIENCE), self._name)

    def end(self, patience: float) -> int:
        """Wait until all was passed on, and leave the thread behind.

        `patience` is the longest wait in seconds. Returns the number of events that were not passed on.
        """
        self._is_closing = True
        self._more.set()
        return 0 if self._ended.wait(patience) else len(self._waiting) + self._is_passing

    def _work(self) -> None:
        exempt_thread()
        try:
            pass_on, end = self._begin()
        except ConfigurationError as problem:
            self._problem = problem
            return
        finally:
            self._ready.set()
        while self._waiting or not self._is_closing:
            self._more.wait()
            self._more.clear()
            while self._waiting:
                self._is_passing = True  # before it is taken out, so that one of the two always says that it is there
                event, held = self._waiting.popleft()
                try:
                    pass_on(event)
                except Exception:  # noqa: BLE001 - as above
                    self.dropped += 1
                self._is_passing = False
                held.release()
        end()
        self._ended.set()
