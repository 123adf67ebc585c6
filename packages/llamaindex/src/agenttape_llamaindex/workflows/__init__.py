"""Record the ticks of workflows, and go back to any step of a recorded one."""

from agenttape_llamaindex.workflows.reading import RecordedEvent, RecordedStep, steps_of
from agenttape_llamaindex.workflows.recording import RunRecord, TickRecorder
from agenttape_llamaindex.workflows.resuming import context_at
from agenttape_llamaindex.workflows.runtime import TapeRuntime, subscribe, subscribe_to_taped, unsubscribe

__all__ = [
    "RecordedEvent",
    "RecordedStep",
    "RunRecord",
    "TapeRuntime",
    "TickRecorder",
    "context_at",
    "steps_of",
    "subscribe",
    "subscribe_to_taped",
    "unsubscribe",
]
