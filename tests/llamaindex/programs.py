"""Agents, engines and workflows as people write them: plain LlamaIndex, nothing of AgentTape.

Each program gets the world it reaches and returns what it produced, as data that can be compared.
"""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine import CondenseQuestionChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.extractors import QuestionsAnsweredExtractor, SummaryExtractor, TitleExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.memory import ChatMemoryBuffer, FactExtractionMemoryBlock, Memory, StaticMemoryBlock
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import CitationQueryEngine, RouterQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.selectors import LLMSingleSelector, PydanticSingleSelector
from llama_index.core.tools import FunctionTool, QueryEngineTool
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

from .scripted import Call, Outside, Reply, Reversing, ScriptedEmbedding, ScriptedLLM

Program: TypeAlias = Callable[[Outside], Awaitable[Any]]
PROGRAMS: dict[str, Program] = {}
"""Every program by name."""

TEXTS = [
    "Paris is the capital of France. The Louvre is the largest museum of the city.",
    "Berlin is the capital of Germany. The Spree runs through it.",
    "Rome is the capital of Italy. It was not built in a day.",
]


def program(run: Program) -> Program:
    """Keep a program under its name."""
    PROGRAMS[run.__name__] = run
    return run


def shown(value: Any) -> Any:
    """Return what was produced as data that can be compared, types included."""
    if isinstance(value, BaseModel):
        return {"is": type(value).__name__, **{key: shown(item) for key, item in value.model_dump().items()}}
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(shown, value)]
    return value if value is None or isinstance(value, str | int | float | bool) else f"{type(value).__name__}: {value}"


async def followed(handler: Any) -> Any:
    """Return the events and the result of a workflow that runs."""
    events = [shown(event) async for event in handler.stream_events()]
    return {"events": events, "result": shown(await handler)}


def shown_response(response: Any) -> Any:
    """Return the text, the sources and the metadata of a response."""
    sources = [(node.node.node_id, node.node.get_content(), node.score) for node in response.source_nodes]
    return {"text": str(response), "sources": sources, "metadata": response.metadata}


# -- agents -----------------------------------------------------------------------------------------------------------


def after_tools(calls: Sequence[Call], answer: str = "That is all.") -> Callable[..., Reply]:
    """Make a script that first calls tools, and then answers."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return f"{answer} {said}" if said or not tools else list(calls)

    return script


def city_tools(world: Outside) -> list[FunctionTool]:
    """Return two tools, of which one is asynchronous."""

    def temperature(city: str) -> str:
        """Tell the temperature of a city."""
        return f"{10 + world.reach('temperature')} degrees in {city}"

    async def population(city: str, year: int = 2026) -> dict[str, int]:
        """Tell how many people live in a city."""
        return {city: year * 1000 + world.reach("population")}

    return [FunctionTool.from_defaults(temperature), FunctionTool.from_defaults(population)]


@program
async def function_agent(world: Outside) -> Any:
    """A function agent that calls a tool, then another one."""
    calls = [("temperature", {"city": "Paris"}), ("population", {"city": "Rome", "year": 2020})]

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return [calls[len(said)]] if len(said) < len(calls) else f"That is all: {said}"

    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=city_tools(world), system_prompt="Be brief.")
    return await followed(agent.run("How warm is Paris, how large is Rome?"))


@program
async def parallel_tools(world: Outside) -> Any:
    """An agent whose tools answer in another order than they were asked in."""
    reversing = Reversing(3)

    async def look(where: str) -> str:
        """Look somewhere."""
        number = world.reach("look")
        await reversing()
        return f"{where} was the number {number}"

    script = after_tools([("look", {"where": where}) for where in ("left", "right", "up")])
    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=[look]).run("Look around"))


@program
async def function_agent_that_does_not_stream(world: Outside) -> Any:
    """The same without streaming, over two turns of one context."""
    script = after_tools([("temperature", {"city": "Paris"})])
    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=city_tools(world), streaming=False)
    context = Context(agent)
    first = await followed(agent.run("How warm is Paris?", ctx=context))
    return [first, await followed(agent.run("And tomorrow?", ctx=context))]


@program
async def agent_whose_tool_fails(world: Outside) -> Any:
    """An agent that is told of the error of its tool."""

    def fly(to: str) -> str:
        """Fly somewhere."""
        raise ValueError(f"no flight {world.reach('fly')} to {to}")

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return [[("fly", {"to": "Rome"})], [("walk", {})], f"I stay: {said}"][len(said)]

    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=[fly]).run("Go to Rome"))


class Weather(BaseModel):
    """What the weather is."""

    city: str
    degrees: int


@program
async def agent_with_structured_output(world: Outside) -> Any:
    """An agent that ends with an object, after a tool that returns directly what a callback made of it."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        if tools == ["Weather"]:
            return [("Weather", {"city": "Oslo", "degrees": 3})]
        return after_tools([("measure", {"city": "Oslo"})])(messages, tools)

    def measure(city: str) -> Weather:
        """Measure the weather."""
        return Weather(city=city, degrees=world.reach("measure"))

    tool = FunctionTool.from_defaults(measure, callback=lambda weather: f"{weather.degrees} C", return_direct=True)
    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=[tool], output_cls=Weather)
    return await followed(agent.run("The weather in Oslo?"))


@program
async def react_agent(world: Outside) -> Any:
    """A ReAct agent."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        seen = "\n".join(message.content or "" for message in messages)
        if "Observation:" not in seen.split("Current Conversation")[-1]:
            return 'Thought: I need a tool.\nAction: temperature\nAction Input: {"city": "Paris"}'
        return "Thought: I can answer without using any more tools.\nAnswer: It is warm"

    agent = ReActAgent(llm=ScriptedLLM(world, script, function_calling=False), tools=city_tools(world))
    return await followed(agent.run("How warm is Paris?"))


@program
async def code_act_agent(world: Outside) -> Any:
    """An agent that writes code, which somebody else executes."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        done = any("Result of executing" in (message.content or "") for message in messages)
        return "It is 42." if done else "I compute.\n<execute>\nprint(6 * 7)\n</execute>"

    async def execute(code: str) -> str:
        return f"{eval(code.removeprefix('print(').removesuffix(')'))} after {world.reach('execute')}"

    agent = CodeActAgent(llm=ScriptedLLM(world, script), tools=city_tools(world)[:1], code_execute_fn=execute)
    return await followed(agent.run("What is six times seven?"))


@program
async def handoff(world: Outside) -> Any:
    """Two agents; the first writes into the state that both share, and hands off to the second."""

    async def note(ctx: Context, text: str) -> str:
        """Keep a note."""
        async with ctx.store.edit_state() as state:
            state["state"]["notes"] = [*state["state"]["notes"], f"{text} {world.reach('note')}"]
        return "Noted."

    async def publish(ctx: Context) -> str:
        """Publish the notes."""
        state = await ctx.store.get("state")
        await ctx.store.set("state.published", True)
        ctx.write_event_to_stream(Published(notes=len(state["notes"])))
        return f"published {state['notes']} as {world.reach('publish')}"

    def researcher(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        if not said:
            return [("note", {"text": "Paris is large"})]
        return [("handoff", {"to_agent": "Writer", "reason": "the notes are there"})]

    agents = [
        FunctionAgent(
            name="Researcher",
            description="Finds facts.",
            llm=ScriptedLLM(world, researcher),
            tools=[note],
            can_handoff_to=["Writer"],
        ),
        FunctionAgent(
            name="Writer",
            description="Writes.",
            llm=ScriptedLLM(world, after_publish),
            tools=[publish],
            can_handoff_to=[],
        ),
    ]
    workflow = AgentWorkflow(agents=agents, root_agent="Researcher", initial_state={"notes": []})
    handler = workflow.run("Write about Paris")
    told = await followed(handler)
    return {**told, "state": shown(await handler.ctx.store.get("state"))}


class Published(Event):
    """What a tool says while it works."""

    notes: int


def after_publish(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Publish once, then end."""
    done = any("published" in (message.content or "") for message in messages if message.role == "tool")
    return "It is out." if done else [("publish", {})]


@program
async def agent_as_tool(world: Outside) -> Any:
    """An agent whose tool is another agent."""
    expert = FunctionAgent(
        llm=ScriptedLLM(world, after_tools([("temperature", {"city": "Rome"})])), tools=city_tools(world)
    )

    async def ask_expert(ctx: Context, question: str) -> str:
        """Ask the expert."""
        return str(await expert.run(question))

    script = after_tools([("ask_expert", {"question": "How warm is Rome?"})])
    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=[ask_expert]).run("Find out."))


@program
async def tool_that_asks_a_human(world: Outside) -> Any:
    """An agent whose tool waits for a person."""

    async def delete(ctx: Context, what: str) -> str:
        """Delete something, if a person agrees."""
        answer = await ctx.wait_for_event(
            HumanResponseEvent,
            waiter_id=what,
            waiter_event=InputRequiredEvent(prefix=f"Delete {what}?"),
            requirements={"who": "Ada"},
        )
        return f"deleted {what} as {world.reach('delete')}" if answer.response == "yes" else "kept"

    script = after_tools([("delete", {"what": "logs"})])
    handler = FunctionAgent(llm=ScriptedLLM(world, script), tools=[delete]).run("Clean up")
    events = []
    async for event in handler.stream_events():
        events.append(shown(event))
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes", who="Ada"))
    return {"events": events, "result": shown(await handler)}


# -- engines ----------------------------------------------------------------------------------------------------------


def librarian(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Answer the prompts that LlamaIndex's engines write."""
    text = messages[-1].content or ""
    if tools == ["SingleSelection"]:
        return [("SingleSelection", {"index": 1, "reason": "it fits"})]
    if "Relevance: 7" in text:
        return "Doc: 2, Relevance: 9\nDoc: 1, Relevance: 4"
    if "Some choices are given below" in text:
        return '[{"choice": 1, "reason": "it is about facts"}]'
    if "sub_question" in text:
        return (
            '```json\n{"items": [{"sub_question": "Where is the Louvre?", "tool_name": "facts"}, '
            '{"sub_question": "What is in Berlin?", "tool_name": "summary"}]}\n```>'
        )
    wanted = re.findall(r"(?:Query|Question|question): (.+)", text)
    return f"About {wanted[-1] if wanted else text.strip()[-40:]}: yes [1]."


def documents() -> list[Document]:
    """Return documents without ids of their own."""
    return [Document(text=text, metadata={"page": number}) for number, text in enumerate(TEXTS)]


def vector_index(world: Outside) -> VectorStoreIndex:
    """Return an index in memory."""
    return VectorStoreIndex.from_documents(
        documents(),
        embed_model=ScriptedEmbedding(world),
        transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0)],
    )


def engine_tools(world: Outside, llm: ScriptedLLM) -> list[QueryEngineTool]:
    """Return a query engine that finds and one that summarises, as tools."""
    rerank = LLMRerank(llm=llm, top_n=1)
    facts = vector_index(world).as_query_engine(llm=llm, similarity_top_k=2, node_postprocessors=[rerank])
    summary = SummaryIndex.from_documents(documents()).as_query_engine(llm=llm, response_mode="tree_summarize")
    return [
        QueryEngineTool.from_defaults(facts, name="facts", description="Facts of cities."),
        QueryEngineTool.from_defaults(summary, name="summary", description="Summaries."),
    ]


@program
async def rag(world: Outside) -> Any:
    """A vector index, a reranker and all ways to ask it."""
    llm = ScriptedLLM(world, librarian)
    engine = engine_tools(world, llm)[0].query_engine
    told = [shown_response(engine.query("Where is the Louvre?"))]
    told.append(shown_response(await engine.aquery("Where is the Louvre, again?")))
    index = vector_index(world)
    streaming = index.as_query_engine(llm=llm, streaming=True, similarity_top_k=1)
    response = streaming.query("What is in Rome?")
    assert isinstance(response, StreamingResponse)
    told.append(list(response.response_gen))
    later = await index.as_query_engine(llm=llm, streaming=True, use_async=True).aquery("What is in Berlin?")
    assert isinstance(later, AsyncStreamingResponse)
    told.append([token async for token in later.async_response_gen()])
    return told


@program
async def response_modes(world: Outside) -> Any:
    """Every mode of synthesis, synchronous and not."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    told = {}
    for mode in ("refine", "compact", "tree_summarize", "simple_summarize", "accumulate", "compact_accumulate"):
        engine = index.as_query_engine(llm=llm, response_mode=mode, similarity_top_k=3)
        told[mode] = [shown_response(engine.query(f"What of {mode}?"))]
        told[mode].append(shown_response(await engine.aquery(f"And of {mode}?")))
    return told


@program
async def concurrent_synthesis(world: Outside) -> Any:
    """Several model calls at once, made by the engine itself."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    engine = index.as_query_engine(llm=llm, response_mode="accumulate", use_async=True, similarity_top_k=3)
    return [shown_response(engine.query("What of each?")), shown_response(await engine.aquery("And of all?"))]


@program
async def router(world: Outside) -> Any:
    """A router, by a text selector and by a selector that calls a function."""
    llm = ScriptedLLM(world, librarian)
    tools = engine_tools(world, llm)
    told = []
    for selector in (LLMSingleSelector.from_defaults(llm=llm), PydanticSingleSelector.from_defaults(llm=llm)):
        engine = RouterQueryEngine.from_defaults(query_engine_tools=tools, llm=llm, selector=selector)
        told += [shown_response(engine.query("Where is the Louvre?")), shown_response(await engine.aquery("Really?"))]
    return told


@program
async def sub_questions(world: Outside) -> Any:
    """A question in parts, asked at once."""
    llm = ScriptedLLM(world, librarian)
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=engine_tools(world, llm),
        llm=llm,
        question_gen=LLMQuestionGenerator.from_defaults(llm=llm),
        use_async=True,
        verbose=False,
    )
    return [shown_response(engine.query("Compare the cities")), shown_response(await engine.aquery("Compare again"))]


async def streamed(response: Any) -> tuple[str, list[str]]:
    """Return which sort of response it is, and its tokens."""
    if isinstance(response, AsyncStreamingResponse):
        return "async", [token async for token in response.async_response_gen()]
    assert isinstance(response, StreamingResponse)
    return "sync", list(response.response_gen)


@program
async def streaming_router(world: Outside) -> Any:
    """A router whose engines stream."""
    llm = ScriptedLLM(world, librarian)
    facts = vector_index(world).as_query_engine(llm=llm, streaming=True, similarity_top_k=1)
    summary = SummaryIndex.from_documents(documents()).as_query_engine(
        llm=llm, streaming=True, response_mode="tree_summarize"
    )
    tools = [
        QueryEngineTool.from_defaults(facts, name="facts", description="Facts."),
        QueryEngineTool.from_defaults(summary, name="summary", description="Summaries."),
    ]
    selector = LLMSingleSelector.from_defaults(llm=llm)
    engine = RouterQueryEngine.from_defaults(query_engine_tools=tools, llm=llm, selector=selector)
    asked = [engine.query("Where is the Louvre?"), await engine.aquery("Really?")]
    return [await streamed(response) for response in asked]


@program
async def streaming_sub_questions(world: Outside) -> Any:
    """A question in parts, whose answer is streamed."""
    llm = ScriptedLLM(world, librarian)
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=engine_tools(world, llm),
        llm=llm,
        question_gen=LLMQuestionGenerator.from_defaults(llm=llm),
        response_synthesizer=get_response_synthesizer(llm=llm, streaming=True),
        use_async=True,
        verbose=False,
    )
    return await streamed(engine.query("Compare the cities"))


@program
async def citations(world: Outside) -> Any:
    """An engine that cites."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    engine = CitationQueryEngine.from_args(index, llm=llm, similarity_top_k=2, citation_chunk_size=64)
    return shown_response(await engine.aquery("Where is the Louvre?"))


@program
async def chat_engines(world: Outside) -> Any:
    """Five turns with each chat engine, each with a memory; whole and streamed, synchronous and not."""
    llm, index = ScriptedLLM(world, librarian), vector_index(world)
    told = {}
    for name, engine in {
        "simple": SimpleChatEngine.from_defaults(llm=llm),
        "context": ContextChatEngine.from_defaults(
            llm=llm,
            retriever=index.as_retriever(similarity_top_k=1),
            memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
            node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.1)],
        ),
        "condense": CondenseQuestionChatEngine.from_defaults(index.as_query_engine(llm=llm), llm=llm),
        "condense_plus_context": index.as_chat_engine(chat_mode="condense_plus_context", llm=llm),
    }.items():
        turns: list[Any] = [str(engine.chat("Where is the Louvre?"))]
        turns.append(str(await engine.achat("And the Spree?")))
        turns.append(list((await asyncio.to_thread(engine.stream_chat, "And Rome?")).response_gen))
        turns.append([token async for token in (await engine.astream_chat("Is that all?")).async_response_gen()])
        turns.append(str(await engine.achat("Thank you.")))
        told[name] = [*turns, [(message.role.value, message.content) for message in engine.chat_history]]
    return told


@program
async def agentic_rag(world: Outside) -> Any:
    """An agent with query engines as tools."""
    llm = ScriptedLLM(world, librarian)
    script = after_tools([("facts", {"input": "Where is the Louvre?"}), ("summary", {"input": "All of it"})])
    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=engine_tools(world, llm)).run("Ask both"))


@program
async def ingestion(world: Outside) -> Any:
    """A pipeline with extractors, and what it gives asked."""
    llm, embedding = ScriptedLLM(world, librarian), ScriptedEmbedding(world)
    pipeline = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=64, chunk_overlap=0),
            TitleExtractor(llm=llm, nodes=2, show_progress=False),
            SummaryExtractor(llm=llm, summaries=["self", "prev"], show_progress=False),
            QuestionsAnsweredExtractor(llm=llm, questions=1, show_progress=False),
            embedding,
        ]
    )
    nodes = await pipeline.arun(documents=documents())
    again = pipeline.run(documents=documents())  # of the cache
    index = VectorStoreIndex(nodes, embed_model=embedding)
    return [
        [(node.node_id, node.metadata, node.embedding) for node in nodes],
        [node.node_id for node in again],
        shown_response(index.as_query_engine(llm=llm).query("Rome?")),
    ]


# -- memory -----------------------------------------------------------------------------------------------------------


def rememberer(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Extract facts where facts are asked for."""
    text = "\n".join(message.content or "" for message in messages)
    if "fact extraction system" in text:
        return "<facts>\n  <fact>She likes Paris</fact>\n</facts>"
    return f"I remember {len(messages)} messages."


@program
async def agent_with_memory(world: Outside) -> Any:
    """An agent over five turns, whose memory is cut and kept as facts."""
    llm = ScriptedLLM(world, rememberer)
    memory = Memory.from_defaults(
        token_limit=60,
        token_flush_size=10,
        chat_history_token_ratio=0.5,
        memory_blocks=[
            StaticMemoryBlock(name="who", static_content="She is Ada."),
            FactExtractionMemoryBlock(name="facts", llm=llm, max_facts=5),
        ],
    )
    agent = FunctionAgent(llm=llm, tools=[])
    said = [f"This is what I say in turn {turn}, and it is long enough" for turn in range(5)]
    told = [str(await agent.run(line, memory=memory)) for line in said]
    kept = [(message.role.value, message.content) for message in await memory.aget()]
    everything = [message.content for message in await memory.aget_all()]
    await close(memory)
    return [told, kept, memory.session_id, everything]


async def close(memory: Memory) -> None:
    """Close the database of a memory, which nothing else does."""
    engine = memory.sql_store._async_engine
    assert engine is not None
    await engine.dispose()


@program
async def agent_with_history(world: Outside) -> Any:
    """An agent that is given what was said before."""
    history = [ChatMessage(role=role, content=f"{role} {turn}") for turn in range(3) for role in ("user", "assistant")]

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        return f"I was told {[message.content for message in messages]}."

    memory = Memory.from_defaults(session_id="ada")
    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=[])
    told = str(await agent.run("And now?", chat_history=history, memory=memory))
    await close(memory)
    return told


# -- extraction -------------------------------------------------------------------------------------------------------


class Line(BaseModel):
    """A line of an invoice."""

    what: str
    price: float = Field(description="in euros")


class Invoice(BaseModel):
    """An invoice."""

    number: str
    lines: list[Line]


def clerk(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Fill in an invoice, by a function call or as JSON."""
    filled = {"number": "2026-1", "lines": [{"what": "paper", "price": 2.5}]}
    if tools:
        return [(tools[0], filled)]
    return '{"number": "2026-1", "lines": [{"what": "paper", "price": 2.5}]}'


@program
async def extraction(world: Outside) -> Any:
    """Objects out of text in all forms that there are."""
    prompt = PromptTemplate("Read this: {text}")
    told = []
    for llm in (ScriptedLLM(world, clerk), ScriptedLLM(world, clerk, function_calling=False)):
        told.append(shown(llm.structured_predict(Invoice, prompt, text="paper, 2.50")))
        told.append(shown(await llm.astructured_predict(Invoice, prompt, text="paper, 2.50")))
        structured = llm.as_structured_llm(Invoice)
        told.append(shown(structured.chat([ChatMessage(role="user", content="paper")]).raw))
        told.append(shown((await structured.achat([ChatMessage(role="user", content="paper!")])).raw))
        told.append([shown(item) for item in llm.stream_structured_predict(Invoice, prompt, text="ink")])
        told.append([shown(i) async for i in await llm.astream_structured_predict(Invoice, prompt, text="pens")])
    engine = VectorStoreIndex.from_documents(documents(), embed_model=ScriptedEmbedding(world)).as_query_engine(
        llm=ScriptedLLM(world, clerk), output_cls=Invoice, response_mode="compact"
    )
    told.append(shown(engine.query("The invoice?").response))
    return told


# -- workflows --------------------------------------------------------------------------------------------------------


class Part(Event):
    """A part of the work."""

    number: int


class Done(Event):
    """A part that is done."""

    number: int
    said: str


class Parallel(Workflow):
    """Works on several parts at once, and tells them in the order in which they are done."""

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
async def parallel_steps(world: Outside) -> Any:
    """A workflow whose steps run at once; those that begin first end last."""
    return await followed(Parallel(reversing_llm(world, 4), timeout=20).run(parts=4))


@program
async def equal_parallel_steps(world: Outside) -> Any:
    """The same where all steps ask the same."""
    return await followed(Parallel(reversing_llm(world, 4), same=True, timeout=20).run(parts=4))


def reversing_llm(world: Outside, calls: int) -> ScriptedLLM:
    """Return a model that answers so many calls in reverse order, and all others at once."""
    reversing, left = Reversing(calls), [calls]

    async def wait() -> None:
        left[0] -= 1
        if left[0] >= 0:
            await reversing()

    return ScriptedLLM(world, wait=wait)


class Ask(InputRequiredEvent):
    """What a person is asked."""

    question: str = ""


class Answer(HumanResponseEvent):
    """What a person says."""

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
async def human_input(world: Outside) -> Any:
    """A workflow with a person in it."""
    handler = Interview(ScriptedLLM(world), timeout=20).run(topic="Paris")
    events = []
    async for event in handler.stream_events():
        events.append(shown(event))
        if isinstance(event, Ask):
            handler.ctx.send_event(Answer(text="lovely"))
    return {"events": events, "result": await handler}


@program
async def resumed_from_a_snapshot(world: Outside) -> Any:
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
