"""Comparison of a replay with its recording: the order of answers, what threads did when, and the times that were read.

Replays that are all the same may still be another run than the recorded one. A recording says in which order concurrent
calls were answered, where that matters; in which order threads made theirs; and what branches of the run read
of a clock that others moved.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from agenttape_core.experiments.verify.state import written_otherwise
from agenttape_core.scheduling import is_in_run
from agenttape_core.session import AnsweredCall, Crossing, Session

_SAME_MOMENT_MS = 1.0
"""Milliseconds within which two moments of the recording are in no order: it holds them rounded."""
_CALLED, _ANSWERED = "asks", "is answered"

Departures = dict[str, list[str]]
"""The recorded and the present state of each thing that departs, by its name."""


class _Moment(NamedTuple):
    address: str
    """That of the recording."""
    what: str
    number: int


class _Order:
    """The events of one session, in their order."""

    def __init__(self) -> None:
        self.in_loops: list[str] = []
        """The addresses of calls in event loops, as they were answered."""
        self.in_threads: list[_Moment] = []


class WithRecording:
    """Notes the order of each session of a process, to compare it with the recorded one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: dict[Session, _Order] = {}

    def begin(self) -> None:
        """Forget the replays before."""
        with self._lock:
            self._orders = {}

    def called(self, crossing: Crossing) -> None:
        """Note that a call begins."""
        if crossing.is_served and crossing.recording and not _runs_loop():
            self._note(crossing, _CALLED)

    def answered(self, crossing: Crossing) -> None:
        """Note that a call has been answered."""
        if crossing.is_served and crossing.recording:
            self._note(crossing, _ANSWERED)

    def _note(self, crossing: AnsweredCall, what: str) -> None:
        number = crossing.recording
        address = crossing.session.source.interaction(number).address
        with self._lock:
            order = self._orders.setdefault(crossing.session, _Order())
            if _runs_loop():
                order.in_loops.append(address)
            elif is_in_run():
                order.in_threads.append(_Moment(address, what, number))

    def departures(self, session: Session) -> Departures:
        """Return where a session departs from its recording: in what, with what was recorded and what there is now."""
        order = self._orders.get(session, _Order())
        pairs = {
            "order of answers": _answers(session, order.in_loops),
            "order of threads": _threads(session, order.in_threads),
        }
        # A session that could not impose an order says so, and in which: that is no finding of ours.
        found = {what: pair for what, pair in pairs.items() if pair and not session.report.lost_order}
        if session.frozen is not None:
            readings = session.frozen.departed_readings()
            found |= {f"times read by {reader}": list(pair) for reader, pair in sorted(readings.items())}
        if session.report.missed:
            found["calls without a recording"] = ["", "; ".join(session.report.missed)]
        # What is written otherwise where one of these differs follows from it.
        return found if found or session.report.lost_order else written_otherwise(session)


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _answers(session: Session, answered: Sequence[str]) -> list[str]:
    """Return the first recorded order of answers that is another now, of calls that are alone at their address."""
    times = Counter(answered)
    recorded_order = session.scheduler.recorded
    orders = [recorded_order.admissions.answers()] if recorded_order.admissions is not None else recorded_order.answers
    for group in orders:
        addresses = list(dict.fromkeys(reversed(group)))[::-1]  # a stream is answered where it ends
        alone = {at for at, count in Counter(addresses).items() if count == times[at] == 1}
        recorded, now = ([at for at in order if at in alone] for order in (addresses, answered))
        if recorded != now:
            return [" → ".join(recorded), " → ".join(now)]
    return []


def _threads(session: Session, moments: Sequence[_Moment]) -> list[str]:
    """Return what threads did in another order than in the recording, if it holds an order."""
    if session.scheduler.recorded.admissions is None:
        return []
    known = [(moment, at) for moment in moments if (at := _recorded_at(session, moment)) is not None]
    latest: tuple[_Moment, float] | None = None
    for moment, at in known:
        if latest is not None and at < latest[1] - _SAME_MOMENT_MS:
            earlier, later = _shown(moment), _shown(latest[0])
            return [f"{earlier} → {later}", f"{later} → {earlier}"]
        if latest is None or at > latest[1]:
            latest = moment, at
    return []


def _recorded_at(session: Session, moment: _Moment) -> float | None:
    """Return the milliseconds after which it happened in the recording, if they are known."""
    timing = session.recordings.timing_of(moment.number)
    if timing is None or timing.start_ms is None or session.source.outcome(moment.number).given_up is not None:
        return None
    return timing.start_ms + (timing.duration_ms if moment.what == _ANSWERED else 0.0)


def _shown(moment: _Moment) -> str:
    return f"{moment.address} {moment.what}"
