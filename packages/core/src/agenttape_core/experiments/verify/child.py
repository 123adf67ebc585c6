"""The program of a child process: one replay of the function, reported as JSON on a descriptor of its own.

Its output is never pickled: a value without a codec is reported by its repr.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from agenttape_core.experiments.verify.calls import Calls
from agenttape_core.experiments.verify.outcome import Ending, ended
from agenttape_core.experiments.verify.variations import Memory, delay
from agenttape_core.lifecycle.failed_blocks import watch_failed_blocks
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.schema import Plain
from agenttape_core.session import watch_answers, watch_crossings
from agenttape_core.tools.target import Target, load


def main(job: dict[str, Any], descriptor: int) -> None:
    """Replay once, and write the output as JSON to a descriptor.

    Args:
        job: `target`, `cassette`, `options`, `project` and the surroundings within the process, as
            `agenttape_core.experiments.verify.job` makes it.
        descriptor: The write end of the pipe that only this process has.
    """
    os.set_inheritable(descriptor, False)
    sys.setswitchinterval(job["switch_interval"])
    calls, memory = Calls(), Memory(job["memory"])
    confine_process(Project(Path(job["project"]), replays_only=True, on_open=calls.opened))
    watch_crossings(calls.note)
    watch_answers(calls.with_recording.answered)
    watch_failed_blocks(calls.failed)
    if job["schedule"]:
        watch_crossings(delay(job["schedule"]))
    try:
        function = load(Target(*job["target"]))
    except BaseException as error:  # noqa: BLE001 - whatever the import of user code raises is reported to the parent
        report: Plain = {"unusable": f"{type(error).__name__}: {error}"}
    else:
        earlier = []
        for _ in range(job["earlier_replays"]):
            memory.disturb()
            with _undone(job):
                earlier.append(_replayed(function, job, calls))
        explored = _explored(function, job)
        memory.disturb()
        report = {**_replayed(function, job, calls), "earlier": earlier, "explored": explored}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with open(descriptor, "wb") as channel:
        channel.write(json.dumps(report).encode())


def _replayed(function: Callable[[], Any], job: dict[str, Any], calls: Calls) -> dict[str, Plain]:
    calls.begin()
    return {**_ended(function, job), "sessions": calls.report(), "rules": calls.rules()}


def _explored(function: Callable[[], Any], job: dict[str, Any]) -> Plain:
    """Return the result of an exploration of other orders, if it is asked for and calls overlap in an event loop."""
    if not job["completion_order"]:
        return {}
    with _undone(job):
        # It stands beside this package, and builds on it.
        found: Plain = import_module("agenttape_core.experiments.strategies.orders").outcomes_in_other_orders(
            lambda: _ending(function, job), job["completion_order"]
        )
    return found


@contextmanager
def _undone(job: dict[str, Any]) -> Iterator[None]:
    """Keep what is printed and written inside out of the output of the replay that counts."""
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


def _ending(function: Callable[[], Any], job: dict[str, Any]) -> Ending:
    """Call the function under its cassette, and return how it ended."""
    around = use_cassette(job["cassette"], **job["options"]) if job["cassette"] is not None else None
    return ended(function, around)


def _ended(function: Callable[[], Any], job: dict[str, Any]) -> dict[str, Plain]:
    return _ending(function, job)._asdict()
