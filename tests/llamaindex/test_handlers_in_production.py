"""A handler in a program that runs for long: how it is added, what it copies, its memory, and a full disk."""

from __future__ import annotations

import asyncio
import copy
import errno
import gc
import inspect
import logging
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from langchain_core.runnables import RunnableLambda
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.readers.base import BaseReader
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation.dispatcher import Dispatcher
from tests.kit.world import gone
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from agenttape_core import Interaction, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.integration.observing import observer
from agenttape_core.storage import atomic, leftover_journals
from agenttape_langchain import TapeCallbackHandler
from agenttape_llamaindex import TapeEventHandler, steps_of

from .acceptance import FRAMEWORK_WARNINGS
from .observed import SAID, interactions, observing, steps
from .scripted import Reply, ScriptedEmbedding, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


# -- A handler in a program that runs for long: copies of what it observes, values of any kind, and its memory ---------

_NO_ARGUMENTS = inspect.Signature().bind()
NOT_TEXT = b"\xff\xfe\x00"


class Blob(Event):
    """An event that has no JSON form."""

    content: bytes


class Shows(Workflow):
    """Writes bytes to its stream, and keeps them in its state."""

    @step
    async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
        await ctx.store.set("blob", NOT_TEXT)
        ctx.write_event_to_stream(Blob(content=NOT_TEXT))
        return StopEvent(result="shown")


def agent(world: World, result: Any = "fine", said: str = "done") -> FunctionAgent:
    """Return an agent that calls one tool, and then answers."""

    def look(place: str) -> Any:
        """Look."""
        world.reach("look")
        return result

    def script(messages: Any, _: Any) -> Reply:
        return said if messages[-1].role.value == "tool" else [("look", {"place": "here"})]

    return FunctionAgent(tools=[FunctionTool.from_defaults(look)], llm=ScriptedLLM(world, script))


def index() -> VectorStoreIndex:
    """Return an index in memory."""
    return VectorStoreIndex.from_documents([Document(text="A text.")], embed_model=MockEmbedding(4))


THINGS: dict[str, Any] = {
    "agent": lambda: FunctionAgent(tools=[FunctionTool.from_defaults(index)], llm=MockLLM()),
    "workflow": Shows,
    "agents": lambda: AgentWorkflow(agents=[FunctionAgent(llm=MockLLM())]),
    "tool": lambda: agent(World()).tools[0],
    "index": index,
    "engine": lambda: index().as_query_engine(llm=MockLLM()),
    "dispatcher": get_dispatcher,
}
WAYS: dict[str, Any] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "model_copy": lambda thing: thing.model_copy(deep=True),
}


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", THINGS)
def test_whatever_can_be_copied_can_be_while_it_is_observed(name: str, way: str, tmp_path: Path) -> None:
    """A handler takes away no way to copy an agent, a workflow or an index, and adds no error of its own."""

    def _error_of(way: str, thing: Any) -> type[BaseException] | None:
        try:
            WAYS[way](thing)
        except Exception as error:
            return type(error)
        return None

    thing = THINGS[name]()
    without = _error_of(way, thing)
    with observing(tmp_path / "seen.jsonl"):
        assert _error_of(way, thing) == without


async def test_a_copied_workflow_reports_to_the_same_handler(tmp_path: Path) -> None:
    """A copy is observed by the handler of the original, once, and by nobody after the handler has been closed."""
    with TapeEventHandler(tmp_path / "seen.jsonl") as handler:
        copied = copy.deepcopy(Shows())
        await copied.run()
    assert [each.name for each in steps(tmp_path / "seen.jsonl", "chain", "node")] == ["Shows.run", "go"]
    await copied.run()
    assert handler.errors == []
    assert len(steps(tmp_path / "seen.jsonl", "chain")) == 1


def test_a_pickled_handler_observes_nothing(tmp_path: Path) -> None:
    """What another process unpickles has neither the state nor the file of the handler."""
    with TapeEventHandler(tmp_path / "seen.jsonl") as handler:
        for each in (handler, handler.span_handler):
            assert type(pickle.loads(pickle.dumps(each))).__name__ in {"NullEventHandler", "NullSpanHandler"}
            assert copy.deepcopy(each) is each


@pytest.mark.parametrize("result", [NOT_TEXT, {"a": [NOT_TEXT]}], ids=["bytes", "nested"])
async def test_a_tool_that_returns_bytes(result: Any, tmp_path: Path) -> None:
    """Bytes that aren't UTF-8 are recorded and replayed; the event of the stream that can't be written is noted."""
    with observing(tmp_path / "seen.jsonl"):
        observed = await agent(World(), result).run("Look")
    with use_cassette(tmp_path / "seen.jsonl"):
        replayed = await agent(gone(), result).run("Look")
    assert [call.tool_output.raw_output for call in replayed.tool_calls] == [result]
    assert str(replayed) == str(observed)
    assert any("of the stream cannot be written" in each.note for each in steps_of(tmp_path / "seen.jsonl"))


async def test_an_event_that_has_no_json_form(tmp_path: Path) -> None:
    """An event and a state of the program with bytes are no error of the handler either."""
    with observing(tmp_path / "seen.jsonl"):
        assert await Shows().run() == "shown"


def _live(*kinds: type) -> int:
    """Return the number of objects that live: of some classes, or of all."""
    gc.collect()
    counted = Counter(type(each) for each in gc.get_objects())
    return sum(counted[kind] for kind in kinds) if kinds else counted.total()


@pytest.mark.sweep
@pytest.mark.parametrize("steps", [True, False], ids=["with steps", "without"])
@pytest.mark.parametrize("turn", ["an agent", "streams"])
async def test_memory_does_not_grow_with_the_turns(turn: str, steps: bool, tmp_path: Path) -> None:
    """As many objects live after twice as many turns, whether each of them is read to its end or not."""

    async def _left_early(llm: ScriptedLLM) -> None:
        """Read one chunk of a stream, and none of another one."""
        stream = llm.stream_chat(SAID)
        next(iter(stream))
        del stream
        llm.stream_chat(SAID)

    world = World()

    async def turns(count: int) -> int:
        for _ in range(count):
            await (_left_early(ScriptedLLM(world)) if turn == "streams" else agent(world).run("Look"))
        return _live()

    gc.collect()  # or what is garbage already would stay
    gc.freeze()  # only what lives from now on is counted
    with TapeEventHandler(tmp_path / "seen.jsonl", steps=steps):
        await turns(8)
        after = max([await turns(4) for _ in range(3)])  # by when it last wrote the file, it holds 200 more or less
        later = min([await turns(4) for _ in range(3)])
        assert later - after < 5 * 4  # an agent's turn makes some 2,000; the index of requests keeps two


async def test_memory_does_not_grow_while_something_is_open(tmp_path: Path) -> None:
    """Recorded calls are not kept until no run is open: in a server, one always is."""
    world, answer = World(), asyncio.Event()

    async def answered() -> None:
        await answer.wait()

    with TapeEventHandler(tmp_path / "seen.jsonl"):
        left_open = asyncio.create_task(ScriptedLLM(world, wait=answered).acomplete("Wait"))
        before = _live(Interaction)
        for _ in range(5):
            await agent(world).run("Look")
        assert _live(Interaction) == before
        answer.set()
        await left_open
    assert len(interactions(tmp_path / "seen.jsonl")) == 16


async def test_a_large_file_is_written_at_the_end(tmp_path: Path) -> None:
    """Writing takes memory for the whole file, so one of more than a megabyte is written by `flush` and `close`."""
    world, path = World(), tmp_path / "seen.jsonl"

    async def turns(count: int) -> int:
        for _ in range(count):
            await ScriptedLLM(world, lambda messages, _: f"{len(world.reached)} " * 40_000).achat(SAID)
        return path.stat().st_ino

    with TapeEventHandler(path) as handler:
        written = await turns(16)
        assert path.stat().st_size > 1024 * 1024
        assert await turns(16) == written
        handler.flush()
        assert len(interactions(path)) == 32
        await turns(1)
    assert len(interactions(path)) == 33


def test_runs_that_never_end_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more open runs than a program can have, those that began first are recorded as open, and forgotten."""
    monkeypatch.setattr(observer, "_MOST_OPEN", 3)
    handler = TapeEventHandler(tmp_path / "seen.jsonl")
    spans = handler.span_handler
    with handler:
        for number in range(6):
            spans.span_enter(f"Engine.query-{number}", _NO_ARGUMENTS, instance=None)
    found = steps(tmp_path / "seen.jsonl")
    assert [each.status for each in found] == ["open"] * 6
    assert handler.errors == []


@pytest.mark.parametrize("facts", [("a", "b"), ("one fact", "two facts", "three")], ids=["two", "three"])
def test_another_order_names_the_hash_seed(facts: tuple[str, ...], tmp_path: Path) -> None:
    """Where the same parts come in another order, as of a set, a miss suspects no time and no random number."""
    with TapeEventHandler(tmp_path / "seen.jsonl"):
        ScriptedLLM(World()).complete("\n".join(facts))
    with pytest.raises(CassetteMissError) as missed, use_cassette(tmp_path / "seen.jsonl"):
        ScriptedLLM(World()).complete("\n".join(reversed(facts)))
    assert "PYTHONHASHSEED" in str(missed.value)
    assert "random number" not in str(missed.value)


def test_a_handler_that_observed_no_call_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A program that only reads leaves no file, and the log says once why, and what to do."""

    class Pages(BaseReader):
        """Reads a page."""

        def load_data(self, page: str) -> list[Document]:
            """Return the page."""
            return [Document(text=page)]

    with TapeEventHandler(tmp_path / "seen.jsonl") as handler:
        Pages().load_data("Dune")
    handler.close()
    assert not (tmp_path / "seen.jsonl").exists()
    assert handler.errors == []
    (message,) = [record.getMessage() for record in caplog.records if record.name == "agenttape"]
    assert "observed no call, so it wrote no file" in message
    assert "readers; record it with use_cassette instead" in message


@pytest.mark.parametrize("how", ["a call", "a workflow without calls", "an error"])
async def test_a_handler_that_observed_something_says_nothing(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler with a file, or with an error of its own, has nothing more to say."""

    class Quiet(Workflow):
        """Makes no calls."""

        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result="done")

    with TapeEventHandler(tmp_path / "seen.jsonl") as handler:
        if how == "a call":
            ScriptedLLM(World()).chat(SAID)
        elif how == "an error":
            handler.errors.append(RuntimeError("full disk"))
        else:
            await Quiet().run()
    assert "observed no call" not in caplog.text


def test_a_miss_names_the_decorator_that_an_observed_llm_lacks(tmp_path: Path) -> None:
    """A stream whose chunks no event reported is a miss, and its message names the decorators that report them."""

    class Undecorated(CustomLLM):
        """An LLM whose methods have none of LlamaIndex's callbacks around them, so that its streams fire no events."""

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="undecorated")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            return CompletionResponse(text=prompt)

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            yield CompletionResponse(text=prompt, delta=prompt)

    with TapeEventHandler(tmp_path / "seen.jsonl"):
        for model in (Undecorated(), MockLLM(max_tokens=3)):  # without one call the handler writes no file
            list(model.stream_complete("a"))
    with pytest.raises(CassetteMissError) as caught, use_cassette(tmp_path / "seen.jsonl"):
        list(Undecorated().stream_complete("a"))
    assert "decorate the methods with llm_chat_callback() or llm_completion_callback()" in str(caught.value)


# -- A handler that is given to the framework by another way than `with` records, or says at once what to do -----------


def test_the_idiom_of_the_framework(handler: TapeEventHandler, world: World) -> None:
    """A handler that is added to a dispatcher as any other records its first call, and replays."""
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(handler)
    vectors = ScriptedEmbedding(world).get_text_embedding_batch(["a"])
    handler.detach(dispatcher)
    ScriptedEmbedding(world).get_text_embedding_batch(["b"])
    handler.close()
    assert len(interactions(handler.path)) == 1
    world.gone = True
    with use_cassette(handler.path):
        assert ScriptedEmbedding(world).get_text_embedding_batch(["a"]) == vectors


def test_the_method_of_dispatchers_is_the_real_one_afterwards(tmp_path: Path) -> None:
    """The framework is as it was when no handler is left."""
    gc.unfreeze()  # tests of memory keep what others left from being collected
    gc.collect()  # the handlers of other tests
    real = Dispatcher.add_event_handler
    handlers = [TapeEventHandler(tmp_path / f"{number}.yaml") for number in range(2)]
    assert Dispatcher.add_event_handler is not real
    del handlers
    gc.collect()
    assert Dispatcher.add_event_handler is real


def test_events_without_spans(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A handler that was put among the handlers of events by hand, and gets no spans, says how to attach it."""
    handler, dispatcher = TapeEventHandler(tmp_path / "seen.yaml"), get_dispatcher()
    dispatcher.event_handlers.append(handler)
    MockLLM().complete("a")
    handler.detach(dispatcher)
    (error,) = handler.errors
    assert isinstance(error, ConfigurationError)
    assert "with TapeEventHandler" in caplog.text
    handler.close()


def _of_callback_manager(handler: Any) -> Any:
    return MockLLM(callback_manager=CallbackManager([handler])).complete("a")


def _of_langchain(handler: Any) -> Any:
    return RunnableLambda(str).invoke(1, {"callbacks": [handler]})


def _of_async_langchain(handler: Any) -> Any:
    return asyncio.run(RunnableLambda(str).ainvoke(1, {"callbacks": [handler]}))


@pytest.mark.parametrize(
    ("made", "use", "right"),
    [
        (TapeEventHandler, _of_callback_manager, "with TapeEventHandler"),
        (TapeEventHandler, _of_langchain, "TapeCallbackHandler"),
        (TapeEventHandler, _of_async_langchain, "TapeCallbackHandler"),
        (TapeCallbackHandler, _of_callback_manager, "TapeEventHandler"),
    ],
)
def test_callbacks_of_another_kind(made: Any, use: Callable[[Any], Any], right: str, tmp_path: Path) -> None:
    """Where the framework would fail on a handler, or ignore it, the error names the right one."""
    with made(tmp_path / "seen.yaml") as handler, pytest.raises(ConfigurationError, match=right):
        handler.detach() if made is TapeEventHandler else None
        use(handler)


def test_langchains_handler_among_those_of_events(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """LlamaIndex swallows what a handler raises, so LangChain's logs the right one, once."""
    dispatcher: Any = get_dispatcher()
    with TapeCallbackHandler(tmp_path / "seen.yaml") as handler:
        dispatcher.add_event_handler(handler)
        MockLLM().complete("a")
        MockLLM().complete("b")
        dispatcher.event_handlers.remove(handler)
    assert len(handler.errors) == 1
    assert "TapeEventHandler" in caplog.text


# -- An event handler whose disk is full leaves one file and one message, and goes on when there is room ---------------


def test_recording_pauses_while_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of the handler of LangChain: what was recorded before the pause is written after it."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "c.jsonl"
    with TapeEventHandler(path) as handler:
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "_write_synced", full)
            for number in range(30):
                assert MockLLM().complete(f"full {number}").text == f"full {number}"
        assert not path.exists()
        assert [file.suffix for file in tmp_path.iterdir()].count(".journal") == 1
        for number in range(40):
            MockLLM().complete(f"after {number}")
    found = [str(call.request) for call in open_cassette(path).interactions()]
    assert "full 0" in found[0]
    assert "after" in found[1]
    assert "after 39" in found[-1]
    assert len(handler.errors) == 1
    levels = [record.levelno for record in caplog.records if record.name == "agenttape"]
    assert levels == [logging.ERROR, logging.WARNING]
    assert leftover_journals(path) == []
