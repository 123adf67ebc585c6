"""The modes, in VCR's words."""

from __future__ import annotations

from enum import StrEnum

from agenttape_core.errors import ConfigurationError


class Mode(StrEnum):
    """The mode of a session, as in VCR (https://benoittgt.github.io/vcr/#/record_modes/record_modes)."""

    NONE = "none"
    """Replay only: everything is served, anything else is a miss."""
    ONCE = "once"
    """Record if there is no cassette yet, otherwise replay only."""
    NEW_EPISODES = "new_episodes"
    """Serve what is recorded, execute and record the rest."""
    UPDATE = "update"
    """Serve what is recorded, execute and record the rest, and drop what is no longer asked for."""
    ALL = "all"
    """Execute and record everything; the old recordings are replaced."""

    @property
    def always_records(self) -> bool:
        """True where calls are recorded also if there is a cassette."""
        return self in {Mode.NEW_EPISODES, Mode.UPDATE, Mode.ALL}


_ALIASES = {"replay": Mode.NONE, "record": Mode.ALL}


def parse_mode(word: str | Mode) -> Mode:
    """Return the mode that a word names.

    Raises:
        ConfigurationError: If it names none.
    """
    if isinstance(word, Mode):
        return word
    if word in _ALIASES:
        return _ALIASES[word]
    try:
        return Mode(word)
    except ValueError:
        words = ", ".join([*(mode.value for mode in Mode), *(f"{a} (= {m.value})" for a, m in _ALIASES.items())])
        raise ConfigurationError(f"unknown mode {word!r}; choose one of: {words}") from None
