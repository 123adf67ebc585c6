"""Raw comparison of runs: a program is recorded and replayed, and everything that could be seen of it is compared."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.matching import Difference, differing_key_orders, differing_leaves, is_identical, spelled
from agenttape_core.schema import Plain
from agenttape_core.session import Session
from agenttape_core.testing.raw import raw

_TAG = re.compile(r"(^|\.)\$[^.\[]+")  # the class of a value: no step of the path that a reader would take

Verdict: TypeAlias = Literal["order", "differs"]
"""`order`: the same items in another order, on some level. `differs`: anything else that is not equal."""

Facts: TypeAlias = Mapping[str, Plain]
"""All that could be seen of a run, by part, as raw plain data."""

Program: TypeAlias = "Callable[[Capture], Any]"
"""A program: it runs, and gives its capture what can be seen. A coroutine function is run in a new event loop.

What it returns, or the error that it raises, is the part `result`.
"""


class Capture:
    """Takes down the visible state of one run, part by part, at that moment. Thread-safe."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Plain]] = {}
        self._failure: Exception | None = None
        self._lock = Lock()

    def add(self, part: str, value: Any) -> None:
        """Take down one more item of a part, such as an event.

        Args:
            part: The name of the part.
            value: The item; it is taken down raw, in its present state.
        """
        with self._lock:  # around the conversion too: the order is that in which the program came here
            try:
                self._parts.setdefault(part, []).append(raw(value))
            except Exception as failure:
                self._failure = failure
                raise

    def facts(self) -> Facts:
        """Return all that was taken down, by part.

        Raises:
            Exception: What kept an item from being taken down; frameworks swallow the errors of handlers.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return {part: list(items) for part, items in self._parts.items()}


@dataclass(frozen=True, slots=True)
class PartDifference:
    """One part of a run that is not equal in a replay.

    Args:
        part: The name of the part.
        verdict: `order` or `differs`.
        at: The first place that differs, with both values, shortened.
    """

    part: str
    verdict: Verdict
    at: Difference

    def __str__(self) -> str:
        return (
            f"{self.part} {self.verdict}: {self.at.path}\n  recorded  {self.at.recorded}\n  replayed  {self.at.asked}"
        )


def record_run(program: Program, path: Path, **options: Any) -> Facts:
    """Run a program in a session that records, and return what could be seen of it.

    An error of the program, or of the session, is the part `result`.

    Args:
        program: The program; it must leave the world in its initial state for the next run.
        path: The cassette, which is written again.
        options: Further options of `use_cassette`.

    """
    return _run(program, path, {"mode": "record", **options})


def replay_run(program: Program, path: Path, *, told: list[str] | None = None, **options: Any) -> Facts:
    """Run a program in a session that replays, and return what could be seen of it.

    Switch off its outside world first: a replay that reaches it must fail. A miss and any other failure of the session
    are the part `result`.

    Args:
        program: The program.
        path: The cassette that `record_run` has written.
        told: Gets the replay's lines about an order that could not be imposed: `report.nondeterminism`, and
            `unobserved`.
        options: Further options of `use_cassette`.
    """
    return _run(program, path, {"mode": "replay", **options}, told)


def compare_runs(recorded: Facts, replayed: Facts) -> list[PartDifference]:
    """Return the parts in which a replay is not equal to its recording, to the last bit; none if it is.

    Args:
        recorded: What could be seen of the recorded run.
        replayed: What could be seen of the replay.
    """
    parts = [*recorded, *(part for part in replayed if part not in recorded)]
    pairs = ((part, recorded.get(part, []), replayed.get(part, [])) for part in parts)
    return [_difference(*pair) for pair in pairs if not is_identical(*pair[1:])]


def _run(program: Program, path: Path, options: dict[str, Any], told: list[str] | None = None) -> Facts:
    capture, sessions = Capture(), list[Session]()
    try:
        if inspect.iscoroutinefunction(program):
            asyncio.run(_arun(program, capture, path, options, sessions))
        else:
            with use_cassette(path, **options) as session:
                sessions.append(session)
                try:
                    capture.add("result", program(capture))
                except Exception as error:  # noqa: BLE001 - an error of the program is what it gave
                    capture.add("result", error)
    except (Exception, AgentTapeHalt) as failure:  # noqa: BLE001 - that a session fails is a fact of the run too
        capture.add("result", failure)
    if told is not None:
        reports = [session.report for session in sessions]
        told.extend(line for report in reports for line in (*report.nondeterminism, *report.unobserved))
    return capture.facts()


async def _arun(
    program: Program, capture: Capture, path: Path, options: dict[str, Any], sessions: list[Session]
) -> None:
    async with use_cassette(path, **options) as session:
        sessions.append(session)
        try:
            capture.add("result", await program(capture))
        except Exception as error:  # noqa: BLE001 - an error of the program is what it gave
            capture.add("result", error)


def _difference(part: str, recorded: Plain, replayed: Plain) -> PartDifference:
    verdict: Verdict = "order" if is_identical(_unordered(recorded), _unordered(replayed)) else "differs"
    path, old, new = next(_places(recorded, replayed))
    return PartDifference(part, verdict, spelled(_TAG.sub("", path), old, new))


def _places(recorded: Plain, replayed: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    yield from differing_leaves(recorded, replayed)
    for path, old, new in differing_key_orders(recorded, replayed):
        yield f"keys of {path}", list(old), list(new)


def _unordered(plain: Plain) -> Plain:
    """Return plain data without the order of its lists and keys."""
    if isinstance(plain, list):
        return sorted(map(_unordered, plain), key=json.dumps)
    if isinstance(plain, dict):
        return {key: _unordered(plain[key]) for key in sorted(plain)}
    return plain
