"""Programs of LlamaIndex: workflows."""

# Annotations are evaluated at once: steps find their context, their resources and their events by them.
import asyncio
from typing import Annotated, Any

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
from pydantic import BaseModel, Field
from workflows.resource import Resource
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from agenttape_core.testing import Capture

from ...llamaindex.scripted import ScriptedLLM
from .llama import Done, FanOut, Part, body, followed
from .outside import Outside
from .rows import LARGE_RACES, ONCE_OR_TWICE

LATE = 20.0
"""Seconds after which an answer comes that nobody waits for."""


def model(world: Outside) -> ScriptedLLM:
    """Return a model that takes its time."""
    return ScriptedLLM(world, wait=world.apause)


def late_model(world: Outside) -> ScriptedLLM:
    """Return a model that answers too late."""

    async def wait() -> None:
        await asyncio.sleep(LATE)

    return ScriptedLLM(world, wait=wait)


class Flow(Workflow):
    """A workflow with a model, over a world."""

    def __init__(self, world: Outside, timeout: float = 30) -> None:
        super().__init__(timeout=timeout)
        self.world, self.llm = world, model(world)


class Progress(BaseModel):
    """The state of a workflow that goes on until it has enough."""

    rounds: int = 0
    said: list[str] = Field(default_factory=list)


class Again(Event):
    """One more round."""


class Loop(Flow):
    """Asks until it has enough, with a state of its own class."""

    @step
    async def ask(self, ctx: Context[Progress], ev: StartEvent | Again) -> Again | StopEvent:
        """Ask about what was said."""
        state = await ctx.store.get_state()
        said = (await self.llm.acomplete(f"round {state.rounds} after {state.said}")).text
        async with ctx.store.edit_state() as edited:
            edited.rounds += 1
            edited.said.append(said)
        return Again() if edited.rounds < 4 else StopEvent(result=edited)


@body(ONCE_OR_TWICE)
async def loop_with_state(world: Outside, capture: Capture) -> Any:
    """Goes round in a workflow whose state has a class of its own."""
    handler = Loop(world).run()
    return [await followed(handler, capture), await handler.ctx.store.get_state(), handler.ctx.to_dict()]


class Retried(Flow):
    """Fails twice, and tries again after a while."""

    @step(retry_policy=retry_policy(wait=wait_fixed(0.002), stop=stop_after_attempt(5)))
    async def work(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Ask, and be content with the third answer."""
        async with ctx.store.edit_state() as state:
            state["tries"] = [*state.get("tries", []), (await self.llm.acomplete("try")).text]
            tries = state["tries"]
        if len(tries) < 3:
            raise ConnectionError(f"not yet: {tries}")
        return StopEvent(result=tries)


@body(ONCE_OR_TWICE)
async def retried_step(world: Outside, capture: Capture) -> Any:
    """Tries a step of a workflow again, which fails twice."""
    return await followed(Retried(world).run(), capture)


class Slow(Flow):
    """Has asked twice at once when its time is up."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send two parts."""
        for n in range(2):
            ctx.send_event(Part(n=n))
        return None

    @step
    async def work(self, ctx: Context, ev: Part) -> Done:
        """Ask a model that answers, and one that does not."""
        said = await self.llm.acomplete(f"part {ev.n}")
        ctx.write_event_to_stream(Done(n=ev.n, said=said.text))
        return Done(n=ev.n, said=(await late_model(self.world).acomplete(f"part {ev.n}")).text)

    @step
    async def end(self, ctx: Context, ev: Done) -> StopEvent:
        """End."""
        return StopEvent(result=ev.said)


@body(LARGE_RACES)
async def timeout_of_a_workflow(world: Outside, capture: Capture) -> Any:
    """Runs out of time in a workflow while two calls are on their way."""
    handler = Slow(world, timeout=0.4).run()
    try:
        return await followed(handler, capture)
    except Exception as error:
        return [type(error), str(error)]


class Outer(Flow):
    """Runs three workflows in its steps, and streams what they stream."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        for n in range(3):
            ctx.send_event(Part(n=n))
        return None

    @step(num_workers=2)
    async def inner(self, ctx: Context, ev: Part) -> Done:
        """Run a workflow."""
        handler = FanOut(self.world).run()
        async for event in handler.stream_events():
            ctx.write_event_to_stream(event)
        return Done(n=ev.n, said=str(await handler))

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Put the parts together."""
        parts = ctx.collect_events(ev, [Done] * 3)
        return StopEvent(result=[(part.n, part.said) for part in parts]) if parts else None


@body(LARGE_RACES)
async def nested_workflows(world: Outside, capture: Capture) -> Any:
    """Runs workflows in the steps of a workflow, two at once, and streams their events."""
    return await followed(Outer(world).run(), capture)


class Question(InputRequiredEvent):
    """A question to a person."""

    about: int = 0


class Reviews(Flow):
    """Asks people about three parts at once."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        for n in range(3):
            ctx.send_event(Part(n=n))
        return None

    @step(num_workers=3)
    async def review(self, ctx: Context, ev: Part) -> Done:
        """Ask a model, then a person, then a model."""
        answer = await ctx.wait_for_event(
            HumanResponseEvent,
            waiter_id=f"review {ev.n}",
            waiter_event=Question(prefix=f"part {ev.n}?", about=ev.n),
            requirements={"about": ev.n},
        )
        return Done(n=ev.n, said=(await self.llm.acomplete(f"{answer.response} on {ev.n}")).text)

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Put the parts together."""
        parts = ctx.collect_events(ev, [Done] * 3)
        return StopEvent(result=[(part.n, part.said) for part in parts]) if parts else None


@body(LARGE_RACES)
async def people_in_parallel_steps(world: Outside, capture: Capture) -> Any:
    """Waits for people in three steps at once, who answer in reverse."""
    handler, asked = Reviews(world).run(), []
    async for event in handler.stream_events():
        capture.add("stream", event)
        if isinstance(event, Question):
            asked.append(event.about)
            if len(asked) == 3:
                for about in reversed(asked):
                    handler.ctx.send_event(HumanResponseEvent(response=f"fine {about}", about=about))
    return await handler


class Fact(Event):
    """A fact."""

    said: str


class Opinion(Event):
    """An opinion."""

    said: str


class Doubt(Event):
    """A doubt."""

    said: str


class Kinds(Flow):
    """Collects events of three classes, which branches of different lengths send."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | Again | None:
        """Begin two branches."""
        ctx.send_event(Part(n=1))
        ctx.send_event(Again())
        return None

    @step
    async def fact(self, ctx: Context, ev: Part) -> Fact | Doubt:
        """Find a fact, and send a doubt beside it."""
        ctx.send_event(Doubt(said=(await self.llm.acomplete("doubt")).text))
        return Fact(said=(await self.llm.acomplete("fact")).text)

    @step
    async def opinion(self, ctx: Context, ev: Again) -> Opinion:
        """Have an opinion."""
        return Opinion(said=(await self.llm.acomplete("opinion")).text)

    @step
    async def join(self, ctx: Context, ev: Fact | Opinion | Doubt) -> StopEvent | None:
        """Weigh them all."""
        ctx.write_event_to_stream(ev)
        found = ctx.collect_events(ev, [Fact, Opinion, Doubt])
        return StopEvent(result=(await self.llm.acomplete(f"weigh {found}")).text) if found else None


@body()
async def events_of_three_classes(world: Outside, capture: Capture) -> Any:
    """Collects events of three classes, from branches of different lengths."""
    return await followed(Kinds(world).run(), capture)


class Sums(Flow):
    """Five steps at once change one state, with a call while they have it."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        for n in range(5):
            ctx.send_event(Part(n=n))
        return None

    @step(num_workers=5)
    async def work(self, ctx: Context, ev: Part) -> Done:
        """Write down what comes, after what is there."""
        first = await self.llm.acomplete(f"part {ev.n}")
        async with ctx.store.edit_state() as state:
            said = (await self.llm.acomplete(f"{first.text} after {state.get('all', [])}")).text
            state["all"] = [*state.get("all", []), said]
        return Done(n=ev.n, said=said)

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Return the state."""
        parts = ctx.collect_events(ev, [Done] * 5)
        return StopEvent(result=await ctx.store.get("all")) if parts else None


@body()
async def one_state_for_parallel_steps(world: Outside, capture: Capture) -> Any:
    """Changes one state in five steps at once, each of which asks a model while it has the lock."""
    return await followed(Sums(world).run(), capture)


def helper() -> dict[str, str]:
    """Make what steps are given."""
    return {"made": "once"}


class Given(Flow):
    """Has steps that are given what they need, and sends an event to a step by its name."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send to one of two steps that take the same."""
        ctx.send_event(Part(n=1), step="left")
        return None

    @step
    async def left(self, ctx: Context, ev: Part, given: Annotated[dict[str, str], Resource(helper)]) -> Done:
        """Use what it is given."""
        given["by"] = (await self.llm.acomplete(f"left {given}")).text
        return Done(n=ev.n, said=str(given))

    @step
    async def right(self, ctx: Context, ev: Part) -> Done:
        """Not run."""
        return Done(n=-1, said="right")

    @step
    async def end(self, ctx: Context, ev: Done, given: Annotated[dict[str, str], Resource(helper)]) -> StopEvent:
        """Return what was given."""
        return StopEvent(result=[ev.said, given])


@body(ONCE_OR_TWICE)
async def steps_with_resources(world: Outside, capture: Capture) -> Any:
    """Gives steps what they need as resources, and sends an event to one step by its name."""
    return await followed(Given(world).run(), capture)


class Put(Flow):
    """Waits for a person after a fan-out, so that it can be put away in the middle."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        for n in range(4):
            ctx.send_event(Part(n=n))
        return None

    @step(num_workers=4)
    async def work(self, ctx: Context, ev: Part) -> Done:
        """Do a part."""
        return Done(n=ev.n, said=(await self.llm.acomplete(f"part {ev.n}")).text)

    @step
    async def join(self, ctx: Context, ev: Done) -> Question | None:
        """Ask a person about all parts."""
        parts = ctx.collect_events(ev, [Done] * 4)
        if parts is None:
            return None
        await ctx.store.set("parts", [part.said for part in parts])
        return Question(prefix=f"{[part.n for part in parts]}?")

    @step
    async def end(self, ctx: Context, ev: HumanResponseEvent) -> StopEvent:
        """Conclude."""
        parts = await ctx.store.get("parts")
        return StopEvent(result=(await self.llm.acomplete(f"{ev.response}: {parts}")).text)


@body(LARGE_RACES)
async def put_away_after_a_fan_out(world: Outside, capture: Capture) -> Any:
    """Puts a workflow away after a fan-out, as data, and goes on with it in two contexts at once."""
    workflow = Put(world)
    handler = workflow.run()
    async for event in handler.stream_events():
        capture.add("stream", event)
        if isinstance(event, Question):
            kept = handler.ctx.to_dict()
            await handler.cancel_run()
            break

    async def resumed(response: str) -> Any:
        again = workflow.run(ctx=Context.from_dict(workflow, kept))
        again.ctx.send_event(HumanResponseEvent(response=response))
        return await followed(again, capture)

    return [kept, await asyncio.gather(resumed("yes"), resumed("no"))]
