"""The cells of the table whose replays are equal, or say in `report.disorder` why they are not."""

from __future__ import annotations

TOLD: dict[str, str] = {
    "conversations_at_once/asyncio": "threads of a database answer two conversations, and one is late",
    "reader_that_goes_away/a reader that goes away": "handlers work in threads when the reader goes",
}
