"""The cells of the table that are not equal yet: each is taken away as it becomes equal.

A replay of each may also differ without a word in `report.disorder`: none of them is sure to be told yet.
"""

from __future__ import annotations

PENDING: dict[str, str] = {
    "interrupt_in_a_tool/astream_events v3": "the id of a tool's message is there or not, depending on a thread",
    "hedged/astream_events v2": "a timer of milliseconds fires early on a busy machine",
    "supervisor/astream_events v2": "threads of threads beside an event loop; a replay says so",
    "supervisor/astream_events v3": "threads of threads beside an event loop; a replay says so",
    "hedged/ainvoke": "a timer of milliseconds fires early on a busy machine",
    "hedged/astream": "a timer of milliseconds fires early on a busy machine",
    "timeouts/ainvoke": "a timer of milliseconds fires early on a busy machine",
    "timeouts/astream": "a timer of milliseconds fires early on a busy machine",
    "conversations_at_once/asyncio": "the order in which threads of aiosqlite answer a loop",
    "contexts_over_turns/asyncio": "the order in which threads of aiosqlite answer a loop",
}
