"""The calls that reach the boundaries of a child process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from agenttape_core.matching import canonical_json
from agenttape_core.schema import Plain
from agenttape_core.session import BaseSession, Crossing, ServedCrossing
from agenttape_core.tools.verify.recording import WithRecording

_MAX_REQUEST = 1000
"""Characters of a request that are reported: an agent sends its whole history each time. The fingerprint covers all."""


class Calls:
    """Each call of a process: its request, the recording that served it, and the calls before it in its branch."""

    def __init__(self) -> None:
        self.with_recording = WithRecording()
        """Compares them with the recording."""
        self._lock = threading.Lock()
        self._calls: dict[BaseSession, dict[str, list[str]]] = {}
        self._branches: dict[BaseSession, dict[Any, list[str]]] = {}

    def begin(self) -> None:
        """Forget the calls of the replays before."""
        self.with_recording.begin()
        with self._lock:
            self._calls, self._branches = {}, {}

    def note(self, crossing: Crossing) -> None:
        """Note a call when it begins, where it is made."""
        self.with_recording.called(crossing)
        request, address, branch = crossing.request, crossing.position.address, _branch()
        request_text = _shortened(canonical_json(request.body))
        served = "not served"
        if isinstance(crossing, ServedCrossing):
            served = f"served by interaction {crossing.found.number} ({crossing.found.rung})"
        with self._lock:
            calls = self._calls.setdefault(crossing.session, {})
            calls[address] = [f"{request.kind} {request.name} {request_text}, {served}", request.fingerprint]
            if branch is not None:
                self._branches.setdefault(crossing.session, {}).setdefault(branch, []).append(address)

    def report(self) -> Plain:
        """Return the calls as plain data, free of the order of concurrent branches and sessions."""
        sessions = [
            {
                "cassette": str(session.path),
                "calls": dict(sorted(calls.items())),
                "order": sorted(self._branches.get(session, {}).values()),
                "unused": sorted(map(str, session.report.unused)),
                "missed": sorted(session.report.missed),
                "blocked": sorted(session.report.blocked),
                "disorder": list(session.report.disorder),
                "departures": self.with_recording.departures(session),
            }
            for session, calls in self._calls.items()
        ]
        return sorted(sessions, key=repr)

    def rules(self) -> Plain:
        """Return the user's redaction rules of all sessions, so that the report can follow them."""
        rules = {rule.name: rule for session in self._calls for rule in session.redactor.rules}
        return [
            {"name": rule.name, "pattern": rule.pattern, "keys": rule.keys, "literal": rule.literal}
            for rule in rules.values()
        ]


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
