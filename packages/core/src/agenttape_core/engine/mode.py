"""The modes of a session."""

from __future__ import annotations

from enum import StrEnum

from agenttape_core.errors import ConfigurationError


class Mode(StrEnum):
    """The mode of a session: it decides on calls that are recorded, and on those that aren't."""

    REPLAY = "replay"
    """Replay recorded calls; any other call is a miss."""
    ONCE = "once"
    """Record if there's no cassette yet, else replay."""
    ADD = "add"
    """Replay recorded calls, and record the rest."""
    UPDATE = "update"
    """Replay recorded calls, record the rest, and drop recordings that the run no longer uses."""
    RECORD = "record"
    """Record everything; the old recordings are replaced."""

    @property
    def always_records(self) -> bool:
        """True where calls are recorded even if there's a cassette."""
        return self in {Mode.ADD, Mode.UPDATE, Mode.RECORD}


_OF_VCR = {"none": Mode.REPLAY, "new_episodes": Mode.ADD, "all": Mode.RECORD}


def parse_mode(word: str | Mode) -> Mode:
    """Return the mode that a word, ours or VCR's, names. Raises `ConfigurationError` if it names none."""
    if word in _OF_VCR:
        return _OF_VCR[word]
    try:
        return Mode(word)
    except ValueError:
        words = ", ".join([*Mode, *(f"{theirs} (VCR's name for {mode})" for theirs, mode in _OF_VCR.items())])
        raise ConfigurationError(f"{word!r} isn't a mode; choose one of: {words}") from None
