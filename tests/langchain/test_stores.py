"""Key-value stores are recorded, reads and writes, and replayed without a store."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, IncompleteObjectError
from agenttape_langchain import tape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from .fakes import World


class RemoteStore(BaseStore[str, bytes]):
    """A store somewhere else: the world holds what is in it."""

    def __init__(self, world: World, namespace: str = "cats") -> None:
        self.world = world
        self.namespace = namespace

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        number = self.world.reach("get")
        return [f"{key} {number}".encode() if key != "missing" else None for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        self.world.reach("set")

    def mdelete(self, keys: Sequence[str]) -> None:
        self.world.reach("delete")

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        for _ in range(3):
            yield f"{prefix} {self.world.reach('keys')}"


class Native(RemoteStore):
    """Has asynchronous methods of its own."""

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        await asyncio.sleep(0)
        return self.mget(keys)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        for key in self.yield_keys(prefix=prefix):
            yield key


async def every_call(store: Any) -> list[Any]:
    """The results of the methods of the interface."""
    return [
        store.mset([("a", b"\x00\xff"), ("b", b"text")]),
        store.mget(["a", "missing"]),
        list(store.yield_keys(prefix="a")),
        list(store.yield_keys()),
        store.mdelete(["a"]),
        await store.amset([("c", b"")]),
        await store.amget(["c"]),
        [key async for key in store.ayield_keys(prefix="c")],
        await store.amdelete(["c"]),
    ]


@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", [RemoteStore, Native])
async def test_store_replays(cls: Any, way: str, world: World, tmp_path: Path) -> None:
    """Each call is one recording, and a replay reaches no store."""
    real = cls(world)
    store, automatic = (real if way == "automatic" else tape(real)), way != "taped"
    path = tmp_path / "store.yaml"
    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await every_call(store)
    assert [(row.kind, row.name) for row in recording.interactions] == [("memory", cls.__name__)] * 9
    world.gone = True
    with use_cassette(path, auto=automatic) as replay:
        assert await every_call(store) == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


async def test_request_names_method_arguments_and_namespace(world: World, tmp_path: Path) -> None:
    """The request says what is read or written, and where; a default says nothing."""
    with use_cassette(tmp_path / "store.yaml", mode="all") as recording:
        RemoteStore(world).mset(key_value_pairs=[("a", b"1")])
        list(RemoteStore(world).yield_keys())
        [key async for key in RemoteStore(world).ayield_keys(prefix=None)]
    first, second, third = (row.request for row in recording.interactions)
    assert first["method"] == "mset"
    assert first["arguments"] == {"key_value_pairs": [["a", {"$bytes": "MQ=="}]]}
    assert first["settings"] == {"namespace": "cats"}
    assert second == third == {"method": "yield_keys", "arguments": {}, "settings": {"namespace": "cats"}}


def test_keys_are_generated(world: World, tmp_path: Path) -> None:
    """`yield_keys` stays a generator; one that is left early is recorded as that."""
    path = tmp_path / "store.yaml"
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode):
            keys = RemoteStore(world).yield_keys(prefix="a")
            assert inspect.isgenerator(keys)
            assert next(keys) == "a 1"
            keys.close()
        world.gone = True
    assert inspect.isgenerator(tape(RemoteStore(world)).yield_keys())


async def test_sync_serves_async_and_back(world: World, tmp_path: Path) -> None:
    """A recording of `mget` serves `amget`, and the other way round."""
    path, store = tmp_path / "store.yaml", RemoteStore(world)
    with use_cassette(path, mode="all"):
        recorded = [store.mget(["a"]), await store.amget(["b"]), list(store.yield_keys())]
    world.gone = True
    with use_cassette(path):
        keys = [key async for key in store.ayield_keys()]
        assert [await store.amget(["a"]), store.mget(["b"]), keys] == recorded


@pytest.mark.parametrize("cls", [RemoteStore, Native])
async def test_parallel_equal_reads_find_their_own(cls: Any, world: World, tmp_path: Path) -> None:
    """Equal reads at once get each its own values."""
    path, store = tmp_path / "store.yaml", cls(world)
    with use_cassette(path, mode="all"):
        recorded = await asyncio.gather(*(store.amget(["a"]) for _ in range(6)))
    world.gone = True
    with use_cassette(path) as replay:
        assert await asyncio.gather(*(store.amget(["a"]) for _ in range(6))) == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_other_namespace_or_value_misses(world: World, tmp_path: Path) -> None:
    """A write to one place is not replayed for another, nor for another value."""
    path = tmp_path / "store.yaml"
    with use_cassette(path, mode="all"):
        RemoteStore(world).mset([("a", b"1")])
    world.gone = True
    for store, value in ((RemoteStore(world, "dogs"), b"1"), (RemoteStore(world), b"2")):
        with pytest.raises(CassetteMissError), use_cassette(path):
            store.mset([("a", value)])


def test_errors_are_recorded(world: World, tmp_path: Path) -> None:
    """A store that fails fails again, also while it yields."""

    class Failing(RemoteStore):
        def mget(self, keys: Sequence[str]) -> list[bytes | None]:
            raise ConnectionError("down")

        def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
            yield "a"
            raise ConnectionError("down")

    for mode in ("all", "none"):
        with use_cassette(tmp_path / "store.yaml", mode=mode):
            with pytest.raises(ConnectionError, match="down"):
                Failing(world).mget(["a"])
            keys = Failing(world).yield_keys()
            assert next(keys) == "a"
            with pytest.raises(ConnectionError, match="down"):
                next(keys)


@pytest.mark.parametrize("cls", [InMemoryStore, InMemoryByteStore])
@pytest.mark.parametrize("taped", [False, True])
async def test_a_store_in_memory_runs(cls: Any, tmp_path: Path, *, taped: bool) -> None:
    """It holds on replay what the program put there, and nothing of it is recorded."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "store.yaml", mode=mode) as session:
            store = tape(cls()) if taped else cls()
            store.mset([("a", b"1"), ("b", b"2")])
            await store.amdelete(["b"])
            assert await store.amget(["a", "b"]) == [b"1", None]
            assert [key async for key in store.ayield_keys()] == list(store.yield_keys()) == ["a"]
            assert store.store == {"a": b"1"}
        assert session.interactions == []


@pytest.mark.parametrize("write", ["mset", "mdelete", "amset", "amdelete"])
async def test_nothing_is_executed_after_a_replayed_write(write: str, world: World, tmp_path: Path) -> None:
    """A store to which a write was replayed does not hold it; one that was only read is as it was."""
    path, store = tmp_path / "store.yaml", RemoteStore(world)

    async def change() -> None:
        done = getattr(store, write)([("a", b"1")] if "mset" in write else ["a"])
        if write.startswith("a"):
            await done

    with use_cassette(path, mode="all"):
        store.mget(["a"])
        await change()
    with (
        pytest.raises(IncompleteObjectError, match="this RemoteStore"),
        use_cassette(path, mode="new_episodes") as session,
    ):
        store.mget(["a"])
        store.mget(["b"])
        assert (len(session.report.replayed), len(session.report.recorded)) == (1, 1)
        await change()
        store.mget(["c"])


def test_taped_store_is_what_it_was(world: World) -> None:
    """A taped store is of its class and works outside sessions."""
    taped = tape(RemoteStore(world))
    assert isinstance(taped, RemoteStore)
    assert tape(taped) is taped
    assert taped.mget(["a"]) == [b"a 1"]
