"""`agenttape mcp`: the recordings of a project as tools for a coding agent, over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.commands.agent_tools import TOOLS, Answer, Project, Running
from agenttape_core.cli.output import cli_command, print_json
from agenttape_core.errors import ConfigurationError

_INSTRUCTIONS = (
    "Recordings of this project's agents: look at them, explain why a replay misses one, and record what an edit "
    "changed. Each answer begins with its command. Only update and lab call models or tools for "
    "real, up to max_usd."
)
_CHUNK = 1 << 16


@cli_command("agenttape mcp")
@click.argument("path", default=".", type=click.Path(exists=True, file_okay=False))
def mcp(path: str, *, as_json: bool) -> None:
    """Give a coding agent the recordings, as an MCP server.

    Serves the tools over standard input and output, until the client ends it. PATH is the folder of the project, by
    default the current one: no tool reads or writes outside. Recorded calls are executed only with max_usd. Needs the
    extra mcp. With --json, only lists the tools.
    """
    if as_json:
        print_json([tool.plain() for tool in TOOLS.values()])
        return
    if find_spec("mcp") is None:
        raise ConfigurationError("agenttape mcp needs the package mcp\n  pip install 'agenttape-core[mcp]'")
    os.chdir(path)
    wire = os.dup(0), os.dup(1)
    # What a program or a command prints, or reads, must not meet the messages.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    with suppress(asyncio.CancelledError):  # by SIGTERM
        asyncio.run(_serve(*wire))


async def _serve(requests: int, answers: int) -> None:
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    running = Running(Project(Path()))
    server = _server(running)
    stdio: Any = import_module("mcp.server.stdio").stdio_server

    async def lines() -> AsyncIterator[str]:
        async for line in _lines(requests):
            yield line
        task.cancel()  # the package's first versions would wait for the calls of a client that has left

    try:
        async with stdio(lines(), _Output(answers)) as streams:
            await server.run(*streams, server.create_initialization_options())
    finally:
        await running.close()


def _server(running: Running) -> Any:
    """Return the server of the package; versions 1 and 2 register its functions in different ways."""
    types, lowlevel = import_module("mcp.types"), import_module("mcp.server.lowlevel")
    facts = {"version": version("agenttape-core"), "instructions": _INSTRUCTIONS}
    tools = [types.Tool.model_validate(tool.plain()) for tool in TOOLS.values()]

    async def listed(*_: Any) -> Any:
        return types.ListToolsResult(tools=tools)

    async def called(name: str, arguments: dict[str, Any] | None) -> Any:
        return types.CallToolResult.model_validate(_plain(await running.answer(name, arguments or {})))

    async def called_with(_: Any, params: Any) -> Any:
        return await called(params.name, params.arguments)

    if hasattr(lowlevel.Server, "call_tool"):
        server = lowlevel.Server("agenttape", **facts)
        server.list_tools()(listed)
        server.call_tool(validate_input=False)(called)  # ours names the arguments that a tool has
        return server
    return lowlevel.Server("agenttape", **facts, on_list_tools=listed, on_call_tool=called_with)


def _plain(answer: Answer) -> dict[str, Any]:
    content = [{"type": "text", "text": answer.text}]
    return {"content": content, "structuredContent": answer.data, "isError": answer.is_error}


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a file, which a thread reads that doesn't keep the process from ending."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def read() -> None:
        rest = b""
        with suppress(OSError, RuntimeError):  # the loop has ended
            while chunk := os.read(descriptor, _CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line


class _Output:
    """The file that the answers go to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        """Write a message. A client that has gone gets none."""
        await asyncio.to_thread(self._write, text.encode())

    async def flush(self) -> None:
        """Return: no message is kept back."""

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]
