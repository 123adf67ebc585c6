"""The tree of runs: positions of calls, and followers of chains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda

from agenttape_core import use_cassette
from agenttape_langchain import session_tree
from agenttape_langchain.address import place_in_words

from ..kit.replaying import Twice
from .fakes import FakeChat, PlainChat, StreamingChat, World


@pytest.fixture
def own_followers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after the test what it has registered, but nothing that integrations register when they connect."""
    with use_cassette(tmp_path / "first.yaml", mode="all"):
        pass
    monkeypatch.setattr(session_tree, "_followers", list(session_tree._followers))


@pytest.mark.usefixtures("own_followers")
def test_follower_of_a_package_that_is_imported_late(tmp_path: Path) -> None:
    """A package that is imported while a session is open follows its chains, though its tree has begun to grow."""

    class Chains:
        """Follows the chains of a session."""

        def __init__(self) -> None:
            self.seen: list[str] = []

        def began(self, run_id: Any, parent_run_id: Any, run: Any, facts: Any) -> None:
            self.seen.append(f"began {facts.name}")

        def ended(self, run_id: Any, output: Any) -> None:
            self.seen.append("ended")

        def failed(self, run_id: Any, error: BaseException) -> None:
            self.seen.append("failed")

    chains = Chains()
    with use_cassette(tmp_path / "late.yaml", mode="all"):
        RunnableLambda(str, name="early").invoke(1)
        session_tree.register_follower(lambda session: chains)
        RunnableLambda(str, name="late").invoke(2)
        RunnableLambda(str, name="later").invoke(3)
    assert chains.seen == ["began late", "ended", "began later", "ended"]


made: list[Any] = []


def follow(session: Any) -> None:
    """Follow no chain."""
    made.append(session)


@pytest.mark.usefixtures("own_followers")
def test_follower_of_a_module_that_is_imported_anew(tmp_path: Path) -> None:
    """What a module registers each time it is imported follows a session once, also where its function is another."""
    again = FunctionType(follow.__code__, follow.__globals__)
    for each in (follow, again):
        session_tree.register_follower(each)
    with use_cassette(tmp_path / "anew.yaml", mode="all") as session:
        RunnableLambda(str, name="early").invoke(1)
    assert made == [session]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("agent/model@1/ChatOpenAI", 'node "model", step 1'),
        ("agent/tools@2[0][1]/get_weather", 'node "tools", step 2, Send 0.1'),
        ("agent/model@-1#3", 'node "model", step -1, attempt 3'),
        ("RunnableSequence/ChatOpenAI", None),
    ],
)
def test_node_in_words(address: str, words: str | None) -> None:
    """An address below a graph names its innermost node and superstep in words."""
    assert place_in_words(address) == words


def test_call_after_a_cancelled_one_has_an_address_of_its_own(world: World, tmp_path: Path) -> None:
    """A model that streams because somebody listens is not taken for the one whose call was cancelled before."""

    class Silent(FakeChat):
        """A model that begins to stream, and never says anything."""

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            return self.result(messages)

        async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            await asyncio.Event().wait()
            yield None

    silent, speaking = Silent(world=world), StreamingChat(world=world)

    async def body(question: str) -> str:
        try:
            async with asyncio.timeout(0.01):
                await silent.ainvoke(question)
        except TimeoutError:
            return (await speaking.ainvoke(question)).text
        return "in time"

    async def listen() -> list[str]:
        return [event["name"] async for event in RunnableLambda(body).astream_events("Hello?", version="v2")]

    with use_cassette(tmp_path / "c.yaml", mode="once") as session:
        asyncio.run(listen())
    assert [call.address for call in session.interactions] == ["body~1/Silent", "body~1/StreamingChat"]


# -- chains with configurable parts --------------------------------------------------------------------------------

USERS = ["ann", "ben", "cem"]


def chain_of(world: World) -> Any:
    """A chain that asks the same for every session."""
    model = PlainChat(world=world)

    def answer(question: str) -> str:
        return str(model.invoke(question).content)

    return RunnableLambda(answer)


def config_of(user: str) -> RunnableConfig:
    """The config of a session."""
    return {"configurable": {"session_id": user}}


def in_turn(chain: Any, users: Sequence[str]) -> dict[str, str]:
    """One session after the other."""
    return {user: chain.invoke("Hello?", config_of(user)) for user in users}


def by_gather(chain: Any, users: Sequence[str]) -> dict[str, str]:
    """All at once."""

    async def converse() -> list[str]:
        return await asyncio.gather(*(chain.ainvoke("Hello?", config_of(user)) for user in users))

    return dict(zip(users, asyncio.run(converse()), strict=True))


@pytest.mark.parametrize("drive", [in_turn, by_gather])
def test_sessions_keep_their_answers(
    drive: Callable[[Any, Sequence[str]], dict[str, str]], world: World, twice: Twice
) -> None:
    """Chains with different configurable values that ask the same keep their answers in another order."""
    recorded = twice.record(lambda: drive(chain_of(world), USERS))
    assert "metadata:\n  session_id: ben\n" in twice.path.read_text()
    with twice.replays():
        assert drive(chain_of(world), USERS[::-1]) == recorded


def test_chains_without_a_config_leave_no_step(world: World, tmp_path: Path) -> None:
    """A chain that is given nothing configurable is recorded by its calls alone."""
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        chain_of(world).invoke("Hello?")
    assert "step:" not in file.read_text()
