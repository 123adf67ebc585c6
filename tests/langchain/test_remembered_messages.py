"""Parts of requests are remembered by what messages hold now, never by which objects they are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import tape

from ..kit.replaying import Twice


def model() -> Any:
    """Return a model that answers once more than any test asks."""
    return tape(GenericFakeChatModel(messages=iter([AIMessage(str(number)) for number in range(200)])))


def conversation() -> list[AnyMessage]:
    """Return a conversation with a message of each kind that has a cheap key."""
    call = {"name": "look", "args": {"at": ["Paris"]}, "id": "call-1"}
    return [
        HumanMessage("Where is it?"),
        AIMessage("", tool_calls=[call], additional_kwargs={"seed": {"n": 1}}),
        ToolMessage("There.", tool_call_id="call-1"),
    ]


def _told_otherwise(messages: list[Any]) -> None:
    messages[0].content = "Where was it?"


def _named(messages: list[Any]) -> None:
    messages[0].name = "Ann"


def _deep_in_a_call(messages: list[Any]) -> None:
    messages[1].tool_calls[0]["args"]["at"].append("Rome")


def _deep_in_more(messages: list[Any]) -> None:
    messages[1].additional_kwargs["seed"]["n"] = True


def _failed(messages: list[Any]) -> None:
    messages[2].status = "error"


def _with_more(messages: list[Any]) -> None:
    messages[2].additional_kwargs["cached"] = True


@pytest.mark.parametrize("change", [_told_otherwise, _named, _deep_in_a_call, _deep_in_more, _failed, _with_more])
def test_changed_message_is_another_request(tmp_path: Path, change: Callable[[list[Any]], None]) -> None:
    """A message that the program changes in place after it was sent is never taken for what it was."""
    path, said, taped = tmp_path / "said.yaml", conversation(), model()
    with use_cassette(path, mode="all"):
        first = taped.invoke(said).content
        change(said)
        second = taped.invoke(said).content
    assert (first, second) == ("0", "1")
    again = conversation()
    with use_cassette(path):
        assert taped.invoke(again).content == "0"
        change(again)
        assert taped.invoke(again).content == "1"
    unknown = conversation()
    with pytest.raises(CassetteMissError, match="Anything"), use_cassette(path, on_unused="ignore"):
        assert taped.invoke(unknown).content == "0"
        unknown[0].content = "Anything new"
        taped.invoke(unknown)


def test_threads_remember_together(twice: Twice) -> None:
    """Threads that send the same and other messages at once get the answers of their own requests."""
    taped = model()
    names = [f"thread {number}" for number in range(4)]
    asked = {name: [*conversation(), HumanMessage(f"Who asks? {name}")] for name in names}
    recorded = twice.record(lambda: {name: taped.invoke(messages).content for name, messages in asked.items()})
    got: dict[str, set[Any]] = {name: set() for name in names}

    def ask(name: str, all_begun: threading.Barrier) -> None:
        all_begun.wait()
        for _ in range(20):
            got[name].add(taped.invoke(asked[name]).content)

    with twice.replays(on_repeat="last"):
        all_begun = threading.Barrier(len(names))
        threads = [threading.Thread(target=ask, args=(name, all_begun)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == {name: {answer} for name, answer in recorded.items()}
