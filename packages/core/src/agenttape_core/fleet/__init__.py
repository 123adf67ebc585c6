"""Fleets: thousands of recordings, checked or replayed by any engine that can map. The store is the queue."""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.fleet.index import Indexed, ask, calls, read_index, update_index
    from agenttape_core.fleet.items import Item, Plan, read_plan
    from agenttape_core.fleet.outcomes import Outcome, store_plan
    from agenttape_core.fleet.report import Report, read_report
    from agenttape_core.fleet.working import work

__all__ = [
    "Indexed",
    "Item",
    "Outcome",
    "Plan",
    "Report",
    "ask",
    "calls",
    "read_index",
    "read_plan",
    "read_report",
    "store_plan",
    "update_index",
    "work",
]

__getattr__ = late_names(
    __name__,
    {
        ".index": ("Indexed", "ask", "calls", "read_index", "update_index"),
        ".items": ("Item", "Plan", "read_plan"),
        ".outcomes": ("Outcome", "store_plan"),
        ".report": ("Report", "read_report"),
        ".working": ("work",),
    },
)
