"""Programs of LlamaIndex: agents, their memories, and calls of several sorts of content."""

# Annotations are evaluated at once: tools find their context by them.
import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer, Memory, VectorMemoryBlock
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.workflow import Context, Event
from pydantic import BaseModel, PrivateAttr

from agenttape_core.testing import Capture

from ...llamaindex.programs import after_tools, close
from ...llamaindex.scripted import Reply, ScriptedEmbedding, ScriptedLLM, echo
from .llama import SlowEmbedding, body, followed, looking
from .outside import Outside
from .rows import LARGE_RACES, ONCE_OR_TWICE


def model(world: Outside, script: Any, **options: Any) -> ScriptedLLM:
    """Return a model that takes its time."""
    return ScriptedLLM(world, script, wait=world.apause, **options)


def looks(*places: str) -> Any:
    """Make a script that looks at all places at once, and then answers."""
    return after_tools([("look", {"where": where}) for where in places])


@body(LARGE_RACES)
async def agents_at_once(world: Outside, capture: Capture) -> Any:
    """Runs three agents at once, each of which calls two tools at once."""
    tool = looking(world)
    agents = [FunctionAgent(llm=model(world, looks(f"left {n}", f"right {n}")), tools=[tool]) for n in range(3)]
    return await asyncio.gather(*(followed(agent.run(f"Look {n}"), capture) for n, agent in enumerate(agents)))


@body(LARGE_RACES)
async def agents_as_parallel_tools(world: Outside, capture: Capture) -> Any:
    """Calls two agents at once, as the tools of a third, and streams what they stream."""
    expert = FunctionAgent(llm=model(world, looks("left", "right")), tools=[looking(world)])

    async def ask(ctx: Context, question: str) -> str:
        """Ask an expert."""
        handler = expert.run(question)
        async for event in handler.stream_events():
            if isinstance(event, AgentStream):
                ctx.write_event_to_stream(event)
        return str(await handler)

    script = after_tools([("ask", {"question": question}) for question in ("What is left?", "What is right?")])
    return await followed(FunctionAgent(llm=model(world, script), tools=[ask]).run("Ask both"), capture)


class Found(Event):
    """What a tool reports while it works."""

    where: str
    said: str


@body()
async def parallel_tools_with_effects(world: Outside, capture: Capture) -> Any:
    """Calls four tools at once, which write to the state and to the stream before and after they look."""

    async def look(ctx: Context, where: str) -> str:
        """Look somewhere."""
        ctx.write_event_to_stream(Found(where=where, said="looking"))
        said = await world.aask(where)
        async with ctx.store.edit_state() as state:
            state["found"] = [*state.get("found", []), said]
        ctx.write_event_to_stream(Found(where=where, said=said))
        return said

    handler = FunctionAgent(llm=model(world, looks("left", "right", "up", "down")), tools=[look]).run("Look")
    return [await followed(handler, capture), await handler.ctx.store.get("found")]


@body(LARGE_RACES)
async def parallel_tools_that_fail(world: Outside, capture: Capture) -> Any:
    """Calls five tools at once: two fail, one is not there, one gives an image, one an output of its own."""

    async def look(where: str) -> Any:
        """Look somewhere."""
        said = await world.aask(where)
        if where in {"left", "right"}:
            raise ConnectionError(said)
        if where == "up":
            return ToolOutput(content=said, tool_name="look", raw_input={"where": where}, raw_output=[said, 1.5])
        return [TextBlock(text=said), ImageBlock(image=said.encode(), image_mimetype="image/png")]

    calls = [("look", {"where": where}) for where in ("left", "up", "right", "down")]
    script = after_tools([*calls, ("walk", {"to": "Rome"})])
    return await followed(FunctionAgent(llm=model(world, script), tools=[look]).run("Look"), capture)


@body(LARGE_RACES)
async def stopped_by_the_reader(world: Outside, capture: Capture) -> Any:
    """Streams the answer of an agent, whose reader stops it after the third token."""
    handler = FunctionAgent(llm=model(world, looks("left", "right")), tools=[looking(world)]).run("Look")
    tokens = 0
    async for event in handler.stream_events():
        capture.add("stream", event)
        tokens += isinstance(event, AgentStream) and bool(event.delta)
        if tokens == 3:
            await handler.cancel_run()
            break
    try:
        return await handler
    except Exception as error:
        return [type(error), str(error), handler.ctx.to_dict()]


@body(ONCE_OR_TWICE)
async def agent_that_never_ends(world: Outside, capture: Capture) -> Any:
    """Stops agents that go on calling tools, once with an error, once with an answer."""
    tool, told = looking(world), []

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        return [("look", {"where": f"place {len(messages)}"})] if tools else "enough"

    for method in ("force", "generate"):
        agent = FunctionAgent(llm=model(world, script), tools=[tool], early_stopping_method=method)
        try:
            told.append(await followed(agent.run("Look", max_iterations=2), capture))
        except Exception as error:
            told.append([type(error), str(error)])
    return told


@body(LARGE_RACES)
async def react_agents_with_a_shared_memory(world: Outside, capture: Capture) -> Any:
    """Runs ReAct agents one after the other on one memory, beside a third one that runs at once."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        if "Observation:" not in (messages[-1].content or ""):
            return 'Thought: I look.\nAction: look\nAction Input: {"where": "up"}'
        return f"Thought: I can answer without using any more tools.\nAnswer: after {len(messages)}"

    def agent() -> ReActAgent:
        return ReActAgent(llm=model(world, script, function_calling=False), tools=[looking(world)])

    async def talk() -> Any:
        memory = ChatMemoryBuffer.from_defaults(token_limit=4000)
        told = [await followed(agent().run(f"Look {n}", memory=memory), capture) for n in range(2)]
        return [told, memory]

    return await asyncio.gather(talk(), followed(agent().run("Look too"), capture))


class Report(BaseModel):
    """A report."""

    places: list[str]
    agent: str = "nobody"


@body(ONCE_OR_TWICE)
async def structured_hand_off(world: Outside, capture: Capture) -> Any:
    """Hands off between agents that begin as others ended, and makes an object of what was said by a function."""

    async def report(messages: list[ChatMessage]) -> dict[str, Any]:
        said = await model(world, echo).acomplete("report")
        return {"places": [said.text, *(str(message.content) for message in messages[-1:])], "agent": "last"}

    def scout(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        return looks("left")(messages, tools) if "look" in tools and len(messages) < 3 else hand_off

    hand_off: Reply = [("handoff", {"to_agent": "Writer", "reason": "all seen"})]
    agents = [
        FunctionAgent(name="Scout", description="Looks.", llm=model(world, scout), tools=[looking(world)]),
        FunctionAgent(
            name="Writer", description="Writes.", llm=model(world, lambda *_: "written"), tools=[], can_handoff_to=[]
        ),
    ]
    workflow = AgentWorkflow(agents=agents, root_agent="Scout", structured_output_fn=report, output_cls=None)
    output = await followed(workflow.run("Look and write"), capture)
    return [output, output.get_pydantic_model(Report)]


MARKED = {"spans": "an object to which a write was replayed carries a mark, which raw spans show"}


class Service(BasePydanticVectorStore):
    """A vector store that is a service: it finds what was put there last."""

    stores_text: bool = True
    is_embedding_query: bool = True
    _world: Outside = PrivateAttr()
    _kept: list[BaseNode] = PrivateAttr(default_factory=list)

    def __init__(self, world: Outside) -> None:
        super().__init__()
        self._world = world

    @property
    def client(self) -> None:
        """Return no client."""

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Keep nodes."""
        self._world.reach("add")
        self._kept += nodes
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        """Delete nothing."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Find nodes."""
        score = 1 / self._world.reach("query")
        found = self._kept[-query.similarity_top_k :]
        return VectorStoreQueryResult(nodes=found, similarities=[score] * len(found), ids=[n.node_id for n in found])


@body(ONCE_OR_TWICE, never=MARKED)
async def memories(world: Outside, capture: Capture) -> Any:
    """Remembers by summaries, and by vectors, over turns that no longer fit."""
    llm = model(world, lambda messages, _: f"heard {len(messages)}")
    summary = ChatSummaryMemoryBuffer.from_defaults(llm=llm, token_limit=40, tokenizer_fn=str.split)
    agent = FunctionAgent(llm=llm, tools=[])
    lines = [f"a long line that is number {n} of all of them" for n in range(3)]
    told: list[Any] = [await agent.run(line, memory=summary) for line in lines]
    vectors = VectorMemoryBlock(vector_store=Service(world), embed_model=ScriptedEmbedding(world), similarity_top_k=2)
    memory = Memory.from_defaults(
        token_limit=40, chat_history_token_ratio=0.5, token_flush_size=10, memory_blocks=[vectors]
    )
    told += [await agent.run(line, memory=memory) for line in lines]
    told += [summary.get_all(), await memory.aget(), await memory.aget_all()]
    await close(memory)
    return told


@body(ONCE_OR_TWICE)
async def contexts_over_turns(world: Outside, capture: Capture) -> Any:
    """Keeps the context of an agent as data between turns, and forks it into two that go on at once."""
    agent = FunctionAgent(llm=model(world, lambda messages, _: f"heard {len(messages)}"), tools=[looking(world)])
    context = Context(agent)
    await followed(agent.run("one", ctx=context), capture)
    kept = context.to_dict()

    async def fork(said: str) -> Any:
        forked = Context.from_dict(agent, kept)
        return [await followed(agent.run(said, ctx=forked), capture), forked.to_dict()]

    return [kept, await asyncio.gather(fork("two"), fork("three"))]


@body()
async def multimodal(world: Outside, capture: Capture) -> Any:
    """Asks about images, documents, sounds and thoughts, whole and streamed, three at once."""
    llm = model(world, lambda messages, _: f"seen {len(messages[-1].blocks)} blocks")

    def message(n: int) -> ChatMessage:
        return ChatMessage(
            role="user",
            blocks=[
                TextBlock(text=f"What is it? {n}"),
                ImageBlock(image=bytes([n] * 40), image_mimetype="image/png", detail="low"),
                ImageBlock(url="https://example.com/a.png"),
                DocumentBlock(data=b"%PDF-1.7", document_mimetype="application/pdf", title="a.pdf"),
                AudioBlock(audio=b"RIFF", format="wav"),
                ThinkingBlock(content="hm", num_tokens=1),
            ],
        )

    async def read(n: int) -> None:
        async for chunk in await llm.astream_chat([message(n)]):
            await asyncio.sleep(0.001)
            capture.add("stream", [n, chunk])

    return await asyncio.gather(llm.achat([message(0)]), read(1), read(2))


@body()
async def predicted_calls(world: Outside, capture: Capture) -> Any:
    """Lets a model choose tools and calls them, in a loop without an agent, twice at once."""
    tool = FunctionTool.from_defaults(async_fn=looking(world), name="look")
    script = after_tools([("look", {"where": "left"}), ("look", {"where": "right"})])
    llm = model(world, script)

    async def choose(n: int) -> Any:
        asked = f"Look {n}"
        done = await llm.apredict_and_call([tool], asked, allow_parallel_tool_calls=True)
        chosen = await llm.achat_with_tools([tool], asked, allow_parallel_tool_calls=True)
        return [done, [await tool.acall(**call.tool_kwargs) for call in llm.get_tool_calls_from_response(chosen)]]

    return await asyncio.gather(choose(1), choose(2))


@body(LARGE_RACES)
async def agents_over_indexes(world: Outside, capture: Capture) -> Any:
    """Calls an engine, a retriever and a function at once, as the tools of an agent that reads its own notes."""
    embedding = SlowEmbedding(world)
    notes = VectorStoreIndex([], embed_model=embedding)

    async def write(text: str) -> str:
        """Write a note."""
        await notes.ainsert_nodes([TextNode(text=text)])
        return text

    async def read(about: str) -> str:
        """Read the notes."""
        found = await notes.as_retriever(similarity_top_k=3).aretrieve(about)
        return str([node.get_content() for node in found])

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        if not said:
            return [("write", {"text": text}) for text in ("Paris", "Rome", "Oslo")]
        return [("read", {"about": "Paris"}), ("read", {"about": "Oslo"})] if len(said) == 3 else f"read {said}"

    return await followed(FunctionAgent(llm=model(world, script), tools=[write, read]).run("Keep notes"), capture)
