"""Programs that are workflows: steps at once, and people."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
from typing import Any

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

from ..scripted import Reversing, ScriptedLLM, World
from .registry import followed, program, shown


class Part(Event):
    """A part of the work."""

    number: int


class Done(Event):
    """A part that is done."""

    number: int
    said: str


class Parallel(Workflow):
    """Works on several parts at once, and streams them in the order in which they are done."""

    def __init__(self, llm: ScriptedLLM, same: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.llm = llm
        self.same = same

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        await ctx.store.set("parts", ev.parts)
        for number in range(ev.parts):
            ctx.send_event(Part(number=number))
        return None

    @step(num_workers=4)
    async def work(self, ctx: Context, ev: Part) -> Done:
        """Do a part."""
        about = "the same" if self.same else ev.number
        answer = await self.llm.acomplete(f"Part {about}")
        ctx.write_event_to_stream(Done(number=ev.number, said=answer.text))
        return Done(number=ev.number, said=answer.text)

    @step
    async def end(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Put the parts together."""
        parts = ctx.collect_events(ev, [Done] * await ctx.store.get("parts"))
        if parts is None:
            return None
        summary = await self.llm.acomplete(f"Sum up {[(part.number, part.said) for part in parts]}")
        return StopEvent(result=summary.text)


@program
async def parallel_steps(world: World) -> Any:
    """A workflow whose steps run at once; those that begin first end last."""
    return await followed(Parallel(reversing_llm(world, 4), timeout=20).run(parts=4))


@program
async def equal_parallel_steps(world: World) -> Any:
    """The same where all steps ask the same."""
    return await followed(Parallel(reversing_llm(world, 4), same=True, timeout=20).run(parts=4))


def reversing_llm(world: World, calls: int) -> ScriptedLLM:
    """Return a model that answers so many calls in reverse order, and all others at once."""
    reversing, left = Reversing(calls), [calls]

    async def wait() -> None:
        left[0] -= 1
        if left[0] >= 0:
            await reversing()

    return ScriptedLLM(world, wait=wait)


class Ask(InputRequiredEvent):
    """A question to a person."""

    question: str = ""


class Answer(HumanResponseEvent):
    """The answer of a person."""

    text: str = ""


class Interview(Workflow):
    """Asks a person, and a model what to make of it."""

    def __init__(self, llm: ScriptedLLM, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.llm = llm

    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> Ask:
        """Ask."""
        await ctx.store.set("topic", ev.topic)
        asked = await self.llm.acomplete(f"What to ask about {ev.topic}")
        return Ask(question=asked.text)

    @step
    async def conclude(self, ctx: Context, ev: Answer) -> StopEvent:
        """Conclude."""
        topic = await ctx.store.get("topic")
        concluded = await self.llm.acomplete(f"What to make of {ev.text} about {topic}")
        return StopEvent(result=concluded.text)


@program
async def human_input(world: World) -> Any:
    """A workflow with a person in it."""
    handler = Interview(ScriptedLLM(world), timeout=20).run(topic="Paris")
    events = []
    async for event in handler.stream_events():
        events.append(shown(event))
        if isinstance(event, Ask):
            handler.ctx.send_event(Answer(text="lovely"))
    return {"events": events, "result": await handler}


@program
async def resumed_from_a_snapshot(world: World) -> Any:
    """A workflow that is put away while a person thinks, and taken up again from what was put away."""
    workflow = Interview(ScriptedLLM(world), timeout=20)
    handler = workflow.run(topic="Rome")
    events, snapshot = [], {}
    async for event in handler.stream_events():
        events.append(shown(event))
        if isinstance(event, Ask):
            snapshot = handler.ctx.to_dict()
            await handler.cancel_run()
            break
    again = workflow.run(ctx=Context.from_dict(workflow, snapshot))
    again.ctx.send_event(Answer(text="eternal"))
    return {"events": events, "snapshot": snapshot, "resumed": await followed(again)}
