"""Workflows of LlamaIndex drawn at random: steps of many kinds, one after the other, within each other, and at once."""

# Annotations are evaluated at once: steps find their events by them.
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from agenttape_core import boundary
from agenttape_core.testing import Capture, Program
from agenttape_llamaindex.testing import capturing

from ...llamaindex.programs import after_tools
from ...llamaindex.scripted import ScriptedLLM
from ..identical.llama import FanOut, fresh_settings, looking
from ..identical.outside import Outside

LONGEST = 30.0
"""Seconds after which a workflow is given up."""


class Go(Event):
    """Go on with the part of this number."""

    i: int = 0


class GoElsewhere(Event):
    """The same, in the other step."""

    i: int = 0


class Question(InputRequiredEvent):
    """A question to a person."""

    about: int = 0


class Progress(Event):
    """Something to show."""

    said: str = ""


class Parts:
    """The kinds of parts that a workflow is made of.

    Args:
        world: The world.
        draws: What decides how large parts are.
        inner: Makes a workflow that is run within this one; `None` if it is deep enough.
    """

    def __init__(self, world: Outside, draws: random.Random, inner: Callable[[], Workflow] | None) -> None:
        self.world = world
        self.draws = draws
        self.inner = inner
        self.llm = ScriptedLLM(world, wait=world.apause)
        self.tries = 0

    async def complete(self, _: Context, __: int) -> str:
        """Ask a model the same as others do."""
        return (await self.llm.acomplete("same")).text

    async def chat(self, _: Context, number: int) -> str:
        """Ask it by messages."""
        return str((await self.llm.achat([ChatMessage(role="user", content=f"c {number % 2}")])).message.content)

    async def stream(self, _: Context, number: int) -> str:
        """Read a stream."""
        parts = await self.llm.astream_chat([ChatMessage(role="user", content=f"s {number}")])
        return "".join([part.delta or "" async for part in parts])

    async def tool(self, _: Context, number: int) -> str:
        """Call a tool, which asks a model, or the world."""

        async def look(what: str) -> str:
            """Look."""
            return (await self.llm.acomplete(what)).text if number % 2 else await self.world.aask(what)

        return str(await FunctionTool.from_defaults(async_fn=look, name="look").acall(what=f"t {number}"))

    async def ids(self, _: Context, __: int) -> str:
        """Draw an id, a number and a time."""
        return str([uuid4(), random.random(), time.time()])

    async def agent(self, _: Context, __: int) -> str:
        """Run an agent that calls tools at once."""
        calls = [("look", {"where": where}) for where in ("left", "right", "up")[: self.draws.choice([1, 3])]]
        llm = ScriptedLLM(self.world, after_tools(calls), wait=self.world.apause)
        return str(await FunctionAgent(llm=llm, tools=[looking(self.world)]).run("Look"))

    async def state(self, context: Context, __: int) -> str:
        """Change the state while a model is asked."""
        async with context.store.edit_state() as state:
            state["a"] = [*state.get("a", []), (await self.llm.acomplete("state")).text]
        return str(await context.store.get("a"))

    async def write(self, context: Context, __: int) -> str:
        """Write to the stream."""
        context.write_event_to_stream(Progress(said=(await self.llm.acomplete("w")).text))
        context.write_event_to_stream(Progress(said=str(uuid4())))
        return "written"

    async def human(self, context: Context, number: int) -> str:
        """Wait for a person."""
        answer = await context.wait_for_event(
            HumanResponseEvent,
            waiter_id=f"h{number}",
            waiter_event=Question(prefix=f"{number}?", about=number),
            requirements={"about": number},
        )
        return (await self.llm.acomplete(f"human {answer.response}")).text

    async def nested(self, context: Context, __: int) -> str:
        """Run a workflow within this one, and pass on what it shows."""
        if self.inner is None:
            return "deep"
        handler = self.inner().run()
        async for event in handler.stream_events():
            _answer(handler, event, "in")
            if isinstance(event, Progress):
                context.write_event_to_stream(event)
        return str(await handler)

    async def bounded(self, _: Context, __: int) -> str:
        """Call a boundary of the program itself."""
        return str(await boundary("tool", name="fetch")(self.world.aask)("same"))

    async def fails(self, _: Context, __: int) -> str:
        """Call a boundary that fails."""

        @boundary("tool", name="bad")
        async def bad() -> None:
            raise ValueError(await self.world.aask("bad"))

        try:
            await bad()
        except ValueError as error:
            return repr(error)
        return "fine"

    async def gathered(self, _: Context, __: int) -> str:
        """Ask three things at once."""
        return str([str(each) for each in await asyncio.gather(*(self.llm.acomplete(f"g {n}") for n in range(3)))])

    async def fan_out(self, context: Context, __: int) -> str:
        """Run a workflow that fans out."""
        handler = FanOut(self.world, 3).run()
        async for event in handler.stream_events():
            context.write_event_to_stream(Progress(said=type(event).__name__))
        return str(await handler)

    async def timeout(self, _: Context, __: int) -> str:
        """Give an answer up that takes longer than it may."""
        try:
            return (await asyncio.wait_for(self.llm.acomplete("t"), 0.0015)).text
        except TimeoutError:
            return "late"

    async def thread(self, _: Context, __: int) -> str:
        """Ask in a thread."""
        return (await asyncio.to_thread(self.llm.complete, "thread")).text

    async def retry(self, _: Context, __: int) -> str:
        """Fail, and be tried again."""
        said = (await self.llm.acomplete("r")).text
        self.tries += 1
        if self.tries % 3:
            raise ConnectionError(said)
        return said


KINDS: tuple[Callable[[Parts, Context, int], Awaitable[str]], ...] = (
    *(Parts.complete, Parts.chat, Parts.stream, Parts.tool, Parts.ids, Parts.agent, Parts.state, Parts.write),
    *(Parts.human, Parts.nested, Parts.bounded, Parts.fails, Parts.gathered, Parts.fan_out, Parts.timeout),
    *(Parts.thread, Parts.retry),
)
AGAIN = {"wait": wait_fixed(0.002), "stop": stop_after_attempt(6)}


class Drawn(Workflow):
    """A workflow of some parts, in two steps that take turns by what was said.

    Args:
        world: The world.
        draws: What decides.
        depth: How many workflows are around it.
    """

    def __init__(self, world: Outside, draws: random.Random, depth: int = 0) -> None:
        super().__init__(timeout=LONGEST)
        self.kinds = [draws.choice(KINDS) for _ in range(draws.randint(3, 7) if not depth else 2)]
        own = random.Random(draws.random())
        self.parts = Parts(world, own, (lambda: Drawn(world, own, depth + 1)) if depth < 2 else None)

    @step(retry_policy=retry_policy(**AGAIN))
    async def go(self, ctx: Context, ev: StartEvent | Go) -> Go | GoElsewhere | StopEvent:
        """Do a part."""
        return await self.do(ctx, ev.i if isinstance(ev, Go) else 0)

    @step(retry_policy=retry_policy(**AGAIN))
    async def go_elsewhere(self, ctx: Context, ev: GoElsewhere) -> Go | GoElsewhere | StopEvent:
        """Do a part."""
        return await self.do(ctx, ev.i)

    async def do(self, ctx: Context, number: int) -> Go | GoElsewhere | StopEvent:
        """Do the part of a number."""
        said = await self.kinds[number](self.parts, ctx, number)
        so_far = [*(await ctx.store.get("so far", [])), said]
        await ctx.store.set("so far", so_far)
        if number + 1 == len(self.kinds):
            return StopEvent(result=so_far)
        return (Go if len(str(said)) % 2 else GoElsewhere)(i=number + 1)


def _answer(handler: Any, event: Event, name: str) -> None:
    if isinstance(event, Question):
        handler.ctx.send_event(HumanResponseEvent(response=f"{name} {event.about}", about=event.about))


def drawn_workflow(seed: int, world: Outside) -> Program:
    """Return the workflow of a seed."""

    async def program(capture: Capture) -> Any:
        with fresh_settings(), capturing(capture):
            handler = Drawn(world, random.Random(seed)).run()
            async for event in handler.stream_events():
                capture.add("stream", event)
                _answer(handler, event, "fine")
            return [await handler, handler.ctx.to_dict()]

    return program
