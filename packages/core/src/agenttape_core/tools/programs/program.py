"""Programs that can be replayed many times in this process, and their ends."""

from __future__ import annotations

import asyncio
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, ConfigurationError, SessionStateError
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.session import Session, current_session
from agenttape_core.tools.programs.failure import Failure, failure_of
from agenttape_core.tools.programs.opening import Opening
from agenttape_core.tools.programs.source import Source
from agenttape_core.tools.verify.target import Target, load, target_of


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one replay.

    Args:
        session: Its session, which has ended.
        result: The value that the program returned; `None` for a test.
        error: The exception that it raised, or that its session failed with; `None` if it ended well.
        failed: The failures of the sessions that the program opened itself, a line each, also those that it caught.
    """

    session: Session
    result: Any = None
    error: BaseException | None = None
    failed: tuple[str, ...] = ()

    @property
    def failure(self) -> Failure | None:
        """The failure of the program; `None` if it ended well, or left the recorded world."""
        return None if self.error is None or self.left is not None else failure_of(self.error)

    @property
    def left(self) -> str | None:
        """The first call for which there was no recording, a line; `None` if the run stayed in the recorded world."""
        report, failure = self.session.report, self.session.failure
        if lines := [*report.missed, *report.drift, *report.blocked]:
            return str(lines[0])
        if isinstance(self.error, AgentTapeError | AgentTapeHalt):
            return str(self.error).partition("\n")[0]
        if self.failed:
            return self.failed[0]
        return str(failure).partition("\n")[0] if failure is not None else None

    @property
    def calls(self) -> list[tuple[int, str, str | None]]:
        """The served calls in the order of their numbers: the number, the address, and the rung."""
        report = self.session.report
        crossed = (*report.served, *report.ran_through)
        return sorted((one.number, one.address, str(one.rung) if one.rung else None) for one in crossed)


class Program(Protocol):
    """A program that can be replayed many times."""

    @property
    def name(self) -> str:
        """Its name in messages: `module:function`, or the id of a test."""

    @property
    def source(self) -> Source | None:
        """The place of it in the source; `None` if nobody else could import it."""

    @property
    def cassette(self) -> Path | None:
        """The file of the cassette that it has by itself; `None` if it has none."""

    @property
    def function(self) -> Callable[[], Any] | None:
        """The function; `None` for a test, which pytest calls."""

    def run(self, opening: Opening) -> Ending:
        """Run it once with a cassette, and return how it ended.

        Args:
            opening: The replay.

        Raises:
            CassetteError: If the cassette cannot be opened or written.
            ConfigurationError: If an option is not valid.
        """


def run_to_end(function: Callable[[], Any]) -> Any:
    """Call a function, and run what it returns to its end if it is a coroutine."""
    result = function()
    if not inspect.iscoroutine(result):
        return result

    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited())


class FunctionProgram:
    """A function without arguments, or a coroutine function.

    Args:
        function: The function.
        source: The place of it in the source, if another process can import it.
        main: The script that it stands in, which is `__main__` to recorded values of its own types.
        options: Options of `use_cassette` that hold in each replay.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        source: Source | None = None,
        *,
        main: ModuleType | None = None,
        options: Mapping[str, Any],
    ) -> None:
        self.function = function
        self.cassette: Path | None = None
        """None, as one is opened around it."""
        self._main = main
        self._inside: bool | None = None
        self._options = options
        self.source = source
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = f"{source.module}:{source.name}" if source is not None else name

    def run(self, opening: Opening) -> Ending:
        """Run it once with a cassette, and return how it ended.

        The session of a coroutine function may have been opened in the event loop or outside when it was recorded; the
        runs of frameworks have other places then. The first replay finds out.
        """
        if not inspect.iscoroutinefunction(self.function):
            return self._once(opening, inside=False)
        if self._inside is not None:
            return self._once(opening, inside=self._inside)
        ending = self._once(opening, inside=True)
        self._inside = True
        if _elsewhere(ending):
            other = self._once(opening, inside=False)
            if _elsewhere(other) < _elsewhere(ending):
                self._inside, ending = False, other
        return ending

    def _once(self, opening: Opening, *, inside: bool) -> Ending:
        """Run it once, with its session opened inside the event loop of the function or not."""
        block = ContainedBlock(opening.applied_to(use_cassette(opening.cassette, **self._options).request))
        opened: list[Session] = []
        result, error = None, None

        async def in_loop() -> Any:
            async with block as session:
                opened.append(session)
                return await self.function()

        with warnings.catch_warnings(), _as_main(self._main):
            warnings.simplefilter("ignore")  # what the program warns of, it does so in each of many runs
            try:
                if inside:
                    result = asyncio.run(in_loop())
                else:
                    with block as session:
                        opened.append(session)
                        result = run_to_end(self.function)
            except (Exception, AgentTapeHalt, SystemExit) as raised:  # noqa: BLE001 - how a program ends is the result
                error = raised
        if not opened:
            assert error is not None
            raise error
        return Ending(opened[0], result, error, tuple(failed.line for failed in block.failed))


def _elsewhere(ending: Ending) -> int:
    """Return how many calls of a replay were not where they were recorded."""
    return sum(rung != "exact" for _, _, rung in ending.calls) + (ending.left is not None)


def program_of(function: Callable[[], Any] | str, **options: Any) -> Program:
    """Return the program that a function is.

    Args:
        function: A function without arguments, or its name: `module:function` or `path/to/file.py:function`.
        options: Options of `use_cassette` that hold in each replay.

    Raises:
        ConfigurationError: If there is no such function.
        SessionStateError: If a session is open.
    """
    if (session := current_session()) is not None:
        raise SessionStateError(f"a program is replayed outside of sessions, and {session.path} is open")
    if not isinstance(function, str):
        if not callable(function):
            raise ConfigurationError(f"expected a function or its name, found {type(function).__name__}")
        return FunctionProgram(function, _importable(function), options=options)
    target = target_of(function)
    with _as_main(sys.modules["__main__"]):
        try:
            loaded = load(target)
        except (ImportError, TypeError) as error:
            raise ConfigurationError(f"cannot load {function}: {error}") from error
        main = None if target.module else sys.modules["__main__"]
        return FunctionProgram(loaded, _source(target, loaded), main=main, options=options)


def _importable(function: Callable[[], Any]) -> Source | None:
    try:
        return _source(target_of(function), function)
    except ConfigurationError:
        return None


def _source(target: Target, function: Callable[[], Any]) -> Source | None:
    file = target.file or getattr(sys.modules.get(target.module), "__file__", None)
    if not file:
        return None
    is_async = inspect.iscoroutinefunction(function)
    return Source(target.module or Path(file).stem, Path(file), target.qualname, is_async)


@contextmanager
def _as_main(module: ModuleType | None) -> Iterator[None]:
    """Let a module be `__main__` for the duration of a block, whichever is so then."""
    before = sys.modules["__main__"]
    if module is not None:
        sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.modules["__main__"] = before
