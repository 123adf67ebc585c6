"""The calls that reach the boundaries of a child process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from agenttape_core.experiments.verify.recording import Departures, WithRecording
from agenttape_core.lifecycle.running_test import FailedBlock
from agenttape_core.matching import canonical_json
from agenttape_core.schema import Plain
from agenttape_core.session import Crossing, Session

_MAX_REQUEST = 1000
"""Characters of a request that are reported: an agent sends its whole history each time. The fingerprint covers all."""
CAUGHT_FAILURE = "failure that the program caught"
"""The name of the departure of a session that has failed."""
_LISTS = ("order", "unused", "missed", "blocked", "nondeterminism", "unobserved", "entropy")
_NO_CALLS: dict[str, Plain] = {"calls": {}, **{name: [] for name in _LISTS}}


class Calls:
    """Each call of a process: its request, the recording that served it, and the calls before it in its branch."""

    def __init__(self) -> None:
        self.with_recording = WithRecording()
        """Compares them with the recording."""
        self._lock = threading.Lock()
        self._calls: dict[Session, dict[str, list[str]]] = {}
        self._branches: dict[Session, dict[Any, list[str]]] = {}
        self._failures: list[FailedBlock] = []

    def begin(self) -> None:
        """Forget the calls of the replays before."""
        self.with_recording.begin()
        with self._lock:
            self._calls, self._branches, self._failures = {}, {}, []

    def opened(self, session: Session) -> None:
        """Watch a session from its beginning. It may end without a call."""
        session.ledger.watch_steps()
        with self._lock:
            self._calls.setdefault(session, {})

    def note(self, crossing: Crossing) -> None:
        """Note a call when it begins, where it is made."""
        self.with_recording.called(crossing)
        request, address, branch = crossing.request, crossing.position.address, _branch()
        request_text = _shortened(canonical_json(request.body))
        served = "not served"
        if crossing.is_served and crossing.found is not None:
            served = f"served by interaction {crossing.found.number} ({crossing.found.match_rule})"
        with self._lock:
            calls = self._calls.setdefault(crossing.session, {})
            calls[address] = [f"{request.kind} {request.name} {request_text}, {served}", request.fingerprint]
            if branch is not None:
                self._branches.setdefault(crossing.session, {}).setdefault(branch, []).append(address)

    def failed(self, block: FailedBlock) -> None:
        """Note a block that has failed. The program may catch that, and none of its calls may have begun."""
        with self._lock:
            self._failures.append(block)
            if block.session is not None:
                self._calls.setdefault(block.session, {})

    def report(self) -> Plain:
        """Return the calls as plain data, free of the order of concurrent branches and sessions."""
        failures: dict[Session, str] = {
            block.session: block.said for block in self._failures if block.session is not None
        }
        unopened = [
            {**_NO_CALLS, "cassette": block.cassette, "departures": _failure(block.said)}
            for block in self._failures
            if block.session is None
        ]
        sessions = [
            {
                "cassette": str(session.path),
                "calls": dict(sorted(calls.items())),
                "order": sorted(self._branches.get(session, {}).values()),
                "unused": sorted(map(str, session.report.unused)),
                "missed": sorted(session.report.missed),
                "blocked": sorted(session.report.blocked),
                "nondeterminism": list(session.report.nondeterminism),
                "unobserved": list(session.report.unobserved),
                "entropy": list(session.report.entropy),
                "departures": self.with_recording.departures(session) or _failure(failures.get(session, "")),
            }
            for session, calls in self._calls.items()
        ]
        return sorted([*sessions, *unopened], key=repr)

    def rules(self) -> Plain:
        """Return the user's redaction rules of all sessions, so that the report can follow them."""
        rules = {rule.name: rule for session in self._calls for rule in session.redactor.rules}
        return [
            {"name": rule.name, "pattern": rule.pattern, "keys": rule.keys, "literal": rule.literal}
            for rule in rules.values()
        ]


def _failure(said: str) -> Departures:
    """Return the departure that the failure of a session is, if it failed: the program has caught it."""
    return {CAUGHT_FAILURE: ["", said.partition("\n")[0]]} if said else {}


def _shortened(text: str) -> str:
    half = _MAX_REQUEST // 2
    return text if len(text) <= _MAX_REQUEST else f"{text[:half]} … {text[-half:]}"


def _branch() -> Any:
    """Return what runs one call after the other here: a task, or the main thread.

    Other threads are none: which one of a pool makes a call, and when, is nobody's promise.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None and threading.current_thread() is threading.main_thread():
        return "main"
    return task
