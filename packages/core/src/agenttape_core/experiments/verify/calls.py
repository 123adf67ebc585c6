"""The calls that reach the boundaries of a child process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from agenttape_core.experiments.verify.comparison import ADDRESS, TAG
from agenttape_core.lifecycle.running_test import FailedBlock
from agenttape_core.matching import ABSENT, canonical_json, differing_leaves, is_identical
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import is_in_run
from agenttape_core.schema import GAP, Plain, Step
from agenttape_core.session import AnsweredCall, Session, SessionCall
from agenttape_core.session.shared_texts import REFERENCE

# -- Comparison of what the graphs, nodes and steps of a replay have written with what its recording says of that.


_MOST = 5  # places that are reported of one session: those after them mostly differ because of them
_COMMAND = "$command"  # the tag of an input that answers questions, by ids that differ in each recording
_SCRIPT = "__main__"

Pairs = dict[str, list[str]]  # the recorded and the present state of each place, by its name


def written_otherwise(session: Session) -> Pairs:
    """Return the steps of the recording that a replay has not taken, or that have written something else in it.

    A handler that observes sees other steps than a session; a replay that leaves recordings unused is that of another
    program. Neither is compared.
    """
    if session.report.unused or session.source.has_step(GAP):
        return {}
    replayed = tuple(f"{address}/" for address in _replayed_whole(session))
    recorded = _by_place(
        step
        for step in session.source.steps()
        if step.status != "open" and step.fidelity == "exact" and not step.address.startswith(replayed)
    )
    now = _by_place(step for _, step in session.ledger.watched())
    return dict(islice(_differences(recorded, now), _MOST))


def _replayed_whole(session: Session) -> Iterator[str]:
    """Yield the addresses of recorded calls that were replayed, and whose code is rightly not run.

    The code of a tool is run if it has no effects outside of its recorded calls, and makes some.
    """
    addresses = [row.address for row in session.source.entries]
    for replayed in session.report.replayed:
        recorded = session.source.interaction(replayed.number)
        calls = any(address.startswith(f"{recorded.address}/") for address in addresses)
        may_run = session.policy.may_step_into(recorded.kind, recorded.name, recorded.address)
        if not (recorded.kind == "tool" and recorded.acts == [] and calls and may_run):
            yield recorded.address


def _by_place(steps: Iterable[Step]) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(f"{step.kind} {step.name} at {step.address}", []).append(step)
    return found


def _differences(recorded: dict[str, list[Step]], now: dict[str, list[Step]]) -> Iterator[tuple[str, list[str]]]:
    for place, steps in recorded.items():
        left = [_facts(step) for step in now.get(place, ())]
        for facts in map(_facts, steps):
            same = next((which for which, other in enumerate(left) if not _leaves(facts, other)), None)
            other = left.pop(same or 0) if left else None
            if other is None:
                yield f"step {place}", [_written(facts), ""]
            elif same is None:
                for at, old, new in _leaves(facts, other):
                    yield f"{TAG.sub('', at)} of {place}", [_written(old), _written(new)]


def _facts(step: Step) -> Plain:
    """Return what must be the same of a step. Errors hold ids of their recording; types tell them apart."""
    facts = {"status": step.status, "output": step.output, "data": step.data}
    if not (isinstance(step.input, dict) and _COMMAND in step.input):
        facts["input"] = step.input
    return {**facts, "error": step.error.type if step.error is not None else None}


def _leaves(recorded: Plain, now: Plain) -> list[tuple[str, Plain, Plain]]:
    """Return the differing leaves of a step."""
    if is_identical(recorded, now):
        return []
    return [leaf for leaf in differing_leaves(recorded, now) if not _is_same(*leaf[1:])]


def _is_same(recorded: Plain, now: Plain) -> bool:
    """Return whether a leaf has the same meaning: without memory addresses, or of a module that was run as a script."""
    if not isinstance(now, str):
        return False
    if isinstance(recorded, dict):
        reference = recorded.get(REFERENCE)
        return isinstance(reference, dict) and reference.get("chars") == len(now)
    if not isinstance(recorded, str):
        return False
    if recorded.startswith(_SCRIPT):
        return now.endswith(recorded.removeprefix(_SCRIPT))
    return ADDRESS.sub("", recorded) == ADDRESS.sub("", now)


def _written(value: Plain) -> str:
    if value is ABSENT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- The calls of a process, and the order of answers, what threads did when, and the times read, beside the recording.


_SAME_MOMENT_MS = 1.0  # milliseconds within which two moments of the recording are in no order: it holds them rounded
_CALLED, _ANSWERED = "asks", "is answered"
_MAX_REQUEST = 1000
"""Characters of a request that are reported: an agent sends its whole history each time. The fingerprint covers all."""
CAUGHT_FAILURE = "failure that the program caught"  # the name of the divergence of a session that has failed


class _Moment(NamedTuple):
    address: str  # that of the recording
    what: str
    number: int


class _Made:
    """The calls of one session."""

    def __init__(self) -> None:
        self.calls: dict[str, list[str]] = {}
        """The request of each and what answered it, and the fingerprint, by the address."""
        self.branches: dict[Any, list[str]] = {}  # the addresses of the calls in each branch, in their order
        self.in_loops: list[str] = []  # the addresses of calls in event loops, in the order of their answers
        self.in_threads: list[_Moment] = []


class Calls:
    """Each call of a process: its request, the recording that answered it, and the calls before it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Forget the calls of the replays before."""
        self._made: dict[Session, _Made] = {}
        self._failures: list[FailedBlock] = []

    def opened(self, session: Session) -> None:
        """Watch a session from its beginning. It may end without a call."""
        session.ledger.watch_steps()
        self._of(session)

    def _of(self, session: Session) -> _Made:
        with self._lock:
            return self._made.setdefault(session, _Made())

    def note(self, session_call: SessionCall) -> None:
        """Note a call when it begins, where it is made."""
        if session_call.is_replayed and session_call.recording and not _runs_loop():
            self._moment(session_call, _CALLED)
        request, address, branch = session_call.request, session_call.position.address, _branch()
        text, half, replayed = canonical_json(request.body), _MAX_REQUEST // 2, "not replayed"
        text = text if len(text) <= _MAX_REQUEST else f"{text[:half]} … {text[-half:]}"
        if session_call.is_replayed and session_call.found is not None:
            replayed = f"replayed from call {session_call.found.number} ({session_call.found.match_rule})"
        made = self._of(session_call.session)
        with self._lock:
            made.calls[address] = [f"{request.kind} {request.name} {text}, {replayed}", request.fingerprint]
            if branch is not None:
                made.branches.setdefault(branch, []).append(address)

    def answered(self, session_call: SessionCall) -> None:
        """Note that a call has been answered."""
        if session_call.is_replayed and session_call.recording:
            self._moment(session_call, _ANSWERED)

    def _moment(self, session_call: AnsweredCall, what: str) -> None:
        number, made = session_call.recording, self._of(session_call.session)
        address = session_call.session.source.interaction(number).address
        with self._lock:
            if _runs_loop():
                made.in_loops.append(address)
            elif is_in_run():
                made.in_threads.append(_Moment(address, what, number))

    def failed(self, block: FailedBlock) -> None:
        """Note a block that has failed. The program may catch that, and none of its calls may have begun."""
        if block.session is not None:
            self._of(block.session)
        self._failures.append(block)

    def report(self) -> dict[str, Any]:
        """Return the part of an `Output` that is about sessions, free of the order of these and of branches."""
        failures = {block.session: block.said for block in self._failures}
        sessions = [self._plain(session, made, failures.get(session, "")) for session, made in self._made.items()]
        sessions += [
            {**_NO_CALLS, "cassette": block.cassette, "divergences": _failure(block.said)}
            for block in self._failures
            if block.session is None
        ]
        sessions.sort(key=repr)
        names = [f"{Path(one['cassette']).name} ({n}) " for n, one in enumerate(sessions, start=1)]
        each = list(zip(names if len(names) > 1 else [""] * len(names), sessions, strict=True))
        rules = {rule.name: rule for session in self._made for rule in session.redactor.rules}
        return {
            "calls": {f"{name}{at}": call for name, one in each for at, call in one["calls"].items()},
            "order": [[f"{name}{at}" for at in branch] for name, one in each for branch in one["order"]],
            "sessions": {
                f"{word} of {name or one['cassette']}": "\n".join(one[word])
                for name, one in each
                for word in ("unused", "missed", "blocked")
            },
            "divergences": {
                f"{what} of {name.strip()}" if name else what: pair
                for name, one in each
                for what, pair in one["divergences"].items()
            },
            **{key: [f"{name}{line}" for name, one in each for line in one[key]] for key in _REMARKS},
            "rules": [
                {"name": rule.name, "pattern": rule.pattern, "keys": rule.keys, "literal": rule.literal}
                for rule in rules.values()  # of the user, so that the report can follow them
            ],
        }

    def _plain(self, session: Session, made: _Made, failure: str) -> dict[str, Any]:
        report = session.report
        return {
            "cassette": str(session.path),
            "calls": dict(sorted(made.calls.items())),
            "order": sorted(made.branches.values()),
            "unused": sorted(map(str, report.unused)),
            "missed": sorted(report.missed),
            "blocked": sorted(report.blocked),
            **{key: list(getattr(report, key)) for key in _REMARKS},
            "divergences": _diverging(session, made) or _failure(failure),
        }


_REMARKS = ("nondeterminism", "unobserved", "entropy")
_NO_CALLS: dict[str, Any] = {"calls": {}, **dict.fromkeys(("order", "unused", "missed", "blocked", *_REMARKS), ())}


def _diverging(session: Session, made: _Made) -> Pairs:
    """Return where a session diverges from its recording, each with the recorded and the present state."""
    pairs = {
        "order of answers": _answers(session, made.in_loops),
        "order of threads": _threads(session, made.in_threads),
    }
    # A session that could not impose an order says so, and in which: that is no finding of ours.
    found = {what: pair for what, pair in pairs.items() if pair and not session.report.lost_order}
    if session.frozen is not None:
        readings = session.frozen.diverged_readings()
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
            earlier, later = (f"{each.address} {each.what}" for each in (moment, latest[0]))
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


def _failure(said: str) -> Pairs:
    """Return the divergence that the failure of a session is, if it failed: the program has caught it."""
    return {CAUGHT_FAILURE: ["", said.partition("\n")[0]]} if said else {}


def _branch() -> Any:
    """Return what runs one call after the other here: a task, or the main thread.

    Other threads are none: a pool doesn't promise which thread makes a call, or when.
    """
    if _runs_loop() and (task := asyncio.current_task()) is not None:
        return task
    return "main" if threading.current_thread() is threading.main_thread() else None
