"""Time travel: list the steps of a recorded run, replay it, and fork it at any step."""

from agenttape_langgraph.time_travel.fork import Fork, atime_travel, time_travel
from agenttape_langgraph.time_travel.recorded_run import RecordedStep, steps_of
from agenttape_langgraph.time_travel.replay import ThreadReplay, areplay_thread, replay_thread

__all__ = [
    "Fork",
    "RecordedStep",
    "ThreadReplay",
    "areplay_thread",
    "atime_travel",
    "replay_thread",
    "steps_of",
    "time_travel",
]
