"""Replay models and other objects made of a cassette, which answer from its recordings without a real backend.

A stand-in derives from `StandIn` and from the interface of its framework. It keeps its recordings as `_recorded`,
begins a call by `_recorded.cross(...)`, and answers by `replay_call`, `replay_stream` or their asynchronous forms. A
`RecordedPart` holds the calls of a retriever, a store, a tool, an embedding model; a `RecordedModel` holds the chat
model, and recognises tools and response formats in any provider's spelling. `replayed_method` makes a method of a
store, and its asynchronous form.
"""

from typing import TYPE_CHECKING

from agenttape_core.integration.stand_ins.stand_in import StandIn
from agenttape_core.schema.late_names import late_names as _late_names

if TYPE_CHECKING:
    from agenttape_core.integration.alias import hold_signature
    from agenttape_core.integration.stand_ins.recorded import (
        CrossMethod,
        Options,
        Recorded,
        RecordedModel,
        RecordedPart,
        replayed_method,
        settings_of_method,
    )
    from agenttape_core.integration.stand_ins.recorded_settings import (
        Meaning,
        Setting,
        distinct_settings,
        format_meaning,
        formats_agree,
        meaning_of,
    )
    from agenttape_core.lifecycle.cache import Recording, open_replay
    from agenttape_core.matching import OnRepeat
    from agenttape_core.settings import Pace

__all__ = [
    "CrossMethod",
    "Meaning",
    "OnRepeat",
    "Options",
    "Pace",
    "Recorded",
    "RecordedModel",
    "RecordedPart",
    "Recording",
    "Setting",
    "StandIn",
    "distinct_settings",
    "format_meaning",
    "formats_agree",
    "hold_signature",
    "meaning_of",
    "open_replay",
    "replayed_method",
    "settings_of_method",
]

_HOMES = {
    "agenttape_core.integration.alias": ("hold_signature",),
    "agenttape_core.integration.stand_ins.recorded": (
        "CrossMethod",
        "replayed_method",
        "Options",
        "Recorded",
        "RecordedModel",
        "RecordedPart",
        "settings_of_method",
    ),
    "agenttape_core.integration.stand_ins.recorded_settings": (
        "Meaning",
        "Setting",
        "distinct_settings",
        "format_meaning",
        "formats_agree",
        "meaning_of",
    ),
    "agenttape_core.lifecycle.cache": ("Recording", "open_replay"),
    "agenttape_core.matching": ("OnRepeat",),
    "agenttape_core.settings": ("Pace",),
}
"""The module of each name that is imported late: whoever tapes objects needs to know stand-ins, and makes none."""

__getattr__ = _late_names(__name__, _HOMES)
