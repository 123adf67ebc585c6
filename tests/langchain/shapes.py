"""The ways of calling a chat model. Each takes the model and returns all that the caller gets to see."""

# ruff: noqa: D103 - their names say what they do

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from typing import Any

from langchain_core.output_parsers import StrOutputParser

QUESTION = "how are you?"


async def invoke(model: Any) -> list[Any]:
    return [model.invoke(QUESTION)]


async def ainvoke(model: Any) -> list[Any]:
    return [await model.ainvoke(QUESTION)]


async def stream(model: Any) -> list[Any]:
    return list(model.stream(QUESTION))


async def astream(model: Any) -> list[Any]:
    return [chunk async for chunk in model.astream(QUESTION)]


async def batch(model: Any) -> list[Any]:
    return list(model.batch([QUESTION]))


async def abatch(model: Any) -> list[Any]:
    return list(await model.abatch([QUESTION]))


async def batch_as_completed(model: Any) -> list[Any]:
    return [answer for _, answer in model.batch_as_completed([QUESTION])]


async def astream_events_v1(model: Any) -> list[Any]:
    return [event async for event in model.astream_events(QUESTION, version="v1")]


async def astream_events_v2(model: Any) -> list[Any]:
    return [event async for event in model.astream_events(QUESTION, version="v2")]


async def in_a_chain(model: Any) -> list[Any]:
    return [event async for event in (model | StrOutputParser()).astream_events(QUESTION, version="v2")]


async def in_a_thread(model: Any) -> list[Any]:
    return [await asyncio.to_thread(model.invoke, QUESTION)]


SHAPES: list[Callable[[Any], Awaitable[list[Any]]]] = [
    invoke, ainvoke, stream, astream, batch, abatch, batch_as_completed,
    astream_events_v1, astream_events_v2, in_a_chain, in_a_thread,
]  # fmt: skip


def answer_of(seen: Sequence[Any]) -> tuple[str, Any, Any]:
    """The text, tool calls and token counts of what a shape brought, whichever shape it was."""
    if isinstance(seen[0], dict):
        ended = [event for event in seen if event["event"] == "on_chat_model_end"]
        (output,) = (event["data"]["output"] for event in ended)
        # v1 wraps it in a result
        whole = output["generations"][0][0]["message"] if isinstance(output, dict) else output
    else:
        whole = reduce(operator.add, seen)
    return whole.text, whole.tool_calls, whole.usage_metadata


def seen(results: list[Any]) -> list[Any]:
    """All that a caller can see of each result: its class and every field."""
    return [[(type(m), m.model_dump()) for m in (r if isinstance(r, list) else [r])] for r in results]
