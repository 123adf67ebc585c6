"""A function as a command: `python -m agenttape_core.tools.processes.run_api module:function` calls it."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from agenttape_core.tools.target import load, target_of

_USAGE = 2


def main(name: str) -> None:
    """Call a function without arguments, and whatever it returns to be awaited or read to its end.

    Args:
        name: The function, as `module:function` or `path/to/file.py:function`.
    """
    target = target_of(name)
    try:
        function = load(target)
    except (ImportError, AttributeError, TypeError) as error:
        sys.stderr.write(f"agenttape: cannot call {target}: {type(error).__name__}: {error}\n")
        sys.exit(_USAGE)
    asyncio.run(_awaited(function)) if _is_async(function) else _finished(function())


def _is_async(function: Callable[[], Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


async def _awaited(function: Callable[[], Any]) -> None:
    result = function()
    if isinstance(result, AsyncIterator):
        async for _ in result:
            pass
    else:
        await result


def _finished(value: Any) -> None:
    if inspect.iscoroutine(value):
        asyncio.run(value)
    elif inspect.isgenerator(value):
        for _ in value:
            pass


if __name__ == "__main__":
    sys.argv[:] = sys.argv[1:2]  # a program's own `main` reads its arguments, and there are none
    main(sys.argv[0])
