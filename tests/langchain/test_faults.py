"""Each recorded call of LangChain's agents fails in each way; the matrix says what the agent makes of it."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agenttape_core import returns, what_if
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import FaultKind, afaults, faults
from agenttape_core.experiments.strategies.fault_kinds import Trouble, provider_error
from agenttape_core.results import FaultMatrix

from .fakes import NativeChat, PlainChat, StreamingChat, World, in_turn, recorded_runs

QUESTION = {"messages": [("user", "Book a table.")]}
WORLD = World()
KINDS = ["rate_limit", "timeout:always", "cut_stream", "cut_tool_call", "empty", "tool_error", "inject"]


booking = in_turn([("search", {"place": "Luigi"})], then="Booked {last}")
"""Search, and say what was found."""


@tool
def search(place: str) -> str:
    """Find a place."""
    return f"{place}, {WORLD.reach('search')}"


RETRYING = (
    ModelRetryMiddleware(initial_delay=0, on_failure="error"),
    ToolRetryMiddleware(initial_delay=0, on_failure="error"),
)


def agent(model: type[Any] = PlainChat, middleware: Sequence[Any] = ()) -> Any:
    return create_agent(model(world=WORLD, reply=booking), [search], middleware=middleware)


@pytest.fixture(autouse=True)
def _nothing_is_done() -> Iterator[None]:
    yield
    assert WORLD.trespasses == []


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of an agent, and one that streams its tokens; the world is gone then."""
    return recorded_runs(tmp_path_factory.mktemp("faults"), agent(), agent(StreamingChat), QUESTION, WORLD)


def verdicts(matrix: FaultMatrix) -> dict[str, str]:
    """Return the verdicts of each kind, a letter for each call that can fail like that."""
    marks = {"recovered": "r", "silent": "S", "raised": "x", "new_call": "a", "not_reached": "?"}
    found: dict[str, str] = {}
    for cell in matrix.cells:
        found[cell.fault] = found.get(cell.fault, "") + marks[cell.verdict]
    return found


BARE = {"rate_limit": "xxx", "timeout:always": "xxx", "cut_tool_call": "S", "empty": "SaS"}
BARE |= {"tool_error": "x", "inject": "a", "note": "a"}
CAREFUL = {**BARE, "rate_limit": "rrr", "tool_error": "r"}


@pytest.mark.parametrize(("middleware", "expected"), [((), BARE), (RETRYING, CAREFUL)], ids=["bare", "retrying"])
async def test_matrix(recorded: dict[str, Path], middleware: Sequence[Any], expected: dict[str, str]) -> None:
    """The matrix is the same for a sync and an async run: a cut tool call ends the agent silently, a retry recovers."""
    tried = agent(middleware=middleware)
    runs: list[None] = []

    def run() -> list[str]:
        return [message.text for message in tried.invoke(QUESTION)["messages"]]

    async def arun() -> list[str]:
        return [message.text for message in (await tried.ainvoke(QUESTION))["messages"]]

    found = faults(run, recorded["plain"], KINDS, on_run=lambda: runs.append(None))
    assert verdicts(found) == expected
    assert len(runs) == len(found.cells) + 2, "a plain one and a control besides"
    assert verdicts(await afaults(arun, recorded["plain"], KINDS)) == expected


def test_matrix_of_streams(recorded: dict[str, Path]) -> None:
    """A cut stream is one of the faults; the chunks that came before a retry are seen by the program."""

    def run() -> str:
        retrying = agent(NativeChat, RETRYING)
        return "".join(chunk.text for chunk, _ in retrying.stream(QUESTION, stream_mode="messages"))

    found = verdicts(faults(run, recorded["streamed"], KINDS))
    assert found == {**CAREFUL, "cut_stream": "rS", "cut_tool_call": "a"}


@pytest.mark.sweep
@pytest.mark.parametrize("client", [openai, anthropic])
@pytest.mark.parametrize("trouble", ["rate_limit", "timeout", "connection_reset", "broken_stream"])
def test_errors_of_clients(recorded: dict[str, Path], client: Any, trouble: Trouble) -> None:
    """A recorded class of a provider fails with an error of its client, with the attributes that programs look at."""

    def _raising(error: Exception) -> Any:
        from agenttape_core import raises

        return raises(error)

    name = {openai: "AzureChatOpenAI", anthropic: "ChatAnthropic"}[client]
    error: Any = provider_error(trouble, name)
    kind = FaultKind("mine", lambda item: item.kind == "chat", lambda _: _raising(error))
    seen: list[BaseException] = []

    def run() -> str:
        try:
            return str(agent().invoke(QUESTION)["messages"][-1].text)
        except Exception as raised:
            seen.append(raised)
            raise

    assert set(verdicts(faults(run, recorded["plain"], [kind]))["mine"]) == {"x"}
    own = {"rate_limit": client.RateLimitError, "timeout": client.APITimeoutError}
    own |= {"connection_reset": client.APIConnectionError, "broken_stream": httpx.RemoteProtocolError}
    assert {type(raised) for raised in seen} == {own[trouble]}
    raised: Any = seen[0]
    assert raised.request.url.host.startswith("api.")
    if trouble == "rate_limit":
        assert (raised.status_code, raised.response.headers["retry-after"]) == (429, "1")
    assert isinstance(provider_error("timeout", "FakeChat"), TimeoutError)


def test_documents() -> None:
    """A message and a document are damaged in their own ways."""
    from agenttape_core.interventions import damaged

    assert damaged("add", Document("text"), "more").page_content == "text\nmore"
    assert damaged("empty", [Document("text")]) == []
    message = AIMessage([{"type": "text", "text": "a"}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}])
    message.tool_calls = [{"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}]
    cut = damaged("cut_tool_call", message)
    assert (cut.tool_calls, cut.invalid_tool_calls[0]["args"]) == ([], '{"x"')
    assert [block["type"] for block in cut.content] == ["text"]
    assert damaged("malformed_tool_call", message).tool_calls[0]["args"] == {}
    with pytest.raises(ConfigurationError, match="an answer of the type AIMessage cannot be damaged in this way"):
        damaged("cut_tool_call", AIMessage("no call"))


def test_refused(recorded: dict[str, Path]) -> None:
    """A run that fails without a fault, or is not the same again, is refused before anything fails."""
    with pytest.raises(ConfigurationError, match="the run fails without a fault, so faults would show nothing"):
        faults(lambda: agent().invoke({"messages": [("user", "Else.")]}), recorded["plain"])
    with pytest.raises(ConfigurationError, match="there is no kind 'timout'"):
        faults(lambda: agent().invoke(QUESTION), recorded["plain"], ["timout"])
    assert what_if(recorded["plain"], lambda: agent().invoke(QUESTION), {3: returns("x")}).raised is None
