"""Programs of LlamaIndex."""

# Annotations are evaluated at once: tools and steps find their context and their events by them.
import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from agenttape_core.testing import Capture, Program
from agenttape_llamaindex.testing import capturing

from ...llamaindex.programs import PROGRAMS, after_tools, documents
from ...llamaindex.scripted import Reply, ScriptedEmbedding, ScriptedLLM
from .outside import Outside
from .rows import LARGE_RACES, ONCE_OR_TWICE, RACES, row


@contextmanager
def fresh_settings() -> Iterator[None]:
    """Let a program find the settings of LlamaIndex as in a new process: they keep what earlier programs made."""
    before = dict(vars(Settings))
    vars(Settings).update(vars(type(Settings)()))
    try:
        yield
    finally:
        vars(Settings).update(before)


def _run(make: Callable[[], Callable[[Capture], Any]]) -> Program:
    async def program(capture: Capture) -> Any:
        with fresh_settings(), capturing(capture):
            result = make()(capture)
            return await result if inspect.isawaitable(result) else result

    return program


PROMPTS = dict.fromkeys(
    ("spans", "events"),
    "the default prompts of LlamaIndex list their variables in the order of a set, made when it is imported",
)
"""Of programs whose spans and events hold default prompts."""

ASYNCIO = {"asyncio": _run}

Body = Callable[[Outside, Capture], Any]


def body(replays: int = RACES, **options: Any) -> Callable[[Body], Body]:
    """Put a function of the world and of its capture into the table."""

    def put(function: Body) -> Body:
        def make(world: Outside) -> Callable[[Capture], Any]:
            return partial(function, world)

        make.__name__, make.__doc__ = function.__name__, function.__doc__
        row("LlamaIndex", ASYNCIO, replays=replays, **options)(make)
        return function

    return put


async def followed(handler: Any, capture: Capture) -> Any:
    """Take down the events that a workflow streams, and return its result."""
    async for event in handler.stream_events():
        capture.add("stream", event)
    return await handler


def looking(world: Outside) -> Any:
    """Return an asynchronous tool that takes its time."""

    async def look(where: str) -> str:
        """Look somewhere."""
        return await world.aask(f"look {where}")

    return look


class SlowEmbedding(ScriptedEmbedding):
    """An embedding that takes its time."""

    async def _aget_query_embedding(self, query: str) -> list[float]:
        await self._world.apause()
        return self._vector(query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        await self._world.apause()
        return self._vector(text)


@body()
async def agent_with_parallel_tools(world: Outside, capture: Capture) -> Any:
    """Calls five tools at once, as a `FunctionAgent`."""
    script = after_tools([("look", {"where": where}) for where in ("left", "right", "up", "down", "here")])
    agent = FunctionAgent(llm=ScriptedLLM(world, script, wait=world.apause), tools=[looking(world)])
    return await followed(agent.run("Look around"), capture)


@body(LARGE_RACES)
async def agent_with_tools_in_threads(world: Outside, capture: Capture) -> Any:
    """Calls three synchronous tools at once."""

    def look(where: str) -> str:
        """Look somewhere."""
        return world.ask(f"look {where}")

    script = after_tools([("look", {"where": where}) for where in ("left", "right", "up")])
    agent = FunctionAgent(llm=ScriptedLLM(world, script, wait=world.apause), tools=[look])
    return await followed(agent.run("Look around"), capture)


class Part(Event):
    """A part of the work."""

    n: int


class Done(Event):
    """A part that is done."""

    n: int
    said: str


class FanOut(Workflow):
    """Sends parts, works on several at once, and collects them."""

    def __init__(self, world: Outside, parts: int = 6) -> None:
        super().__init__(timeout=30)
        self.llm = ScriptedLLM(world, wait=world.apause)
        self.parts = parts

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Part | None:
        """Send the parts."""
        for n in range(self.parts):
            ctx.send_event(Part(n=n))
        return None

    @step(num_workers=3)
    async def work(self, ctx: Context, ev: Part) -> Done:
        """Do a part, in two calls."""
        first = await self.llm.acomplete(f"part {ev.n % 2}")
        ctx.write_event_to_stream(Done(n=ev.n, said=first.text))
        return Done(n=ev.n, said=(await self.llm.acomplete(first.text)).text)

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Put the parts together, in the order in which they came."""
        parts = ctx.collect_events(ev, [Done] * self.parts)
        if parts is None:
            return None
        return StopEvent(result=(await self.llm.acomplete(f"sum {[[part.n, part.said] for part in parts]}")).text)


@body()
async def fan_out(world: Outside, capture: Capture) -> Any:
    """Fans out to steps that run at once, and joins them with `collect_events`."""
    return await followed(FanOut(world).run(), capture)


@body(LARGE_RACES)
async def workflows_at_once(world: Outside, capture: Capture) -> Any:
    """Runs two workflows at once."""
    return await asyncio.gather(*(followed(FanOut(world).run(), capture) for _ in range(2)))


@body()
async def models_at_once(world: Outside, capture: Capture) -> Any:
    """Asks a model four times at once, takes the answers as they come, and reads three streams side by side."""
    llm = ScriptedLLM(world, wait=world.apause)

    async def read(n: int) -> None:
        async for chunk in await llm.astream_chat([ChatMessage(role="user", content=f"stream {n}")]):
            capture.add("stream", [n, chunk])
            await asyncio.sleep(0)

    order = [(await each).text for each in asyncio.as_completed([llm.acomplete("the same") for _ in range(4)])]
    await asyncio.gather(*(read(n) for n in range(3)))
    return [order, await llm.acomplete(f"in this order: {order}")]


@body(LARGE_RACES)
async def hand_offs_with_parallel_tools(world: Outside, capture: Capture) -> Any:
    """Hands off between agents that call tools at once, with state."""

    async def note(ctx: Context, text: str) -> str:
        """Keep a note."""
        said = await world.aask(f"note {text}")
        async with ctx.store.edit_state() as state:
            state["state"]["notes"] = [*state["state"]["notes"], said]
        return said

    def first(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        if not said:
            return [("note", {"text": text}) for text in "abc"]
        return [("handoff", {"to_agent": "Writer", "reason": f"noted {said}"})]

    shared: Any = {"tools": [note]}
    agents = [
        FunctionAgent(
            name="Notes", description="Notes.", llm=ScriptedLLM(world, first), can_handoff_to=["Writer"], **shared
        ),
        FunctionAgent(name="Writer", description="Writes.", llm=ScriptedLLM(world), can_handoff_to=[], **shared),
    ]
    handler = AgentWorkflow(agents=agents, root_agent="Notes", initial_state={"notes": []}).run("Go")
    return [await followed(handler, capture), await handler.ctx.store.get("state")]


@body(LARGE_RACES)
async def queries_at_once(world: Outside, capture: Capture) -> Any:
    """Queries an index three times at once, with an accumulating synthesis."""
    index = VectorStoreIndex.from_documents(documents(), embed_model=ScriptedEmbedding(world))
    llm = ScriptedLLM(world, wait=world.apause)
    engine = index.as_query_engine(llm=llm, response_mode="accumulate", use_async=True, similarity_top_k=3)
    return await asyncio.gather(*(engine.aquery(f"What of {n}?") for n in range(3)))


def _program(name: str, program: Any, **options: Any) -> None:
    def run(world: Outside, capture: Capture) -> Any:
        return program(world)

    run.__name__, run.__doc__ = f"llama_{name}", program.__doc__
    body(**options)(run)


PROMPTING = {"agent_with_memory", "agentic_rag", "rag", "router", "streaming_sub_questions", "sub_questions"}

for _name, _each in PROGRAMS.items():
    _program(_name, _each, replays=ONCE_OR_TWICE, seeded=PROMPTS if _name in PROMPTING else {})
