"""Any runnable can be taped as a whole; what LangChain wraps around a model, a tool or a retriever is taped inside."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import operator
import pickle
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import tape
from agenttape_langchain.runnables import tape_runnable

from ..kit.replaying import Twice
from .fakes import PlainChat, StreamingChat, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback


def shouting(world: World) -> Runnable[Any, Any]:
    def shout(text: str, times: int = 1) -> str:
        return f"{text.upper() * times} {world.reach('shout')}"

    return RunnableLambda(shout)


def chain(world: World) -> Runnable[Any, Any]:
    """Asks a model that streams, and takes the text of its answer."""
    model = StreamingChat(world=world)
    return ChatPromptTemplate.from_template("Say {text}") | model | StrOutputParser()


class State(TypedDict):
    """The state of the graph."""

    seen: Annotated[list[str], operator.add]


def graph(world: World, **options: Any) -> Any:
    def step(name: str) -> Callable[[State], State]:
        return lambda state: {"seen": [f"{name} {len(state['seen'])} {world.reach('step')}"]}

    builder = StateGraph(State)
    builder.add_node("one", step("one"))
    builder.add_node("two", step("two"))
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", END)
    return builder.compile(**options)


RUNNABLES: dict[str, tuple[Callable[[World], Any], Any]] = {
    "lambda": (shouting, "a"),
    "chain": (chain, {"text": "a"}),
    "map": (lambda world: RunnableParallel(x=shouting(world), y=RunnablePassthrough()), "a"),
}


async def every_call(runnable: Any, value: Any) -> list[Any]:
    """The results of the ways of calling."""
    return [
        runnable.invoke(value),
        await runnable.ainvoke(value),
        list(runnable.stream(value)),
        [chunk async for chunk in runnable.astream(value)],
        runnable.batch([value, value]),
        await runnable.abatch([value, value]),
        list(runnable.transform(iter([value]))),
        sorted(runnable.batch_as_completed([value])),
    ]


@pytest.mark.parametrize("name", RUNNABLES)
async def test_whole_runnable_replays(name: str, world: World, twice: Twice) -> None:
    """Every way of calling is replayed as a whole: nothing inside runs."""
    make, value = RUNNABLES[name]
    taped = tape(make(world))
    await twice.awaited(lambda: every_call(taped, value), auto=False)
    assert {row.kind for row in twice.recording.interactions} == {"call"}
    assert len(twice.recording.interactions) == 10
    assert len(await every_call(tape(make(World())), value)) == 8  # outside of sessions it runs


def test_runnable_that_begins_no_run(world: World, twice: Twice) -> None:
    """The place of a call does not depend on how many runs the real one begins."""

    class Bare(Runnable[str, str]):
        def invoke(self, input: str, config: Any = None, **kwargs: Any) -> str:  # noqa: A002
            return f"{input} {world.reach('bare')}"

    taped = tape(Bare())
    twice(lambda: [taped.invoke("a") for _ in range(3)])


def test_calls_inside_are_children(world: World, twice: Twice) -> None:
    """Calls inside are recorded below, and a replay neither needs nor misses them."""
    taped = tape(chain(world))
    twice(lambda: taped.invoke({"text": "a"}))
    assert [(row.kind, row.name, row.parent) for row in twice.recording.interactions] == [
        ("call", "RunnableSequence", None),
        ("chat", "StreamingChat", 1),
    ]
    assert len(twice.replay.report.replayed) == 1


async def test_stream_and_plain_call_serve_each_other(world: World, twice: Twice) -> None:
    """A chain that was streamed can be invoked, and the other way round."""
    taped = tape(chain(world))
    streamed, plain = twice.record(lambda: (list(taped.stream({"text": "a"})), taped.invoke({"text": "b"})))
    with twice.replays():
        assert taped.invoke({"text": "a"}) == "".join(streamed)
        assert [chunk async for chunk in taped.astream({"text": "b"})] == [plain]


def test_steps_of_a_graph_are_not_its_value(world: World, twice: Twice) -> None:
    """A graph streams its steps in modes: what was streamed does not serve a plain call, nor another mode."""
    taped = tape_runnable(graph(world))  # as a graph is that runs elsewhere
    with twice.records():
        updates = list(taped.stream({"seen": []}))
        values = list(taped.stream({"seen": []}, stream_mode="values"))
    with twice.replays(on_unused="ignore"):
        assert list(taped.stream({"seen": []}, stream_mode="values")) == values
        assert list(taped.stream({"seen": []})) == updates
    with pytest.raises(CassetteMissError), twice.replays(on_unused="ignore"):
        taped.invoke({"seen": []})


def test_request_is_input_options_and_configurable_fields(world: World, tmp_path: Path) -> None:
    """The request says what goes in, what is given by name, and what is configured of what can be."""
    taped = tape(shouting(world))
    agent = tape_runnable(graph(world, checkpointer=InMemorySaver()))
    with use_cassette(tmp_path / "call.yaml", mode="all", auto=False) as recording:
        taped.invoke("a", times=2)
        taped.invoke("b", config={"configurable": {"unknown": 1}})
        agent.invoke({"seen": []}, config={"configurable": {"thread_id": "42"}})
    requests = [row.request for row in recording.interactions]
    assert requests[0] == {"input": "a", "options": {"times": 2}}
    assert "options" not in requests[1]
    assert requests[2] == {"input": {"seen": []}, "options": {"thread_id": "42"}}


def test_changed_input_misses(world: World, twice: Twice) -> None:
    """Another input is another request, whatever retries and falls back."""
    taped = tape(shouting(world))
    twice.record(lambda: taped.invoke("a"))
    with pytest.raises(CassetteMissError), twice.replays():
        taped.with_retry().with_fallbacks([shouting(world)]).invoke("b")


@pytest.mark.parametrize("is_async", [True, False])
async def test_parallel_equal_calls_find_their_own(is_async: bool, world: World, twice: Twice) -> None:
    """Equal calls at once get each its own value, in tasks and in threads."""
    taped = tape(shouting(world))

    async def run() -> list[Any]:
        if is_async:
            return await asyncio.gather(*(taped.ainvoke("a") for _ in range(6)))
        return taped.batch(["a"] * 6)

    recorded = await twice.awaited(run)
    assert len(set(recorded)) == 6


def test_errors_are_recorded_attempt_by_attempt(world: World, tmp_path: Path) -> None:
    """A runnable that fails fails again; with retries around it each attempt is a recording."""

    def fail_once(text: str) -> str:
        if world.reach("try") == 1:
            raise ConnectionError("down")
        return text

    path, taped = tmp_path / "call.yaml", tape(RunnableLambda(fail_once))
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode) as session:
            assert taped.with_retry(wait_exponential_jitter=False).invoke("a") == "a"
        world.gone = True
    assert len(session.report.replayed) == 2


async def test_callbacks_hear_of_the_whole(world: World, tmp_path: Path) -> None:
    """A replayed call is one run, with the name, the tags, the input and the output that the real one has."""

    class Runs(BaseCallbackHandler):
        """Hears of outermost runs."""

        def __init__(self) -> None:
            self.heard: list[Any] = []
            self._outer: set[Any] = set()

        def on_chain_start(
            self, serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **kw: Any
        ) -> None:
            """Hear of one."""
            if parent_run_id is None:
                self._outer.add(run_id)
                self.heard.append(("start", kw.get("name"), inputs, kw.get("tags")))

        def on_chain_end(self, outputs: Any, *, run_id: Any, **kw: Any) -> None:
            """Hear of one."""
            if run_id in self._outer:
                self.heard.append(("end", outputs))

    path, taped = tmp_path / "call.yaml", tape(chain(world).with_config(run_name="answering"))
    heard = []
    for mode in ("all", "none"):
        runs = Runs()
        config: Any = {"callbacks": [runs], "tags": ["mine"]}
        with use_cassette(path, mode=mode, auto=False):
            taped.invoke({"text": "a"}, config)
            await taped.ainvoke({"text": "a"}, config)
            list(taped.stream({"text": "a"}, config))
            [chunk async for chunk in taped.astream({"text": "a"}, config)]
        heard.append(runs.heard)
        world.gone = True
    assert len(heard[0]) == 8
    assert heard[1] == heard[0]


async def test_events_of_a_replayed_call(world: World, twice: Twice) -> None:
    """`astream_events` of a replayed runnable is that of one run that streams what was recorded."""
    taped = tape(chain(world))
    with twice.records(auto=False):
        recorded = [ev async for ev in taped.astream_events({"text": "a"}, version="v2")]
    with twice.replays(auto=False):
        replayed = [ev async for ev in taped.astream_events({"text": "a"}, version="v2")]
    assert {ev["name"] for ev in replayed} == {"RunnableSequence"}
    outer = [(ev["event"], ev["data"]) for ev in recorded if ev["name"] == "RunnableSequence"]
    assert [(ev["event"], ev["data"]) for ev in replayed] == outer


# -- a taped runnable among others ---------------------------------------------------------------------------------


def test_taped_runnable_has_the_interface_of_the_original(world: World) -> None:
    """Name, schemas, graph, configurable fields and the attributes of the original are all there."""
    real = chain(world)
    taped = tape(real)
    assert isinstance(taped, Runnable)
    assert tape(taped) is taped
    assert taped.get_name() == real.get_name()
    assert taped.get_input_jsonschema() == real.get_input_jsonschema()
    assert taped.get_output_jsonschema() == real.get_output_jsonschema()
    assert len(taped.get_graph().nodes) == len(real.get_graph().nodes)
    assert taped.steps == real.steps
    assert tape_runnable(graph(world)).get_graph().nodes.keys() == graph(world).get_graph().nodes.keys()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = taped.nothing


def test_taped_runnable_in_a_pipe_a_map_and_a_binding(world: World, tmp_path: Path) -> None:
    """Whatever it becomes part of, it stays taped, and what is around it runs."""
    inner, path = tape(chain(world)), tmp_path / "call.yaml"
    ran = []
    around = (
        RunnablePassthrough()
        | RunnableParallel(x=inner.with_config(tags=["x"]), y=inner.bind(stop=["."]))
        | RunnableLambda(lambda found: ran.append(found) or found)
    )
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode, auto=False):
            around.invoke({"text": "a"})
        world.gone = True
    assert ran[1] == ran[0]


def test_taped_graph_is_a_node_of_another(world: World, twice: Twice) -> None:
    """A compiled graph that is taped as a whole can be a node; the graph around it runs."""
    builder = StateGraph(State)
    builder.add_node("inner", tape_runnable(graph(world)))
    builder.add_edge(START, "inner")
    outer = builder.compile()
    twice(lambda: outer.invoke({"seen": ["x"]}), auto=False)


def test_pickled_runnable_is_taped() -> None:
    """A taped runnable survives pickling."""
    again = pickle.loads(pickle.dumps(tape(RunnablePassthrough() | StrOutputParser())))
    assert tape(again) is again
    assert again.invoke("a") == "a"


# -- what is wrapped around a leaf ---------------------------------------------------------------------------------


@tool
def lookup(city: str) -> str:
    """Look something up."""
    return f"{city} found"


WRAPPERS: dict[str, Callable[[Any], Runnable[Any, Any]]] = {
    "bind": lambda model: model.bind(stop=["."]),
    "bind_tools": lambda model: model.bind_tools([lookup]),
    "with_config": lambda model: model.with_config(tags=["a"]),
    "with_retry": lambda model: model.with_retry(),
    "with_fallbacks": lambda model: model.with_fallbacks([model.bind(stop=["."])]),
    "fields": lambda model: model.configurable_fields(model_name=ConfigurableField(id="model")),
    "alternatives": lambda model: model.configurable_alternatives(
        ConfigurableField(id="which"), other=model.bind(stop=["!"]), made=lambda: model
    ),
    "map": lambda model: model.map(),
    "all": lambda model: model.bind_tools([lookup]).with_config(tags=["a"]).with_retry().with_fallbacks([model]),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_model_inside_is_taped(name: str, world: World, twice: Twice) -> None:
    """The wrapping of LangChain around a model stays; the model inside is taped, and the original is unchanged."""
    original = WRAPPERS[name](PlainChat(world=world))
    taped = tape(original)
    assert type(taped) is type(original)
    with twice.records(auto=False) as recording:
        question: Any = ["a"] if name == "map" else "a"
        recorded = taped.invoke(question)
        original.invoke(question)
    assert [(row.kind, row.name) for row in recording.interactions] == [("chat", "PlainChat")]
    with twice.replays(auto=False):
        assert taped.invoke(question) == recorded


@pytest.mark.parametrize("which", ["other", "made"])
def test_alternatives_are_taped(which: str, world: World, tmp_path: Path) -> None:
    """The alternative that is chosen is taped, also one that is made only then."""
    path, taped = tmp_path / "call.yaml", tape(WRAPPERS["alternatives"](PlainChat(world=world)))
    config: Any = {"configurable": {"which": which}}
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode, auto=False) as session:
            taped.invoke("a", config)
        world.gone = True
    assert [row.kind for row in session.interactions] == ["chat"]


def test_taped_model_that_is_configured_later_is_taped(world: World, twice: Twice) -> None:
    """A taped model stays taped where a call sets one of its fields, or chooses an alternative to it."""
    fields = tape(PlainChat(world=world)).configurable_fields(model_name=ConfigurableField(id="model"))
    either = tape(PlainChat(world=world)).configurable_alternatives(
        ConfigurableField(id="which"), other=tape(PlainChat(world=world, model_name="other"))
    )

    def run() -> list[Any]:
        set_field = fields.invoke("a", {"configurable": {"model": "set"}})
        return [set_field, *(either.invoke("a", {"configurable": {"which": which}}) for which in ("default", "other"))]

    twice(run, auto=False)
    assert [row.request["model"] for row in twice.recording.interactions] == ["set", "fake-1", "other"]


def test_fallback_is_taped(world: World, twice: Twice) -> None:
    """The error of the first model and the answer of its fallback are both recorded."""

    def fail(messages: Any, number: int) -> Any:
        raise ConnectionError("down")

    taped = tape(PlainChat(world=world, reply=fail).with_fallbacks([PlainChat(world=world, model_name="second")]))
    twice(lambda: taped.invoke("a"), auto=False)
    assert [row.outcome.status for row in twice.recording.interactions] == ["raised", "returned"]


def test_binding_around_a_chain_is_taped_as_a_whole(world: World, tmp_path: Path) -> None:
    """A runnable without a model, tool or retriever at its core is one call."""
    taped = tape(chain(world).with_retry().with_config(run_name="answering"))
    with use_cassette(tmp_path / "call.yaml", mode="all", auto=False) as recording:
        taped.invoke({"text": "a"})
    assert [row.kind for row in recording.interactions] == ["call"]


# -- init_chat_model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["plain", "bound", "configured", "structured", "taped inside"])
def test_configurable_model(way: str, loopback: OpenAILoopback, twice: Twice) -> None:
    """Every model that a configurable model makes is taped, whatever is bound to it or configured later."""

    class Trip(TypedDict):
        """A trip to a city."""

        city: str

    settings = {"base_url": loopback.base_url, "api_key": "x"}
    taped: Any = tape(
        init_chat_model("gpt-5-mini", model_provider="openai", configurable_fields=("model",), **settings)
    )
    assert tape(taped) is taped
    if way == "bound":
        taped = taped.bind_tools([lookup])
    elif way == "configured":
        taped = taped.with_config(configurable={"model": "gpt-5"}, tags=["x"])
    elif way == "structured":
        taped = taped.with_structured_output(Trip, include_raw=True)
    elif way == "taped inside":
        taped = taped.bind_tools([lookup]).with_config(tags=["x"]) | StrOutputParser()
    recorded = twice.record(
        lambda: [taped.invoke("a"), taped.invoke("b", config={"configurable": {"model": "gpt-5-nano"}})], auto=False
    )
    rows = twice.recording.interactions
    assert [(row.kind, row.name) for row in rows] == [("chat", "ChatOpenAI")] * 2
    expected = ["gpt-5" if way == "configured" else "gpt-5-mini", "gpt-5-nano"]
    assert [row.request["model"] for row in rows] == expected
    assert ("tools" in rows[0].request) is (way in {"bound", "taped inside"})
    with twice.replays(auto=False):
        assert [taped.invoke("a"), taped.invoke("b", config={"configurable": {"model": "gpt-5-nano"}})] == recorded
