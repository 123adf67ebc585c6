"""The latch: the first failure of a session, which then fails even if user code caught the error."""

from __future__ import annotations

from collections.abc import Callable

from agenttape_core.errors import AgentTapeError, AgentTapeHalt
from agenttape_core.locks import Lock

_FAILING = Lock()
"""One lock for all sessions: few fail, and each holds it for a moment."""


class Latch:
    """Remembers the first failure. Thread-safe.

    As a context manager it latches our own errors that leave the block. It holds no state of a block, so that one
    object serves all blocks of a session: every call enters several.
    """

    __slots__ = ("error", "on_first")

    def __init__(self) -> None:
        self.error: AgentTapeError | AgentTapeHalt | None = None
        self.on_first: list[Callable[[AgentTapeError | AgentTapeHalt], object]] = []
        """Called with the first failure."""

    def keep(self, failure: AgentTapeError | AgentTapeHalt) -> None:
        """Remember a failure, unless there was one before."""
        with _FAILING:
            is_first = self.error is None
            self.error = self.error or failure
        if is_first:
            for note in self.on_first:
                note(failure)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AgentTapeError):
            self.keep(error)
