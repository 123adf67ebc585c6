"""The cells of the table whose replays are equal, or say in `report.nondeterminism` why they are not."""

from __future__ import annotations

_GOING_ON = (
    "on a machine that is busy, a thread below a tool may go on before the event loop has come to what it put there"
)

TOLD: dict[str, str] = {
    "supervisor/astream_events v2": _GOING_ON,
    "supervisor/astream_events v3": _GOING_ON,
    "conversations_at_once/asyncio": "threads of a database answer two conversations, and one is late",
    "hedged/astream_events v2": "handlers work in threads when their calls are cancelled",
    "reader_that_goes_away/a reader that goes away": "handlers work in threads when the reader goes",
}
