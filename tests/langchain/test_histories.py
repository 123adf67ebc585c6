"""Chat message histories are recorded, reads and writes, and replayed without the place they keep messages in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_langchain import tape

from .fakes import PlainChat

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .fakes import World


class RemoteHistory(BaseChatMessageHistory):
    """Keeps its messages somewhere else, in `kept` by session."""

    def __init__(self, world: World, kept: dict[str, list[BaseMessage]], session_id: str = "1") -> None:
        self.world = world
        self.kept = kept
        self.session_id = session_id

    @property
    def messages(self) -> list[BaseMessage]:
        """Read them."""
        self.world.reach("read")
        return list(self.kept.get(self.session_id, []))

    @messages.setter
    def messages(self, messages: list[BaseMessage]) -> None:
        self.kept[self.session_id] = messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.world.reach("add")
        self.kept.setdefault(self.session_id, []).extend(messages)

    def clear(self) -> None:
        self.world.reach("clear")
        self.kept.pop(self.session_id, None)


class OneByOne(RemoteHistory):
    """Implements the other of the two ways of adding."""

    add_messages = BaseChatMessageHistory.add_messages

    def add_message(self, message: BaseMessage) -> None:
        self.world.reach("add")
        self.kept.setdefault(self.session_id, []).append(message)


class Native(RemoteHistory):
    """Has asynchronous methods of its own."""

    async def aget_messages(self) -> list[BaseMessage]:
        await asyncio.sleep(0)
        return self.messages

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await asyncio.sleep(0)
        self.add_messages(messages)


class InProcess(BaseChatMessageHistory):
    """Keeps its messages in a list."""

    def __init__(self) -> None:
        self.messages = []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.messages = [*self.messages, *messages]

    def clear(self) -> None:
        self.messages = []


async def every_call(history: Any) -> list[Any]:
    """The results of the methods of the interface."""
    return [
        history.add_message(HumanMessage("a", id="1")),
        history.add_user_message("b"),
        history.add_ai_message(AIMessage("c", additional_kwargs={"x": 1})),
        history.add_messages([HumanMessage("d"), AIMessage("e")]),
        history.messages,
        str(history),
        await history.aadd_messages([HumanMessage("f")]),
        await history.aget_messages(),
        history.clear(),
        history.messages,
        await history.aclear(),
    ]


@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", [RemoteHistory, OneByOne, Native])
async def test_history_replays(cls: Any, way: str, world: World, tmp_path: Path) -> None:
    """Each call is one recording; a replay reads what was recorded, and nothing is reached."""
    path, automatic = tmp_path / "history.yaml", way != "taped"

    def history() -> Any:
        return cls(world, {}) if way == "automatic" else tape(cls(world, {}))

    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await every_call(history())
    assert [(row.kind, row.name) for row in recording.interactions] == [("memory", cls.__name__)] * 11
    assert [message.content for message in recorded[7]] == ["a", "b", "c", "d", "e", "f"]
    world.gone = True
    for _ in range(2):
        with use_cassette(path, auto=automatic) as replay:
            assert await every_call(history()) == recorded
        assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_request_names_method_messages_and_conversation(world: World, tmp_path: Path) -> None:
    """The request says what is added to which conversation; one message is a list of one."""
    with use_cassette(tmp_path / "history.yaml", mode="all") as recording:
        RemoteHistory(world, {}).add_message(HumanMessage("a"))
        RemoteHistory(world, {}).add_messages([HumanMessage("a")])
        assert RemoteHistory(world, {}).messages == []
    first, second, third = (row.request for row in recording.interactions)
    assert first == second
    assert first == {
        "method": "add_messages",
        "arguments": {"messages": [{"role": "user", "content": "a"}]},
        "settings": {"session_id": "1"},
    }
    assert third == {"method": "messages", "arguments": {}, "settings": {"session_id": "1"}}


def test_other_conversation_misses(world: World, tmp_path: Path) -> None:
    """The messages of one conversation are not replayed for another."""
    path = tmp_path / "history.yaml"
    with use_cassette(path, mode="all"):
        assert RemoteHistory(world, {}).messages == []
    world.gone = True
    with pytest.raises(CassetteMissError), use_cassette(path):
        assert RemoteHistory(world, {}, "2").messages == []


async def test_sync_serves_async_and_back(world: World, tmp_path: Path) -> None:
    """A recording of `messages` serves `aget_messages`, and the other way round."""
    path, history = tmp_path / "history.yaml", RemoteHistory(world, {"1": [HumanMessage("a")]})
    with use_cassette(path, mode="all"):
        recorded = [history.messages, await history.aget_messages()]
    world.gone = True
    with use_cassette(path):
        assert [await history.aget_messages(), history.messages] == recorded


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_conversation_replays(world: World, tmp_path: Path) -> None:
    """A chain with a history replays turn by turn without it."""
    path = tmp_path / "history.yaml"

    def run() -> list[Any]:
        kept: dict[str, list[BaseMessage]] = {}
        chain = RunnableWithMessageHistory(
            PlainChat(world=world), lambda session_id: RemoteHistory(world, kept, session_id)
        )
        config: Any = {"configurable": {"session_id": "7"}}
        return [chain.invoke("hello", config), chain.invoke("and now?", config)]

    with use_cassette(path, mode="all") as recording:
        recorded = run()
    assert [row.kind for row in recording.interactions] == ["memory", "chat", "memory", "memory"] * 2
    assert len(recording.interactions[5].request["messages"]) == 3
    world.gone = True
    with use_cassette(path) as replay:
        assert run() == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_errors_are_recorded(world: World, tmp_path: Path) -> None:
    """A history that cannot be read cannot be read on replay either."""

    class Failing(RemoteHistory):
        @property
        def messages(self) -> list[BaseMessage]:
            raise ConnectionError("down")

    for mode in ("all", "none"):
        with use_cassette(tmp_path / "history.yaml", mode=mode), pytest.raises(ConnectionError, match="down"):
            _ = Failing(world, {}).messages


def test_history_in_the_process_is_no_boundary(tmp_path: Path) -> None:
    """A history that keeps its messages in a list is the user's code: nothing of it is recorded, and `tape` says so."""
    with use_cassette(tmp_path / "history.yaml", mode="all") as recording:
        history = InProcess()
        history.add_user_message("a")
        assert len(asyncio.run(history.aget_messages())) == 1
    assert recording.interactions == []
    with pytest.raises(ConfigurationError, match="keeps its messages in the process"):
        tape(InProcess())


def test_taped_history_is_what_it_was(world: World) -> None:
    """A taped history is of its class, and its messages can be read and set outside sessions."""
    taped = tape(RemoteHistory(world, {}))
    assert isinstance(taped, RemoteHistory)
    assert tape(taped) is taped
    taped.messages = [HumanMessage("a")]
    taped.add_user_message("b")
    assert [message.content for message in taped.messages] == ["a", "b"]


def test_classes_are_left_as_they_were(tmp_path: Path) -> None:
    """After the last session no class of the framework or of a provider has changed."""
    classes: list[Any] = [BaseChatMessageHistory, RemoteHistory, OneByOne, Native, InProcess]
    before = [dict(vars(cls)) for cls in classes]
    with use_cassette(tmp_path / "history.yaml", mode="all"):
        assert vars(RemoteHistory)["messages"] is not before[1]["messages"]
        assert dict(vars(InProcess)) == before[4]
    assert [dict(vars(cls)) for cls in classes] == before
