"""Retrievers are recorded, and replayed without searching."""

from __future__ import annotations

import gc
import inspect
import weakref
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import create_retriever_tool

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.integration import Position
from agenttape_core.integration.observing import Observation
from agenttape_core.lifecycle.running_test import RunningTest, during
from agenttape_langchain import tape
from agenttape_langchain.requests import RETRIEVAL, retrieval_body

from ..kit.replaying import Twice
from .fakes import World
from .parts import PARTS, ConfigurableRetriever, FakeRetriever, PlainRetriever


class Routing(BaseRetriever):
    """Searches by another retriever."""

    inner: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(self.inner.invoke(query, config={"callbacks": run_manager.get_child()}))


def test_request_is_query_settings_and_arguments(world: World, tmp_path: Path) -> None:
    """The request says what is looked for and how; the call's own arguments win."""
    with use_cassette(tmp_path / "found.yaml", mode="all") as recording:
        PlainRetriever(world=world).invoke("a")
        ConfigurableRetriever(world=world, k=7).invoke("a", k=3, filter={"year": 1984})
    assert [row.request for row in recording.interactions] == [
        {"query": "a", "settings": {"k": 2}},
        {"query": "a", "settings": {"k": 3, "filter": {"year": 1984}}},
    ]


def test_a_replay_that_missed_is_let_go(world: World, tmp_path: Path) -> None:
    """A chain that failed leaves nothing in the context of its caller that keeps the session and its surroundings."""
    path = tmp_path / "found.yaml"
    with use_cassette(path, mode="all"):
        PlainRetriever(world=world).invoke("a")
    other = RunningTest(tmp_path, tmp_path, lambda _: None)  # a test keeps the reports of its sessions
    with pytest.raises(CassetteMissError), during(other), use_cassette(path) as session:
        PlainRetriever(world=world).with_retry().invoke("b")
    del other
    ended = weakref.ref(session)
    del session
    gc.collect()
    assert ended() is None


@pytest.mark.parametrize("mode", ["none", "all"])
def test_observed_search_serves_any_settings(mode: str, world: World, tmp_path: Path) -> None:
    """Callbacks see the query only; what they observed serves it, and is not what a new recording says."""
    path = tmp_path / "found.yaml"
    observation = Observation(path)
    session_call = observation.session.cross(
        RETRIEVAL, "PlainRetriever", retrieval_body("a", {}), position=Position().child("PlainRetriever")
    )
    session_call.returned([Document("observed")])
    observation.flush()
    with use_cassette(path, mode=mode) as session:
        found = PlainRetriever(world=world).invoke("a")
    assert (found == [Document("observed")]) is (mode == "none")
    assert session.interactions[0].request == retrieval_body("a", {} if mode == "none" else {"k": 2})


def test_retriever_inside_a_retriever_is_its_child(world: World, twice: Twice) -> None:
    """The inner search is recorded below the outer one; a replay asks only the outer, or only the inner."""
    router = Routing(inner=PlainRetriever(world=world))
    recorded = twice(lambda: router.invoke("a"))
    assert [(row.name, row.parent) for row in twice.recording.interactions] == [
        ("Routing", None),
        ("PlainRetriever", 1),
    ]
    assert len(twice.replay.report.replayed) == 1
    with twice.replays(on_unused="ignore"):
        assert PlainRetriever(world=world).invoke("a") == recorded


def test_retriever_tool_replays(world: World, twice: Twice) -> None:
    """The tool that the framework makes of a retriever is replayed as a tool."""
    finder = create_retriever_tool(PlainRetriever(world=world), "find", "Find documents.")
    twice(lambda: finder.invoke({"query": "a"}))
    assert [row.kind for row in twice.recording.interactions] == ["tool", "retrieval"]


def test_callbacks_hear_of_a_failed_search(tmp_path: Path) -> None:
    """A search that fails again in a replay tells callbacks of it again."""

    class Failing(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise ConnectionError(f"no index for {query}")

    class Errors(BaseCallbackHandler):
        def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
            heard.append(str(error))

    heard: list[str] = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "found.yaml", mode=mode), pytest.raises(ConnectionError, match="no index"):
            Failing().invoke("a", config={"callbacks": [Errors()]})
    assert heard == ["no index for a"] * 2


@pytest.mark.parametrize("cls", PARTS["retriever"].classes)
def test_taped_retriever_is_called_as_the_original(cls: Any, world: World) -> None:
    """What the framework reads off the signature of a search is the same of a taped retriever."""
    taped = tape(cls(world=world))
    assert taped._expects_other_args is cls._expects_other_args
    assert taped._new_arg_supported is cls._new_arg_supported
    assert inspect.signature(taped._get_relevant_documents).parameters.keys() >= {"query"}


def test_class_defined_inside_a_session_is_whole(world: World, tmp_path: Path) -> None:
    """The framework reads the right signature of a class that is defined inside a session."""
    with use_cassette(tmp_path / "found.yaml", mode="all") as recording:

        class Late(FakeRetriever):
            def _get_relevant_documents(self, query: str, k: int = 1) -> list[Document]:  # type: ignore[override]
                return self.found(query)[:k]

        assert len(Late(world=world).invoke("a", k=2)) == 2
    assert [row.name for row in recording.interactions] == ["Late"]
    assert Late._expects_other_args
    assert not Late._new_arg_supported
    assert not hasattr(Late._get_relevant_documents, "__wrapped__")
