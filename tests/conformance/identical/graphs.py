"""Programs of LangGraph."""

# Annotations are evaluated at once: LangGraph and tools look at them.
import asyncio
import operator
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from datetime import datetime
from random import random
from time import time
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from langchain.tools import ToolRuntime
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store, get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel, Field

from ...langchain.fakes import calling
from .drivers import GRAPH, Talk
from .outside import Chat, Outside
from .rows import LARGE_RACES, RACES, TRACEBACKS, row

SYNC = ("invoke", "stream")
BOTH = ("invoke", "stream", "ainvoke", "astream")
EVENTS = ("astream_events v1", "astream_events v2", "astream_events v3", "stream_events v3")


def larger(a: int, b: int) -> int:
    """Return the larger number."""
    return max(a, b)


class Found(TypedDict):
    """The findings of nodes."""

    n: Annotated[int, larger]
    found: Annotated[list[Any], operator.add]


FOUND: Any = {"n": 0, "found": []}
HELLO: Any = {"messages": [("user", "Hello?")]}


def says(reply: str, number: int) -> AIMessage:
    """Return an answer that nobody has given before."""
    usage: Any = {"input_tokens": 3, "output_tokens": number, "total_tokens": 3 + number}
    return AIMessage(f"{number}-{uuid4().hex[:6]} {reply}", usage_metadata=usage)


def in_turn(*turns: Sequence[tuple[str, dict[str, Any]]]) -> Callable[[Any, int], AIMessage]:
    """Return the replies of a model that calls tools in turn, and then answers."""

    def reply(messages: Any, number: int) -> AIMessage:
        last = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
        turn = sum(isinstance(message, AIMessage) for message in messages[last:])
        if turn < len(turns):
            return calling(*turns[turn], number=number, text=f"calls-{uuid4().hex[:4]}")
        return says(
            "/".join(message.text.replace(" ", "-") for message in messages[last:] if message.type == "tool"), number
        )

    return reply


def chat(world: Outside, *turns: Sequence[tuple[str, dict[str, Any]]]) -> Chat:
    """Return a model that calls tools in turn, and then answers."""
    return Chat(world=world, reply=in_turn(*turns))


def asks(world: Outside, text: str, times: int = 1) -> RunnableLambda[Any, Any]:
    """Return a node that asks a model one or more times."""
    model = chat(world)

    def node(state: Found) -> dict[str, Any]:
        return {"found": [model.invoke(f"{text} {state['n']}").text for _ in range(times)]}

    async def anode(state: Found) -> dict[str, Any]:
        return {"found": [(await model.ainvoke(f"{text} {state['n']}")).text for _ in range(times)]}

    return RunnableLambda(node, anode)


# -- branches that run at once -----------------------------------------------------------------------------------------


@row("LangGraph", GRAPH, replays=RACES)
def map_reduce(world: Outside) -> Talk:
    """Maps a list with `Send`, all asking the same, and joins the results."""
    builder = StateGraph(Found).add_node("part", asks(world, "the same", 2)).add_node("join", joins(world))
    builder.add_conditional_edges(START, lambda _: [Send("part", {"n": 1, "found": []}) for _ in range(4)], ["part"])
    return Talk(builder.add_edge("part", "join").compile(checkpointer=InMemorySaver()), FOUND)


def joins(world: Outside) -> RunnableLambda[Any, Any]:
    """Return a node that asks about all that was found."""
    model = chat(world)

    def node(state: Found) -> dict[str, Any]:
        return {"found": [model.invoke(f"join {state['found']}").text]}

    async def anode(state: Found) -> dict[str, Any]:
        return {"found": [(await model.ainvoke(f"join {state['found']}")).text]}

    return RunnableLambda(node, anode)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", replays=LARGE_RACES)
def map_reduce_of_subgraphs(world: Outside) -> Talk:
    """Maps with `Send` over a subgraph that has parallel nodes of its own."""
    inner = StateGraph(Found).add_node("x", asks(world, "x")).add_node("y", asks(world, "y"))
    inner.add_edge(START, "x").add_edge(START, "y")
    builder = StateGraph(Found).add_node("inner", inner.compile()).add_node("side", asks(world, "side"))
    builder.add_conditional_edges(START, lambda _: [Send("inner", {"n": n, "found": []}) for n in range(2)], ["inner"])
    return Talk(builder.add_edge(START, "side").compile(checkpointer=InMemorySaver()), FOUND)


@row("LangGraph", GRAPH, replays=LARGE_RACES)
def parallel_agents(world: Outside) -> Talk:
    """Runs three agents with tools at once, as nodes of a graph."""

    @tool
    def look(what: str) -> str:
        """Look."""
        return world.ask(f"look {what}")

    builder = StateGraph(MessagesState)
    for name in ("a", "b", "c"):
        model = chat(world, [("look", {"what": name})])
        builder.add_node(name, create_agent(model, [look], system_prompt=f"You are {name}."))
        builder.add_edge(START, name)
    return Talk(builder.compile(checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", replays=LARGE_RACES)
def deferred(world: Outside) -> Talk:
    """Joins branches of different lengths in a deferred node."""
    builder = StateGraph(Found).add_node("short", asks(world, "short"))
    builder.add_node("long", asks(world, "long")).add_node("longer", asks(world, "longer", 2))
    builder.add_node("join", joins(world), defer=True)
    builder.add_edge(START, "short").add_edge(START, "long").add_edge("long", "longer")
    builder.add_edge("short", "join").add_edge("longer", "join")
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", replays=RACES)
def custom_streams(world: Outside) -> Talk:
    """Streams from parallel tools of an agent, by a writer."""

    @tool
    def dig(where: str) -> str:
        """Dig."""
        writer = get_stream_writer()
        for depth in range(3):
            writer({where: depth, "at": uuid4().hex})
            world.pause()
        return world.said(f"dug {where}")

    calls = [("dig", {"where": where}) for where in ("left", "right", "there")]
    return Talk(create_agent(chat(world, calls), [dig], checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH, replays=LARGE_RACES)
def own_checkpointers(world: Outside) -> Talk:
    """Runs two subgraphs that remember, at once, in two turns of a conversation."""
    builder = StateGraph(Found)
    for name in ("left", "right"):
        inner = StateGraph(Found).add_node("ask", asks(world, name)).add_edge(START, "ask").compile(checkpointer=True)
        builder.add_node(name, inner).add_edge(START, name)
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND, then=once(FOUND))


def once(given: Any) -> Callable[[Any], Any]:
    """Return a function that returns one more input, once."""
    left = [given]
    return lambda _: left.pop() if left else None


@row("LangGraph", GRAPH, "ainvoke", "astream", "astream_events v2", replays=RACES)
def race_in_a_node(world: Outside) -> Talk:
    """Takes the first of three answers in a node, and asks on with the order in which they came."""
    model = chat(world)

    async def race(state: Found) -> dict[str, Any]:
        order = [(await done).text for done in asyncio.as_completed([model.ainvoke(name) for name in "abc"])]
        return {"found": [*order, (await model.ainvoke(f"first {order}")).text]}

    return Talk(StateGraph(Found).add_node("race", race).add_edge(START, "race").compile(), FOUND)


# -- people ------------------------------------------------------------------------------------------------------------


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", "stream_events v3", replays=RACES)
def humans_in_two_branches(world: Outside) -> Talk:
    """Asks people in two branches at once, and goes on with both answers."""

    def asking(name: str) -> RunnableLambda[Any, Any]:
        model = chat(world)

        def node(state: Found) -> dict[str, Any]:
            said = model.invoke(f"what does {name} ask?").text
            return {"found": [interrupt({"from": name, "question": said})]}

        async def anode(state: Found) -> dict[str, Any]:
            said = (await model.ainvoke(f"what does {name} ask?")).text
            return {"found": [interrupt({"from": name, "question": said})]}

        return RunnableLambda(node, anode)

    builder = StateGraph(Found).add_node("left", asking("left")).add_node("right", asking("right"))
    builder.add_node("join", joins(world)).add_edge(START, "left").add_edge(START, "right")
    builder.add_edge(["left", "right"], "join")
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND, then=answered)


def answered(state: Any) -> Any:
    """Answer all that a thread asks, by the ids of the questions."""
    asked = {each.id: f"answer to {each.value}" for each in state.interrupts}
    return Command(resume=asked) if asked else None


@row("LangGraph", GRAPH, *BOTH, "stream_events v3", "astream_events v3", never=TRACEBACKS)
def interrupt_in_a_tool(world: Outside) -> Talk:
    """Asks a person in a tool of an agent, which then acts."""

    @tool
    def book(day: str) -> str:
        """Book a seat."""
        agreed = interrupt({"book on": day})
        return world.ask(f"booked {day} {agreed}")

    agent = create_agent(chat(world, [("book", {"day": "Friday"})]), [book], checkpointer=InMemorySaver())
    return Talk(agent, HELLO, then=answered)


@row("LangGraph", GRAPH, *BOTH, replays=LARGE_RACES, never=TRACEBACKS)
def interrupts_in_parallel_tools(world: Outside) -> Talk:
    """Asks people in two tools that an agent calls at once."""

    @tool
    def sign(paper: str) -> str:
        """Sign a paper."""
        return f"signed {interrupt(f'sign {paper}?')} {world.ask('sign')}"

    calls = [("sign", {"paper": paper}) for paper in ("lease", "will")]
    return Talk(create_agent(chat(world, calls), [sign], checkpointer=InMemorySaver()), HELLO, then=answered)


@row("LangGraph", GRAPH, "invoke", "astream")
def approval(world: Outside) -> Talk:
    """Lets a person edit a tool call, by LangChain's middleware."""

    @tool
    def send(text: str) -> str:
        """Send a letter."""
        return world.ask(f"sent {text}")

    def then(state: Any) -> Any:
        edited = {"name": "send", "args": {"text": "Dear all"}}
        return Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]}) if state.interrupts else None

    person = HumanInTheLoopMiddleware({"send": {"allowed_decisions": ["approve", "edit"]}})
    model = chat(world, [("send", {"text": "Hi"})])
    return Talk(create_agent(model, [send], middleware=[person], checkpointer=InMemorySaver()), HELLO, then=then)


# -- agents ------------------------------------------------------------------------------------------------------------


class Report(BaseModel):
    """The report of an agent."""

    title: str
    pages: int


@row("LangGraph", GRAPH, replays=LARGE_RACES)
def parallel_tools(world: Outside) -> Talk:
    """Calls three tools at once, twice, as an agent of `create_agent`."""

    @tool
    async def alook(what: str) -> str:
        """Look."""
        return await world.aask(f"look {what}")

    @tool
    def look(what: str) -> str:
        """Look."""
        return world.ask(f"look {what}")

    calls = [("look", {"what": what}) for what in ("up", "down", "left")]
    look.coroutine = alook.coroutine
    return Talk(create_agent(chat(world, calls, calls), [look], checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2")
def response_format(world: Outside) -> Talk:
    """Gives an object at the end, as LangGraph's prebuilt agent."""

    @tool
    def look(what: str) -> str:
        """Look."""
        return world.ask(f"look {what}")

    def reply(messages: Any, number: int) -> AIMessage:
        if any(message.type == "tool" for message in messages) and "answer" in messages[-1].text:
            return calling(("Report", {"title": f"t {uuid4()}", "pages": number}), number=number)
        if messages[-1].type == "tool":
            return says("the answer", number)
        if messages[-1].type == "ai":
            return calling(("Report", {"title": f"t {uuid4()}", "pages": number}), number=number)
        return calling(("look", {"what": "up"}), number=number)

    model = Chat(world=world, reply=reply)
    return Talk(create_react_agent(model, [look], response_format=Report, checkpointer=InMemorySaver()), HELLO)


class Letters(Embeddings):
    """Knows a text by its letters."""

    model = "letters-1"

    def __init__(self, world: Outside) -> None:
        self.world = world

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Count letters."""
        self.world.pause()
        self.world.reach("embedding")
        return [[float(text.count(letter)) + 0.1 for letter in "aeiourst"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Count letters."""
        return self.embed_documents([text])[0]


@row("LangGraph", GRAPH, *BOTH, "astream_events v2")
def agentic_rag(world: Outside) -> Talk:
    """Searches with a retriever that is a tool."""
    store = InMemoryVectorStore(Letters(world))
    store.add_documents([Document("the tape turns"), Document("aeiou"), Document("rest")])
    search = create_retriever_tool(store.as_retriever(search_kwargs={"k": 2}), "search", "Search.")
    model = chat(world, [("search", {"query": "tape"})])
    return Talk(create_agent(model, [search], checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", replays=RACES)
def reflection(world: Outside) -> Talk:
    """Lets a critic answer a writer, in a subgraph whose messages have no ids."""
    model = chat(world)

    def write(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def judge(state: MessagesState) -> dict[str, Any]:
        return {"messages": [HumanMessage(f"Better! {state['messages'][-1].text}")]}

    critic = StateGraph(MessagesState).add_node("judge", judge).add_edge(START, "judge").compile()
    builder = StateGraph(MessagesState).add_node("write", write).add_node("critic", critic).add_edge(START, "write")
    builder.add_conditional_edges("write", lambda state: END if len(state["messages"]) > 4 else "critic")
    return Talk(builder.add_edge("critic", "write").compile(checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH, replays=LARGE_RACES)
def config_handed_on(world: Outside) -> Talk:
    """Hands its config on to a graph that it calls in a node."""
    model = chat(world)

    def say(state: MessagesState) -> Any:
        return Command(update={"messages": [HumanMessage(f"hm {model.invoke(state['messages']).text}")]}, goto=END)

    inner = StateGraph(MessagesState).add_node("say", say).add_edge(START, "say").compile()

    def node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": inner.invoke(state, config)["messages"][1:]}

    async def anode(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": (await inner.ainvoke(state, config))["messages"][1:]}

    builder = StateGraph(MessagesState).add_node("node", RunnableLambda(node, anode)).add_edge(START, "node")
    return Talk(builder.compile(checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2")
def swarm(world: Outside) -> Talk:
    """Hands over from agent to agent, by `Command`s to the graph around them."""

    def handing(to: str) -> Any:
        @tool(f"to_{to}")
        def hand(runtime: ToolRuntime) -> Any:
            """Hand over."""
            done = ToolMessage(f"to {to}", name=f"to_{to}", tool_call_id=runtime.tool_call_id)
            update = {**runtime.state, "messages": [*runtime.state["messages"], done], "active": to}
            return Command(goto=to, graph=Command.PARENT, update=update)

        return hand

    class State(MessagesState):
        active: str

    builder = StateGraph(State)
    builder.add_node("a", create_agent(chat(world, [("to_b", {})]), [handing("b")], name="a"), destinations=("b",))
    builder.add_node("b", create_agent(Chat(world=world), [handing("a")], name="b"), destinations=("a",))
    builder.add_conditional_edges(START, lambda state: state.get("active", "a"), ["a", "b"])
    return Talk(builder.compile(checkpointer=InMemorySaver()), HELLO, then=once({"messages": [("user", "More?")]}))


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", "astream_events v3", replays=LARGE_RACES)
def supervisor(world: Outside) -> Talk:
    """Leads two agents that are tools of a third, called at once."""

    @tool
    def search(query: str) -> str:
        """Search."""
        return world.ask(f"found {query}")

    inner = create_agent(chat(world, [("search", {"query": "tapes"})]), [search], system_prompt="You research.")
    writer = create_agent(chat(world), [], system_prompt="You write.")

    @tool
    def ask_researcher(question: str) -> str:
        """Ask the researcher."""
        asked = f"{question} {uuid4().hex[:5]} {datetime.now()}"  # noqa: DTZ005 - the clock of a program
        return str(inner.invoke({"messages": [("user", asked)]})["messages"][-1].text)

    @tool
    def ask_writer(topic: str) -> str:
        """Ask the writer."""
        return str(writer.invoke({"messages": [("user", topic)]})["messages"][-1].text)

    both = [("ask_researcher", {"question": "tapes?"}), ("ask_writer", {"topic": "tapes"})]
    agent = create_agent(chat(world, both), [ask_researcher, ask_writer], checkpointer=InMemorySaver())
    return Talk(agent, HELLO)


class Stamped(AgentMiddleware):
    """Stamps what it sees."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Add a message."""
        return {"messages": [AIMessage(f"now {datetime.now()}")]}  # noqa: DTZ005 - the clock of a program

    def after_model(self, state: Any, runtime: Any) -> None:
        """Write to the stream."""
        runtime.stream_writer({"seen": len(state["messages"]), "id": str(uuid4())})

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call a tool."""
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call a tool."""
        return await handler(request)


@row("LangGraph", GRAPH, *BOTH, "astream_events v2")
def middleware(world: Outside) -> Talk:
    """Runs an agent with a stack of middleware."""

    @tool
    def look(what: str) -> str:
        """Look."""
        return world.ask(f"look {what}")

    stack: Any = [Stamped(), ModelCallLimitMiddleware(run_limit=5)]
    model = chat(world, [("look", {"what": "up"}), ("look", {"what": "down"})])
    return Talk(create_agent(model, [look], middleware=stack, checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, "invoke", "astream", never=TRACEBACKS)
def sql_agent(world: Outside) -> Talk:
    """Asks a database in memory, after a person has reviewed the query."""
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.executescript("create table tapes (name text, length real); insert into tapes values ('a', 1.5), ('b', 2.5);")

    @tool
    def query(sql: str) -> list[Any]:
        """Ask the database."""
        reviewed = interrupt({"sql": sql})
        return base.execute(reviewed or sql).fetchall()

    def then(state: Any) -> Any:
        reviewed = "select name from tapes order by name limit 1"
        return Command(resume=reviewed) if state.interrupts else None

    model = chat(world, [("query", {"sql": "select * from tapes"})])
    return Talk(create_agent(model, [query], checkpointer=InMemorySaver()), HELLO, then=then)


# -- the functional API ------------------------------------------------------------------------------------------------


@row("LangGraph", GRAPH, *SYNC, "stream_events v3", replays=LARGE_RACES)
def functional(world: Outside) -> Talk:
    """Calls tasks at once, with a retry, a cache, what was kept before, an interrupt and a store."""
    model, failures = chat(world), iter([ConnectionError("first")])

    @task(retry_policy=RetryPolicy(0.001, jitter=False, retry_on=ConnectionError))
    def flaky(n: int) -> str:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return str(model.invoke(f"flaky {n}").text)

    @task(cache_policy=CachePolicy())
    def cached(n: int) -> str:
        return str(model.invoke(f"cached {n}").text)

    @entrypoint(checkpointer=InMemorySaver(), store=InMemoryStore(), cache=InMemoryCache())
    def flow(n: int, *, previous: Any = None) -> Any:
        futures = [flaky(1), *(cached(each) for each in range(n)), cached(0)]
        results = [future.result() for future in futures]
        get_store().put(("notes",), f"{n}", {"results": results, "at": time()})
        answer = interrupt({"so far": results})
        return entrypoint.final(value=[answer, previous, results], save=results)

    inputs = iter([Command(resume="yes"), 2, Command(resume="no")])
    return Talk(flow, 3, then=lambda _: next(inputs, None))


@row("LangGraph", GRAPH, *SYNC, replays=RACES)
def functional_as_completed(world: Outside) -> Talk:
    """Takes the results of tasks in the order in which they come, into a prompt."""
    model = chat(world)

    @task
    def part(n: int) -> str:
        return str(model.invoke(f"part {n}").text)

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        order = [future.result() for future in as_completed([part(each) for each in range(n)])]
        return [*order, model.invoke(f"in this order: {order}").text]

    return Talk(flow, 4)


@row("LangGraph", GRAPH, "ainvoke", "astream", "astream_events v2", replays=LARGE_RACES)
def functional_tasks(world: Outside) -> Talk:
    """Awaits tasks at once, each of which awaits others, and asks with the order in which they came."""
    model = chat(world)

    @task
    async def inner(n: int) -> str:
        return str((await model.ainvoke(f"inner {n}")).text)

    @task
    async def outer(n: int) -> list[str]:
        return [await done for done in asyncio.as_completed([inner(10 * n), inner(10 * n + 1)])]

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(n: int) -> Any:
        order = [await done for done in asyncio.as_completed([outer(each) for each in range(n)])]
        return [*order, (await model.ainvoke(f"in this order: {order}")).text]

    return Talk(flow, 3)


# -- state, stores, policies -------------------------------------------------------------------------------------------


@dataclass
class Note:
    """A note that knows when it was made."""

    text: str
    at: datetime = field(default_factory=datetime.now)
    weight: float = field(default_factory=random)


class Memo(BaseModel):
    """A memo that knows when it was made."""

    text: str
    at: float = Field(default_factory=time)
    on: datetime = Field(default_factory=datetime.utcnow)
    id: str = Field(default_factory=lambda: uuid4().hex)


@dataclass
class Diary:
    """A state that is a dataclass, of dataclasses and pydantic models."""

    notes: Annotated[list[Any], operator.add] = field(default_factory=list)
    begun: datetime = field(default_factory=datetime.now)


@row("LangGraph", GRAPH, *BOTH)
def factories(world: Outside) -> Talk:
    """Keeps dataclasses and pydantic models in its state, whose factories draw times, numbers and ids."""
    model = chat(world)

    def first(state: Diary) -> dict[str, Any]:
        return {"notes": [Note(model.invoke("first").text), Memo(text="memo")]}

    def second(state: Diary) -> dict[str, Any]:
        return {"notes": [Memo(text=model.invoke(f"second {state.notes[0]} {state.begun}").text)]}

    builder = StateGraph(Diary).add_node("first", first).add_node("second", second)
    builder.add_edge(START, "first").add_edge("first", "second")
    return Talk(builder.compile(checkpointer=InMemorySaver()), Diary())


@row("LangGraph", GRAPH, "invoke", "astream", replays=LARGE_RACES)
def long_term_memory(world: Outside) -> Talk:
    """Keeps memories in a store with semantic search, written by a tool."""

    @tool
    def remember(text: str, runtime: ToolRuntime) -> str:
        """Remember."""
        runtime.store.put(("memories",), str(uuid4()), {"text": text, "at": time()})
        found = runtime.store.search(("memories",), query=text, limit=2)
        return str([item.value for item in found])

    store = InMemoryStore(index={"dims": 8, "embed": Letters(world), "fields": ["text"]})
    model = chat(world, [("remember", {"text": "tapes"}), ("remember", {"text": "reels"})])
    return Talk(create_agent(model, [remember], store=store, checkpointer=InMemorySaver()), HELLO)


@row("LangGraph", GRAPH, *BOTH)
def node_cache(world: Outside) -> Talk:
    """Keeps the results of nodes in a cache, for a while."""
    builder = StateGraph(Found).add_node("one", asks(world, "one"), cache_policy=CachePolicy(ttl=60))
    builder.add_node("two", asks(world, "two"), cache_policy=CachePolicy()).add_edge(START, "one").add_edge(
        "one", "two"
    )
    graph = builder.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())
    return Talk(graph, FOUND, then=once(FOUND))


@row("LangGraph", GRAPH, *BOTH, "astream_events v2", fails=True)
def retries(world: Outside) -> Talk:
    """Tries a node again that failed, and another that fails for good."""
    model, failures = chat(world), iter([ConnectionError("first"), ConnectionError("second")])

    def flaky(state: Found) -> dict[str, Any]:
        said = model.invoke("flaky").text
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return {"found": [said]}

    def broken(state: Found) -> dict[str, Any]:
        raise ValueError(model.invoke("broken").text)

    policy = RetryPolicy(0.001, jitter=False, retry_on=ConnectionError)
    builder = StateGraph(Found).add_node("flaky", flaky, retry_policy=policy).add_node("broken", broken)
    builder.add_edge(START, "flaky").add_edge("flaky", "broken")
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)


@row("LangGraph", GRAPH, *BOTH)
def forks(world: Outside) -> Talk:
    """Edits the state of an old checkpoint, and goes on from there."""
    builder = StateGraph(Found).add_node("one", asks(world, "one")).add_node("two", asks(world, "two"))
    graph = builder.add_edge(START, "one").add_edge("one", "two").compile(checkpointer=InMemorySaver())
    return Talk(graph, FOUND, then=once({"n": 7, "found": ["more"]}))
