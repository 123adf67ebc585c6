"""What goes on beside a program without touching it isn't in the report of a replay that is equal."""

from __future__ import annotations

import io
import logging
import logging.handlers
import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.installed import install

from agenttape_core import boundary, use_cassette

LIBRARY = """
import threading


class Refreshing(threading.Thread):
    def __init__(self, render):
        super().__init__(daemon=True)
        self.done, self.render = threading.Event(), render

    def run(self):
        while not self.done.wait(0.001):
            self.render()

    def stop(self):
        self.done.set()
        self.join()


class Listening(threading.Thread):
    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection = connection

    def run(self):
        while self.connection.recv(1):
            pass
"""


@pytest.fixture
def library(tmp_path: Path) -> Any:
    """Return an installed module with threads of its own, as those of a progress bar and of a debugger."""
    return install(tmp_path, "beside-the-program", "beside_the_program", LIBRARY)


@contextmanager
def progress(library: Any) -> Iterator[None]:
    """Redraw a line again and again, as `rich.progress` does."""
    screen = io.StringIO()
    thread = library.Refreshing(lambda: screen.write("."))
    thread.start()
    try:
        yield
    finally:
        thread.stop()


@contextmanager
def log_of_processes(_: Any) -> Iterator[None]:
    """Write the log in a thread that reads a queue of processes."""
    queue: Any = multiprocessing.Queue()
    log, handler = logging.getLogger("beside"), logging.handlers.QueueHandler(queue)
    listener = logging.handlers.QueueListener(queue, logging.StreamHandler(io.StringIO()))
    log.addHandler(handler)
    listener.start()
    try:
        log.warning("begins")
        yield
        log.warning("ends")
    finally:
        listener.stop()
        log.removeHandler(handler)
        queue.close()
        queue.join_thread()


@contextmanager
def debugger(library: Any) -> Iterator[None]:
    """Wait for an editor at the other end of a connection."""
    here, there = socket.socketpair()
    thread = library.Listening(here)
    thread.start()
    try:
        yield
    finally:
        there.close()
        thread.join()
        here.close()


@contextmanager
def tracing(_: Any) -> Iterator[None]:
    """Trace each thread, as a measurement of coverage does."""
    before = threading.gettrace()
    threading.settrace(lambda *_: None)
    try:
        yield
    finally:
        threading.settrace(before)  # type: ignore[arg-type] # it takes what it gave


@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("beside", [progress, log_of_processes, debugger, tracing])
def test_nothing_is_reported(
    library: Any, project: Path, beside: Callable[[Any], AbstractContextManager[None]], is_older: bool
) -> None:
    """A replay that is equal reports nothing of a thread that only draws, writes the log, debugs or measures."""

    def program(beside: Callable[[], AbstractContextManager[None]]) -> list[str]:
        """Look up words in threads whose order is in the next request, twice."""

        @boundary
        def look_up(word: str) -> str:
            return f"{word}?"

        @boundary
        def ask(question: str) -> str:
            return f"{question}!"

        found: list[str] = []
        with beside():
            for turn in range(2):
                with ThreadPoolExecutor() as pool:
                    list(pool.map(lambda word: found.append(look_up(word)), [f"a{turn}", f"b{turn}", f"c{turn}"]))
                found.append(ask(str(found)))
        return found

    @contextmanager
    def nothing() -> Iterator[None]:
        yield

    def run() -> Any:
        with use_cassette("c") as session:
            result = program(nothing if is_older else lambda: beside(library))
        return result, session.report

    with beside(library) if is_older else nothing():
        with use_cassette("c", mode="once"):
            recorded = program(nothing if is_older else lambda: beside(library))
        for _ in range(2):
            result, report = run()
            assert result == recorded
            assert (report.nondeterminism, report.entropy, report.unobserved) == ((), (), ())
