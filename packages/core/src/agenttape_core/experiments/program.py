"""Programs that are replayed again and again with something changed: functions and tests, and how they end."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, ConfigurationError, SessionStateError, shown_path
from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor
from agenttape_core.schema import IndexRow, Interaction
from agenttape_core.session import Report, Session, current_session
from agenttape_core.storage import Cassette
from agenttape_core.tools.target import Target, awaited, load, run_to_end, target_of

COMMAND = "-- "  # the beginning of a target that is a command
_COMMANDS = "agenttape_core.experiments.commands"
"""The module of programs that are commands. It imports this one, which only has its name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a program by an exception."""

    type: str  # the class of the exception, as `module:QualName`
    file: str  # the file of the innermost line of the program's own code; empty if there is none
    line: int
    function: str  # the function that it is in
    message: str  # the text of the exception, which isn't compared: two failures may be the same without it

    def is_like(self, other: Failure | None) -> bool:
        """Return whether another failure is the same: an exception of this class, raised at this line."""
        mine = (self.type, self.file, self.line, self.function)
        return other is not None and mine == (other.type, other.file, other.line, other.function)

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.type.rpartition(":")[2]

    @property
    def place(self) -> str:
        """The line, as `agent.py:41 in parse`."""
        file = shown_path(Path(self.file))
        return f"{file}:{self.line} in {self.function}" if self.file else "no line of the program"

    def __str__(self) -> str:
        said = self.message.partition("\n")[0]
        return f"{self.name} at {self.place}" + (f": {said}" if said else "")


class ExitError(Exception):
    """A command has ended with another exit code than 0."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def is_command(target: object) -> bool:
    """Return whether a target of an experiment is a command, such as `-- python agent.py`."""
    return isinstance(target, str) and target.startswith(COMMAND)


def is_test(target: object) -> bool:
    """Return whether a target of an experiment is the id of a test."""
    return isinstance(target, str) and "::" in target and not is_command(target)


def failure_of(error: BaseException) -> Failure:
    """Return an exception as a failure. In a group of exceptions, the first one counts."""
    if isinstance(error, ExitError):
        return error.failure
    error = next(_leaves(error))
    kind = type(error)
    own = [
        (frame.f_code.co_filename, line, frame.f_code.co_qualname)
        for frame, line in traceback.walk_tb(error.__traceback__)
        # Code of no file is of `<frozen importlib>`, or of `<string>`.
        if not (is_own(frame) or is_library(frame.f_code.co_filename) or frame.f_code.co_filename.startswith("<"))
    ]
    file, line, function = own[-1] if own else ("", 0, "")
    return Failure(f"{kind.__module__}:{kind.__qualname__}", file, line, function, str(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def problem_of(error: BaseException | None) -> str:
    """Return the class and the first line of an error; empty if there is none."""
    return f"{type(error).__name__}: {error}".partition("\n")[0] if error is not None else ""


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call, named for people.

    Args:
        number: Its number.
        kind: The kind of its boundary.
        name: The name of its boundary.
        address: Its place in the run.
    """

    number: int
    kind: str
    name: str
    address: str

    @classmethod
    def of(cls, row: IndexRow | Interaction) -> Self:
        """Return the name of a recording."""
        return cls(row.number, row.kind, row.name, row.address)

    def __str__(self) -> str:
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}"


class Source(NamedTuple):
    """The place of a function or of a test."""

    module: str  # its module's import name; for a script, the name of its file
    file: Path
    name: str  # its name in the module, such as `Agent.answer`
    is_async: bool = False  # whether it is a coroutine function
    is_test: bool = False  # whether pytest calls it
    fixtures: tuple[str, ...] = ()  # the fixtures of its module that it uses, if it is a test
    owner: str = ""  # the name of its class in the module, if it is a test that is a method
    case: Mapping[str, int] = {}
    """The place of its values among those that it is parametrized with, by the name of their first argument."""

    @property
    def root(self) -> Path | None:
        """The folder from which the module is imported; `None` if it is installed."""
        if is_library(str(self.file)):
            return None
        place = self.file.parent if self.file.name == "__init__.py" else self.file.with_suffix("")
        parts = tuple(self.module.split("."))
        return place.parents[len(parts) - 1] if place.parts[-len(parts) :] == parts else self.file.parent

    @property
    def importable(self) -> str:
        """The import name of the module, from the root."""
        root = self.root
        place = self.file.with_suffix("")
        is_below = root is not None and place.parts[-len(self.module.split(".")) :] == tuple(self.module.split("."))
        return self.module if root is None or is_below or self.file.name == "__init__.py" else self.file.stem


class ReportedSession(NamedTuple):
    """The session of another process, as far as it has reported it."""

    report: Report
    failure: BaseException | None
    source: Cassette
    path: Path
    written: Path | None
    redactor: Redactor
    policy: Policy = Policy(Mode.REPLAY, recorded=True)  # its variations step into no call


@dataclass(frozen=True, slots=True)
class Run:
    """The end of one replay.

    Args:
        session: Its session, which has ended.
        result: The value that the program returned; `None` for a test.
        error: The exception that it raised, or that its session failed with; `None` if it ended well.
        failed: The failures of the sessions that the program opened itself, a line each, also those that it caught.
        changes: The changes in words, by the number of the recorded call.
        is_assertion: Whether the error is an assertion: of a test, by its own words.
    """

    session: Session | ReportedSession
    result: Any = None
    error: BaseException | None = None
    failed: tuple[str, ...] = ()
    changes: Mapping[int, str] = field(default_factory=dict)
    is_assertion: bool = False

    @property
    def own_session(self) -> Session:
        """The session, of a program that runs in this process."""
        assert isinstance(self.session, Session)
        return self.session

    @property
    def failure(self) -> Failure | None:
        """The failure of the program; `None` if it ended well, or left the recorded world."""
        return None if self.error is None or self.left is not None else failure_of(self.error)

    @property
    def problem(self) -> str:
        """The class and the first line of its error; empty if it ended well."""
        return problem_of(self.error)

    @property
    def left(self) -> str | None:
        """The first unrecorded call, a line; `None` if every call was recorded."""
        report, failure = self.session.report, self.session.failure
        if lines := [*report.missed, *report.unrecorded, *report.blocked]:
            return str(lines[0])
        if isinstance(self.error, AgentTapeError | AgentTapeHalt):
            return str(self.error).partition("\n")[0]
        if self.failed:
            return self.failed[0]
        return str(failure).partition("\n")[0] if failure is not None else None

    @property
    def calls(self) -> list[tuple[int, str, str | None]]:
        """The replayed calls in the order of their numbers: the number, the address, and the match_rule."""
        report = self.session.report
        call_record = (*report.replayed, *report.stepped_into)
        return sorted((one.number, one.address, str(one.match_rule) if one.match_rule else None) for one in call_record)


class Program(Protocol):
    """A program that can be replayed many times."""

    @property
    def name(self) -> str:
        """Its name in messages: `module:function`, or the id of a test."""

    @property
    def source(self) -> Source | None:
        """The location of its source; `None` if it can't be imported elsewhere."""

    @property
    def cassette(self) -> Path | None:
        """The cassette that its own decorator names; `None` if it has none."""

    @property
    def function(self) -> Callable[[], Any] | None:
        """The function; `None` for a test, which pytest calls."""

    def run(self, variation: Variation) -> Run:
        """Run it once with a cassette, and return how it ended.

        Args:
            variation: The difference from a plain replay.

        Raises:
            CassetteError: If the cassette cannot be opened or written.
            ConfigurationError: If an option is not valid.
        """


class FunctionProgram:
    """A function without arguments, or a coroutine function.

    `main` is the script that defines it, which is `__main__` to recorded values of its types; `given` its name as a
    command line gives it. Warnings of the program, which each of many runs would repeat, are shown only if it `warns`.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        source: Source | None = None,
        *,
        main: ModuleType | None = None,
        options: Mapping[str, Any],
        warns: bool = False,
        given: str = "",
    ) -> None:
        self.function = function
        self.given = given
        self.cassette: Path | None = None  # `None`, as one is opened around it
        self._main = main
        self._warns = warns
        self._is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        self._inside: bool | None = None
        self._options = options
        self._project = this_project()
        self.source = source
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = f"{source.module}:{source.name}" if source is not None else name

    def run(self, variation: Variation) -> Run:
        """Run it once with a cassette, and return how it ended.

        The session of a coroutine function may have been opened in the event loop or outside when it was recorded; the
        runs of frameworks have other places then. The first replay finds out, unless it executes something.
        """
        if not self._is_async or self._inside is False:
            return self._outside(variation)
        decides = self._inside is None and variation.order is None and not variation.executes
        run = asyncio.run(self.arun(variation))
        if decides and run.session.written is None:
            other = self._outside(variation) if _elsewhere(run) else run
            self._inside = _elsewhere(other) >= _elsewhere(run)
            return run if self._inside else other
        return run

    @property
    def is_undecided(self) -> bool:
        """True until the first replay, which finds out: no other may run beside it."""
        return self._is_async and self._inside is None

    async def arun(self, variation: Variation) -> Run:
        """Like `run`, in the running event loop, with the function's result awaited."""
        running = _Running(self._block(variation))
        with self._quietly(), running:
            async with running.block as running.session:
                with running.program():
                    running.result = await awaited(self.function())
        return running.run()

    def _outside(self, variation: Variation) -> Run:
        """Run it once, with its session opened around the event loop of the function, if it needs one."""
        running = _Running(self._block(variation))
        with self._quietly(), running, running.block as running.session, running.program():
            running.result = run_to_end(self.function)
        return running.run()

    def _block(self, variation: Variation) -> ContainedBlock:
        cassette = variation.cassette if variation.cassette is not None else self.cassette
        if cassette is None:
            raise ConfigurationError(f"{self.name} has no cassette\n  name one: Variation(cassette=...)")
        # Blocks in other threads let this process replay only, which isn't for the session that runs beside them.
        request = use_cassette(cassette, **self._options).request._replace(project=self._project)
        return ContainedBlock(variation.replayed_by(request))

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        with warnings.catch_warnings() if not self._warns else nullcontext(), _as_main(self._main):
            if not self._warns:
                warnings.simplefilter("ignore")
            yield


class _Running:
    """A run of a function. As a context manager it catches the outcome, if the session has begun."""

    def __init__(self, block: ContainedBlock) -> None:
        self.block = block
        self.session: Session | None = None
        self.result: Any = None
        self._error: BaseException | None = None
        self._changes: Mapping[int, str] = {}

    @contextmanager
    def program(self) -> Iterator[None]:
        """Note the program's own exception, which takes precedence over its session's at the end."""
        self._changes = {number: str(one.change) for number, one in self.block.in_use.changes.items()}
        try:
            yield
        except BaseException as error:
            self._error = error
            raise

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if self.session is None or not isinstance(error, Exception | AgentTapeHalt | SystemExit):
            return False
        self._error = self._error or error
        return True

    def run(self) -> Run:
        """Return how it ended."""
        assert self.session is not None
        failed = tuple(one.line for one in self.block.failed)
        return Run(self.session, self.result, self._error, failed, self._changes)


def _elsewhere(run: Run) -> int:
    """Return how many calls of a replay found no recording, or one of another place."""
    report = run.session.report
    return sum(one.match_rule == "request" for one in report.replayed) + len(report.missed)


def program_of(function: Callable[[], Any] | str, **options: Any) -> Program:
    """Return the program that a function or a command is.

    Args:
        function: A function without arguments; its name, `module:function` or `path/to/file.py:function`; or a command,
            such as `-- python agent.py`.
        options: Options of `use_cassette` that hold in each replay.

    Raises:
        ConfigurationError: If the function doesn't exist.
        SessionStateError: If a session is open.
    """
    if (session := current_session()) is not None:
        raise SessionStateError(f"a program is replayed outside of sessions, and {session.path} is open")
    if not isinstance(function, str):
        if not callable(function):
            raise ConfigurationError(f"expected a function or its name, found {type(function).__name__}")
        source = None
        with suppress(ConfigurationError):  # no other process can import it
            source = _source(target_of(function), function)
        return FunctionProgram(function, source, options=options)
    if is_command(function):
        command: Program = import_module(_COMMANDS).CommandProgram(function, options)
        return command
    target = target_of(function)
    with _as_main(sys.modules["__main__"]):
        try:
            loaded = load(target)
        except (ImportError, TypeError) as error:
            raise ConfigurationError(f"cannot load {function}: {error}") from error
        main = None if target.module else sys.modules["__main__"]
        return FunctionProgram(loaded, _source(target, loaded), main=main, options=options, given=function)


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
