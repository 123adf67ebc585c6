"""The file has the calls of tasks where these were begun, so that it reads like the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core import boundary, open_cassette, use_cassette


@boundary("tool")
async def call(name: str) -> str:
    """Answer."""
    await asyncio.sleep(0)
    return name


async def in_task(name: str) -> None:
    """Make a call in another task."""
    await asyncio.create_task(call(name))


async def turns(first: str, second: str) -> None:
    """Make a call in another task, then one here, as a framework does whose guardrails run beside its first turn."""
    await in_task(first)
    await call(second)


async def nested() -> None:
    """Do that in tasks that begin after each other."""
    for pair in ("ab", "cd", "ef"):
        await asyncio.create_task(turns(*pair))
    await call("g")
    await in_task("h")


def separate_loops() -> None:
    """Do that in a loop for each."""
    loop = asyncio.new_event_loop()
    for pair in ("ab", "cd", "ef"):
        loop.run_until_complete(turns(*pair))
    loop.close()


@pytest.mark.parametrize("program", [lambda: asyncio.run(nested()), separate_loops])
def test_calls_are_in_the_order_of_the_run(program: Callable[[], None], tmp_path: Path) -> None:
    """Calls of tasks that waited for each other have the numbers in which they were made."""
    with use_cassette(tmp_path / "c.yaml", mode="record"):
        program()
    names = "".join(item.request["arguments"]["name"] for item in open_cassette(tmp_path / "c.yaml").interactions())
    assert names == "abcdefgh"[: len(names)]
    with use_cassette(tmp_path / "c.yaml", mode="replay"):
        program()
