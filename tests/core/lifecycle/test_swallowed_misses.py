"""A miss that your code swallows fails the block, decorator, marker and process, whatever else is raised."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import unittest
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError


@boundary("tool")
def look(question: str) -> str:
    """Answer a question."""
    return question


class GreenletTimeout(BaseException):
    """A timeout as gevent's and eventlet's are: no `Exception`, and caught by a `with` around the block."""


class OwnExit(SystemExit):
    """An exit of a framework of commands."""


def swallows(error: BaseException | type[BaseException] | None) -> None:
    """Make a call without a recording, swallow the miss, and end otherwise."""
    with suppress(BaseException):
        look("CHANGED")
    if error is not None:
        raise error


def block(error: BaseException | None) -> None:
    """Run in a `with` block."""
    with use_cassette("c", on_unused="ignore"):
        swallows(error)


def decorated(error: BaseException | None) -> None:
    """Run in a decorated function."""
    use_cassette("c", on_unused="ignore")(swallows)(error)


def on_a_stack(error: BaseException | None) -> None:
    """Run below an `ExitStack`."""
    with ExitStack() as stack:
        stack.enter_context(use_cassette("c", on_unused="ignore"))
        swallows(error)


def in_a_generator(error: BaseException | None) -> None:
    """Run below a context manager of the program, which a generator function makes."""

    @contextmanager
    def recorded() -> Iterator[None]:
        with use_cassette("c", on_unused="ignore"):
            yield

    with recorded():
        swallows(error)


def async_block(error: BaseException | None) -> None:
    """Run in an `async with` block."""

    async def run() -> None:
        async with use_cassette("c", on_unused="ignore"):
            swallows(error)

    drive(run)


def async_decorated(error: BaseException | None) -> None:
    """Run in a decorated coroutine function."""

    @use_cassette("c", on_unused="ignore")
    async def run() -> None:
        swallows(error)

    drive(run)


def in_an_async_generator(error: BaseException | None) -> None:
    """Run below a context manager that an async generator function makes."""

    @asynccontextmanager
    async def recorded() -> AsyncIterator[None]:
        async with use_cassette("c", on_unused="ignore"):
            yield

    async def run() -> None:
        async with recorded():
            swallows(error)

    drive(run)


def drive(run: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine to what it raises, which an event loop would take for its own end where it is an interruption."""

    async def caught() -> BaseException | None:
        try:
            await run()
        except BaseException as error:
            return error
        return None

    if (error := asyncio.run(caught())) is not None:
        raise error


WAYS: list[Callable[[BaseException | None], None]] = [
    block,
    decorated,
    on_a_stack,
    in_a_generator,
    async_block,
    async_decorated,
    in_an_async_generator,
]


@pytest.fixture(autouse=True)
def _recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with use_cassette("c", mode="all"):
        look("X")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
# Exceptions which someone further up may take for an end that isn't a failure.
@pytest.mark.parametrize(
    "error",
    [
        None,
        pytest.skip.Exception("the service is down"),
        pytest.xfail.Exception("it never works"),
        pytest.exit.Exception("enough", returncode=0),
        pytest.fail.Exception("no"),
        unittest.SkipTest("no"),
        GreenletTimeout(),
        SystemExit(),
        SystemExit(0),
        SystemExit(False),
        SystemExit(256),  # the parent of the process sees 0
        OwnExit(0),
        GeneratorExit(),
        asyncio.CancelledError(),
        TimeoutError(),
        StopAsyncIteration(),
        ValueError("of the program"),
        BaseExceptionGroup("", [GreenletTimeout(), ValueError()]),
        BaseExceptionGroup("", [BaseExceptionGroup("", [SystemExit(0)])]),
    ],
    ids=repr,
)
def test_the_miss_is_raised(way: Callable[[Any], None], error: BaseException | None) -> None:
    """A block fails with the miss that was swallowed in it, and shows what was raised since as its cause."""
    with pytest.raises(CassetteMissError, match="tool look") as caught:
        way(error)
    assert error is None or caught.value.__cause__ is error


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
# Exceptions that end the program as a failure: they stay themselves.
@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        SystemExit("no model"),
        SystemExit(-1),
        OwnExit(1),
        BaseExceptionGroup("", [GreenletTimeout(), KeyboardInterrupt()]),
    ],
    ids=repr,
)
def test_a_failure_of_the_program_stays(way: Callable[[Any], None], error: BaseException) -> None:
    """An interruption, or an exit with another status, goes through with a note of the miss."""
    error.__notes__ = []
    with pytest.raises(type(error)) as caught:
        way(error)
    assert caught.value is error
    assert "tool look" in error.__notes__[0]


@pytest.mark.process
@pytest.mark.parametrize(
    "how",
    [
        "exits at once",
        "leaves a generator open",
        "lets a generator be collected",
        "does not leave the block",
        "swallows nothing",
    ],
)
def test_a_process_that_ends_before_its_block(how: str) -> None:
    """A process whose block never ends, or ends without a caller, prints the miss and exits with 1."""
    program = dedent("""
        import os, sys
        from agenttape_core import boundary, use_cassette

        @boundary("tool")
        def look(question):
            return question

        def swallow():
            try:
                look("CHANGED")
            except BaseException:
                pass

        def steps():
            with use_cassette("c", on_unused="ignore"):
                swallow()
                yield

        def entered():
            opened = use_cassette("c", on_unused="ignore")
            opened.__enter__()
            swallow()
            return opened

        how = sys.argv[1]
        if how == "exits at once":
            with use_cassette("c", on_unused="ignore"):
                swallow()
                os._exit(0)
        elif how == "leaves a generator open":
            kept = steps()
            next(kept)
        elif how == "lets a generator be collected":
            next(steps())
        elif how == "does not leave the block":
            kept = entered()
        elif how == "swallows nothing":
            with use_cassette("c"):
                look("X")
                os._exit(0)
    """)

    Path("program.py").write_text(program, encoding="utf-8")
    ended = subprocess.run([sys.executable, "program.py", how], check=False, capture_output=True, timeout=60)
    assert ended.returncode == (how != "swallows nothing")
    shown = (
        b"agenttape: the process ends with a failure: " in ended.stderr
        and b"look was called with a request that is" in ended.stderr
    )
    assert shown == (how != "swallows nothing")


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_miss_of_a_child_that_the_program_catches_ends_no_process() -> None:
    """A block raises the miss of a forked process, too: if the program catches that, it exits with 0."""
    of_a_child = dedent("""
        import os
        from agenttape_core import boundary, use_cassette
        from agenttape_core.errors import CassetteMissError

        @boundary("tool")
        def look(question):
            return question

        try:
            with use_cassette("c", on_unused="ignore"):
                child = os.fork()
                if not child:
                    try:
                        look("CHANGED")
                    finally:
                        os._exit(1)
                os.waitpid(child, 0)
        except CassetteMissError:
            print("caught")
    """)

    Path("program.py").write_text(of_a_child, encoding="utf-8")
    ended = subprocess.run([sys.executable, "program.py"], check=False, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, b"caught\n")
    assert ended.stderr.count(b"ends with a failure") == 1  # the child's


@pytest.mark.process
def test_an_exception_at_the_very_end_is_shown() -> None:
    """After a failed session, what is raised while Python clears its modules is shown as ever."""
    late = dedent("""
        import os
        from agenttape_core import boundary, use_cassette
        from agenttape_core.errors import CassetteMissError

        @boundary("tool")
        def look(what):
            return what

        class Late:
            def __del__(self):
                raise ValueError("late")

        with use_cassette("c", mode="all"):
            look("X")
        try:
            with use_cassette("c"):
                look("CHANGED")
        except CassetteMissError:
            os.late = Late()  # cleared after most modules
    """)

    Path("late.py").write_text(late, encoding="utf-8")
    ended = subprocess.run([sys.executable, "late.py"], check=False, capture_output=True, timeout=60)
    assert b"ValueError: late" in ended.stderr
    assert b"NoneType" not in ended.stderr
