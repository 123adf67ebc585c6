"""The refusal of what a replay has started, and which goes on after its end."""

from __future__ import annotations

import warnings

from agenttape_core.errors import AgentTapeHalt, OutlivedReplayWarning

WAIT_FOR_IT = (
    "a thread, task or piece of work of the replay tried this; nothing that a replay has started reaches the outside:\n"
    "  wait for it before the block ends (join the thread, await the task, shut the pool down, read the stream), or "
    "start it outside"
)
"""The explanation, and the remedy."""


def warn_of_late(halt: AgentTapeHalt) -> None:
    """Warn of a refusal that no session is left to fail for.

    Args:
        halt: The refusal, which the caller is about to raise.

    Raises:
        AgentTapeHalt: The same, where warnings are errors: an `Exception` could be taken for an answer.
    """
    try:
        warnings.warn(OutlivedReplayWarning(str(halt)), stacklevel=4)
    except OutlivedReplayWarning as warning:
        raise halt from warning
