"""`TapeCache` is a LangChain cache on a cassette: the same file, redaction, matching and modes."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.tools import tool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteLockedError, CassetteMissError, CassetteNotFoundError, SessionStateError
from agenttape_langchain import TapeCache

from .fakes import AsyncChat, StreamingChat, World, calling

ANSWER = [Generation(text="42", generation_info={"reason": "because"})]


def cached(world: World, cache: Any, **options: Any) -> Any:
    return AsyncChat(world=world, cache=cache, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the cassette."""
    return tmp_path / "cache.yaml"


@pytest.fixture
def _no_global_cache() -> Iterator[None]:
    yield
    set_llm_cache(None)


async def test_records_and_replays(world: World, path: Path) -> None:
    """An answer that was recorded once is replayed from then on, sync and async, without the model."""
    with TapeCache(path, mode="once") as cache:
        model = cached(world, cache)
        recorded = [model.invoke("hi"), await model.ainvoke("ho"), model.invoke("hi")]
    assert len(world.reached) == 2
    world.gone = True
    with TapeCache(path) as cache:
        model = cached(world, cache)
        replayed = [model.invoke("hi"), await model.ainvoke("ho"), model.invoke("hi")]
    assert [message.text for message in replayed] == [message.text for message in recorded]
    assert [message.response_metadata for message in replayed] == [message.response_metadata for message in recorded]
    assert str(cache.report) == "3 replayed, 0 recorded"


async def test_misses(world: World, path: Path) -> None:
    """Without a recording the model is not called: the miss passes through retries and fallbacks, and is latched."""
    with TapeCache(path, mode="once") as cache:
        cached(world, cache).invoke("hi")
    world.gone = True
    for mode in ("none", "once"):
        cache = TapeCache(path, mode=mode)
        model = cached(world, cache).with_retry().with_fallbacks([AsyncChat(world=world)])
        with pytest.raises(CassetteMissError, match="llm_cache was called with a request"):
            model.invoke("something else")
        with pytest.raises(CassetteMissError, match="mode='add'"):
            await model.ainvoke("something else")
        with pytest.raises(CassetteMissError):
            cache.close()


async def test_new_episodes(world: World, path: Path) -> None:
    """`add` serves what is there and adds the rest; `all` asks for everything anew."""
    with TapeCache(path, mode="once") as cache:
        cached(world, cache).invoke("one")
    with TapeCache(path, mode="new_episodes") as cache:
        first = [cached(world, cache).invoke(word).text for word in ("one", "two")]
    assert first == ["answer 1 to one", "answer 2 to two"]
    with TapeCache(path) as cache:
        assert [cached(world, cache).invoke(word).text for word in ("one", "two")] == first
    with TapeCache(path, mode="all") as cache:
        assert cached(world, cache).invoke("one").text == "answer 3 to one"
    assert len(open_cassette(path).entries) == 1


def test_missing_file(path: Path) -> None:
    """There must be something to replay."""
    with pytest.raises(CassetteNotFoundError, match="mode='add'"):
        TapeCache(path)


def test_nothing_is_written_for_nothing(path: Path) -> None:
    """A recording cache that was never used leaves no file."""
    TapeCache(path, mode="once").close()
    assert list(path.parent.iterdir()) == []


def test_one_writer(path: Path) -> None:
    """Two caches cannot record to the same file at once; a closed one answers nothing."""
    with TapeCache(path, mode="once") as cache:
        with pytest.raises(CassetteLockedError):
            TapeCache(path, mode="once")
        cache.update("a", "m", ANSWER)
    with pytest.raises(SessionStateError, match="make a new TapeCache"):
        cache.lookup("a", "m2")
    assert TapeCache(path).lookup("a", "m") == ANSWER


def test_what_identifies_a_request(path: Path) -> None:
    """The prompt and the model's string both count; ids that differ from run to run do not."""
    prompt = '[{"lc": 1, "kwargs": {"content": "call 6f1c7b4e-2a53-4a55-9d0f-0c8f4ad3f0b%d"}}]'
    with TapeCache(path, mode="once") as cache:
        cache.update(prompt % 1, '{"id": ["M"]}---[]', ANSWER)
    cache = TapeCache(path, mode="none")
    assert cache.lookup(prompt % 2, '{"id": ["M"]}---[]') == ANSWER
    for other in ('{"id": ["N"]}---[]', '{"id": ["M"]}---[1]', "M"):
        with pytest.raises(CassetteMissError):
            cache.lookup(prompt % 1, other)
    (interaction,) = open_cassette(path).interactions()
    assert interaction.request["model"] == {"id": ["M"]}
    assert interaction.request["prompt"][0]["kwargs"]["content"].startswith("call ")


def test_secrets(world: World, path: Path) -> None:
    """A secret in a prompt or an answer is not in the file, and comes back for whoever asks with it."""
    secret = "sk-proj-" + "Ab1" * 16
    with TapeCache(path, mode="once") as cache:
        recorded = cached(world, cache).invoke(f"keep {secret}")
    assert secret in recorded.text
    assert secret not in path.read_text("utf-8")
    world.gone = True
    with TapeCache(path) as cache:
        assert cached(world, cache).invoke(f"keep {secret}").text == recorded.text


def test_answers_are_fresh(path: Path) -> None:
    """A caller that changes an answer changes no later answer, while recording and replaying."""
    generation = ChatGeneration(message=AIMessage("hello"))
    with TapeCache(path, mode="once") as cache:
        cache.update("a", "m", [generation])
        generation.message.content = "changed"
        for _ in range(2):
            (found,) = cache.lookup("a", "m") or ()
            assert found.message.content == "hello"  # type: ignore[attr-defined]
            found.message.content = "changed"  # type: ignore[attr-defined]
    with TapeCache(path) as cache:
        for _ in range(2):
            (found,) = cache.lookup("a", "m") or ()
            assert found.message.content == "hello"  # type: ignore[attr-defined]
            found.message.content = "changed"  # type: ignore[attr-defined]


def test_the_last_answer_counts(path: Path) -> None:
    """A request that was recorded twice, as by two threads at once, gives its answers in order, then the last."""
    later = [Generation(text="43")]
    with TapeCache(path, mode="once") as cache:
        cache.update("a", "m", ANSWER)
        cache.update("a", "m", later)
        assert cache.lookup("a", "m") == later
    with TapeCache(path) as cache:
        assert [cache.lookup("a", "m") for _ in range(3)] == [ANSWER, later, later]


def test_clear(path: Path) -> None:
    """A cleared recording starts over; a cleared replay serves as from its beginning, and the file stays."""
    with TapeCache(path, mode="new_episodes") as cache:
        cache.update("a", "m", ANSWER)
    with TapeCache(path) as cache:
        cache.lookup("a", "m")
        cache.clear()
        assert cache.lookup("a", "m") == ANSWER
    with TapeCache(path, mode="new_episodes") as cache:
        asyncio.run(cache.aclear())
        assert cache.lookup("a", "m") is None
        cache.update("b", "m", ANSWER)
    with TapeCache(path) as cache:
        assert cache.lookup("b", "m") == ANSWER
        with pytest.raises(CassetteMissError):
            cache.lookup("a", "m")
        cache._recording.session.latch.error = None


def test_a_replay_takes_no_updates(path: Path) -> None:
    """An unknown request of a replay is a miss; nothing is written to the file."""
    with TapeCache(path, mode="once") as cache:
        cache.update("a", "m", ANSWER)
    before = path.read_bytes()
    cache = TapeCache(path)
    cache.update("a", "m", [Generation(text="other")])
    with pytest.raises(CassetteMissError):
        cache.update("b", "m", ANSWER)
    assert path.read_bytes() == before


@pytest.mark.usefixtures("_no_global_cache")
async def test_as_the_global_cache(world: World, path: Path) -> None:
    """`set_llm_cache` is enough: chat models and text models, tool calls and usage; a stream does not ask it."""

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        return calling(("add", {"a": 1, "b": number}), number=number)

    def run() -> list[Any]:
        chat = StreamingChat(world=world, reply=reply).bind_tools([add])
        text = FakeListLLM(responses=["spoken"])
        return [chat.invoke("hi").tool_calls, text.invoke("hi"), text.invoke("ho")]

    with TapeCache(path, mode="once") as cache:
        set_llm_cache(cache)
        recorded = run()
    world.gone = True
    with TapeCache(path) as cache:
        set_llm_cache(cache)
        assert run() == recorded
    world.gone = False
    assert list(StreamingChat(world=world).stream("hi"))


async def test_beside_a_session(world: World, path: Path) -> None:
    """A session records what the cache does not answer, and neither disturbs the other."""
    session_path = path.with_name("session.yaml")
    with TapeCache(path, mode="once") as cache, use_cassette(session_path, mode="all") as session:
        model = cached(world, cache)
        recorded = [model.invoke("hi").text, model.invoke("hi").text]
    assert str(session.report) == "0 replayed, 1 recorded"
    world.gone = True
    with TapeCache(path) as cache:
        assert [cached(world, cache).invoke("hi").text for _ in range(2)] == recorded


@pytest.mark.process
def test_written_at_the_end_of_the_program(path: Path) -> None:
    """A program that never closes its cache has its cassette all the same."""
    program = dedent("""
        import sys
        from langchain_core.outputs import Generation
        from agenttape_langchain import TapeCache
        cache = TapeCache(sys.argv[1], mode="once")
        cache.update("a", "m", [Generation(text="kept")])
    """)

    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert TapeCache(path).lookup("a", "m") == [Generation(text="kept")]
