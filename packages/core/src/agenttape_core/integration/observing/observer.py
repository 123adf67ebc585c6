"""The base of every observer: the open runs, when the cassette is written, and the observer's own errors."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import local
from time import perf_counter
from typing import Any, Generic, TypeVar

from agenttape_core.integration.observing.order import Came, Ended, OrderOfEnds, came_now, moment_here
from agenttape_core.integration.observing.runs import ObservedCall, ObservedStream, OpenRun, Unrecorded
from agenttape_core.lifecycle.observed import RECORDS_NO_MORE, Observation, is_of_disk
from agenttape_core.lifecycle.shape_only import Payload
from agenttape_core.lifecycle.sinks import EventsOption
from agenttape_core.locks import RLock
from agenttape_core.matching import Position
from agenttape_core.redaction import Rule
from agenttape_core.session import FirstInput, Session, StepEvent, plain_value, record_step

RunT = TypeVar("RunT", bound=OpenRun)

_log = logging.getLogger("agenttape")
_MOST_OPEN = 10_000
"""The number of runs that are open at most: more have been left by their program, and would be kept for good."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """The calls that a framework does not report to its observers.

    Args:
        by: The means by which it reports: `callbacks`, `events`.
        kinds: The kinds of calls that are not reported.
        note: The message of a replay that meets such a call, with the remedy.
    """

    by: str
    kinds: Sequence[str]
    note: str


class ObservedFile:
    """The cassette of an observer, and the observer's own errors, which it keeps out of the observed run. Thread-safe.

    `name` is the user's name for the observer; `unseen` calls, which are not reported, are noted in the cassette before
    anything else.
    """

    def __init__(self, name: str, unseen: Unseen, observation: Observation) -> None:
        self.gate = RLock()
        """Held while a call begins or the file is written: no call begins between the last end and the writing."""
        self.observation = observation
        self.errors: list[Exception] = []
        self._shown = name
        self._unseen: Unseen | None = unseen
        self._must_flush = False

    def session(self) -> Session:
        """Return the session that interactions and steps are to be recorded in now."""
        session = self.observation.session
        with self.gate:
            unseen, self._unseen = self._unseen, None
        if unseen is not None:
            gap = StepEvent("gap", unseen.by, "", (), perf_counter(), missing=unseen.note, data=list(unseen.kinds))
            record_step(session, gap)
        return session

    def flush(self, *, is_open: bool) -> None:
        """Write all that was observed: now, or when the open runs have ended."""
        self._must_flush = is_open
        if not is_open:
            self.observation.flush()

    def close(self) -> None:
        """Write all that was observed, and record no more."""
        unseen, self._unseen = self._unseen, None
        self.observation.close()
        if unseen is not None and not self.errors:
            path = self.observation.path
            _log.warning("%s(%s) observed no call, so it wrote no file: %s", self._shown, path, unseen.note)

    def all_ended(self) -> None:
        """Write the cassette when no run is open, if enough is there or a `flush` waits. Raises as `flush` does."""
        write = self.observation.flush if self._must_flush else self.observation.run_ended
        self._must_flush = False
        write()
        if self.observation.has_resumed():
            _log.warning("%s(%s) records again: what was left is written", self._shown, self.observation.path)

    @contextmanager
    def noting(self, *, again: bool = False) -> Iterator[None]:
        """Keep our errors out of the observed run, and note them, unless they come `again`."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
            if not again:
                self.could_not_record(error)

    def noted(self, note: Callable[..., None], *arguments: Any, again: bool = False) -> None:
        """Call a function of ours as within `noting`: most of a handler's work passes here."""
        try:
            note(*arguments)
        except Exception as error:  # noqa: BLE001 - as in `noting`
            if not again:
                self.could_not_record(error)

    def could_not_record(self, error: Exception) -> str:
        """Note what could not be recorded, and return the reason in a line; the log has the rest.

        A full disk is noted once: recording pauses until there is room.
        """
        if self.observation.is_news(error):
            self.errors.append(error)
            until = f"\n  {RECORDS_NO_MORE}" if is_of_disk(error) else ""
            _log.error("%s(%s) could not record a call: %s%s", self._shown, self.observation.path, error, until)
        return f"it could not be recorded: {str(error).partition(chr(10))[0]}"


class Observer(Generic[RunT]):
    """Records the calls that a framework reports, without ever disturbing it. Thread-safe.

    A subclass puts each run into `open_runs` when it begins, and takes it out by `finished` when it ends.

    Args:
        name: The user's name for the observer.
        path: The cassette.
        unseen: The calls that are not reported; noted in the cassette before anything else.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.
        payload: The part of calls that is recorded: `full`, or `none` for their shape alone.
        events: Receives an event for each call when it ends; by default as set in the settings.

    Raises:
        CassetteLockedError: If another handler or session is recording to the cassette at this moment.
        ConfigurationError: If the path names no file, or a rule or setting is not valid.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        unseen: Unseen,
        *,
        redact: bool | Sequence[Rule],
        tags: Sequence[str],
        payload: Payload = "full",
        events: EventsOption | None = None,
    ) -> None:
        self._observation = Observation(path, redact=redact, tags=tags, payload=payload, events=events)
        self._file = file = ObservedFile(name, unseen, self._observation)
        self._gate, self.errors, self.session = file.gate, file.errors, file.session
        self.noting, self.noted, self.could_not_record = file.noting, file.noted, file.could_not_record
        self._receiving = local()
        self._order = OrderOfEnds()
        self._later: deque[Callable[[], None]] = deque()
        self.root = Position()
        self.open_runs: dict[Hashable, RunT] = {}
        weakref.finalize(self, _finish, self._observation, name)

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observation.path

    # -- runs --------------------------------------------------------------------------------------------------

    def receive(self, report: Callable[..., None], *arguments: Any) -> None:
        """Handle a report of the framework, which would swallow our errors; here they are noted.

        A finaliser may report the end of a stream from wherever its memory is freed, also from amid our own code: that
        report waits until the one in progress is done.

        Args:
            report: Handles it.
            *arguments: What it is called with.
        """
        receiving = self._receiving
        if getattr(receiving, "now", False):
            self._later.append(partial(report, *arguments))
            return
        receiving.now = True
        try:
            if self.has_unreported:
                self.noted(self.before_writing)
            self.noted(report, *arguments)
            if len(self.open_runs) > _MOST_OPEN:
                self.noted(self._abandon_oldest)
            while self._later:
                self.noted(self._later.popleft())
        finally:
            receiving.now = False

    def begin_call(self, run: RunT, begin: Callable[[], ObservedCall | None]) -> None:
        """Begin the call that a run is; where that fails, the run keeps the reason."""
        run.began_in = moment_here()
        try:
            run.call = begin()
        except Exception as error:  # noqa: BLE001 - as in `noting`
            run.lost = self.could_not_record(error)

    def answered(
        self,
        run: RunT,
        answer: Callable[[Any], Unrecorded | None],
        *,
        output: Any = None,
        error: BaseException | None = None,
    ) -> None:
        """Record a call that has ended; if no interaction can be made of it, a step that notes the missing parts.

        Args:
            run: Its run.
            answer: Records the outcome of the call that it is given.
            output: The value that came back.
            error: The error that it failed with.
        """
        lacking = self._lacking(run, answer)
        if lacking is None:
            self._note_end(run)
        else:
            status = "failed" if error is not None else "ended"
            self.record(run, status=status, error=error, missing=lacking.note, output=plain_value(output))

    def _lacking(self, run: RunT, answer: Callable[[Any], Unrecorded | None]) -> Unrecorded | None:
        if run.call is None:
            return Unrecorded(run.lost)
        try:
            return answer(run.call)
        except Exception as error:  # noqa: BLE001 - as in `noting`
            return Unrecorded(self.could_not_record(error))

    def _note_end(self, run: RunT) -> None:
        if run.call is None:
            return
        around, address = run.call_around, run.call.session_call.position.address
        outer = around.position.address if around is not None and around.position.address != address else ""
        chunks = tuple(run.call.came) if isinstance(run.call, ObservedStream) else ()
        ended = Ended(Came(run.began, run.began_in), came_now(), address, outer, chunks)
        self._order.ended(ended)

    def finished(self, run: RunT) -> None:
        """Take out a run that has ended. The cassette is written when it was the last one."""
        with self._gate:
            self.forget(run)
            if run.above is None:
                self._observation.forget()  # also while other runs are open: in a server, one may always be
                if not self.open_runs or self._order.is_full:
                    self._observation.note_ends(*self._order.take())
            if not self.open_runs:
                self.noted(self._file.all_ended)

    def abandon(self, runs: Iterable[RunT], note: str) -> None:
        """Record runs as open whose end was not reported, and forget them.

        Args:
            runs: The runs.
            note: The reason, for calls among them.
        """
        for run in list(runs):
            self.forget(run)
            with self.noting(again=run.lost != ""):
                self.record(run, status="open", missing=note if run.call is not None else run.lost)

    def _abandon_oldest(self) -> None:
        with self._gate:
            oldest = next(iter(self.open_runs.values())).outermost
            runs = [run for run in self.open_runs.values() if run.outermost is oldest]
            self.abandon(runs, f"it was not reported to have ended, and more than {_MOST_OPEN} runs were open")

    def forget(self, run: RunT) -> None:
        """Take out a run. A subclass may know more of it to forget."""
        self.open_runs.pop(run.key, None)

    @property
    def has_unreported(self) -> bool:
        """True if something has ended that was not reported."""
        return False

    def before_writing(self) -> None:
        """Record the calls that have ended and weren't reported yet."""

    def cut_off(self) -> None:
        """Record the open runs as they stand, and forget them: the observation is being closed."""
        self.abandon(self.open_runs.values(), "it was not reported to have ended when the observation was closed")

    def flush(self) -> None:
        """Write all that was observed to the cassette: now, or when the open runs have ended.

        Raises:
            CassetteError: If it can't be written; the message shows where the recording is kept.
        """
        with self._gate:
            self.before_writing()
            self._file.flush(is_open=bool(self.open_runs))

    def close(self) -> None:
        """Write all that was observed to the cassette, and observe no more. Open runs are cut off here.

        If it observed no call, it writes no file; a replay would only find it missing, so the log has the reason.

        Raises:
            CassetteError: If it can't be written; the message shows where the recording is kept.
        """
        with self._gate:
            self.before_writing()
            self.cut_off()
            self._file.close()

    @property
    def first_input(self) -> FirstInput:
        """The input of the first outermost run; the run can be started again from it."""
        return self._observation.first_input

    def record(self, run: RunT, **facts: Any) -> None:
        """Record a run as a step.

        Args:
            run: The run.
            **facts: What else its `StepEvent` has.
        """
        record_step(self.session(), run.as_step(**facts))

    def happened(self, run: RunT | None, kind: str, name: str, data: Any, error: BaseException | None = None) -> None:
        """Record something that happens within a run, or beside all runs, and is none itself."""
        position = run.position if run is not None else self.root
        event = StepEvent(
            kind, name, position.address, position.moment(), perf_counter(), data=plain_value(data), error=error
        )
        record_step(self.session(), event)


def _finish(observation: Observation, name: str) -> None:
    """Write the rest when an observer is forgotten, or at the end of the program."""
    try:
        observation.close()
    except Exception as error:  # noqa: BLE001 - only the log is left to report it to
        if observation.is_news(error):
            _log.error("%s(%s) could not write its cassette: %s", name, observation.path, error)
