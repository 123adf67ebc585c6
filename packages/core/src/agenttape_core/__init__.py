"""AgentTape's core: what a cassette is, when requests match, and what happens on a call."""

from agenttape_core.boundaries import arecord_call, boundary, record_call
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
    DriftError,
    NetworkBlockedError,
    ReplayedError,
    SessionStateError,
    UnmatchedNameWarning,
    UnreadableValueError,
    UnrecordableValueError,
    UnusedInteractionsError,
    UnusedInteractionsWarning,
    VerificationError,
)
from agenttape_core.redaction import Rule
from agenttape_core.schema import Interaction, Step
from agenttape_core.session import Report, Session
from agenttape_core.storage import convert, open_cassette, recover
from agenttape_core.use import use_cassette
from agenttape_core.verification import Verification, verify

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
    "DriftError",
    "Interaction",
    "Mode",
    "NetworkBlockedError",
    "ReplayedError",
    "Report",
    "Rule",
    "Session",
    "SessionStateError",
    "Step",
    "UnmatchedNameWarning",
    "UnreadableValueError",
    "UnrecordableValueError",
    "UnusedInteractionsError",
    "UnusedInteractionsWarning",
    "Verification",
    "VerificationError",
    "arecord_call",
    "boundary",
    "convert",
    "open_cassette",
    "record_call",
    "recover",
    "use_cassette",
    "verify",
]
