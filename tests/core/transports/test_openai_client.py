"""The real OpenAI client over the transports, against the example's server: recorded and replayed equal."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

from agenttape_core import use_cassette
from agenttape_core.transports.httpx2 import AsyncTapeTransport, TapeTransport

if TYPE_CHECKING:
    from examples.weather_agent.server import OpenAILoopback

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
QUESTION: list[Any] = [{"role": "user", "content": "How are you in Zürich?"}]
KEY = "sk-" + "proj-" + "A1b2C3d4E5f6G7h8I9j0K1l2"


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAILoopback]:
    """A running server that answers differently every time."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with import_module("weather_agent.server").OpenAILoopback() as server:
        yield server


def run(base_url: str, key: str) -> list[Any]:
    """Ask for a completion and a stream, with a failure that the client tries again after."""
    with httpx2.Client(transport=TapeTransport()) as http:
        client = openai.OpenAI(base_url=base_url, api_key=key, http_client=http)
        plain = client.chat.completions.create(model="gpt-5-mini", messages=QUESTION)
        stream = client.chat.completions.create(model="gpt-5-mini", messages=QUESTION, stream=True)
        return [plain.model_dump(), [chunk.model_dump() for chunk in stream]]


async def run_async(base_url: str, key: str) -> list[Any]:
    """Do the same with the async client."""
    async with httpx2.AsyncClient(transport=AsyncTapeTransport()) as http:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=key, http_client=http)
        plain = await client.chat.completions.create(model="gpt-5-mini", messages=QUESTION)
        stream = await client.chat.completions.create(model="gpt-5-mini", messages=QUESTION, stream=True)
        return [plain.model_dump(), [chunk.model_dump() async for chunk in stream]]


async def test_completions(loopback: OpenAILoopback) -> None:
    """A completion and a stream are recorded once; the replay needs no server and no key, sync or async."""
    loopback.fail_next(503)
    with use_cassette("c", mode="once") as session:
        recorded = run(loopback.base_url, KEY)
    loopback.stop()
    assert [item.request["body"].get("stream") for item in session.interactions] == [None, None, True]
    assert session.interactions[0].request["messages"] == QUESTION
    assert KEY not in session.path.read_text()
    with use_cassette("c"):
        assert run(loopback.base_url, "any") == recorded
    with use_cassette("c"):
        assert await run_async(loopback.base_url, "any") == recorded


async def test_async_completions(loopback: OpenAILoopback) -> None:
    """What the async client recorded serves it again, and the sync one."""
    with use_cassette("c", mode="once"):
        recorded = await run_async(loopback.base_url, KEY)
    loopback.stop()
    with use_cassette("c"):
        assert await run_async(loopback.base_url, "any") == recorded
    with use_cassette("c"):
        assert run(loopback.base_url, "any") == recorded


def test_broken_stream(loopback: OpenAILoopback) -> None:
    """A stream that breaks gives the same chunks and the same error again."""

    def read() -> list[Any]:
        got: list[Any] = []
        with httpx2.Client(transport=TapeTransport()) as http:
            client = openai.OpenAI(base_url=loopback.base_url, api_key=KEY, http_client=http)
            stream = client.chat.completions.create(model="gpt-5-mini", messages=QUESTION, stream=True)
            with pytest.raises((httpx2.RemoteProtocolError, openai.APIConnectionError)) as caught:
                for chunk in stream:
                    got.append(chunk.model_dump())  # noqa: PERF401 - what came before the error is kept
        return [got, type(caught.value), str(caught.value)]

    loopback.cut_next_stream(2)
    with use_cassette("c", mode="once"):
        recorded = read()
    loopback.stop()
    with use_cassette("c"):
        assert read() == recorded
    assert len(recorded[0]) == 2
