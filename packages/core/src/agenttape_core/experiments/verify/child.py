"""One replay of a function in a child process of `verify`, as plain data: a value without a codec is its repr."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import Context
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteMissError,
    ConfigurationError,
    ReplayedError,
    UnusedInteractionsError,
    counted,
)
from agenttape_core.experiments.engine import SEED, drive
from agenttape_core.experiments.program import Run
from agenttape_core.experiments.verify.calls import Calls
from agenttape_core.lifecycle.failed_blocks import watch_failed_blocks
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.use_cassette import CassetteBlock, use_cassette
from agenttape_core.lifecycle.variation import Variation, varying
from agenttape_core.matching import Difference, differences
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain
from agenttape_core.session import value_codec
from agenttape_core.session.call import watch_answers, watch_calls
from agenttape_core.tools.target import Target, awaited, load, run_to_end

_THRESHOLDS = (10, 100, 5_000, 50_000)
_OBJECTS = 20_000
_FIRST = 2_000
_BYTES = 500  # the most that one small object takes: those that are larger come from elsewhere
_LARGE = 4_000  # the most that a larger one takes, such as a class
_LATE = 0.002  # seconds by which something is late at most
_ROUNDS = 5  # rounds that a loop makes more for a call, at most
_LINES = 12  # the most lines of a change

_sleep = time.sleep  # the real one, taken before any session


class _Hole:
    """An object of the usual size, with a dict."""


def _disturbing(seed: int) -> Callable[[], object]:
    """Return a function that allocates objects of many sizes and frees some, so that the next ones get other places."""
    if not seed:
        return bool
    rng, kept = random.Random(seed), list[Any]()  # noqa: S311 - no secret
    gc.set_threshold(rng.choice(_THRESHOLDS), 10, 10)

    def disturb() -> None:
        made: list[Any] = []
        for _ in range(_OBJECTS):
            made.append(bytes(rng.randrange(_BYTES)))
            if rng.random() < 0.1:  # noqa: PLR2004 - a tenth
                made.append(_Hole())
            if rng.random() < 0.02:  # noqa: PLR2004 - a fiftieth
                made.append(bytes(rng.randrange(_BYTES, _LARGE)))
        kept.extend(made[:_FIRST])  # they lie where the next objects would
        rng.shuffle(made)
        kept.extend(made[: len(made) // 3])

    return disturb


def _go_round(loop: asyncio.AbstractEventLoop, rounds: int) -> None:
    """Keep a loop going for some rounds, by callbacks that belong to no session."""
    if rounds:
        loop.call_soon(_go_round, loop, rounds - 1, context=Context())


def delay(seed: int) -> Callable[[object], None]:
    """Let threads and work in pools begin and end a little late from now on; return a watcher that delays calls."""
    rng = random.Random(seed)  # noqa: S311 - no secret

    def pause() -> None:
        _sleep(rng.random() * _LATE)

    def late(work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def later(*args: Any, **kwargs: Any) -> Any:
            pause()
            try:
                return work(*args, **kwargs)
            finally:
                pause()

        return later

    submit, run = ThreadPoolExecutor.submit, threading.Thread.run

    def submit_late(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, late(fn), *args, **kwargs)

    def run_late(self: threading.Thread) -> None:
        pause()
        run(self)

    cast("Any", ThreadPoolExecutor).submit = submit_late
    cast("Any", threading.Thread).run = run_late

    def called(_: object) -> None:
        pause()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        _go_round(loop, rng.randrange(_ROUNDS))

    return called


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Replay once, and return the output as plain data: the runner of `agenttape_core.experiments.worker`."""
    sys.setswitchinterval(job["switch_interval"])
    calls, disturb = Calls(), _disturbing(job["memory"])
    confine_process(Project(Path(job["project"]), replays_only=True, on_open=calls.opened))
    watch_calls(calls.note)
    watch_answers(calls.answered)
    watch_failed_blocks(calls.failed)
    if job["schedule"]:
        watch_calls(delay(job["schedule"]))
    try:
        function = load(Target(*job["target"]))
    except BaseException as error:  # noqa: BLE001 - whatever the import of user code raises is reported to the parent
        return {"unusable": f"{type(error).__name__}: {error}"}

    def replayed() -> dict[str, Any]:
        calls.begin()
        ending = _ending(function, job, disturb)
        return {"outcome": ending.outcome, "failed": ending.failed, "value": ending.value, **calls.report()}

    earlier = []
    for _ in range(job["earlier_replays"]):
        with _undone(job):
            earlier.append(replayed())
    explored: Any = {}
    if job["completion_order"]:
        with _undone(job):
            explored = outcomes_in_other_orders(lambda: _ending(function, job), job["completion_order"])
    report = {**replayed(), "earlier": earlier, "explored": explored}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return report


_UNUSED = f"raised {UnusedInteractionsError.__module__}.{UnusedInteractionsError.__qualname__}"


class _Opening:
    """A program that opens its cassettes itself, so that only its endings are known."""

    def __init__(self, once: Callable[[], Ending]) -> None:
        self._once = once
        self._first: Ending | None = None

    def run(self, variation: Variation) -> Ending:
        """Run it once, and return its ending, or the first one if it only left recordings unused."""
        with varying(variation):
            ending = self._once()
        if ending.outcome.startswith("raised KeyboardInterrupt"):
            raise KeyboardInterrupt
        self._first = self._first or ending
        # Unused recordings aren't its failure, and hide what it returned.
        return self._first if ending.outcome.startswith(_UNUSED) else ending


def outcomes_in_other_orders(once: Callable[[], Ending], orders: int) -> dict[str, Any]:
    """Replay a program that opens its cassettes itself in other orders; return the result, empty without any."""
    strategy: Any = import_module("agenttape_core.experiments.strategies.orders")  # it builds on this module
    exploring = strategy.Exploring("", "", Variation(), (), str, holds_threads=False)
    try:
        found: Any = drive(_Opening(once), exploring.search(orders, SEED))
    except ConfigurationError:
        return {}
    if not found.is_whole:
        raise KeyboardInterrupt
    explored: dict[str, Any] = found.to_dict() if not found.unstable else {}
    return explored


@contextmanager
def _undone(job: dict[str, Any]) -> Iterator[None]:
    """Discard the output of a block: it isn't a part of the output of the replay that counts."""
    here = Path.cwd()
    streams = (sys.stdout, sys.stderr)
    kept = [os.dup(stream.fileno()) for stream in streams]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in streams:
            os.dup2(nowhere, stream.fileno())
        yield
    finally:
        for stream, descriptor in zip(streams, kept, strict=True):
            stream.flush()
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)
        os.close(nowhere)
        os.chdir(here)
        if here != Path(job["project"]):  # a folder of ours, which was empty
            for path in here.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _ending(function: Callable[[], Any], job: dict[str, Any], before: Callable[[], object] = bool) -> Ending:
    """Call the function under its cassette, and return how it ended."""
    around = use_cassette(job["cassette"], **job["options"]) if job["cassette"] is not None else None
    return ended(function, around, before)


class Ending(NamedTuple):
    """The ending of a call of a function."""

    outcome: str  # `returned`, or `raised` with type and message, those of notes and of what it came from
    failed: bool  # whether the replay itself failed, and not the function
    value: Plain  # the return value as plain data, or its repr if it has no codec
    missed: str = ""  # the call without a recording that ended it, and the change of its request; else empty


def ended(function: Callable[[], Any], around: CassetteBlock | None, before: Callable[[], object] = bool) -> Ending:
    """Call a function, and return how it ended. A coroutine function is run in a loop, a generator read to its end."""
    try:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            value = asyncio.run(_awaited(function, around, before))
        else:
            with around or nullcontext():
                before()
                value = run_to_end(function)
    except BaseException as error:  # noqa: BLE001 - how the function ended is what is asked for
        return Ending(f"raised {described(error)}", is_failure(error), None)
    return Ending("returned", False, encoded(value))


async def _awaited(function: Callable[[], Any], around: CassetteBlock | None, before: Callable[[], object]) -> Any:
    async with around or nullcontext():
        before()
        return await awaited(function())


def encoded(value: Any) -> Plain:
    """Return a value as plain data, or its repr if it has no codec."""
    try:
        return value_codec().encode(value)
    except AgentTapeError:
        return repr(value)


def is_failure(error: BaseException) -> bool:
    """Return True if the replay itself failed, not the function."""
    return isinstance(error, AgentTapeError | AgentTapeHalt) and not isinstance(error, ReplayedError)


def described(error: BaseException) -> str:
    """Return the type and message of an exception, of its notes, and of those that it came from."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    lines = [f"{name}: {error}", *getattr(error, "__notes__", ())]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"with {described(inner)}" for inner in error.exceptions]
    if error.__cause__ is not None:
        lines.append(f"from {described(error.__cause__)}")
    elif error.__context__ is not None and not error.__suppress_context__:
        lines.append(f"during {described(error.__context__)}")
    return "\n".join(lines)


def change_of(base: Ending, other: Ending) -> str:
    """Return how an ending differs from that in the recorded order; empty if it does not."""
    if base == other:
        return ""
    if base.outcome != other.outcome:
        if other.missed:
            return other.missed
        return "\n".join(other.outcome.splitlines()[:_LINES])
    found = list(differences(base.value, other.value, "value"))[:_LINES]
    return "\n".join(f"{each.path}: {each.asked}\n  in the recorded order: {each.recorded}" for each in found)


def ending_of(run: Run) -> Ending:
    """Return the end of a run as plain data.

    The failure of a session that the program opened itself, and caught, is part of the outcome.
    """
    if run.error is not None:
        return Ending(f"raised {described(run.error)}", is_failure(run.error), None, _missed(run.error))
    if run.failed:
        lines = ["returned, although another session in it failed", *sorted(run.failed)]
        return Ending("\n".join(lines), True, encoded(run.result))
    report = run.session.report
    if not (report.replayed or report.stepped_into):
        return Ending("returned without a recorded call, so there is no order to try", True, None)
    return Ending("returned", False, encoded(run.result))


def _missed(error: BaseException) -> str:
    """Return the call of a miss and the change of its request, in words; empty for another error."""
    if not isinstance(error, CassetteMissError):
        return ""
    if not error.differences:
        return f"then {error.name} {error.reason}"
    recorded, asked = map(_spelled, Difference(*error.differences[0]).unmarked())
    path = error.differences[0][0].removeprefix("arguments.")
    more = len(error.differences) - 1
    rest = f", and {counted(more, 'more change')}" if more else ""
    return f"then {error.name} is called with {path}={asked} instead of {recorded}{rest}"


def _spelled(text: str) -> str:
    """Return a value as a difference shows it, with quotation marks around a text."""
    try:
        json.loads(text)
    except ValueError:
        return text if text == "(absent)" else f'"{text}"'
    return text
