"""Every warning of AgentTape: what a program may go on with."""

from __future__ import annotations


class UnusedInteractionsWarning(UserWarning):
    """The warning with the message of `UnusedInteractionsError`, for `on_unused="warn"`."""


class RecordingDoesNotReplayWarning(UserWarning):
    """A function was recorded, and differs when it is called again at once with its recording: `check_replay=True`."""


class UnmatchedNameWarning(UserWarning):
    """A name that was given as `live` or `replay_only` is that of no boundary of the run: perhaps it is misspelled."""


class UnrecordedConnectionWarning(UserWarning):
    """A recorded run has reached outside where no boundary covers it: that is not recorded, and a replay refuses it."""


class DateAtImportWarning(UserWarning):
    """A recorded request holds today's date, which a module drew when it was imported: tomorrow a replay misses."""


class UnidentifiedModelWarning(UserWarning):
    """The requests of a recorded model do not say which model was asked."""


class IncompleteCopyWarning(UserWarning):
    """A copy of a production run could not be written on; the run goes on, and the copy ends there."""


class AfterReplayWarning(UserWarning):
    """Something that a replay had started went on after its end, and was refused what it tried."""


class AfterRecordingWarning(UserWarning):
    """A stream or coroutine that was made in a recording is first read after its end, so its calls are not recorded."""
