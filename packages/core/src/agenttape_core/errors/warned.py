"""Every warning of AgentTape. The program continues after each."""

from __future__ import annotations


class UnusedInteractionsWarning(UserWarning):
    """The warning with the message of `UnusedInteractionsError`, for `on_unused="warn"`."""


class RecordingDoesNotReplayWarning(UserWarning):
    """A function was recorded, and its result differs in a replay right afterwards: `check_replay=True`."""


class UnmatchedNameWarning(UserWarning):
    """`live` or `replay_only` names a boundary that the run doesn't have. Perhaps it's misspelled."""


class UnrecordedConnectionWarning(UserWarning):
    """A recorded run has reached outside where no boundary covers it: that is not recorded, and a replay refuses it."""


class DateAtImportWarning(UserWarning):
    """A recorded request holds today's date, which a module drew when it was imported: tomorrow a replay misses."""


class UnidentifiedModelWarning(UserWarning):
    """The requests of a recorded model do not say which model was asked."""


class IncompleteCopyWarning(UserWarning):
    """A copy of a production run couldn't be continued. The run continues, and the copy ends there."""


class AfterReplayWarning(UserWarning):
    """Work that a replay had started continued after its end, and was refused."""


class AfterRecordingWarning(UserWarning):
    """A stream or coroutine that was made in a recording is first read after its end, so its calls are not recorded."""
