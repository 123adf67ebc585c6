"""The face of AgentTape for readers of recorded streams and drawings of programs: the group `agenttape.readers`.

It is apart from `agenttape_core.integration`, which imports most of core: git starts a process for each side of each
cassette that it compares, and that process imports the readers.
"""

from agenttape_core.schema.codecs.changes import advanced
from agenttape_core.schema.drawings import Drawing, EventType, register_drawing
from agenttape_core.schema.plain import Plain
from agenttape_core.schema.readers import CallPiece, register_reader

__all__ = [
    "CallPiece",
    "Drawing",
    "EventType",
    "Plain",
    "advanced",
    "register_drawing",
    "register_reader",
]
