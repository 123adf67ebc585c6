"""Other orders of the parallel steps of a workflow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step

from agenttape_core import use_cassette
from agenttape_core.experiments import orders

from .acceptance import FRAMEWORK_WARNINGS
from .programs.workflows import Done, Part
from .scripted import Reply, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


class Parallel(Workflow):
    """Asks in three steps at once; a racy one sums up in the order in which they are done."""

    def __init__(self, llm: ScriptedLLM, *, is_racy: bool) -> None:
        super().__init__(timeout=20)
        self.llm = llm
        self.is_racy = is_racy

    @step
    async def begin(self, ctx: Context, _: StartEvent) -> Part | None:
        """Send the parts."""
        for number in range(3):
            ctx.send_event(Part(number=number))
        return None

    @step(num_workers=3)
    async def work(self, ev: Part) -> Done:
        """Do a part."""
        return Done(number=ev.number, said=(await self.llm.acomplete(f"Part {ev.number}")).text)

    @step
    async def end(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Put the parts together."""
        parts = ctx.collect_events(ev, [Done] * 3)
        if parts is None:
            return None
        said = [part.said for part in parts]
        return StopEvent(result=(await self.llm.acomplete(f"Sum up {said if self.is_racy else sorted(said)}")).text)


@pytest.mark.parametrize("is_racy", [True, False])
def test_parallel_steps_are_answered_in_every_order(tmp_path: Path, is_racy: bool) -> None:
    """A workflow that sums up in the order of the answers is found out; one that sorts them passes."""
    world, path = World(), tmp_path / "run.yaml"

    async def program() -> Any:
        return await Parallel(ScriptedLLM(world), is_racy=is_racy).run()

    with use_cassette(path, mode="all"):
        asyncio.run(program())
    found = orders(program, path)
    assert (found.orders, found.is_exhaustive, found.failing) == (6, True, 5 * is_racy)


def test_another_request_is_no_other_outcome(tmp_path: Path) -> None:
    """An agent that sends results of tools in the order in which they came makes another request, and no worse one."""

    async def look(number: int) -> str:
        """Look."""
        return f"{number}: {(await ScriptedLLM(world).acomplete(f'part {number}')).text}"

    def script(messages: Any, _: Any) -> Reply:
        return "done" if len(messages) > 2 else [("look", {"number": number}) for number in range(2)]

    async def program() -> str:
        agent = FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=look)], llm=ScriptedLLM(world, script))
        return str(await agent.run("Look around"))

    world, path = World(), tmp_path / "run.yaml"
    with use_cassette(path, mode="all"):
        asyncio.run(program())
    found = orders(program, path)
    assert (found.failing, found.asking) == (1, 1)
    assert "1 of all 2 possible orders change a request" in str(found)
    assert "give another result" not in str(found)
