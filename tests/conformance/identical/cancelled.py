"""Programs of LangGraph that cancel calls: by timeouts, in races, and by going away."""

# Annotations are evaluated at once: LangGraph looks at them.
import asyncio
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy

from agenttape_core.testing import Capture, Program
from agenttape_langchain.testing import capturing

from .drivers import GRAPH, MODES, THREAD, Talk
from .graphs import FOUND, Found, chat
from .outside import Chat, Outside
from .rows import LARGE_RACES, RACES, TRACEBACKS, row


class Slow(Chat):
    """A model that nobody waits for."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        await asyncio.sleep(10)

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        await asyncio.sleep(10)
        yield None


@row("LangGraph", GRAPH, "ainvoke", "astream", replays=LARGE_RACES)
def timeouts(world: Outside) -> Talk:
    """Gives a slow answer up and asks another model, in one node; another node has a timeout."""
    slow, quick = Slow(world=world), chat(world)

    async def impatient(state: Found) -> dict[str, Any]:
        try:
            async with asyncio.timeout(0.005):
                said = await slow.ainvoke("slow?")
        except TimeoutError:
            said = await quick.ainvoke("quick?")
        return {"found": [said.text]}

    async def polite(state: Found) -> dict[str, Any]:
        return {"found": [(await quick.ainvoke("polite?")).text]}

    builder = StateGraph(Found).add_node("impatient", impatient).add_node("polite", polite, timeout=60)
    builder.add_edge(START, "impatient").add_edge("impatient", "polite")
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)


@row("LangGraph", GRAPH, "ainvoke", "astream", "astream_events v2", replays=RACES)
def hedged(world: Outside) -> Talk:
    """Asks three models, takes the first answer and cancels the others."""
    models = [Chat(world=world, model_name=name) for name in "abc"]

    async def hedge(state: Found) -> dict[str, Any]:
        tasks = [asyncio.create_task(model.ainvoke("hedged")) for model in models]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return {"found": [each.result().text for each in done]}

    return Talk(StateGraph(Found).add_node("hedge", hedge).add_edge(START, "hedge").compile(), FOUND)


@row("LangGraph", GRAPH, "ainvoke", "astream", "astream_events v2", replays=LARGE_RACES, never=TRACEBACKS)
def node_timeout_with_retry(world: Outside) -> Talk:
    """Lets a node run out of time, beside another one, and tries it again with a model that answers."""
    slow, quick = Slow(world=world), chat(world)
    left = [slow]

    async def late(state: Found) -> dict[str, Any]:
        model = left.pop() if left else quick
        return {"found": [(await model.ainvoke("late?")).text]}

    async def beside(state: Found) -> dict[str, Any]:
        return {"found": [(await quick.ainvoke("beside?")).text]}

    policy = RetryPolicy(0.001, jitter=False, max_attempts=2)
    # So long that the second attempt ends in time on a machine that is busy, too.
    builder = StateGraph(Found).add_node("late", late, timeout=1.0, retry_policy=policy).add_node("beside", beside)
    builder.add_edge(START, "late").add_edge(START, "beside")
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)


@row("LangGraph", GRAPH, "ainvoke", "astream", replays=LARGE_RACES, never=TRACEBACKS)
def node_timeout_with_handler(world: Outside) -> Talk:
    """Lets a node run out of time, whose error handler asks another model about it."""
    slow, quick = Slow(world=world), chat(world)

    async def late(state: Found) -> dict[str, Any]:
        return {"found": [(await slow.ainvoke("late?")).text]}

    async def handle(state: Found, error: NodeError) -> Command[Any]:
        said = await quick.ainvoke(f"what now, after {type(error.error).__name__}?")
        return Command(update={"found": [said.text]}, goto=END)

    builder = StateGraph(Found).add_node("late", late, timeout=0.1, error_handler=handle).add_edge(START, "late")
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)


NAMELESS = {
    "runs": "a tracer keeps the `repr` of an error by which LangGraph cancels tasks, with the place of an object"
}


def _leaving(make: Any) -> Program:
    """Read a stream until the third part of an answer, in a task that is cancelled then."""

    async def program(capture: Capture) -> Any:
        talk, read = make(), asyncio.Event()
        config = {**THREAD, "callbacks": capturing(capture)}

        async def follow() -> None:
            tokens = 0
            async for part in talk.subject.astream(talk.given, config, stream_mode=MODES, subgraphs=True):
                capture.add("stream", part)
                tokens += part[1] == "messages"
                if tokens == 2:
                    read.set()

        reader = asyncio.create_task(follow())
        await read.wait()
        reader.cancel()
        (outcome,) = await asyncio.gather(reader, return_exceptions=True)
        return [type(outcome), (await talk.subject.aget_state(talk.config)).values]

    return program


@row("LangGraph", {"a reader that goes away": _leaving}, replays=LARGE_RACES, never=TRACEBACKS | NAMELESS)
def reader_that_goes_away(world: Outside) -> Talk:
    """Streams two branches to a reader that is cancelled while they answer."""
    builder = StateGraph(Found)
    for name in ("left", "right"):
        model = chat(world)

        async def ask(state: Found, model: Any = model, name: str = name) -> dict[str, Any]:
            return {"found": [(await model.ainvoke(name)).text]}

        builder.add_node(name, ask).add_edge(START, name)
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)
