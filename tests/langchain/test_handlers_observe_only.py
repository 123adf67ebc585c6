"""A handler, ours in a session included, never changes or breaks what it's attached to, and doesn't grow."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from agenttape_core import open_cassette, use_cassette
from agenttape_core.testing import Capture, Program, compare_runs, record_run, replay_run
from agenttape_langchain import TapeCallbackHandler

from .fakes import FakeChat, World

PROMPT = ChatPromptTemplate.from_template("{text}")


def pickled(value: Any) -> Any:
    """Return a value that was pickled and read again."""
    return pickle.loads(pickle.dumps(value))


def configured(handler: BaseCallbackHandler) -> Runnable[Any, Any]:
    """Return a chain with the handler in its config."""
    return (PROMPT | FakeListChatModel(responses=["said"])).with_config(callbacks=[handler])


def inside(handler: BaseCallbackHandler) -> Runnable[Any, Any]:
    """Return a chain whose model has the handler."""
    return PROMPT | FakeListChatModel(responses=["said"], callbacks=[handler])


def retrying(handler: BaseCallbackHandler) -> Runnable[Any, Any]:
    """Return a chain with a retry and a fallback."""
    return configured(handler).with_retry().with_fallbacks([inside(handler)])


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("make", [configured, inside, retrying])
def test_what_a_handler_is_attached_to_can_be_copied(
    make: Callable[[BaseCallbackHandler], Any], duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    """A chain with the handler is copied and pickled as without it, and the copy is observed by the same handler."""
    with TapeCallbackHandler(tmp_path / "c.yaml") as handler:
        chain = make(handler)
        for each in (chain, duplicate(chain)):
            assert each.invoke({"text": "Hi"}).content == "said"
    assert handler.errors == []
    assert len(list(open_cassette(tmp_path / "c.yaml").interactions())) == 2


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_configs_can_be_copied_in_a_session(duplicate: Callable[[Any], Any], tmp_path: Path) -> None:
    """A program that copies the config of a run, with all its callbacks, does so in a session as outside one."""
    model = FakeListChatModel(responses=["said"])

    def step(text: str, config: RunnableConfig) -> str:
        return model.invoke(text, duplicate(config)).text

    def run() -> Any:
        return RunnableLambda(step).invoke("Hi")

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        assert run() == "said"
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert run() == "said"
    assert len(replay.report.replayed) == 1


@pytest.mark.process
def test_in_another_process_it_observes_nothing(tmp_path: Path) -> None:
    """What is pickled for another process works there; the handler stays behind."""
    with TapeCallbackHandler(tmp_path / "c.yaml") as handler:
        (tmp_path / "chain.pickle").write_bytes(pickle.dumps(configured(handler)))
        code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).invoke({'text': 'Hi'}).content)"
        command = [sys.executable, "-c", code, str(tmp_path / "chain.pickle")]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "said\n"
    assert not (tmp_path / "c.yaml").exists() or not list(open_cassette(tmp_path / "c.yaml").interactions())


def test_what_cannot_be_read_reaches_the_program(tmp_path: Path) -> None:
    """Inputs, outputs, metadata and errors that the handler can't read pass through unchanged."""

    class Unreadable:
        """A value that can't be shown, compared, copied or walked through."""

        def _refuse(self, *_: Any) -> Any:
            raise RuntimeError("unreadable")

        __repr__ = __str__ = __eq__ = __hash__ = __iter__ = __len__ = __bool__ = _refuse
        __deepcopy__ = __copy__ = __reduce_ex__ = __getstate__ = _refuse

    value, error = Unreadable(), LookupError(Unreadable())
    with TapeCallbackHandler(tmp_path / "c.yaml") as handler:
        config: Any = {"callbacks": [handler], "metadata": {"value": value}}
        assert RunnableLambda(lambda given: given).invoke(value, config) is value

        def fail(_: Any) -> None:
            raise error

        with pytest.raises(LookupError) as raised:
            RunnableLambda(fail).invoke("x", config)
    assert raised.value is error


def test_memory_does_not_grow_with_turns(tmp_path: Path) -> None:
    """After hundreds of runs a handler holds no more objects than after a few, whatever its runs were."""

    @tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    def _objects() -> Counter[str]:
        gc.collect()
        return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())

    async def _turns(handler: TapeCallbackHandler, turns: int) -> None:
        """Make turns of each sort, six runs each: plain, async, streamed, left, failed, and with tools."""
        model = FakeListChatModel(responses=["one two"])
        config: Any = {"callbacks": [handler]}

        def failing(_: Any) -> None:
            raise ValueError("no")

        for number in range(turns):
            chain = PROMPT | model | (lambda message: message.text) | shout
            chain.invoke({"text": "Turn"}, config)
            await asyncio.gather(*(chain.ainvoke({"text": f"{each}"}, config) for each in range(2)))
            list(model.stream("Stream", config))
            left = model.stream("Left", config)
            next(left)
            left.close()
            with pytest.raises(ValueError, match="no"):
                RunnableLambda(failing).invoke(number, config)

    gc.collect()  # or what is garbage already would stay
    gc.freeze()  # only what lives from now on is counted
    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        asyncio.run(_turns(handler, 15))
        before = _objects()
        asyncio.run(_turns(handler, 40))
        after = _objects()
        assert {name: count for name, count in (after - before).items() if count > 30} == {}
        assert handler._observing.open_runs == {}
        assert handler._observing.tree.runs_by_id == {}
    assert handler.errors == []


# -- synchronous handlers of asynchronous programs -----------------------------------------------------------------

REPLAYS = 4


class Notes(BaseCallbackHandler):
    """Takes down what chat models are asked."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Take it down."""
        self._capture.add("callbacks", [messages, kwargs["run_id"]])


class Tracer(BaseTracer):
    """Takes down runs, with their times."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def _persist_run(self, run: Run) -> None:
        self._capture.add("runs", [run.id, run.start_time, run.end_time, run.inputs])


def in_time(model: FakeChat) -> Program:
    """Give an answer up that may take no time."""

    async def program(capture: Capture) -> Any:
        config: Any = {"callbacks": [Notes(capture), Tracer(capture)]}
        said: list[str] = []
        for number in range(2):
            try:
                said.append(str((await asyncio.wait_for(model.ainvoke(f"t{number}", config), 0.001)).text))
            except TimeoutError:
                said.append("late")
        return said

    return program


def hedged(model: FakeChat) -> Program:
    """Ask three times at once, and take the first answer."""

    async def program(capture: Capture) -> Any:
        config: Any = {"callbacks": [Notes(capture), Tracer(capture)]}
        tasks = [asyncio.create_task(model.ainvoke(f"h{number}", config)) for number in range(3)]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return [each.result().text for each in tasks if each in done]

    return program


@pytest.mark.parametrize("make", [in_time, hedged], ids=lambda make: make.__name__)
def test_handlers_in_threads_come_as_far_as_they_had(make: Any, world: World, tmp_path: Path) -> None:
    """What differs nevertheless is told, and not what only the handlers saw."""
    path, model = tmp_path / "c.yaml", FakeChat(world=world)
    recorded = record_run(make(model), path)
    for _ in range(REPLAYS):
        told: list[str] = []
        assert compare_runs(recorded, replay_run(make(model), path, told=told)) == [] or told
