"""Retrievers are recorded, and replayed without searching."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedCallError
from agenttape_core.integration import Position
from agenttape_core.integration.observing import Observation
from agenttape_core.lifecycle.running_test import RunningTest, during
from agenttape_langchain import tape
from agenttape_langchain.requests import RETRIEVAL, retrieval_body

if TYPE_CHECKING:
    from pathlib import Path

    from .fakes import World


class FakeRetriever(BaseRetriever):
    """The base of the fakes: they find `k` documents, no two alike."""

    world: Any
    k: int = 2

    def found(self, query: str) -> list[Document]:
        """Reach the world and return what it finds."""
        number = self.world.reach("retriever")
        metadata = {"score": 0.5, "tags": ("a", "b")}
        return [Document(f"{query} {number}.{n}", metadata=metadata, id=f"doc-{number}-{n}") for n in range(self.k)]


class Plain(FakeRetriever):
    """As the documentation of the framework shows it."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found(query)


class Bare(FakeRetriever):
    """Takes no run manager."""

    def _get_relevant_documents(self, query: str) -> list[Document]:  # type: ignore[override]
        return self.found(query)


class Configurable(FakeRetriever):
    """Takes more than a query."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, k: int | None = None, **kwargs: Any
    ) -> list[Document]:
        return self.found(query)[:k]


class Native(FakeRetriever):
    """Has an asynchronous search of its own."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found(query)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0)
        return self.found(query)


class Routing(BaseRetriever):
    """Searches by another retriever."""

    inner: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(self.inner.invoke(query, config={"callbacks": run_manager.get_child()}))


FAKES = [Plain, Bare, Configurable, Native]


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", FAKES)
async def test_retriever_replays(cls: Any, way: str, world: World, tmp_path: Path) -> None:
    """However it is called, the documents come back with ids and metadata, and nothing is searched."""

    async def every_call(retriever: Any) -> list[Any]:
        """The results of the ways of searching."""
        return [
            retriever.invoke("a"),
            await retriever.ainvoke("b"),
            retriever.batch(["c", "d"]),
            [(ev["event"], ev["name"], ev["data"]) async for ev in retriever.astream_events("e", version="v2")],
            (RunnableLambda(lambda question: question.upper()) | retriever).invoke("f"),
        ]

    real = cls(world=world)
    retriever, automatic = (real if way == "automatic" else tape(real)), way != "taped"
    path = tmp_path / "found.yaml"
    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await every_call(retriever)
    assert recorded[0][0] == Document("a 1.0", metadata={"score": 0.5, "tags": ("a", "b")}, id="doc-1-0")
    assert [(row.kind, row.name) for row in recording.interactions] == [("retrieval", cls.__name__)] * 6
    world.gone = True
    for _ in range(2):
        with use_cassette(path, auto=automatic) as replay:
            assert await every_call(retriever) == recorded
        assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_request_is_query_settings_and_arguments(world: World, tmp_path: Path) -> None:
    """The request says what is looked for and how; the call's own arguments win."""
    with use_cassette(tmp_path / "found.yaml", mode="all") as recording:
        Plain(world=world).invoke("a")
        Configurable(world=world, k=7).invoke("a", k=3, filter={"year": 1984})
    assert [row.request for row in recording.interactions] == [
        {"query": "a", "settings": {"k": 2}},
        {"query": "a", "settings": {"k": 3, "filter": {"year": 1984}}},
    ]


def test_changed_setting_misses(world: World, tmp_path: Path) -> None:
    """Documents that were found among two are not replayed for ten, whatever retries."""
    path = tmp_path / "found.yaml"
    with use_cassette(path, mode="all"):
        Plain(world=world).invoke("a")
    world.gone = True
    with pytest.raises(CassetteMissError), use_cassette(path):
        Plain(world=world, k=10).with_retry().invoke("a")


def test_a_replay_that_missed_is_let_go(world: World, tmp_path: Path) -> None:
    """A chain that failed leaves nothing in the context of its caller that keeps the session and its surroundings."""
    path = tmp_path / "found.yaml"
    with use_cassette(path, mode="all"):
        Plain(world=world).invoke("a")
    other = RunningTest(tmp_path, tmp_path, lambda _: None)  # a test keeps the reports of its sessions
    with pytest.raises(CassetteMissError), during(other), use_cassette(path) as session:
        Plain(world=world).with_retry().invoke("b")
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
        RETRIEVAL, "Plain", retrieval_body("a", {}), position=Position().child("Plain")
    )
    session_call.returned([Document("observed")])
    observation.flush()
    with use_cassette(path, mode=mode) as session:
        found = Plain(world=world).invoke("a")
    assert (found == [Document("observed")]) is (mode == "none")
    assert session.interactions[0].request == retrieval_body("a", {} if mode == "none" else {"k": 2})


@pytest.mark.parametrize("cls", FAKES)
async def test_parallel_equal_calls_find_their_own(cls: Any, world: World, tmp_path: Path) -> None:
    """Equal queries at once get each its own documents."""
    retriever, path = cls(world=world), tmp_path / "found.yaml"
    with use_cassette(path, mode="all"):
        recorded = await asyncio.gather(*(retriever.ainvoke("a") for _ in range(6)))
    assert len({docs[0].id for docs in recorded}) == 6
    world.gone = True
    with use_cassette(path) as replay:
        assert await asyncio.gather(*(retriever.ainvoke("a") for _ in range(6))) == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_retriever_inside_a_retriever_is_its_child(world: World, tmp_path: Path) -> None:
    """The inner search is recorded below the outer one; a replay asks only the outer, or only the inner."""
    path, router = tmp_path / "found.yaml", Routing(inner=Plain(world=world))
    with use_cassette(path, mode="all") as recording:
        recorded = router.invoke("a")
    assert [(row.name, row.parent) for row in recording.interactions] == [("Routing", None), ("Plain", 1)]
    world.gone = True
    with use_cassette(path) as replay:
        assert router.invoke("a") == recorded
    assert len(replay.report.replayed) == 1
    with use_cassette(path, on_unused="ignore"):
        assert Plain(world=world).invoke("a") == recorded


def test_retriever_tool_replays(world: World, tmp_path: Path) -> None:
    """The tool that the framework makes of a retriever is replayed as a tool."""
    finder = create_retriever_tool(Plain(world=world), "find", "Find documents.")
    path = tmp_path / "found.yaml"
    with use_cassette(path, mode="all") as recording:
        recorded = finder.invoke({"query": "a"})
    assert [row.kind for row in recording.interactions] == ["tool", "retrieval"]
    world.gone = True
    with use_cassette(path):
        assert finder.invoke({"query": "a"}) == recorded


def test_errors_are_recorded(tmp_path: Path) -> None:
    """A search that fails fails again, and callbacks hear of it."""

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


def test_replayed_documents_are_fresh(world: World, tmp_path: Path) -> None:
    """Changing a document changes no other result."""
    path, retriever = tmp_path / "found.yaml", Plain(world=world)
    with use_cassette(path, mode="all"):
        recorded = retriever.invoke("a")
    with use_cassette(path, on_repeat="last"):
        retriever.invoke("a")[0].metadata["score"] = 9
        assert retriever.invoke("a") == recorded


def test_drift_is_an_error(world: World, tmp_path: Path) -> None:
    """A run that lives on gets an error: no document says that there is none."""
    path = tmp_path / "found.yaml"
    with use_cassette(path, mode="all"):
        Plain(world=world).invoke("a")
    world.gone = True
    with use_cassette(path, on_miss="return"), pytest.raises(UnrecordedCallError):
        Plain(world=world).invoke("b")


def test_taped_retriever_is_what_it_was(world: World) -> None:
    """A taped retriever is of its class, with its signature and its state."""
    for cls in FAKES:
        taped = tape(cls(world=world))
        assert isinstance(taped, cls)
        assert tape(taped) is taped
        assert taped._expects_other_args is cls._expects_other_args
        assert taped._new_arg_supported is cls._new_arg_supported
        assert inspect.signature(taped._get_relevant_documents).parameters.keys() >= {"query"}
        assert len(taped.invoke("a")) == 2
    again = pickle.loads(pickle.dumps(tape(Plain(world=None, k=5))))
    assert again.k == 5
    assert tape(again) is again


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
