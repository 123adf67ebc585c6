"""Observers: recording a run from what its framework reports, without substituting anything.

An `Observation` is a recording whose session is never the current one. An `Observer` is the base of a callback handler
over one: it keeps the open runs (`OpenRun`) with the calls among them (`ObservedCall`, `ObservedStream`), writes the
cassette when all have ended, and never lets its own errors reach the observed run.
"""

from typing import TYPE_CHECKING

from agenttape_core.integration.observing.runs import (
    HOLE,
    INTERRUPTED,
    ObservedCall,
    ObservedStream,
    OpenRun,
    Unrecorded,
    output_facts,
)
from agenttape_core.schema.late_names import late_names as _late_names
from agenttape_core.session.context import as_observed

if TYPE_CHECKING:
    from agenttape_core.integration.observing.observer import Observer, Unseen
    from agenttape_core.lifecycle.observed import Observation
    from agenttape_core.lifecycle.shape_only import Payload
    from agenttape_core.lifecycle.sinks import EventsOption

__all__ = [
    "HOLE",
    "INTERRUPTED",
    "EventsOption",
    "Observation",
    "ObservedCall",
    "ObservedStream",
    "Observer",
    "OpenRun",
    "Payload",
    "Unrecorded",
    "Unseen",
    "as_observed",
    "output_facts",
]

__getattr__ = _late_names(
    __name__,
    {
        "agenttape_core.lifecycle.observed": ("Observation",),
        ".observer": ("EventsOption", "Observer", "Payload", "Unseen"),
    },
)
"""Imports what only handlers need, and no session, when it is first used."""
