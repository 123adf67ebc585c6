"""AgentTape for LangGraph: record a LangGraph run once, replay it forever, and travel in it at zero tokens.

What a session does not need is imported when it is asked for.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agenttape_core.integration import register_codecs, register_packages
from agenttape_langchain.integration import register_effects, register_tape
from agenttape_langgraph.codec import CODECS
from agenttape_langgraph.effects import EFFECTS
from agenttape_langgraph.tape import tape, tape_own

if TYPE_CHECKING:
    from agenttape_langgraph.export import ThreadExport, aexport_thread, export_thread, open_export
    from agenttape_langgraph.saver import TapeSaver
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
    "export_thread",
    "open_export",
    "replay_thread",
    "steps_of",
    "tape",
    "time_travel",
]

_HOMES = {
    "export": ("ThreadExport", "aexport_thread", "export_thread", "open_export"),
    "saver": ("TapeSaver",),
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

register_codecs(CODECS)
register_packages({"agenttape_langgraph": "agenttape-langgraph", "langgraph": "langgraph"})
register_tape(tape_own)
register_effects(EFFECTS)  # here and not where sessions connect: a taped tool may be served without any


def __getattr__(name: str) -> Any:
    """Import a name late, when it is first used."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """The class of this package, in which `time_travel` is the function, although a folder has its name.

    The import system binds a submodule to its package after it has run, whoever imports it
    (https://docs.python.org/3/reference/import.html#submodules).
    """

    def __setattr__(self, name: str, value: object) -> None:
        is_submodule = isinstance(value, ModuleType) and name in _HOMES.get(name, ())
        super().__setattr__(name, getattr(value, name) if is_submodule else value)


sys.modules[__name__].__class__ = _Package
