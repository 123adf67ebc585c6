"""Which message of a request turns the answer of a chat model of LangChain, in each way of asking it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from agenttape_core import use_cassette
from agenttape_core.tools.why import why

from .fakes import NativeChat, World

PLANTED = "order 9981 is on its way"


def answer(messages: Any, _: int) -> AIMessage:
    """Say the order where a message holds it."""
    return AIMessage("Yes, 9981." if any(PLANTED in str(message.content) for message in messages) else "No idea.")


def conversation() -> list[Any]:
    """A conversation with the planted message."""
    call = {"name": "look_up", "args": {"who": "Ada"}, "id": "call_1"}
    told = [AIMessage("", tool_calls=[call]), ToolMessage(PLANTED, tool_call_id="call_1")]
    return [SystemMessage("Be kind."), HumanMessage("Where is it?"), *told, HumanMessage("Well?")]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_the_planted_message_is_found(project: Path, way: str) -> None:
    """The model is asked with messages left out, roles and ids kept; that of the tool turns its answer."""
    asked: list[Any] = []

    def reply(messages: Any, number: int) -> AIMessage:
        asked.append(messages)
        return answer(messages, number)

    model = NativeChat(world=World(), reply=reply)

    async def aprogram() -> str:
        if way == "ainvoke":
            return (await model.ainvoke(conversation())).text
        return "".join([chunk.text async for chunk in model.astream(conversation())])

    def program() -> str:
        if way == "invoke":
            return model.invoke(conversation()).text
        return "".join(chunk.text for chunk in model.stream(conversation()))

    run: Any = aprogram if way.startswith("a") else program
    with use_cassette("c", mode="all"):
        asyncio.run(aprogram()) if way.startswith("a") else program()
    asked.clear()
    found = why("c", run, text="9981", samples=1, max_usd=1.0).sampled
    assert found is not None
    assert [(one.at, one.text, one.without.said) for one in found.turned] == [("messages[3]", PLANTED, 0)]
    assert found.calls == len(asked) <= 12
    assert all(messages[2].tool_calls and messages[3].tool_call_id == "call_1" for messages in asked)
    assert any(messages[0].content == "…" for messages in asked)
