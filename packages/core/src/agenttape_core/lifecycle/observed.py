"""The recording of a run that is only observed, such as a production run outside of any session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import TypeGuard

from agenttape_core.engine import Mode
from agenttape_core.errors import (
    CassetteLockedError,
    CassetteNotFoundError,
    CassetteWriteError,
    ConfigurationError,
    SessionStateError,
    shown_path,
)
from agenttape_core.lifecycle.everywhere import ReplacedEverywhere
from agenttape_core.lifecycle.header import finished_header, with_beginning, with_ends
from agenttape_core.lifecycle.open_session import prepare
from agenttape_core.lifecycle.presence import end
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.lifecycle.shape_only import Payload
from agenttape_core.lifecycle.sinks import EventsOption, sink_of
from agenttape_core.lifecycle.start_session import Opened, start
from agenttape_core.locks import Lock
from agenttape_core.redaction import Rule
from agenttape_core.schema import Header, Interaction, Plain, Scheduled, Step
from agenttape_core.session import FirstInput, Session, context_session
from agenttape_core.session.events import Events
from agenttape_core.settings import explicit
from agenttape_core.storage import Cassette, Location, open_cassette, real_location, recording_process

_SMALL = 64 * 1024
"""The size in bytes up to which a file is rewritten after each run; a larger one is when it would grow by a share.

Writing costs as much as the whole file is long, so rewriting it after each of many runs would cost their square.
"""
_SHARE = 2  # the journal of interactions that are not yet in the file may be as long as the file, divided by this
_LARGE = 1024 * 1024
"""The size in bytes from which only `flush` and `close` write the file.

Writing takes memory for the whole file, several times over: the memory of a server would grow with each of its turns.
"""

RECORDS_NO_MORE = "nothing more is recorded until there is room again"


class Observation:
    """The recording of an observer. It starts at the first interaction and is written many times.

    Each interaction is written to a journal right away, so a crash doesn't lose it. The cassette is written
    by `run_ended`, when there is enough to write, and by `flush` and `close`. Thread-safe.

    Args:
        name_or_path: The cassette; an earlier one is replaced at the first writing.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.
        payload: The part of calls that is recorded: `full`, or `none` for their shape alone.
        events: Receives an event for each call when it ends, as in `use_cassette`; in a session, which sends its own
            events, this sends none.

    Raises:
        CassetteLockedError: If it is being recorded at this moment.
        ConfigurationError: If the suffix of the path, a rule or a setting is not valid.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        redact: bool | Sequence[Rule] = True,
        tags: Sequence[str] = (),
        payload: Payload = "full",
        events: EventsOption | None = None,
    ) -> None:
        if payload not in ("full", "none"):
            raise ConfigurationError(f"payload={payload!r}: expected 'full' or 'none'")
        self._prepared = prepare(
            SessionRequest(
                cassette=name_or_path,
                options=explicit({"tags": tags or None}),
                redact=redact,
                mode=Mode.RECORD,
                is_current=False,
                reads=False,
                payload=payload,
            )
        )
        self.path = path = self._prepared.path
        if (process := recording_process(real_location(path))) is not None:
            raise _locked(path, f"process {process} is recording to this cassette")
        self._prepared.redactor.text(self.path.name)  # loads the detectors here, and not amid the observed program
        self._run_id = token_hex(16)
        self._first_input = FirstInput(is_kept=payload == "full")
        told = events if events is not None else self._prepared.settings.events
        self._events: Events | None = None
        if told is not None:
            shown = shown_path(self.path)
            self._events = Events(sink_of(told), self._run_id, shown, is_replay=False, when=self._tells_here)
        self._opened: Opened | None = None
        self._written: _Written | None = None
        self._ends: list[tuple[str, ...]] = []
        self._at_once: list[tuple[tuple[str, ...], str]] = []
        self._is_closed = self._has_begun = False
        self._is_told = True
        self._pause = Pause()
        self._lock = Lock()
        self._process = os.getpid()

    @property
    def session(self) -> Session:
        """The session in which interactions and steps are recorded now.

        Raises:
            CassetteLockedError: If the same cassette is being recorded elsewhere.
            CassetteWriteError: If there was no space: recording pauses until the earlier calls are written.
            SessionStateError: If the observation is closed.
        """
        self._mind_forks()
        with self._lock:
            if self._pause.reason is not None:
                raise self._pause.reason.with_traceback(None)  # or it would grow with each call
            if self._opened is None:
                if self._is_closed:
                    raise SessionStateError(f"the observation that writes {self.path} is closed")
                self._prepared = self._prepared._replace(header=self._begun(self._prepared.header))  # for the journal
                if self._events is not None and not self._has_begun:
                    self._events.tell("session.started", mode=Mode.RECORD.value)
                self._has_begun = True
                try:
                    self._opened = start(self._prepared, run_id=self._run_id, events=self._events)
                except CassetteWriteError as error:
                    self._pause.begin(error)
                    raise
            return self._opened.session

    def is_news(self, error: Exception) -> bool:
        """Return whether to report an error: if the disk is full, only the first one until there is room again.

        Args:
            error: Any error of this observation.
        """
        return self._pause.is_news(error)

    def has_resumed(self) -> bool:
        """Return whether all that was observed before a pause has been written since this was asked last."""
        return self._pause.has_ended()

    @property
    def first_input(self) -> FirstInput:
        """The input of the first run; it's in the header, so that the run can be started again."""
        return self._first_input

    def note_input(self, value: Plain) -> None:
        """Keep the input of the first run; later inputs are not kept.

        Args:
            value: The input, as `plain_value` makes it.
        """
        self._first_input.note(value)

    def note_ends(self, ends: Sequence[list[str]], at_once: Sequence[Scheduled]) -> None:
        """Keep the order in which calls of a run ended.

        Args:
            ends: Groups of addresses of calls that overlapped, each in the order of the ends.
            at_once: The calls that answered without yielding to their event loop.
        """
        with self._lock:
            # Tuples of texts: there may be many until the file is written, and the collector leaves these alone.
            self._ends += [tuple(group) for group in ends]
            self._at_once += [(tuple(group.calls), group.order) for group in at_once]

    def forget(self) -> None:
        """Forget the interactions of an outermost run that has ended: they are in the journal."""
        with self._lock:
            if self._opened is not None:
                _forget(self._opened.session)

    def run_ended(self) -> None:
        """Note that no observed run is open; the file is written if it is small, or not large and much is new.

        Raises:
            CassetteError: As of `flush`.
        """
        self._mind_forks()
        with self._lock:
            if self._pause.reason is not None:
                if self._pause.is_to_try():
                    self._write()
                return
            if self._opened is None or self._opened.journal is None:
                return
            if self._opened.journal.unkept:  # memory must not grow with each run
                self._write()
                return
            written = self._written.size if self._written is not None else 0
            if written <= _SMALL or (written <= _LARGE and self._opened.journal.size * _SHARE >= written):
                self._write()

    def flush(self) -> None:
        """Write all that was observed so far. Later interactions are added. To be called while no observed run is open.

        Raises:
            CassetteLockedError: If something else was recorded to the same cassette since it was written.
            CassetteWriteError: If the file can't be written; the message shows where the recording is kept.
        """
        self._mind_forks()
        with self._lock:
            self._write()

    def close(self) -> None:
        """Write all that was observed, and end the observation. Raises as `flush` does."""
        self._mind_forks()
        with self._lock:
            self._is_closed = True
            try:
                self._write()
            finally:
                self._abandon()
                self.tell_end()

    def tell_end(self) -> None:
        """Send the event for the end of the observation, and none after it."""
        if self._events is not None and self._has_begun and self._is_told:
            self._events.ended({"status": "ended"})
        self._is_told = False

    def _write(self) -> None:
        opened = self._opened
        if opened is None or opened.journal is None:
            self._pause.end()  # there was no room to begin: the next call tries again
            return
        journal = opened.journal
        end(opened.session)
        try:
            before = self._written.read() if self._written is not None else None
            keep: list[Interaction | Step] = list(before.records()) if before is not None else []
            header = before.header if before is not None else self._begun(self._prepared.header)
            volatile = header.volatile
            at_once = [Scheduled(calls=list(calls), order=order) for calls, order in self._at_once]
            header = with_ends(header, [list(group) for group in self._ends], at_once)
            finishing = ReplacedEverywhere(self._prepared.redactor, opened.session.setup.ignored)
            full = finished_header(finishing.header(header), volatile.timings, volatile.steps)
            journal.commit(full, finishing.records(keep), stays_open=True, finishing=finishing)
            self._ends, self._at_once = [], []
            size = journal.size + (self._written.size if self._written is not None else 0)
            self._written = _Written(self.path, size)
        except CassetteWriteError as error:
            if not error.is_of_disk:
                self._abandon()  # no room helps: it is too large, for example
            else:
                self._pause.begin(error)  # the journal is the one file that is left, until it can be written
            raise
        except BaseException:
            self._abandon()
            raise
        self._abandon()
        self._pause.end(is_written=True)

    def _abandon(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None and opened.journal is not None:
            opened.journal.abandon(keep=True)

    def _tells_here(self) -> bool:
        """Return whether to send events for observed calls: a session around the run sends its own."""
        around = context_session()
        is_mine = self._opened is not None and around is self._opened.session
        return self._is_told and (around is None or is_mine)

    def _begun(self, header: Header) -> Header:
        return with_beginning(header, self._run_id, self._first_input.begun, self._prepared.redactor, anew=False)

    def _mind_forks(self) -> None:
        """Start over in a forked process: the parent writes the calls it observed itself."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), Lock()
            self._run_id = token_hex(16)
            self._first_input = FirstInput(is_kept=self._prepared.header.payload == "full")
            self._opened = self._written = None
            self._ends, self._at_once = [], []
            self._pause = Pause()


class Pause:
    """The time in which an observer doesn't record because the disk is full. Each pause is reported once.

    It ends when the earlier records are written, so no more than those are ever left over. Writing is tried
    again after 1, 2, 4, … runs.
    """

    _MOST = 64  # the number of runs between two attempts at most: an attempt costs as much as the file is long

    def __init__(self) -> None:
        self.reason: CassetteWriteError | None = None  # the error that it began with; `None` while there is none
        self._told = self._has_ended = False
        self._runs, self._wait = 0, 1

    def begin(self, reason: CassetteWriteError) -> None:
        """Begin it, or note that an attempt to end it has failed."""
        self.reason, self._runs = reason, 0

    def end(self, *, is_written: bool = False) -> None:
        """End it for the next attempt, or for good."""
        self.reason = None
        if is_written:
            self._has_ended, self._told, self._wait = self._told, False, 1

    def is_to_try(self) -> bool:
        """Count a run, and return whether it is time to try to write."""
        self._runs += 1
        if self._runs < self._wait:
            return False
        self._wait = min(self._wait * 2, self._MOST)
        return True

    def is_news(self, error: BaseException) -> bool:
        """Return whether to report an error: not if it only repeats that there is no space."""
        if not is_of_disk(error):
            return True
        told, self._told = self._told, True
        return not told

    def has_ended(self) -> bool:
        """Return whether a reported pause has ended since the last check."""
        ended, self._has_ended = self._has_ended, False
        return ended


def is_of_disk(error: BaseException) -> TypeGuard[CassetteWriteError]:
    """Return whether writing failed for lack of room, or because the disk refuses it."""
    return isinstance(error, CassetteWriteError) and error.is_of_disk


class _Written:
    """The last written state of the file. `size` is approximate for a URL, whose size is not known."""

    def __init__(self, path: Location, size: int) -> None:
        self._path = path
        self._state = _state(path)
        self.size = self._state[1] if self._state is not None else size

    def read(self) -> Cassette | None:
        """Open it again, if it's there. Raises `CassetteLockedError` if another recording has replaced it."""
        try:
            cassette = open_cassette(self._path)
        except CassetteNotFoundError:
            return None
        if _state(self._path) != self._state:
            raise _locked(self._path, "another recording has replaced what was observed before")
        return cassette


def _state(path: Location) -> tuple[int, int, int] | None:
    """Return the identity, size in bytes and time of a file, which differ if it was replaced; `None` for a URL."""
    if not isinstance(path, Path):
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _locked(path: Location, problem: str) -> CassetteLockedError:
    return CassetteLockedError(path, problem, remedy="use one handler for each file, and another path for each process")


def _forget(session: Session) -> None:
    """Forget the calls of a session: the sink has them, and an observer never reads them again."""
    session.ledger.forget()
    session.report = session.new_report()
