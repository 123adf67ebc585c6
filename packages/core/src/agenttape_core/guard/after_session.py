"""The refusal of work that a replay started and that continues after its end."""

from __future__ import annotations

import warnings
from contextvars import ContextVar

from agenttape_core.errors import AfterReplayWarning, AgentTapeHalt

_WAIT_FOR_IT = (
    "a thread, task or piece of work of the replay tried this; nothing that a replay has started reaches the outside:\n"
    "  wait for it before the block ends (join the thread, await the task, shut the pool down, read the stream), or "
    "start it outside"
)
_NOT_OF_IT = (
    "the teardown of a fixture isn't part of the session of its test: call it in the test, or give the teardown a\n"
    "  session of its own: with use_cassette(...)"
)
_AFTER_IT: ContextVar[bool] = ContextVar("agenttape_after_replay", default=False)


def note_after_replay(*, follows: bool) -> None:
    """Note whether the caller's context follows the replay of a test, whose fixtures end there and see each refusal."""
    _AFTER_IT.set(follows)


def how_to_end(allowing: str = "") -> str:
    """Return the explanation and the remedy. `allowing` is the option that allows the attempt, if there is one."""
    if not _AFTER_IT.get():
        return _WAIT_FOR_IT
    return f"{_NOT_OF_IT}, or allow it: {allowing}" if allowing else _NOT_OF_IT


def warn_of_late(halt: AgentTapeHalt) -> None:
    """Warn of a refusal that no session is left to fail for.

    The caller is about to raise the refusal. Raises `AgentTapeHalt` where warnings are errors: an `Exception` could be
    taken for an answer.
    """
    if _AFTER_IT.get():
        return
    try:
        warnings.warn(AfterReplayWarning(str(halt)), stacklevel=4)
    except AfterReplayWarning as warning:
        raise halt from warning
