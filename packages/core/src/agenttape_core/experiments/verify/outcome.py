"""The ending of a call of a function, as plain data: what it returned, or what it raised."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, ReplayedError
from agenttape_core.lifecycle.use_cassette import CassetteBlock
from agenttape_core.schema import Plain
from agenttape_core.session import value_codec
from agenttape_core.tools.target import awaited, run_to_end


class Ending(NamedTuple):
    """The ending of a call of a function.

    Args:
        outcome: `returned`, or `raised` with type and message, those of notes and of what it came from.
        failed: Whether the replay itself failed, and not the function.
        value: The return value as plain data, or its repr if it has no codec.
    """

    outcome: str
    failed: bool
    value: Plain


def ended(function: Callable[[], Any], around: CassetteBlock | None) -> Ending:
    """Call a function, and return how it ended. A coroutine function is run in a loop, a generator read to its end.

    Args:
        function: The function, without arguments.
        around: The cassette to open around it, if one is.
    """
    try:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            value = asyncio.run(_awaited(function, around))
        else:
            with around or nullcontext():
                value = run_to_end(function)
    except BaseException as error:  # noqa: BLE001 - how the function ended is what is asked for
        return Ending(f"raised {described(error)}", is_failure(error), None)
    return Ending("returned", False, encoded(value))


async def _awaited(function: Callable[[], Any], around: CassetteBlock | None) -> Any:
    async with around or nullcontext():
        return await awaited(function())


def encoded(value: Any) -> Plain:
    """Return a value as plain data, or its repr if it has no codec."""
    try:
        return value_codec().encode(value)
    except AgentTapeError:
        return repr(value)


def is_failure(error: BaseException) -> bool:
    """Return True if the replay itself failed, not the function."""
    return isinstance(error, AgentTapeError | AgentTapeHalt) and not isinstance(error, ReplayedError)


def described(error: BaseException) -> str:
    """Return the type and message of an exception, of its notes, and of those that it came from."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    lines = [f"{name}: {error}", *getattr(error, "__notes__", ())]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"with {described(inner)}" for inner in error.exceptions]
    if error.__cause__ is not None:
        lines.append(f"from {described(error.__cause__)}")
    elif error.__context__ is not None and not error.__suppress_context__:
        lines.append(f"during {described(error.__context__)}")
    return "\n".join(lines)
