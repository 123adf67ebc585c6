"""A handler that is given to the framework by another way than `with` records, or says at once what to do."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import MockLLM
from llama_index_instrumentation.dispatcher import Dispatcher

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_langchain import TapeCallbackHandler
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import interactions
from .scripted import ScriptedEmbedding, World

pytestmark = FRAMEWORK_WARNINGS


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
