"""What objects made of a cassette have in common: which recordings are theirs, and what a call of them means."""

from agenttape_core.recorded.part import Exhausted, Options, Pace, RecordedPart, settings_of_method
from agenttape_core.recorded.settings import (
    Meaning,
    Setting,
    distinct_settings,
    format_meaning,
    formats_agree,
    meaning_of,
)

__all__ = [
    "Exhausted",
    "Meaning",
    "Options",
    "Pace",
    "RecordedPart",
    "Setting",
    "distinct_settings",
    "format_meaning",
    "formats_agree",
    "meaning_of",
    "settings_of_method",
]
