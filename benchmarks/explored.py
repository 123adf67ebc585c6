"""Orders: a fan-out in tasks and in threads, whose calls are answered in other orders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import FULL, Row, Scale

from agenttape_core import boundary, experiments, use_cassette


@boundary("tool")
def _look(place: str) -> str:
    return f"{place}."


@boundary("tool")
async def _alook(place: str) -> str:
    await asyncio.sleep(0)
    return f"{place}."


def _in_threads() -> list[str]:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda place: _look(_look(place)), "abc"))


async def _in_tasks() -> list[str]:
    async def branch(place: str) -> str:
        return await _alook(await _alook(place))

    return await asyncio.gather(*map(branch, "abc"))


def orders(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the orders of six calls in three branches."""
    programs: dict[str, Callable[[], Any]] = {"tasks": _in_tasks, "threads": _in_threads}
    for where, program in programs.items():
        path = folder / f"{where}.yaml"
        with use_cassette(path, mode="record"):
            asyncio.run(_in_tasks()) if where == "tasks" else program()
        began, tried = time.process_time(), 0
        for _ in range(max(scale.calls // 200, 1)):
            tried += experiments.orders(program, path, runs=90).raise_if_different().orders
        spent = (time.process_time() - began) / tried
        yield Row(f"explore: orders of 6 calls in {where}, each second of one processor", f"{1 / spent:.0f}")
