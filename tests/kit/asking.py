"""Boundaries of small programs that ask at once: one that is awaited, one that streams, and one of a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agenttape_core import boundary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@boundary
async def ask(question: str) -> str:
    """Answer a moment later, and later if it was asked later."""
    await asyncio.sleep(0)
    return f"{question}!"


@boundary
async def words(question: str) -> AsyncIterator[str]:
    """Answer in three words."""
    for number in range(3):
        await asyncio.sleep(0)
        yield f"{question}{number}"


@boundary
def look(question: str) -> str:
    """Answer without a coroutine."""
    return f"{question}."
