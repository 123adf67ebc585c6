"""Orders of events, threads and loops at once: a replay keeps them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, dispatch_custom_event
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agenttape_core import boundary

from ..kit.replaying import recorded_as_replayed

REPLAYS = 6


class Model(GenericFakeChatModel):
    """A chat model that says its lines."""

    model: str = "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


class Seen:
    """Keeps the names of events in order."""

    def __init__(self) -> None:
        self.names: list[str] = []


class Sync(Seen, BaseCallbackHandler):
    """A handler that runs in the context of the run."""

    run_inline = True

    def on_tool_start(self, *_: Any, **__: Any) -> None:
        self.names.append("start")

    def on_tool_end(self, *_: Any, **__: Any) -> None:
        self.names.append("end")

    def on_custom_event(self, name: str, data: Any, **__: Any) -> None:
        self.names.append(name)


class Async(Seen, AsyncCallbackHandler):
    """A handler of coroutines."""

    async def on_tool_start(self, *_: Any, **__: Any) -> None:
        self.names.append("start")

    async def on_tool_end(self, *_: Any, **__: Any) -> None:
        self.names.append("end")

    async def on_custom_event(self, name: str, data: Any, **__: Any) -> None:
        self.names.append(name)


@tool
def announce(text: str) -> str:
    """Announce."""
    dispatch_custom_event("event", {})
    return text


@pytest.mark.parametrize("handler", [Sync, Async])
def test_custom_events_of_parallel_tools(handler: Any, tmp_path: Path) -> None:
    """Events that two replayed tools dispatch come in the recorded order, between the starts and ends of both."""

    def run() -> list[str]:
        seen = handler()
        calls: Any = [{"name": "announce", "args": {"text": str(n)}, "id": str(n)} for n in range(2)]
        model = Model(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
        agent = create_agent(model, [announce])
        inputs: Any = {"messages": [("user", "go")]}
        asyncio.run(agent.ainvoke(inputs, {"callbacks": [seen]}))
        return seen.names  # type: ignore[no-any-return]

    recorded_as_replayed(tmp_path / "c.yaml", run, REPLAYS)


DELAYS = [0.01, 0.0102, 0.02, 0.0202]


@boundary
async def look(number: int) -> int:
    """Answer after a while; two of four answers come almost together."""
    await asyncio.sleep(DELAYS[number])
    return number


def test_loop_and_threads_write_to_one_list(tmp_path: Path) -> None:
    """What a loop and its threads append to one list comes in the recorded order."""

    def run() -> list[Any]:
        out: list[Any] = []

        async def one(number: int) -> None:
            await asyncio.to_thread(int, number)
            await look(number)
            out.append(("loop", number))
            await asyncio.to_thread(out.append, number)

        async def main() -> None:
            await asyncio.gather(*map(one, range(4)))

        asyncio.run(main())
        return out

    recorded_as_replayed(tmp_path / "c.yaml", run, REPLAYS)


def test_agents_on_uvloop(tmp_path: Path) -> None:
    """Three agents with a sync and an async tool on uvloop replay in the recorded order."""
    uvloop = pytest.importorskip("uvloop")

    @tool
    def here(text: str) -> str:
        """Look here."""
        return text

    @tool
    async def there(text: str) -> str:
        """Look there."""
        await asyncio.sleep(0.001)
        return text

    def run() -> Any:
        seen = Sync()

        async def one(number: int) -> str:
            calls: Any = [
                {"name": name, "args": {"text": f"{name} {number}"}, "id": f"{name}{number}"}
                for name in ("here", "there")
            ]
            agent = create_agent(
                Model(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")])), [here, there]
            )
            inputs: Any = {"messages": [("user", f"go {number}")]}
            end = await agent.ainvoke(inputs, {"callbacks": [seen]})
            return str(end["messages"][-1].text)

        async def main() -> list[str]:
            return await asyncio.gather(*map(one, range(3)))

        return uvloop.run(main()), seen.names

    recorded_as_replayed(tmp_path / "c.yaml", run, REPLAYS)
