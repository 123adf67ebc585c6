"""An MCP server for tests, by the official package: over stdio, or over HTTP on the port in PORT.

It notes each thing that it does in the file SEEN, and answers with the number of its process, which no replay has.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.types import SamplingMessage, TextContent, ToolAnnotations

kept: list[asyncio.Task[None]] = []
PORT = int(os.environ.get("PORT", "8000"))
server: Any
try:
    from mcp.server.fastmcp import Context, FastMCP
except ModuleNotFoundError:  # from mcp 2 on
    from mcp.server.mcpserver import Context, MCPServer  # type: ignore[import-not-found, no-redef]

    server, options = MCPServer("weather", log_level="ERROR"), {"port": PORT}
else:
    server, options = FastMCP("weather", log_level="ERROR", port=PORT), {}


def note(word: str) -> None:
    """Note something that is done."""
    with Path(os.environ["SEEN"]).open("a") as seen:
        seen.write(word + "\n")


@server.tool(annotations=ToolAnnotations.model_validate({"readOnlyHint": True}))
def read_weather(city: str) -> str:
    """Tell the weather."""
    note(f"read {city}")
    return f"{city}: sunny, says {os.getpid()}"


@server.tool()
def book(city: str) -> str:
    """Book a trip."""
    note(f"book {city}")
    if city == "Atlantis":
        raise ValueError("there is no such city")
    return f"{city}: booked by {os.getpid()}"


@server.tool()
async def plan(days: int, ctx: Context) -> str:  # type: ignore[type-arg]
    """Plan a trip, with progress, and with the model of the client."""
    for day in range(days):
        await ctx.report_progress(day, days, f"day {day}")
        await ctx.info(f"planning day {day}")
    question = SamplingMessage(role="user", content=TextContent(type="text", text="Is it nice?"))
    answer = await ctx.session.create_message([question], max_tokens=10)
    return f"planned by {os.getpid()}: {getattr(answer.content, 'text', '')}"


@server.tool()
async def rain(days: int, ctx: Context) -> str:  # type: ignore[type-arg]
    """Tell how it rains, with progress after each random while."""
    for day in range(days):
        await ctx.report_progress(day, days, f"day {day}")
        await ctx.info(f"day {day} of {days}: {os.urandom(4).hex()}")
        await anyio.sleep(os.urandom(1)[0] / 20_000)
    return f"rain, says {os.getpid()}"


@server.tool()
async def tick(ctx: Context) -> str:  # type: ignore[type-arg]
    """Begin to send messages that belong to no request."""
    session = ctx.session

    async def ticks() -> None:
        while True:
            await anyio.sleep(os.urandom(1)[0] / 10_000)
            await session.send_log_message("info", f"tick {os.urandom(4).hex()}")

    kept.append(asyncio.get_running_loop().create_task(ticks()))
    return "ticking"


@server.tool()
async def wait() -> str:
    """Wait longer than anybody does."""
    note("wait")
    await anyio.sleep(100)
    return "waited"


@server.tool()
def die() -> str:
    """End without an answer."""
    os._exit(3)


@server.resource("notes://{name}")
def notes(name: str) -> str:
    """Read a note."""
    return f"{name}: noted by {os.getpid()}"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}, {os.getpid()}."


if __name__ == "__main__":
    note("started")
    server.run(sys.argv[1], **({} if sys.argv[1] == "stdio" else options))
