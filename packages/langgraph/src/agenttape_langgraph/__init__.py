"""AgentTape for LangGraph: record a LangGraph run once, replay it forever, and travel in it at zero tokens."""

from agenttape_core.integration import register_codecs, register_packages
from agenttape_langchain.integration import register_effects, register_tape
from agenttape_langgraph.codec import CODECS
from agenttape_langgraph.effects import EFFECTS
from agenttape_langgraph.export import ThreadExport, aexport_thread, export_thread, open_export
from agenttape_langgraph.saver import TapeSaver
from agenttape_langgraph.tape import tape, tape_own
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

register_codecs(CODECS)
register_packages({"agenttape_langgraph": "agenttape-langgraph", "langgraph": "langgraph"})
register_tape(tape_own)
register_effects(EFFECTS)  # here and not where sessions connect: a taped tool may be served without any
