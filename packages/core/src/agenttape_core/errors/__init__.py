"""Every exception that AgentTape raises, as one tree.

```
AgentTapeError (Exception)
├── CassetteError                 something is wrong with a cassette file
│   ├── CassetteNotFoundError     there is no file, and this mode may not record one
│   ├── CassetteFormatError       the file is truncated, mangled or of the wrong types
│   ├── CassetteVersionError      the file is of a newer format than this library reads
│   ├── TraceFormatError         a line of a JSONL trace is malformed, or two have one prompt
│   ├── CassetteLockedError       another process or session is recording to it
│   └── CassetteWriteError        the file could not be written; what was recorded is kept
├── ConfigurationError            an option, a rule or a setting is not valid
├── MissingIntegrationError       nothing was recorded, and the package that records a loaded framework is missing
├── UnrecordableValueError        a value cannot be kept with its type
├── UnreadableValueError          a recorded value needs a class or codec that this process has not loaded
├── UnusedInteractionsError       the run ended without asking for all that was recorded
├── ChangeNotReachedError          a recorded call was to be changed, and the run never made it
├── SessionStateError             a session was entered twice, or used outside its block
├── UnrecordedCallError                    a call that was not recorded, in a run that lives on: on_miss="return"
├── UnrecordedCallsError               a run lived on after calls that were not recorded: on_unrecorded="fail"
├── VerificationError             the replays of a function did not all produce the same
├── ExportError                   what was exported did not arrive
└── ReplayedError                 stands in for a recorded exception whose type is not loaded

AgentTapeHalt (BaseException)     must stop the run: no retry, fallback or tool error handler may eat it
├── CassetteMissError             the run asked for something that was not recorded
├── IncompleteObjectError              a call would execute on an object whose earlier write was replayed
├── BudgetExceededError           a call would cost more than may be spent
└── NetworkBlockedError           the run tried to reach the outside during a replay
```

The halts derive from `BaseException` because agent frameworks turn any `Exception` of a tool or a model into an
answer, a retry or a fallback. Each is also latched by its session, which fails at its end even when user code
caught `BaseException`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from agenttape_core.errors.warned import (
    AfterRecordingWarning,
    AfterReplayWarning,
    DateAtImportWarning,
    IncompleteCopyWarning,
    RecordingDoesNotReplayWarning,
    UnidentifiedModelWarning,
    UnmatchedNameWarning,
    UnrecordedConnectionWarning,
    UnusedInteractionsWarning,
)
from agenttape_core.errors.wording import counted as counted
from agenttape_core.errors.wording import how_to_recover as how_to_recover
from agenttape_core.errors.wording import shown_path as shown_path
from agenttape_core.errors.wording import visible as visible

__all__ = [
    "AfterRecordingWarning",
    "AfterReplayWarning",
    "AgentTapeError",
    "AgentTapeHalt",
    "BudgetExceededError",
    "CassetteError",
    "CassetteFormatError",
    "CassetteLockedError",
    "CassetteMissError",
    "CassetteNotFoundError",
    "CassetteVersionError",
    "CassetteWriteError",
    "ChangeNotReachedError",
    "ConfigurationError",
    "DateAtImportWarning",
    "ExportError",
    "IncompleteCopyWarning",
    "IncompleteObjectError",
    "MissingIntegrationError",
    "NetworkBlockedError",
    "RecordingDoesNotReplayWarning",
    "ReplayedError",
    "SessionStateError",
    "TraceFormatError",
    "UnidentifiedModelWarning",
    "UnmatchedNameWarning",
    "UnreadableValueError",
    "UnrecordableValueError",
    "UnrecordedCallError",
    "UnrecordedCallsError",
    "UnrecordedConnectionWarning",
    "UnusedInteractionsError",
    "UnusedInteractionsWarning",
    "VerificationError",
]

if TYPE_CHECKING:
    from pathlib import Path


def _arrived(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def _reduced(error: BaseException) -> tuple[Any, ...]:
    """Let an exception arrive in another process unchanged, whatever its class is made of."""
    return _arrived, (type(error), error.args, error.__dict__)


class AgentTapeError(Exception):
    """The root of all errors that user code may catch and handle."""

    __reduce__ = _reduced


class CassetteError(AgentTapeError):
    """Something is wrong with a cassette file.

    Args:
        path: The file.
        problem: What happened, expected against found.
        remedy: What to do about it.
        line: The 1-based line in the file where the problem starts, if it has one.
    """

    def __init__(self, path: Path | str, problem: str, *, remedy: str = "", line: int | None = None) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        place = f"{shown_path(path)}:{line}" if line is not None else shown_path(path)
        super().__init__(f"{place}: {visible(problem)}" + (f"\n  {visible(remedy)}" if remedy else ""))


class CassetteNotFoundError(CassetteError):
    """There's no cassette at the path, and the mode doesn't allow recording one."""

    @classmethod
    def unrecorded(cls, path: Path | str, remedy: str) -> Self:
        """Make the error for a cassette that hasn't been recorded yet. Arguments as of the class."""
        error = cls(path, "no cassette yet", remedy=remedy)
        error.args = (f"No cassette yet: {shown_path(path)}\n  {visible(remedy)}",)
        return error


class CassetteFormatError(CassetteError):
    """The file is not a readable cassette: truncated, mangled, or with values of the wrong type."""


class TraceFormatError(CassetteError):
    """The file isn't a JSONL trace: some lines are malformed, or two have the same prompt."""


class CassetteVersionError(CassetteError):
    """The cassette was written by a newer format than this version of the library reads."""


class CassetteLockedError(CassetteError):
    """Another session is recording to the same cassette; there is one writer at a time."""


class CassetteWriteError(CassetteError):
    """The cassette couldn't be written. The message shows where the recorded calls are kept."""

    is_of_disk = False
    """True if the system refused it, so that it may succeed later: no room, or no right to write."""

    @classmethod
    def of_system(cls, path: Path | str, problem: str, *, remedy: str) -> Self:
        """Make the error for something that the system refused. Arguments as of the class."""
        error = cls(path, problem, remedy=remedy)
        error.is_of_disk = True
        return error


class ConfigurationError(AgentTapeError):
    """An option, a redaction rule or a project setting is not valid."""


class MissingIntegrationError(AgentTapeError):
    """A recording has ended without a call, and a framework is in use whose package of ours is not installed."""


class UnrecordableValueError(AgentTapeError):
    """A value cannot be written to a cassette so that it comes back with the same type.

    Args:
        where: The path of the value inside the recorded object, such as `$.artifact[2]`.
        value_type: The type that has no codec.
        why: The reason, when it is not merely an unknown type.
    """

    def __init__(self, where: str, value_type: type, why: str = "no codec is known for this type") -> None:
        self.where = where
        self.value_type = value_type
        self.why = why
        name = f"{value_type.__module__}.{value_type.__qualname__}"
        super().__init__(
            f"cannot record the value at {where}: {name} ({why})\n"
            "  return plain data (str, int, float, bool, None, bytes, list, tuple, set, dict, datetime, uuid, "
            "pydantic model, dataclass, enum, numpy array) from this boundary,\n"
            "  register a codec for the type: agenttape_core.integration.register_codecs([TypeCodec(...)]),\n"
            "  name the tool in step_into={...}, if a replay may run its code to have the value,\n"
            '  or open the cassette with accept={"opaque"}, if an opaque value that can only be passed around will do'
        )


class UnreadableValueError(AgentTapeError):
    """A recorded value cannot be built, because its class or codec is not loaded or no longer fits.

    Args:
        what: The recorded type name or tag.
        why: The expected value and the one found.
    """

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        super().__init__(f"cannot rebuild the recorded value {what}: {why}")


class UnusedInteractionsError(AgentTapeError):
    """The run ended without using every recording in the cassette.

    Args:
        message: What it is about, with the names of the recordings.
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class ChangeNotReachedError(AgentTapeError):
    """The run ended without making the call to change, so it shows nothing about the change.

    Args:
        message: What it is about, with the changes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class SessionStateError(AgentTapeError):
    """A session was entered twice, or its results were read at the wrong time."""


class UnrecordedCallError(AgentTapeError):
    """The error result of a call that has no recording, where the run is to live on: `on_miss="return"`.

    Boundaries that can hand an error to the run as a value (tools of agents) do that instead of raising it.

    Args:
        summary: What was missed.
        said: The text of the error result: neutral if a model may read it. By default the summary.
    """

    def __init__(self, summary: str, said: str | None = None) -> None:
        super().__init__(summary)
        self.said = summary if said is None else said
        self._is_neutral = False

    def neutral(self) -> UnrecordedCallError:
        """Return the error with only the words of the error result, even if a model gets to see its `repr`."""
        error = UnrecordedCallError(self.said)
        error._is_neutral = True
        return error

    def __repr__(self) -> str:
        return f"Error({self.said!r})" if self._is_neutral else super().__repr__()


class UnrecordedCallsError(AgentTapeError):
    """A run has made calls that were never recorded, and is not to pass with them: `on_unrecorded="fail"`."""


class VerificationError(AgentTapeError):
    """The replays of a function differ, or fail: raised by `verify`, and with `check_replay="fail"`."""


class ExportError(AgentTapeError):
    """An export did not arrive at the tool it was sent to.

    Args:
        target: Where it was sent to.
        why: The problem, in the words of the tool or its client.
    """

    def __init__(self, target: str, why: str) -> None:
        self.target = target
        super().__init__(
            f"{target} did not take what was exported: {why}\n"
            "  check that it runs and takes OTLP by HTTP, or write a file: agenttape export --format otel -o spans.json"
        )


class ReplayedError(AgentTapeError):
    """Stands in for a recorded exception whose own type is not loaded in this process.

    Args:
        type_name: The recorded type, as `module.QualName`. It is never imported.
        message: The recorded message.
    """

    def __init__(self, type_name: str, message: str) -> None:
        self.type_name = type_name
        # Not super(): one that also derives from a recorded base keeps what that base made of the recorded arguments.
        Exception.__init__(self, f"{type_name}: {message}")

    def __str__(self) -> str:
        return str(self.args[0])


class AgentTapeHalt(BaseException):
    """The root of everything that must stop a run. The module docstring explains why it isn't an `Exception`."""

    in_worker = False
    """True if it was raised in a worker of a pool of `multiprocessing`, and has come to whoever waited for the task."""

    __reduce__ = _reduced

    def __getattr__(self, name: str) -> NoReturn:
        """Raise the halt itself where a framework that gathers exceptions takes it for a result."""
        if name in _result_attributes:
            raise self
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_result_attributes: set[str] = set()


def register_result_attribute(name: str) -> None:
    """Let a halt raise itself when a framework reads an attribute of results from it.

    `asyncio.gather(..., return_exceptions=True)` returns halts among the results. A framework that looks for
    `Exception` there takes a halt for a result, and would end with an `AttributeError` in its place.

    Args:
        name: The attribute that it reads first.
    """
    _result_attributes.add(name)


class CassetteMissError(AgentTapeHalt):
    """The run made a call that isn't in the cassette.

    The parts of the message are attributes, for tools and editors. All of it is redacted.

    Args:
        summary: The first line: which call, at which place, of which cassette.
        details: The explanation: nearest recording, differing parts, remedy.
        kind: The kind of the call; empty if the session is unknown.
        name: The name of the call.
        address: The place of the call in the run.
        reason: The reason why it may be neither replayed nor executed.
        cassette: The cassette.
        nearest: The number of the nearest recording; `None` if there is none.
        differences: How the request differs from that recording: path, recorded value, present value.
    """

    def __init__(
        self,
        summary: str,
        details: str = "",
        *,
        kind: str = "",
        name: str = "",
        address: str = "",
        reason: str = "",
        cassette: str = "",
        nearest: int | None = None,
        differences: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        self.summary = visible(summary)
        self.kind = kind
        self.name = name
        self.address = address
        self.reason = reason
        self.cassette = cassette
        self.nearest = nearest
        self.differences = tuple(differences)
        super().__init__(self.summary + (f"\n{visible(details)}" if details else ""))

    def to_dict(self) -> dict[str, Any]:
        """Return its parts as plain data."""
        names = ("summary", "kind", "name", "address", "reason", "cassette", "nearest")
        parts = [dict(zip(("path", "recorded", "asked"), each, strict=True)) for each in self.differences]
        return {**{name: getattr(self, name) for name in names}, "differences": parts}


class IncompleteObjectError(AgentTapeHalt):
    """A call would run on an object that lacks a write, because a replay answered the write from a recording.

    Args:
        call: The call that was refused.
        store: The name of the object's class.
        write: The write that was replayed: its kind and name.
        cassette: The cassette that answered it.
    """

    def __init__(self, call: str, store: str, write: str, cassette: str) -> None:
        self.store = store
        self.cassette = cassette
        again = "pytest --rerecord" if "PYTEST_CURRENT_TEST" in os.environ else "AGENTTAPE_MODE=record <your command>"
        memory = f"if a {store} lives in memory, run it in replays:"
        super().__init__(
            f"Can't record {call}: this {store} is incomplete\n"
            f"  {write} was replayed from {shown_path(cassette)}, so nothing was really added to it.\n\n"
            "  Pick one:\n"
            f"    create the {store} inside the test or one of its own fixtures\n"
            f"    {'re-record both cassettes in one run:':<{len(memory)}}  {again}\n"
            f"    {memory}  agenttape_core.in_memory({store})"
        )


class BudgetExceededError(AgentTapeHalt):
    """A call of a model would cost more than the limit allows. It wasn't made, and the cassette is unchanged.

    Args:
        limit: What may be spent, in US dollars.
        spent: What was spent, in US dollars.
        call: The call, in words.
    """

    def __init__(self, limit: float, spent: float, call: str) -> None:
        self.limit = limit
        self.spent = spent
        super().__init__(
            f"{call} wasn't made: ${spent:.4f} of ${limit:g} is spent, and it may cost more than is left\n"
            "  its cassette is unchanged; allow more, or see the cost first:  --dry-run, in pytest --cassette-dry-run"
        )


class NetworkBlockedError(AgentTapeHalt):
    """The run tried to reach the outside in a replay, and not in a call that was live."""


def halt_in(error: BaseException | None) -> AgentTapeHalt | None:
    """Return the halt in an exception: itself, or the first one of a group that contains only halts.

    Task groups raise their tasks' exceptions as a group.
    """
    if isinstance(error, AgentTapeHalt):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    halts = [halt_in(inner) for inner in error.exceptions]
    return halts[0] if None not in halts else None
