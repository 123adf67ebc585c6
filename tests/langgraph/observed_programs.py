"""Programs that are observed and then replayed: each is a generator of calls of graphs, agents and chains.

A program gets the world behind its models and tools, and the config of its calls, with or without a handler. The values
that it receives back, and what it returns, are all that is compared.
"""

# ruff: noqa: D103 - a program says by its name what it is

from __future__ import annotations

import operator
import random
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Annotated, Any, TypeAlias, TypedDict

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain.tools import InjectedState, InjectedStore, InjectedToolCallId, ToolRuntime
from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import push_message
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel

from ..langchain.fakes import Numbers
from .fakes import Call, NativeChat, World, call, calling, numbered

Program: TypeAlias = Callable[[World, Any], Generator[Call, Any, Any]]

ASKED: Any = {"messages": [HumanMessage("Rain?", id="asked")]}
UNNAMED: Any = {"messages": [("user", "Rain?")]}
STREAMED: Any = {"stream_mode": ["values", "updates", "messages", "custom", "tasks"], "subgraphs": True}


def scripted(world: World, *answers: Any) -> NativeChat:
    """A model that gives answers in turn, and then numbered ones; a tuple is calls of tools."""
    left = list(answers)

    def reply(messages: Any, number: int) -> AIMessage:
        if not left:
            return numbered(messages, number)
        answer = left.pop(0)
        return calling(*answer, number=number) if isinstance(answer, tuple) else AIMessage(f"{answer} {number}")

    return NativeChat(world=world, reply=reply)


def by_last(world: World, *calls: tuple[str, dict[str, Any]]) -> NativeChat:
    """A model that calls tools when a human has spoken, and else answers."""

    def reply(messages: Any, number: int) -> AIMessage:
        return calling(*calls, number=number) if isinstance(messages[-1], HumanMessage) else numbered(messages, number)

    return NativeChat(world=world, reply=reply)


def weather_of(world: World) -> Any:
    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain {world.reach('weather')} in {city}"

    return weather


# -- agents ------------------------------------------------------------------------------------------------------------


def structured(world: World, config: Any) -> Generator[Call, Any, Any]:
    class Report(BaseModel):
        city: str

    model = scripted(world, (("weather", {"city": "Paris"}),), (("Report", {"city": "Paris"}),))
    made = create_agent(model, [weather_of(world)], response_format=Report)
    found = yield call(made, "invoke", ASKED, config)
    return found["messages"], found["structured_response"].model_dump()


def failing_tool(world: World, config: Any) -> Generator[Call, Any, Any]:
    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        raise ToolException(f"no {city} {world.reach('weather')}")

    weather.handle_tool_error = True
    made = create_agent(by_last(world, ("weather", {"city": "Paris"}), ("weather", {"town": 1})), [weather])
    return (yield call(made, "invoke", ASKED, config))


def tool_retries(world: World, config: Any) -> Generator[Call, Any, Any]:
    left = [1, 1]

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        world.reach("weather")
        if left:
            left.pop()
            raise TimeoutError("slow")
        return f"rain in {city}"

    middleware = ToolRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)
    made = create_agent(by_last(world, ("weather", {"city": "Paris"})), [weather], middleware=[middleware])
    return (yield call(made, "invoke", ASKED, config))


def summarized(world: World, config: Any) -> Generator[Call, Any, Any]:
    middleware = SummarizationMiddleware(
        NativeChat(world=world, model_name="small"), trigger=("messages", 3), keep=("messages", 2)
    )
    made = create_agent(NativeChat(world=world), [], middleware=[middleware], checkpointer=InMemorySaver())
    contents = []
    for text in ("one", "two", "three"):
        found = yield call(made, "invoke", {"messages": [HumanMessage(text, id=text)]}, config)
        contents.append([message.content for message in found["messages"]])
    return contents


def conversation(world: World, config: Any) -> Generator[Call, Any, Any]:
    made = create_agent(
        by_last(world, ("weather", {"city": "Paris"})), [weather_of(world)], checkpointer=InMemorySaver()
    )
    found = None
    for text in ("Rain?", "Snow?", "Rain?"):
        found = yield call(made, "invoke", {"messages": [("user", text)]}, config)
    return found


# -- hand-offs ---------------------------------------------------------------------------------------------------------


def hand_off_to(name: str) -> Any:
    """The tool of a swarm: it takes the whole state along."""

    @tool(f"transfer_to_{name}")
    def hand_off(
        state: Annotated[Any, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        """Hand over."""
        done = ToolMessage("Transferred", name=f"transfer_to_{name}", tool_call_id=tool_call_id)
        return Command(
            goto=name,
            graph=Command.PARENT,
            update={**state, "messages": [*state["messages"], done], "active_agent": name},
        )

    return hand_off


class SwarmState(MessagesState):
    """The state of a swarm, and of its agents."""

    active_agent: str


class SwarmAgentState(AgentState[Any]):
    """The state of an agent in a swarm."""

    active_agent: str


def swarm_of(world: World) -> Any:
    alice = create_agent(
        scripted(world, (("transfer_to_bob", {}),)), [hand_off_to("bob")], name="alice", state_schema=SwarmAgentState
    )
    bob = create_agent(
        scripted(world, "I am Bob", (("transfer_to_alice", {}),)),
        [hand_off_to("alice"), weather_of(world)],
        name="bob",
        state_schema=SwarmAgentState,
    )
    builder = StateGraph(SwarmState).add_node("alice", alice, destinations=("bob",))
    builder.add_node("bob", bob, destinations=("alice",))
    builder.add_conditional_edges(START, lambda state: state.get("active_agent") or "alice", ["alice", "bob"])
    return builder.compile(checkpointer=InMemorySaver())


def swarm(world: World, config: Any) -> Generator[Call, Any, Any]:
    made = swarm_of(world)
    yield call(made, "invoke", UNNAMED, config)
    return (yield call(made, "invoke", {"messages": [("user", "And now?")]}, config))


def delegate_to(name: str) -> Any:
    """The tool of a supervisor: it sends a part of the conversation."""

    @tool(f"delegate_to_{name}")
    def delegate(runtime: ToolRuntime) -> Command[Any]:
        """Delegate."""
        *before, asked = runtime.state["messages"]
        own = asked.model_copy(
            update={"tool_calls": [each for each in asked.tool_calls if each["id"] == runtime.tool_call_id]}
        )
        done = ToolMessage("Delegated", name=f"delegate_to_{name}", tool_call_id=runtime.tool_call_id)
        messages = [*before, own, done]
        return Command(
            graph=Command.PARENT,
            goto=[Send(name, {**runtime.state, "messages": messages})],
            update={**runtime.state, "messages": messages},
        )

    return delegate


def supervisor(world: World, config: Any) -> Generator[Call, Any, Any]:
    model = scripted(world, (("delegate_to_maths", {}),), (("delegate_to_law", {}),))

    def hand_back(state: MessagesState) -> Any:
        drawn = str(uuid.uuid4())
        asked = AIMessage("back", tool_calls=[{"name": "hand_back", "args": {}, "id": drawn}])
        return {"messages": [asked, ToolMessage("back", tool_call_id=drawn)]}

    lead = create_agent(model, [delegate_to("maths"), delegate_to("law")], name="lead")
    maths = create_agent(by_last(world), [weather_of(world)], name="maths")
    law = create_agent(by_last(world), [], name="law")
    builder = StateGraph(MessagesState).add_node("lead", lead, destinations=("maths", "law", END))
    builder.add_node("maths", maths).add_node("law", law).add_node("hand_back", hand_back)
    builder.add_edge(START, "lead").add_edge("maths", "hand_back").add_edge("hand_back", "lead").add_edge("law", "lead")
    made = builder.compile(checkpointer=InMemorySaver())
    return (yield call(made, "stream", UNNAMED, config, stream_mode=["values", "updates"], subgraphs=True))


def forgetting(world: World, config: Any) -> Generator[Call, Any, Any]:
    """A tool removes messages by their ids."""

    @tool
    def forget(runtime: ToolRuntime) -> Command[Any]:
        """Forget what was said before."""
        done = ToolMessage("Forgotten", tool_call_id=runtime.tool_call_id)
        gone = [RemoveMessage(id=message.id) for message in runtime.state["messages"][:-1]]
        return Command(update={"messages": [*gone, done]})

    made = create_agent(scripted(world, "first", (("forget", {}),)), [forget], checkpointer=InMemorySaver())
    yield call(made, "invoke", UNNAMED, config)
    return (yield call(made, "invoke", {"messages": [("user", "Forget it")]}, config))


# -- humans ------------------------------------------------------------------------------------------------------------


def asking_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """A tool asks a human twice; a second one asks in parallel."""

    @tool
    def book(city: str) -> str:
        """Book a trip."""
        said = [interrupt({"city": city, "ask": n}) for n in range(2)]
        return f"booked {city} {said} {world.reach('book')}"

    made = create_agent(by_last(world, ("book", {"city": "Paris"})), [book], checkpointer=InMemorySaver())
    first = yield call(made, "invoke", ASKED, config)
    second = yield call(made, "invoke", Command(resume="yes"), config)
    return first, second, (yield call(made, "invoke", Command(resume="sure"), config))


def asking_in_parallel(world: World, config: Any) -> Generator[Call, Any, Any]:
    @tool
    def book(city: str) -> str:
        """Book a trip."""
        return f"booked {city} {interrupt(city)} {world.reach('book')}"

    asks = [("book", {"city": city}) for city in ("Paris", "Rome")]
    made = create_agent(by_last(world, *asks), [book, weather_of(world)], checkpointer=InMemorySaver())
    first = yield call(made, "invoke", ASKED, config)
    answers = {one.id: f"yes {one.value}" for one in first["__interrupt__"]}
    found = yield call(made, "invoke", Command(resume=answers), config)
    return sorted(one.value for one in first["__interrupt__"]), found


def asking_nodes(world: World, config: Any) -> Generator[Call, Any, Any]:
    model, weather = NativeChat(world=world), weather_of(world)

    def work(state: MessagesState) -> Any:
        seen = weather.invoke({"city": "Paris"})
        answer = model.invoke([("user", f"{seen} {interrupt('sure?')}")])
        return {"messages": [answer]}

    made = (
        StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile(checkpointer=InMemorySaver())
    )
    yield call(made, "invoke", ASKED, config)
    return (yield call(made, "invoke", Command(resume="yes"), config))


def reviewed(world: World, config: Any) -> Generator[Call, Any, Any]:
    """An edit by the middleware for humans."""
    made = create_agent(
        by_last(world, ("weather", {"city": "Paris"})),
        [weather_of(world)],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"weather": True})],
        checkpointer=InMemorySaver(),
    )
    yield call(made, "invoke", ASKED, config)
    edited = {"type": "edit", "edited_action": {"name": "weather", "args": {"city": "Rome"}}}
    return (yield call(made, "invoke", Command(resume={"decisions": [edited]}), config))


# -- what a tool does to its graph -------------------------------------------------------------------------------------


def writing_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """Tools write files into the state past their results, as those of deepagents do."""

    class Files(AgentState[Any]):
        files: Annotated[dict[str, str], operator.or_]

    @tool
    def write_file(name: str, config: RunnableConfig) -> str:
        """Write a file."""
        text = f"text {world.reach('write')}"
        get_config()["configurable"]["__pregel_send"]([("files", {name: text})])
        return f"wrote {name}"

    asks = [("write_file", {"name": name}) for name in ("a.txt", "b.txt")]
    made = create_agent(by_last(world, *asks), [write_file], state_schema=Files)
    return (yield call(made, "invoke", {**ASKED, "files": {}}, config))


def pushing_messages(world: World, config: Any) -> Generator[Call, Any, Any]:
    @tool
    def narrate() -> str:
        """Narrate."""
        push_message(AIMessage(f"working {world.reach('narrate')}", id="pushed"))
        return "done"

    made = create_agent(by_last(world, ("narrate", {})), [narrate])
    return (yield call(made, "stream", ASKED, config, stream_mode=["values", "messages"]))


def streaming_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """Tools write to the custom stream, by the runtime and by the function, and dispatch events."""

    @tool
    def dig(runtime: ToolRuntime) -> str:
        """Dig."""
        runtime.stream_writer({"depth": world.reach("dig")})
        get_stream_writer()({"again": world.reach("dig")})
        dispatch_custom_event("dug", {"n": world.reach("dig")})
        return "dug"

    made = create_agent(by_last(world, ("dig", {})), [dig])
    return (yield call(made, "stream", ASKED, config, stream_mode=["updates", "custom"]))


def emitting_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """Tools emit parts of their output."""

    @tool
    def dig(runtime: ToolRuntime) -> str:
        """Dig."""
        for _ in range(2):
            runtime.emit_output_delta(world.reach("dig"))
        return "dug"

    made = create_agent(by_last(world, ("dig", {})), [dig])
    return (yield call(made, "stream", ASKED, config, stream_mode=["tools"]))


def events_of_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """The events that a tool dispatches reach other callbacks, too."""
    seen = []

    @tool
    def dig(n: int) -> str:
        """Dig."""
        dispatch_custom_event("dug", {"n": world.reach("dig")})
        return "dug"

    from langchain_core.callbacks import BaseCallbackHandler

    class Seeing(BaseCallbackHandler):
        run_inline = True

        def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
            seen.append((name, data))

    made = create_agent(by_last(world, ("dig", {"n": 1})), [dig])
    heard = {**config, "callbacks": [*config.get("callbacks", []), Seeing()]}
    found = yield call(made, "invoke", ASKED, heard)
    return found, seen


def remembering_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """Tools write to the store of their graph, in each way to reach it."""

    @tool
    def remember(what: str, runtime: ToolRuntime) -> str:
        """Remember."""
        assert runtime.store is not None
        runtime.store.put(("notes",), what, {"n": world.reach("remember")})
        get_store().put(("notes",), f"{what} again", {"n": world.reach("remember")})
        return "kept"

    def note(what: str, store: Annotated[Any, InjectedStore]) -> str:
        """Note."""
        store.put(("notes",), f"{what} noted", {"n": world.reach("note")})
        return "noted"

    async def anote(what: str, store: Annotated[Any, InjectedStore]) -> str:
        """Note, awaited."""
        await store.aput(("notes",), f"{what} noted", {"n": world.reach("note")})
        await store.aput(("notes",), "gone", {})
        await store.adelete(("notes",), "gone")
        return "noted"

    store = InMemoryStore()

    def recall(state: MessagesState) -> Any:
        items = sorted((item.key, item.value["n"]) for item in store.search(("notes",)))
        return {"messages": [AIMessage(str(items), id="recalled")]}

    tools = [remember, StructuredTool.from_function(note, coroutine=anote)]
    agent = create_agent(by_last(world, ("remember", {"what": "tea"}), ("note", {"what": "tea"})), tools)
    builder = StateGraph(MessagesState).add_node("agent", agent).add_node("recall", recall)
    builder.add_edge(START, "agent").add_edge("agent", "recall")
    return (yield call(builder.compile(store=store), "invoke", ASKED, config))


def agents_as_tools(world: World, config: Any) -> Generator[Call, Any, Any]:
    """A tool runs an agent of its own, whose parts stream through it."""
    expert = create_agent(by_last(world, ("weather", {"city": "Paris"})), [weather_of(world)], name="expert")

    @tool
    def ask_expert(question: str) -> str:
        """Ask an expert."""
        found = expert.invoke({"messages": [HumanMessage(question, id="question")]})
        return str(found["messages"][-1].content)

    made = create_agent(by_last(world, ("ask_expert", {"question": "Rain?"})), [ask_expert])
    return (yield call(made, "stream", ASKED, config, stream_mode=["updates", "messages"], subgraphs=True))


# -- graphs ------------------------------------------------------------------------------------------------------------


class Found(TypedDict):
    """The findings of nodes."""

    n: int
    found: Annotated[list[Any], operator.add]


def subgraphs(world: World, config: Any) -> Generator[Call, Any, Any]:
    model = NativeChat(world=world)

    def judge(state: MessagesState) -> Any:
        return {"messages": [HumanMessage("again", id=f"judged {len(state['messages'])}")]}

    def answer(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    inner = StateGraph(MessagesState).add_node("judge", judge).add_node("answer", answer)
    inner.add_edge(START, "judge").add_edge("judge", "answer")
    builder = StateGraph(MessagesState).add_node("inner", inner.compile()).add_node("answer", answer)
    builder.add_edge(START, "inner").add_edge("inner", "answer")
    return (yield call(builder.compile(), "invoke", ASKED, config))


def failing_nodes(world: World, config: Any) -> Generator[Call, Any, Any]:
    left = [1]

    def reply(messages: Any, number: int) -> AIMessage:
        if left:
            left.pop()
            raise ConnectionError(f"down {number}")
        return numbered(messages, number)

    model = NativeChat(world=world, reply=reply)
    builder = StateGraph(MessagesState).add_node(
        "work",
        lambda state: {"messages": [model.invoke(state["messages"])]},
        retry_policy=RetryPolicy(initial_interval=0.001, jitter=False),
    )
    return (yield call(builder.add_edge(START, "work").compile(), "invoke", ASKED, config))


def functional(world: World, config: Any) -> Generator[Call, Any, Any]:
    model, weather = NativeChat(world=world), weather_of(world)

    @task
    def look(city: str) -> Any:
        return weather.invoke({"city": city})

    @entrypoint(checkpointer=InMemorySaver())
    def travel(cities: list[str], *, previous: Any = None) -> Any:
        seen = [future.result() for future in [look(city) for city in cities]]
        said = model.invoke(f"{sorted(seen)} {previous}").text
        return {"seen": seen, "said": said, "asked": interrupt("go?")}

    yield call(travel, "invoke", ["Paris", "Rome"], config)
    return (yield call(travel, "invoke", Command(resume="yes"), config))


def tool_nodes(world: World, config: Any) -> Generator[Call, Any, Any]:
    """Tools in one node: the state reaches them as the input of the node."""

    @tool
    def sum_up(state: Annotated[Any, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Sum up."""
        done = ToolMessage(f"{len(state['messages'])} messages", tool_call_id=tool_call_id)
        return Command(update={"messages": [*state["messages"], done]})

    model = by_last(world, ("sum_up", {}))
    builder = StateGraph(MessagesState).add_node("model", lambda s: {"messages": [model.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode([sum_up])).add_edge("tools", "model").add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END])
    return (yield call(builder.compile(), "invoke", UNNAMED, config))


# -- chains ------------------------------------------------------------------------------------------------------------


# -- what no observer can see ------------------------------------------------------------------------------------------


def embedding(world: World, config: Any) -> Generator[Call, Any, Any]:
    embeddings = Numbers(world)
    return (yield call(RunnableLambda(embeddings.embed_query), "invoke", "Hi", config))


def drawing_ids(world: World, config: Any) -> Generator[Call, Any, Any]:
    """An id in a prompt is drawn anew; equal otherwise, it is the same request."""
    model = NativeChat(world=world)
    chain: Any = RunnableLambda(lambda _: f"task {uuid.uuid4()}") | model
    return (yield call(chain, "invoke", "Hi", config)).response_metadata


def drawing_numbers(world: World, config: Any) -> Generator[Call, Any, Any]:
    chain: Any = RunnableLambda(lambda _: f"dice {random.random()}") | NativeChat(world=world)
    return (yield call(chain, "invoke", "Hi", config))


def _programs() -> Iterator[tuple[str, Program]]:
    for name, value in list(globals().items()):
        given = getattr(value, "__annotations__", {}).get("return") if callable(value) else None
        if given == "Generator[Call, Any, Any]" and not name.startswith("_"):
            yield name, value


PROGRAMS: dict[str, Program] = dict(_programs())
"""The programs by name."""
