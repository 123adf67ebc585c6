"""Recorded calls of LangChain's agents are changed in LangChain's own terms, in each way that an agent is run."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from agenttape_core import awhat_if, cut, edits, raises, returns, use_cassette, what_if
from agenttape_core.errors import ConfigurationError

from .fakes import NativeChat, PlainChat, StreamingChat, World, calling, recorded_runs

QUESTION = {"messages": [("user", "Book a table.")]}
WORLD = World()


def booking(messages: Sequence[BaseMessage], _: int) -> AIMessage:
    """Search, book, and say so."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    if len(results) < 2:
        return calling((("search", "book")[len(results)], {"place": "Luigi"}), number=len(results))
    return AIMessage(f"Booked: {results[-1].text}")


@tool
def search(place: str) -> str:
    """Find a place."""
    return f"{place} is open, {WORLD.reach('search')}"


@tool(response_format="content_and_artifact")
def book(place: str) -> tuple[str, int]:
    """Book a table."""
    return f"{place} at eight", WORLD.reach("book")


TOOLS: list[BaseTool] = [search, book]
RETRYING = (ModelRetryMiddleware(initial_delay=0), ToolRetryMiddleware(initial_delay=0))


@pytest.fixture(autouse=True)
def _nothing_is_done() -> Iterator[None]:
    yield
    assert WORLD.trespasses == []


def agent(model: type[Any] = PlainChat, middleware: Sequence[Any] = ()) -> Any:
    return create_agent(model(world=WORLD, reply=booking), TOOLS, middleware=middleware)


def final(messages: Sequence[BaseMessage]) -> str:
    return messages[-1].text


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of an agent, and one that streams its tokens; the world is gone then."""
    return recorded_runs(tmp_path_factory.mktemp("what_if"), agent(), agent(StreamingChat), QUESTION, WORLD)


@pytest.mark.parametrize("number", [1, 4], ids=["a model", "a tool"])
async def test_a_retry_gets_the_recording(recorded: dict[str, Path], number: int) -> None:
    """Any call that fails once is tried again by the agent's middleware, sync and async, and no tool is executed."""
    changes = {number: raises(TimeoutError("slow"))}
    retrying = agent(middleware=RETRYING)
    for found in (
        what_if(recorded["plain"], lambda: final(retrying.invoke(QUESTION)["messages"]), changes),
        await awhat_if(recorded["plain"], lambda: retrying.ainvoke(QUESTION), changes),
    ):
        assert ([one.number for one in found.reached], found.raised, found.is_same) == ([number], None, True)
        assert [one.number for one in found.retried] == [number]
    failed = what_if(recorded["plain"], lambda: agent().invoke(QUESTION), changes)
    assert isinstance(failed.raised, TimeoutError)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({5: returns("Done.")}, "Done."),
        ({5: returns(AIMessage("Sure."))}, "Sure."),
        ({5: edits(lambda message: AIMessage(message.text.upper()))}, "BOOKED: LUIGI AT EIGHT"),
        ({3: returns("I cannot.")}, "I cannot."),
        ({"chat": returns(calling(number=9, text="At once."))}, "At once."),
    ],
)
def test_answers_of_models(recorded: dict[str, Path], change: Any, expected: str) -> None:
    """A text or a message is the answer of a model; an editing function gets the message."""
    found = what_if(recorded["plain"], lambda: final(agent().invoke(QUESTION)["messages"]), change)
    assert (found.result, found.new) == (expected, ())


@pytest.mark.parametrize(
    ("change", "content"),
    [
        ({"search": returns("closed")}, "closed"),
        ({"**/search": returns(ToolMessage("gone", tool_call_id="?"))}, "gone"),
        ({"book": returns("no table")}, "no table"),
        ({"book": returns(("a table", 7))}, "a table"),
        ({"book": edits(lambda pair: (pair[0].upper(), pair[1]))}, "LUIGI AT EIGHT"),
    ],
)
def test_answers_of_tools(recorded: dict[str, Path], change: Any, content: str) -> None:
    """A tool returns what its function would, with an artifact or without; the next model call has moved by that."""
    found = what_if(recorded["plain"], lambda: agent().invoke(QUESTION)["messages"], change, on_new_call="address")
    (landed,) = found.reached
    answer = next(one for one in found.result if isinstance(one, ToolMessage) and one.name == landed.name and one.text)
    assert (answer.text, answer.tool_call_id) == (content, f"call_{landed.number // 2 - 1}_0")
    assert {one.kind for one in found.changed} == {"chat"}


def test_a_stream_is_cut(recorded: dict[str, Path]) -> None:
    """A stream of tokens breaks after so many, in a stream and in an answer that is made of it."""
    got: list[str] = []

    def streaming() -> None:
        got.clear()
        for chunk, _ in agent(NativeChat).stream(QUESTION, stream_mode="messages"):
            got.append(chunk.text)

    with use_cassette(recorded["streamed"], on_unused="ignore") as session:
        chunks = len(session.interactions[-1].outcome.chunks or ())
    found = what_if(recorded["streamed"], streaming, {5: cut(after=2)})
    assert (isinstance(found.raised, ConnectionError), got[-2:], chunks > 3) == (True, ["Booked:", " Luigi"], True)
    plain = what_if(recorded["streamed"], lambda: agent(NativeChat).invoke(QUESTION), {5: cut(after=2)})
    assert isinstance(plain.raised, ConnectionError)
    edited = what_if(recorded["streamed"], streaming, {5: returns("All in one.")})
    assert (edited.raised, got[-1]) == (None, "All in one.")


def test_other_terms(recorded: dict[str, Path]) -> None:
    """An answer that is none for a model is refused, whatever the agent makes of the error."""
    with pytest.raises(ConfigurationError, match=r"the change of interaction 1, .*expected a text or a message"):
        what_if(recorded["plain"], lambda: agent(middleware=RETRYING).invoke(QUESTION), {1: returns(7)})
