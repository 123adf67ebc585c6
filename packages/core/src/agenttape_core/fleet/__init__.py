"""Fleets: thousands of recordings, checked or replayed by any engine that can map. The store is the queue."""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.fleet.index import Indexed, calls, read_index, update_index
    from agenttape_core.fleet.questions import ask
    from agenttape_core.fleet.report import Report, read_report

__all__ = ["Indexed", "Report", "ask", "calls", "read_index", "read_report", "update_index"]

__getattr__ = late_names(
    __name__,
    {
        ".index": ("Indexed", "calls", "read_index", "update_index"),
        ".questions": ("ask",),
        ".report": ("Report", "read_report"),
    },
)
