"""Record the ticks of workflows, and go back to any step of a recorded one."""

from agenttape_llamaindex.workflows.reading import RecordedEvent, RecordedStep, steps_of
from agenttape_llamaindex.workflows.recording import RunRecord, TickTaker
from agenttape_llamaindex.workflows.resuming import context_at
from agenttape_llamaindex.workflows.runtime import TapeRuntime, hear_taped_runs, hear_ticks, unhear_ticks

__all__ = [
    "RecordedEvent",
    "RecordedStep",
    "RunRecord",
    "TapeRuntime",
    "TickTaker",
    "context_at",
    "hear_taped_runs",
    "hear_ticks",
    "steps_of",
    "unhear_ticks",
]
