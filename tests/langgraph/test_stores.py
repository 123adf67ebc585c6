"""LangGraph's stores: replayed where they reach outside, filled again where they do not."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from threading import Barrier, Thread, current_thread
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, IncompleteObjectError
from agenttape_langgraph import tape

from .fakes import World, arecorded_and_replayed, recorded_and_replayed


class RemoteStore(BaseStore):
    """A store that reaches outside at each call; it keeps its state in a slot, as those of LangGraph do."""

    __slots__ = ("_inner", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self._inner = InMemoryStore()

    def batch(self, ops: Any) -> list[Any]:
        """Reach the world, then answer."""
        self.world.reach("store")
        return self._inner.batch(ops)

    async def abatch(self, ops: Any) -> list[Any]:
        """Reach the world, then answer."""
        self.world.reach("store")
        return await self._inner.abatch(ops)


class PooledStore(AsyncBatchedBaseStore):
    """A store that collects its calls for a background task."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._inner = InMemoryStore()

    def batch(self, ops: Any) -> list[Any]:
        """Refuse: it is asynchronous."""
        raise NotImplementedError

    async def abatch(self, ops: Any) -> list[Any]:
        """Reach the world, then answer."""
        self.world.reach("store")
        return await self._inner.abatch(ops)


USERS = ("users", "ada")


def plain_use(store: Any) -> list[Any]:
    """Use every operation of a store."""
    store.put(USERS, "likes", {"food": "tea"}, index=["food"])
    store.put((*USERS, "more"), "n", {"n": 1}, index=False)
    found = [store.get(USERS, "likes"), store.get(USERS, "nothing")]
    found += [store.search(("users",), query="a drink", limit=3), store.search(USERS, filter={"n": 1})]
    found += [store.list_namespaces(prefix=("users",), max_depth=3)]
    store.delete(USERS, "likes")
    found += [store.batch([GetOp(USERS, "likes"), PutOp(USERS, "late", {"x": (1, 2)}), GetOp((*USERS, "more"), "n")])]
    return found


async def awaited_use(store: Any) -> list[Any]:
    """Do the same, awaited."""
    await store.aput(USERS, "likes", {"food": "tea"}, index=["food"])
    await store.aput((*USERS, "more"), "n", {"n": 1}, index=False)
    found = [await store.aget(USERS, "likes"), await store.aget(USERS, "nothing")]
    found += [await store.asearch(("users",), query="a drink", limit=3), await store.asearch(USERS, filter={"n": 1})]
    found += [await store.alist_namespaces(prefix=("users",), max_depth=3)]
    await store.adelete(USERS, "likes")
    ops = [GetOp(USERS, "likes"), PutOp(USERS, "late", {"x": (1, 2)}), GetOp((*USERS, "more"), "n")]
    return [*found, await store.abatch(ops)]


def facts(found: Any) -> Any:
    """Return all parts of an answer; items compare equal whatever their score."""
    if isinstance(found, list):
        return [facts(item) for item in found]
    if isinstance(found, Item):
        return type(found), found.dict(), getattr(found, "score", None), found.created_at
    return found


async def used(make: Any, world: World, *, is_async: bool) -> Any:
    """Make a store and use it."""
    store = make(world)
    return facts(await awaited_use(store) if is_async else plain_use(store))


@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
@pytest.mark.parametrize(("kind", "is_async"), [(RemoteStore, False), (RemoteStore, True), (PooledStore, True)])
async def test_a_store_that_reaches_outside_is_replayed(
    kind: Any, *, is_async: bool, auto: bool, world: World, tmp_path: Path
) -> None:
    """Every operation is replayed with equal items, times included; nothing is reached."""

    async def drive(_: str) -> Any:
        return await used(kind if auto else lambda w: tape(kind(w)), world, is_async=is_async)

    path = tmp_path / "c.yaml"
    recorded, replayed = await arecorded_and_replayed(world, path, drive, auto=auto, freeze=())
    assert replayed.facts == recorded.facts
    assert recorded.facts[0][1]["value"] == {"food": "tea"}
    kinds = [call_record.kind for call_record in replayed.session.report.replayed]
    assert kinds == ["memory"] * len(world.reached) == ["memory"] * 9


async def test_what_the_thread_of_a_database_does_for_a_replayed_call_is_not_waited_for(tmp_path: Path) -> None:
    """A replay of a store in a database, which answers from a thread of its own, is in the recorded order at once."""
    found = []
    for mode in ("all", "none"):
        opened = AsyncSqliteStore.from_conn_string(":memory:")
        async with use_cassette(tmp_path / "c.yaml", mode=mode) as session, opened as store:
            await store.setup()
            await store.aput(USERS, "likes", {"food": "tea"})
            found.append(await asyncio.gather(*(store.aget(USERS, key) for key in ("likes", "nothing"))))
        assert session.report.nondeterminism == ()
    assert facts(found[0]) == facts(found[1])


async def old_of_threads(path: Path) -> Any:
    """Put something that is too old at once, and sweep it out."""
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(USERS, "likes", {"food": "tea"}, ttl=-1)
        return store.sweep_ttl(), store.sweep_ttl(), store.get(USERS, "likes")


async def old_of_tasks(path: Path) -> Any:
    """Do the same, awaited."""
    async with AsyncSqliteStore.from_conn_string(str(path)) as store:
        await store.setup()
        await store.abatch([PutOp(USERS, "likes", {"food": "tea"}, ttl=-1)])  # `aput` has no ttl there
        return await store.sweep_ttl(), await store.sweep_ttl(), await store.aget(USERS, "likes")


@pytest.mark.filterwarnings("ignore:The default datetime adapter is deprecated:DeprecationWarning")  # LangGraph's store
@pytest.mark.parametrize("use", [old_of_threads, old_of_tasks])
async def test_what_is_swept_is_replayed(use: Any, tmp_path: Path) -> None:
    """To sweep a database is a call as any other: a replay sweeps nothing, and says how much it was."""
    async with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        assert await use(tmp_path / "recorded.db") == (1, 0, None)
    assert [item.request["method"] for item in session.interactions] == ["put", "sweep_ttl", "sweep_ttl", "get"]
    async with use_cassette(tmp_path / "c.yaml"):
        assert await use(tmp_path / "replayed.db") == (1, 0, None)


def test_what_a_store_sweeps_by_itself_is_no_call(world: World, tmp_path: Path) -> None:
    """It happens when time has come, as often as it does; the program asks for nothing."""

    class SweepingStore(RemoteStore):
        """A store that sweeps itself in a thread, as LangGraph's do."""

        __slots__ = ("_ttl_sweeper_thread", "swept")

        def __init__(self, world: World) -> None:
            super().__init__(world)
            self.swept: list[bool] = []

        def sweep_ttl(self) -> int:
            """Note who sweeps."""
            self.swept.append(self._ttl_sweeper_thread is current_thread())
            return 7

        def start_ttl_sweeper(self) -> None:
            """Sweep once."""
            self._ttl_sweeper_thread = Thread(target=self.sweep_ttl)
            self._ttl_sweeper_thread.start()
            self._ttl_sweeper_thread.join()

    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        store = SweepingStore(world)
        store.start_ttl_sweeper()
        assert (store.sweep_ttl(), store.swept) == (7, [True, False])
    assert [item.request["method"] for item in session.interactions] == ["sweep_ttl"]


def test_the_file_says_what_was_asked(world: World, tmp_path: Path) -> None:
    """An interaction names the store and the operation, without default arguments."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        RemoteStore(world).put(USERS, "likes", {"food": "tea"}, index=["food"])
        RemoteStore(world).delete(USERS, "likes")
    assert [(item.kind, item.name, item.request["method"]) for item in session.interactions] == [
        ("memory", "RemoteStore", "put"),
        ("memory", "RemoteStore", "delete"),
    ]
    arguments = {"namespace": ["users", "ada"], "key": "likes", "value": {"food": "tea"}, "index": ["food"]}
    assert session.interactions[0].request["arguments"] == arguments
    with pytest.raises(CassetteMissError, match="memory RemoteStore"), use_cassette(tmp_path / "c.yaml"):
        RemoteStore(world).put(USERS, "likes", {"food": "coffee"}, index=["food"])


class Letters(Embeddings):
    """Embeds a text by its length; each call reaches the world."""

    model = "letters"

    def __init__(self, world: World) -> None:
        self.world = world

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed several."""
        self.world.reach("embeddings")
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one."""
        return self.embed_documents([text])[0]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_store_in_memory_is_filled_again(*, is_async: bool, world: World, tmp_path: Path) -> None:
    """It runs on replay, at the times of the recording, taped or not; its embeddings are replayed."""

    def indexed(world: World) -> InMemoryStore:
        return InMemoryStore(index={"dims": 2, "embed": Letters(world), "fields": ["food"]})

    for make, auto in ((indexed, True), (lambda world: tape(indexed(world)), False)):
        recorded, replayed = await arecorded_and_replayed(
            world,
            tmp_path / f"{auto}.yaml",
            lambda _, make=make: used(make, world, is_async=is_async),
            auto=auto,
        )
        assert replayed.facts == recorded.facts
        assert recorded.facts[2][0][2] is not None  # it has a score: it was found by its meaning
        assert {call_record.kind for call_record in replayed.session.report.replayed} == {"embeddings"}


def test_nothing_is_executed_after_a_replayed_write(world: World, tmp_path: Path) -> None:
    """A store to which a write was replayed does not hold it; one that was only read may be written to."""
    store = RemoteStore(world)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        assert store.get(USERS, "likes") is None
        store.put(USERS, "likes", {"food": "tea"})
    with use_cassette(tmp_path / "c.yaml"):
        assert store.get(USERS, "likes") is None
        store.put(USERS, "likes", {"food": "tea"})
    other = RemoteStore(world)
    for way in ({"auto": True}, {"auto": False}):
        with (
            pytest.raises(IncompleteObjectError, match=r"this RemoteStore .*\n.*c\.yaml"),
            use_cassette(tmp_path / "d.yaml", mode="all", **way),
        ):
            assert other.get(USERS, "likes") is None
            store.get(USERS, "likes")


def test_a_taped_store_is_the_store(world: World) -> None:
    """Without a session it does what the store does, is of its class, and has its attributes."""
    store = RemoteStore(world)
    taped = tape(store)
    assert tape(taped) is taped
    assert isinstance(taped, RemoteStore)
    assert taped.world is world
    assert facts(plain_use(taped))[0][0] is Item
    assert store.get((*USERS, "more"), "n").value == {"n": 1}  # type: ignore[union-attr]  # it was put there
    taped.world = other = World()
    assert store.world is other
    assert pickle.loads(pickle.dumps(tape(Local()))).get(("a",), "b") is None


class Local(BaseStore):
    """A store that can be pickled."""

    def batch(self, ops: Any) -> list[Any]:
        """Return no items."""
        return [None for _ in ops]

    async def abatch(self, ops: Any) -> list[Any]:
        """Know nothing."""
        return [None for _ in ops]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("replayed", ["tool", "node"])
def test_what_is_written_inside_a_replayed_call_is_written_again(
    replayed: str, *, is_async: bool, world: World, tmp_path: Path
) -> None:
    """A tool or a node that is replayed as a whole leaves the store of its graph as the real one did."""

    @tool
    def remember(what: str, runtime: ToolRuntime) -> str:
        """Remember something."""
        assert runtime.store is not None
        runtime.store.put(("facts",), "1", {"what": what}, index=False)
        runtime.store.put(("facts",), "2", {"what": what})
        runtime.store.delete(("facts",), "1")
        return f"noted {world.reach('tool')}"

    @tool
    async def aremember(what: str, runtime: ToolRuntime) -> str:
        """Remember something."""
        assert runtime.store is not None
        await runtime.store.aput(("facts",), "1", {"what": what}, index=False)
        await runtime.store.aput(("facts",), "2", {"what": what})
        await runtime.store.adelete(("facts",), "1")
        return f"noted {world.reach('tool')}"

    made = aremember if is_async else remember
    call = {"name": made.name, "args": {"what": "tea"}, "id": "1", "type": "tool_call"}
    given: Any = {"messages": [AIMessage("", id="0", tool_calls=[call])]}  # type: ignore[list-item]
    stores = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        stores.append(store := InMemoryStore())
        builder = StateGraph(MessagesState).add_node("tools", ToolNode([made])).add_edge(START, "tools")
        graph = tape(builder, replay_nodes=["tools"] if replayed == "node" else ()).compile(store=store)
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            answer = asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
    assert answer["messages"][-1].content == "noted 1"
    assert [call_record.kind for call_record in session.report.replayed] == [replayed]
    found = [[facts(item) for item in store.search(("facts",))] for store in stores]
    assert found[0] == found[1]
    assert [fact[0] for fact in found[0]] == [SearchItem]


def test_a_taped_store_of_a_graph_is_replayed_to_nodes(world: World, tmp_path: Path) -> None:
    """A graph that is compiled with a store that reaches outside replays without it, also from within tools."""

    def work(state: MessagesState, *, store: BaseStore) -> Any:
        store.put(("n",), "n", {"n": len(store.search(("n",)))})
        return {"messages": [("ai", str(store.get(("n",), "n")))]}

    def drive(_: str) -> Any:
        builder = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work")
        return builder.compile(store=tape(RemoteStore(world))).invoke({"messages": []})["messages"]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert {item.kind for item in open_cassette(tmp_path / "c.yaml").interactions()} == {"memory"}


def test_parallel_tools_that_search(world: World, tmp_path: Path) -> None:
    """Embeddings that a store in memory makes for a tool belong to the tool, also beside others: none is made again."""
    beside = Barrier(2)

    @tool
    def recall(q: str, runtime: ToolRuntime) -> str:
        """Search."""
        beside.wait(timeout=10)
        found = runtime.store.search(("facts",), query=q) if runtime.store else []
        beside.wait(timeout=10)
        return str([item.key for item in found])

    calls: Any = [{"name": "recall", "args": {"q": q}, "id": q, "type": "tool_call"} for q in ("cat", "doggy")]
    builder = StateGraph(MessagesState).add_node("tools", ToolNode([recall])).add_edge(START, "tools")

    def drive(_: str) -> Any:
        store = InMemoryStore(index={"dims": 2, "embed": Letters(world)})
        store.put(("facts",), "a", {"text": "a fact"})
        given: Any = {"messages": [AIMessage("", tool_calls=calls)]}
        answers = builder.compile(store=store).invoke(given)["messages"][1:]
        return answers, [item.score for item in store.search(("facts",), query="cat")]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    inside = [item for item in open_cassette(tmp_path / "c.yaml").interactions() if item.parent is not None]
    assert sorted(item.kind for item in inside) == ["embeddings", "embeddings"]
