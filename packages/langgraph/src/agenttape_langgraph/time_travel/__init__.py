"""Time travel: list the steps of a recorded run, depart from it at any of them, and see what would have been."""

from agenttape_langgraph.time_travel.fork import Travel, atime_travel, time_travel
from agenttape_langgraph.time_travel.recorded_run import RecordedStep, steps_of
from agenttape_langgraph.time_travel.replay import Replayed, areplay_thread, replay_thread

__all__ = [
    "RecordedStep",
    "Replayed",
    "Travel",
    "areplay_thread",
    "atime_travel",
    "replay_thread",
    "steps_of",
    "time_travel",
]
