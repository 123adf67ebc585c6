"""Around another saver: that one serves, and the file keeps a copy."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import ConfigurableFieldSpec
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteWriteError, IncompleteCopyWarning
from agenttape_langgraph import TapeSaver

from .threads import INNERS, FullSaver, checkpoint, growing, inner_saver, place, put_thread

METHODS = [
    prefix + name
    for name in (
        "get", "get_tuple", "list", "put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune",
        "get_delta_channel_history",
    )
    for prefix in ("", "a")
]  # fmt: skip


def overridden(saver: BaseCheckpointSaver[Any]) -> set[str]:
    """Return the methods that LangGraph finds overridden in the class of a saver."""
    names = [*METHODS, "get_next_version"]
    return {name for name in names if getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)}


@pytest.mark.parametrize("kind", [*INNERS, "full", "bare"])
async def test_it_overrides_what_the_inner_one_overrides(kind: str, path: Path, address: str) -> None:
    """Class and instance look like those of the inner saver."""
    async with inner_saver(kind, address) as inner, TapeSaver(path, inner=inner) as saver:
        assert overridden(saver) == overridden(inner)
        assert isinstance(saver, TapeSaver)
        assert type(saver) is type(TapeSaver(path, inner=inner))


def test_alone_it_overrides_everything(saver: TapeSaver) -> None:
    """Alone it has every method, sync and async, of its own; `get` is LangGraph's on top of these."""
    assert overridden(saver) == {*METHODS, "get_next_version"} - {"get", "aget"}


def test_a_saver_without_async_methods_has_none_here(path: Path) -> None:
    """Methods that the inner saver does not have raise its errors."""
    with SqliteSaver.from_conn_string(":memory:") as inner, TapeSaver(path, inner=inner) as saver:
        coroutine = saver.aget_tuple(place())
        with pytest.raises(NotImplementedError, match="AsyncSqliteSaver"):
            coroutine.send(None)
        put_thread(saver, growing(3))
        assert list(saver.list(place())) == list(inner.list(place())) == list(saver.local.list(place()))


class Own(InMemorySaver):
    """A saver with things of its own."""

    @property
    def config_specs(self) -> list[Any]:
        return [ConfigurableFieldSpec(id="tenant", annotation=str)]

    def get_next_version(self, current: Any, channel: None) -> Any:
        return 7 if current is None else current + 7

    def setup(self) -> str:
        return "set up"

    @classmethod
    def from_somewhere(cls) -> str:
        return cls.__name__


def test_what_is_the_inner_savers_is_here_too(path: Path) -> None:
    """Versions, config specs, serialiser and other attributes are the inner saver's; unknown ones are missing."""
    inner = Own()
    with TapeSaver(path, inner=inner) as saver:
        assert saver.get_next_version(None, None) == 7
        assert saver.config_specs == inner.config_specs
        assert saver.serde is inner.serde
        assert saver.storage is inner.storage
        assert saver.setup() == "set up"
        assert type(saver).from_somewhere() == "Own"
        assert hasattr(type(saver), "setup")
        assert not hasattr(saver, "no_such_thing")
        assert not hasattr(TapeSaver(":memory:"), "setup")
        assert saver.inner is inner


async def test_a_failure_of_the_inner_saver_is_raised_as_it_is(path: Path) -> None:
    """Its own error arrives, and nothing is copied."""

    class Failing(FullSaver):
        """A saver whose writing methods raise."""

        def put(self, *_: Any) -> Any:
            raise ConnectionError("production is down")

        async def aput(self, *_: Any) -> Any:
            raise ConnectionError("production is down")

    with TapeSaver(path, inner=Failing()) as saver:
        with pytest.raises(ConnectionError, match="production is down"):
            saver.put(place(), checkpoint(1, {}), {}, {})
        with pytest.raises(ConnectionError, match="production is down"):
            await saver.aput(place(), checkpoint(1, {}), {}, {})
        assert list(saver.local.list(None)) == []
        assert saver.copy_failure is None


def broken(saver: TapeSaver) -> None:
    """Break the file of a copy."""
    with saver.database.writing() as connection:
        connection.execute("DROP TABLE uses")


async def test_a_copy_that_fails_is_said_and_holds_nobody_up(path: Path) -> None:
    """The thread goes on, there is one warning, nothing more is copied, and closing fails."""
    inner = InMemorySaver()
    saver = TapeSaver(path, inner=inner)
    put_thread(saver, growing(2))
    broken(saver)
    with pytest.warns(IncompleteCopyWarning, match=r"saver\.sqlite: the copy of the thread is incomplete") as said:
        put_thread(saver, growing(2), "2")
    await saver.aput(place("3"), checkpoint(1, {}), {}, {})  # says nothing: warnings are errors
    assert len(said) == 1
    assert len(list(inner.list(None))) == 5
    assert "uses" in str(saver.copy_failure)
    with pytest.raises(CassetteWriteError, match="the copy is incomplete"):
        saver.close()


def test_a_failure_in_a_clone_is_not_lost(path: Path) -> None:
    """LangGraph uses a clone where msgpack is strict; a failure there is known here, and warned of once."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    saver = TapeSaver(path, inner=InMemorySaver(serde=strict))
    clone = saver.with_allowlist({("some.module", "Thing")})
    broken(saver)
    with pytest.warns(IncompleteCopyWarning):
        put_thread(clone, growing(1))
    put_thread(saver, growing(1))
    assert saver.copy_failure is clone.copy_failure is not None  # type: ignore[attr-defined]
    with pytest.raises(CassetteWriteError):
        saver.close()


def test_a_failing_copy_does_not_hide_an_error_of_the_block(path: Path) -> None:
    """Leaving `with` by an error raises that error; leaving it without one raises that the copy is incomplete."""
    for error, expected in ((RuntimeError("mine"), RuntimeError), (None, CassetteWriteError)):
        file = path.with_name(f"{expected.__name__}.sqlite")
        with pytest.raises(expected), TapeSaver(file, inner=InMemorySaver()) as saver:
            broken(saver)
            with pytest.warns(IncompleteCopyWarning):
                put_thread(saver, growing(1))
            if error:
                raise error


def test_a_copy_may_have_a_serialiser_of_its_own(path: Path) -> None:
    """`serde` is the copy's; LangGraph sees that of the inner saver."""
    from .test_encryption import encrypting

    inner = InMemorySaver()
    with TapeSaver(path, inner=inner, serde=encrypting()) as saver:
        assert saver.serde is inner.serde
        put_thread(saver, growing(3))
        assert list(saver.local.list(place())) == list(inner.list(place()))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM digest_keys").fetchone() == (1,)
    connection.close()


def test_a_listing_is_the_inner_savers(path: Path) -> None:
    """Threads that were there before are replayed, and are not in the copy."""
    inner = InMemorySaver()
    put_thread(inner, growing(2), "old")
    with TapeSaver(path, inner=inner) as saver:
        assert len(list(saver.list(place("old")))) == 2
        put_thread(saver, growing(1), "new")
        assert [found.config["configurable"]["thread_id"] for found in saver.local.list(None)] == ["new"]


@pytest.mark.parametrize("is_within", [False, True])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_listing_left_last_is_the_inner_savers(
    path: Path, is_within: bool, is_recorded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A listing that the program leaves in its last step ends with the loop, though that outlives the session."""
    held, log = list[Any](), list[str]()

    async def listing(config: Any) -> AsyncIterator[Any]:
        try:
            yield config
            yield config
        finally:
            for _ in range(99):  # more rounds than there are after the program
                await asyncio.sleep(0)
            log.append("closed")

    class Inner(InMemorySaver):
        def alist(self, config: Any, **_: Any) -> AsyncIterator[Any]:  # type: ignore[override]
            return (boundary(listing) if is_recorded else listing)(config)

    async def program() -> None:
        with use_cassette(path.with_name("c.yaml"), mode="all") if is_within else nullcontext():
            held.append(saver.alist(place()))
            await anext(held[0])

    saver = TapeSaver(path, inner=Inner())
    with saver, nullcontext() if is_within else use_cassette(path.with_name("c.yaml"), mode="all"):
        asyncio.run(program())
    assert log == ["closed"]
    assert not caplog.messages


async def test_deleting_deletes_the_copy_too(path: Path) -> None:
    """Deletions of the inner saver are made in the file."""
    with TapeSaver(path, inner=FullSaver()) as saver:
        for thread in ("a", "b", "c"):
            put_thread(saver, growing(3), thread)
        await saver.adelete_thread("a")
        saver.delete_for_runs(["run-0"])
        await saver.aprune(["b"])
        await saver.acopy_thread("c", "d")
        for thread in "abcd":
            theirs = [found.checkpoint async for found in saver.alist(place(thread))]
            assert theirs == [found.checkpoint for found in saver.local.list(place(thread))]
            assert len(theirs) == {"a": 0, "b": 1, "c": 2, "d": 2}[thread]


async def test_the_signature_that_langgraph_looks_at(path: Path, postgres: str) -> None:
    """`task_path` is a parameter of `put_writes` by name, around any saver; async methods are coroutine functions."""
    import inspect

    async def savers() -> AsyncIterator[TapeSaver]:
        with TapeSaver(path) as alone:
            yield alone
        async with AsyncPostgresSaver.from_conn_string(postgres) as inner:
            with TapeSaver(path, inner=inner) as around:
                yield around

    async for saver in savers():
        assert "task_path" in inspect.signature(saver.put_writes).parameters
        assert "task_path" in inspect.signature(saver.aput_writes).parameters
        assert inspect.iscoroutinefunction(saver.aput)
        assert inspect.isasyncgenfunction(saver.alist)


@pytest.mark.parametrize("own", [False, True])
def test_a_serialiser_that_is_set_later_is_used(own: bool, path: Path) -> None:
    """Setting `serde` sets that of the inner saver, and of the copy unless the copy has one of its own."""
    first, later = JsonPlusSerializer(), JsonPlusSerializer()
    with TapeSaver(path, inner=InMemorySaver(), serde=first if own else None) as saver:
        saver.serde = later
        assert saver.inner is not None
        assert saver.inner.serde is saver.serde is later
        assert saver.local.serde is (first if own else later)
