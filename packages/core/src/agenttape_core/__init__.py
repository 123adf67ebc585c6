"""AgentTape's core: what a cassette is, when requests match, and what happens on a call."""

from agenttape_core.engine import Mode
from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteError,
    CassetteFormatError,
    CassetteLockedError,
    CassetteMissError,
    CassetteNotFoundError,
    CassetteVersionError,
    CassetteWriteError,
    ConfigurationError,
    NetworkBlockedError,
    ReplayedError,
    SessionStateError,
    UnreadableValueError,
    UnrecordableValueError,
    UnusedInteractionsError,
    UnusedInteractionsWarning,
)
from agenttape_core.redaction import Rule
from agenttape_core.schema import Interaction
from agenttape_core.session import Report, Session
from agenttape_core.storage import open_cassette, recover
from agenttape_core.use import use_cassette

__all__ = [
    "AgentTapeError",
    "AgentTapeHalt",
    "CassetteError",
    "CassetteFormatError",
    "CassetteLockedError",
    "CassetteMissError",
    "CassetteNotFoundError",
    "CassetteVersionError",
    "CassetteWriteError",
    "ConfigurationError",
    "Interaction",
    "Mode",
    "NetworkBlockedError",
    "ReplayedError",
    "Report",
    "Rule",
    "Session",
    "SessionStateError",
    "UnreadableValueError",
    "UnrecordableValueError",
    "UnusedInteractionsError",
    "UnusedInteractionsWarning",
    "open_cassette",
    "recover",
    "use_cassette",
]
