"""Programs of LlamaIndex: work at once beside workflows."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.async_utils import run_jobs
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation.events import BaseEvent
from llama_index_instrumentation import get_dispatcher

from agenttape_core.testing import Capture

from ...llamaindex.scripted import ScriptedLLM
from .llama import body
from .llama_flows import late_model, model
from .outside import Outside

dispatcher = get_dispatcher(__name__)


@body()
async def jobs(world: Outside, capture: Capture) -> Any:
    """Runs jobs by `run_jobs`, two at once, and asks with what they have left behind."""
    llm, left = model(world), []

    async def job(n: int) -> str:
        said = (await llm.acomplete(f"job {n}")).text
        left.append(said)
        return said

    done = await run_jobs([job(n) for n in range(5)], workers=2, show_progress=False)
    return [done, left, await llm.acomplete(f"after {left}")]


@body()
async def given_up(world: Outside, capture: Capture) -> Any:
    """Gives up a model that is late, takes the first of three answers, and cancels the others."""
    llm = model(world)
    try:
        await asyncio.wait_for(late_model(world).acomplete("late"), 0.004)
    except TimeoutError:
        capture.add("stream", "late")
    asked = [asyncio.create_task(llm.acomplete(f"race {n}"), name=f"racer {n}") for n in range(3)]
    done, rest = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    ended = await asyncio.gather(*rest, return_exceptions=True)
    first = [task.get_name() for task in asked if task in done]
    return [first, [type(each) for each in ended], await llm.acomplete(f"first {first}")]


class Noted(BaseEvent):
    """An event of a program's own."""

    note: str


@dispatcher.span
async def noted(llm: ScriptedLLM, n: int) -> str:
    """Ask in a span of its own."""
    said = (await llm.acomplete(f"note {n}")).text
    dispatcher.event(Noted(note=said))
    return said


@body()
async def spans_of_its_own(world: Outside, capture: Capture) -> Any:
    """Has spans, events and tags of its own, four at once."""
    llm = model(world)
    return await asyncio.gather(*(noted(llm, n) for n in range(4)))


@body()
async def streams_in_chats(world: Outside, capture: Capture) -> Any:
    """Reads two streams at once, one of which is left after two parts."""
    llm = model(world)

    async def read(n: int, parts: int) -> None:
        stream = await llm.astream_chat([ChatMessage(role="user", content=f"stream {n}")])
        async for chunk in stream:
            await asyncio.sleep(0.001)
            capture.add("stream", [n, chunk])
            parts -= 1
            if not parts:
                break
        await stream.aclose()

    await asyncio.gather(read(1, 2), read(2, 100))
    return await llm.acomplete("done")
