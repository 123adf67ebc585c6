"""The input that a run began with, so that it can be started again without the test or the request that started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Entry, Plain
from agenttape_core.session.codecs import plain_value


class RunInput(NamedTuple):
    """The beginning of a run."""

    input: Plain  # the input, as plain data
    entry: Entry  # the call that began it


_KEEPING = Lock()  # one lock for all sessions: each holds it once, for a moment


class FirstInput:
    """Keeps the first input of a session: later calls of the program are another matter. Thread-safe.

    Args:
        is_kept: Whether the session records; without that, the input isn't kept.
    """

    def __init__(self, *, is_kept: bool = True) -> None:
        self._is_kept = is_kept
        self._begun: RunInput | None = None
        self._read: Callable[[], Plain] | None = None
        self._tell: Callable[[RunInput], None] | None = None
        self._inside = False

    def tell(self, tell: Callable[[RunInput], None]) -> None:
        """Tell the beginning of the run when it is known, so that it outlives the process.

        Args:
            tell: Called once.
        """
        self._tell = tell

    def entered(self) -> None:
        """Note that the session is entered here: in an event loop, or outside of one."""
        self._inside = _in_loop()

    def note(self, value: Plain, *, method: str = "", configurable: Mapping[str, Any] | None = None) -> None:
        """Keep an input, unless there is one already.

        Args:
            value: The input, as plain data that isn't modified.
            method: The method that was called, where the kind of the program has several.
            configurable: The configurable values that it was given.
        """
        if not self.is_wanted:
            return
        plain = {str(key): plain_value(item) for key, item in (configurable or {}).items()}
        begun = RunInput(value, Entry(method=method, awaited=_in_loop(), inside=self._inside, configurable=plain))
        with _KEEPING:
            if self._begun is not None:
                return
            self._begun = begun
        if self._tell is not None:
            self._tell(begun)

    def note_later(self, read: Callable[[], Plain]) -> None:
        """Keep an input that is known when the run has ended, such as the body of a request.

        Args:
            read: Returns it, as plain data.
        """
        if self.is_wanted:
            self._read = read

    @property
    def is_wanted(self) -> bool:
        """True if an input would be kept: there is none yet, and the session records."""
        return self._is_kept and self._begun is None and self._read is None

    @property
    def begun(self) -> RunInput | None:
        """The beginning of the run, if there was one."""
        return (
            RunInput(self._read(), Entry(awaited=True, inside=self._inside)) if self._read is not None else self._begun
        )


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
