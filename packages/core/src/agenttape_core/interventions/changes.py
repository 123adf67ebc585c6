"""Changes as plain data: the answer to give to a call instead of its recording."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.schema import Outcome
from agenttape_core.session.sources import RecordedCall

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(ABC):
    """A change of a recorded call. It is made with `raises`, `returns`, `edits`, `cut` or `late`.

    Args:
        every: Whether each attempt of the call is changed. If not, the first is, and the next gets the recorded answer.
    """

    every: bool = False

    @property
    def delay(self) -> float:
        """The seconds by which the answer is late."""
        return 0.0

    def problem(self, outcome: Outcome) -> str:  # noqa: ARG002 - as of a change that has one
        """Return the reason why the recorded answer can't be changed; empty if it can.

        Args:
            outcome: What was recorded.
        """
        return ""

    @abstractmethod
    def outcome(self, call: RecordedCall) -> Outcome:
        """Return the outcome of a call.

        Args:
            call: The call, with its recording.
        """

    @abstractmethod
    def words(self) -> str:
        """Return the change in words."""

    def __str__(self) -> str:
        return f"always {self.words()}" if self.every else self.words()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raises(Change):
    error: Exception

    def outcome(self, call: RecordedCall) -> Outcome:
        return call.raising(self.error)

    def words(self) -> str:
        return f"raises {_shown(self.error)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Returns(Change):
    answer: Any

    def outcome(self, call: RecordedCall) -> Outcome:
        return call.returning(self.answer)

    def words(self) -> str:
        return f"returns {_shown(self.answer)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edits(Change):
    edit: Callable[[Any], Any]

    def problem(self, outcome: Outcome) -> str:
        is_whole = outcome.status == "returned" or (outcome.status == "streamed" and outcome.ended == "exhausted")
        return "" if is_whole else f"it has no recorded answer to edit: it {_how(outcome)}"

    def outcome(self, call: RecordedCall) -> Outcome:
        edited = call.returning(self.edit(call.answer()))
        kept = {name: getattr(call.outcome, name) for name in ("effects", "arguments", "usage")}
        return edited.model_copy(update=kept)

    def words(self) -> str:
        return f"edited by {getattr(self.edit, '__name__', type(self.edit).__name__)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut(Change):
    after: int
    error: Exception

    def problem(self, outcome: Outcome) -> str:
        if outcome.chunks is None:
            return f"it has no chunks: it {_how(outcome)}"
        held = len(outcome.chunks)
        return f"it has only {counted(held, 'chunk')}" if self.after > held else ""

    def outcome(self, call: RecordedCall) -> Outcome:
        return call.raising(self.error, self.after)

    def words(self) -> str:
        return f"cut after {counted(self.after, 'chunk')} by {_shown(self.error)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late(Change):
    seconds: float

    @property
    def delay(self) -> float:
        return self.seconds

    def outcome(self, call: RecordedCall) -> Outcome:
        return call.outcome

    def words(self) -> str:
        return f"late by {self.seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOutcome(Change):
    """An outcome as a cassette holds it."""

    given: Outcome

    def outcome(self, call: RecordedCall) -> Outcome:  # noqa: ARG002 - whatever was recorded
        """Return the outcome."""
        return self.given

    def words(self) -> str:
        """Return that it was given."""
        return f"given another outcome ({_how(self.given)})"


def _how(outcome: Outcome) -> str:
    return f"streamed and {outcome.ended}" if outcome.ended not in {None, "exhausted"} else outcome.status


def _shown(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - of a class of the user's
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def raises(error: Exception | type[Exception]) -> Change:
    """Return a change: the call raises an error.

    Args:
        error: The error, or a class that can be made without arguments. The program gets one like it, with its
            attributes.

    Raises:
        ConfigurationError: If it is none that a call can raise.
    """
    return _Raises(error=_error(error, "raises"))


def returns(answer: Any) -> Change:
    """Return a change: the call returns an answer.

    Args:
        answer: The answer in the form that programs of the framework use: a text or a message for a chat model, the
            return value of a tool, documents for a retriever.
    """
    return _Returns(answer=answer)


def edits(function: Callable[[Any], Any]) -> Change:
    """Return a change: the call returns its recorded answer, edited. One that streamed brings it in one chunk.

    Args:
        function: Gets the recorded answer, redacted, in the form that programs of the framework use; returns the
            answer. It may change the one that it gets.

    Raises:
        ConfigurationError: If it isn't a plain function (not a coroutine).
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"edits({function!r}): expected a function of the recorded answer that is not awaited\n"
            "  such as edits(lambda answer: answer.upper()); returns(...) gives an answer as it is"
        )
    return _Edits(edit=function)


def cut(after: int, error: Exception | type[Exception] | None = None) -> Change:
    """Return a change: the stream of the call breaks. A plain call that is answered from it raises the same error.

    Args:
        after: The number of chunks that arrive.
        error: The error that breaks it; by default a `ConnectionError`.

    Raises:
        ConfigurationError: If an argument is not valid.
    """
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise ConfigurationError(f"cut(after={after!r}): expected a number of chunks: 0, 1, 2, …")
    broken = ConnectionError(f"the stream was cut after {counted(after, 'chunk')}") if error is None else error
    return _Cut(after=after, error=_error(broken, "cut"))


def late(seconds: float) -> Change:
    """Return a change: the recorded answer comes later than it would, each chunk of a stream by so much.

    Args:
        seconds: The delay, in seconds. It is waited for, unless the clock of the replay is virtual.

    Raises:
        ConfigurationError: If it isn't a length of time.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or seconds < 0:
        raise ConfigurationError(f"late({seconds!r}): expected a number of seconds, such as 0.5")
    return _Late(seconds=float(seconds))


def once(change: Change) -> Change:
    """Return a change of the first attempt of a call, which is the default: a retry gets the recorded answer.

    Args:
        change: The change.
    """
    return replace(checked(change, "once"), every=False)


def always(change: Change) -> Change:
    """Return a change of each attempt of a call: a retry of the same request gets it as well.

    Args:
        change: The change.
    """
    return replace(checked(change, "always"), every=True)


def checked(change: Any, what: str) -> Change:
    """Return a given change; `what` names its target in words. Raises `ConfigurationError` if it is none."""
    if isinstance(change, Change):
        return change
    raise ConfigurationError(
        f"{what}: expected a change, found {_shown(change)}\n"
        "  one of raises(ERROR), returns(ANSWER), edits(FUNCTION), cut(after=N), late(SECONDS), also in always(...)"
    )


def _error(error: Any, what: str) -> Exception:
    made = error
    if isinstance(error, type) and issubclass(error, Exception):
        try:
            made = error()
        except Exception:  # noqa: BLE001 - the class of a client, which needs a response
            raise ConfigurationError(
                f"{what}: {error.__name__} cannot be made without arguments\n"
                f"  pass an error: {what}({error.__name__}(...))"
            ) from None
    if not isinstance(made, Exception):
        raise ConfigurationError(f"{what}: expected an exception that a call may raise, found {_shown(error)}")
    return made
