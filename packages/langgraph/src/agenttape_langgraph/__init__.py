"""AgentTape for LangGraph: record a LangGraph run once, replay it forever, and travel in it at zero tokens.

Parts that a session doesn't need are imported on first use.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import agenttape_core
from agenttape_core.on_demand import LatePackage, register_late

if TYPE_CHECKING:
    from agenttape_core import boundary, use_cassette
    from agenttape_langgraph.export import ThreadExport, aexport_thread, export_thread, open_export
    from agenttape_langgraph.saver import TapeSaver
    from agenttape_langgraph.tape import tape
    from agenttape_langgraph.time_travel import (
        Fork,
        RecordedStep,
        ThreadReplay,
        areplay_thread,
        atime_travel,
        replay_thread,
        steps_of,
        time_travel,
    )

__all__ = [
    "Fork",
    "RecordedStep",
    "TapeSaver",
    "ThreadExport",
    "ThreadReplay",
    "aexport_thread",
    "areplay_thread",
    "atime_travel",
    "boundary",
    "export_thread",
    "open_export",
    "replay_thread",
    "steps_of",
    "tape",
    "time_travel",
    "use_cassette",
]

_HOMES = {
    "export": ("ThreadExport", "aexport_thread", "export_thread", "open_export"),
    "saver": ("TapeSaver",),
    "tape": ("tape",),
    "time_travel": (
        "Fork",
        "RecordedStep",
        "ThreadReplay",
        "areplay_thread",
        "atime_travel",
        "replay_thread",
        "steps_of",
        "time_travel",
    ),
}
"""The module of each name that is imported late."""

register_late("agenttape_langgraph.registered")


_OF_CORE = ("boundary", "use_cassette")
"""The names of core that most programs need."""


def __getattr__(name: str) -> Any:
    """Import a name late, when it is first used."""
    if name in _OF_CORE:
        return getattr(agenttape_core, name)
    for home, names in _HOMES.items():
        if name in names:
            import_module("langgraph")  # first: an open session connects it, and imports all of this package
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = LatePackage
