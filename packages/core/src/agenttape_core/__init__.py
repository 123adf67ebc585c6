"""AgentTape's core: the cassette, the matching of requests, and the handling of calls.

Modules are imported lazily: a test runner that only finds our plugin pays nothing for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttape_core.boundaries import arecord_call, boundary, record_call
    from agenttape_core.engine import Mode
    from agenttape_core.experiments.verify import verify
    from agenttape_core.experiments.what_if import awhat_if, what_if
    from agenttape_core.integration.in_memory import in_memory
    from agenttape_core.interventions import Change, always, cut, edits, late, once, raises, returns
    from agenttape_core.lifecycle.replay_source import areplay_source, replay_source
    from agenttape_core.lifecycle.use_cassette import use_cassette
    from agenttape_core.lifecycle.variation import Variation
    from agenttape_core.redaction import Rule
    from agenttape_core.schema import Interaction, Step
    from agenttape_core.session import Report, Session
    from agenttape_core.storage import convert, open_cassette, recover
    from agenttape_core.tools.compare import compare_cassettes

__all__ = [
    "Change",
    "Interaction",
    "Mode",
    "Report",
    "Rule",
    "Session",
    "Step",
    "Variation",
    "always",
    "arecord_call",
    "areplay_source",
    "awhat_if",
    "boundary",
    "compare_cassettes",
    "convert",
    "cut",
    "edits",
    "in_memory",
    "late",
    "once",
    "open_cassette",
    "raises",
    "record_call",
    "recover",
    "replay_source",
    "returns",
    "use_cassette",
    "verify",
    "what_if",
]

_HOMES = {
    "boundaries": (
        "arecord_call",
        "boundary",
        "record_call",
    ),
    "tools.compare": ("compare_cassettes",),
    "engine": ("Mode",),
    "integration.in_memory": ("in_memory",),
    "interventions": (
        "Change",
        "always",
        "cut",
        "edits",
        "late",
        "once",
        "raises",
        "returns",
    ),
    "redaction": ("Rule",),
    "schema": (
        "Interaction",
        "Step",
    ),
    "session": (
        "Report",
        "Session",
    ),
    "storage": (
        "convert",
        "open_cassette",
        "recover",
    ),
    "lifecycle.replay_source": (
        "areplay_source",
        "replay_source",
    ),
    "lifecycle.use_cassette": ("use_cassette",),
    "lifecycle.variation": ("Variation",),
    "experiments.verify": ("verify",),
    "experiments.what_if": (
        "awhat_if",
        "what_if",
    ),
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    """Import a name on first access."""
    for home, names in _HOMES.items():
        if name in names:
            from agenttape_core.garbage import collecting_late  # which our plugin alone doesn't need

            with collecting_late():
                value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names also before they are imported."""
    return sorted({*globals(), *__all__})
