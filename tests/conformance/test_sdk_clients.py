"""The real OpenAI client over the transports, against the example's server: recorded and replayed equal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from examples.weather_agent.server import OpenAILoopback

from agenttape_core import use_cassette
from agenttape_core.transports.httpx2 import AsyncTapeTransport, TapeTransport

from ..core.transports.faces import settled
from ..core.transports.service import JSON, Answer, Service

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUESTION: list[Any] = [{"role": "user", "content": "How are you in Zürich?"}]
KEY = "sk-" + "proj-" + "A1b2C3d4E5f6G7h8I9j0K1l2"


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAILoopback]:
    """A running server that answers differently every time."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with import_module("weather_agent.server").OpenAILoopback() as server:
        yield server


def run(base_url: str, key: str, *, taped: bool = True) -> list[Any]:
    """Ask for a completion and a stream, with a failure that the client tries again after."""
    with httpx2.Client(transport=TapeTransport() if taped else None, verify=False) as http:
        client = openai.OpenAI(base_url=base_url, api_key=key, http_client=http)
        plain = client.chat.completions.create(model="gpt-5-mini", messages=QUESTION)
        stream = client.chat.completions.create(model="gpt-5-mini", messages=QUESTION, stream=True)
        return [plain.model_dump(), [chunk.model_dump() for chunk in stream]]


async def run_async(base_url: str, key: str, *, taped: bool = True) -> list[Any]:
    """Do the same with the async client."""
    async with httpx2.AsyncClient(transport=AsyncTapeTransport() if taped else None, verify=False) as http:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=key, http_client=http)
        plain = await client.chat.completions.create(model="gpt-5-mini", messages=QUESTION)
        stream = await client.chat.completions.create(model="gpt-5-mini", messages=QUESTION, stream=True)
        return [plain.model_dump(), [chunk.model_dump() async for chunk in stream]]


@pytest.mark.parametrize("taped", [True, False], ids=["transport", "automatic"])
async def test_completions(loopback: OpenAILoopback, *, taped: bool) -> None:
    """A completion and a stream are recorded once; the replay needs no server and no key, sync or async.

    It is the same recording whether the client has a transport that tapes or the session tapes all clients.
    """
    loopback.fail_next(503)
    with use_cassette("c", mode="once", http=not taped) as session:
        recorded = run(loopback.base_url, KEY, taped=taped)
    loopback.stop()
    assert [item.request["body"].get("stream") for item in session.interactions] == [None, None, True]
    assert session.interactions[0].request["messages"] == QUESTION
    assert KEY not in session.path.read_text()
    with use_cassette("c", http=taped):
        assert run(loopback.base_url, "any", taped=not taped) == recorded
    with use_cassette("c"):
        assert await run_async(loopback.base_url, "any", taped=taped) == recorded


@pytest.mark.parametrize("taped", [True, False], ids=["transport", "automatic"])
async def test_async_completions(loopback: OpenAILoopback, *, taped: bool) -> None:
    """What the async client recorded serves it again, and the sync one."""
    with use_cassette("c", mode="once", http=not taped):
        recorded = await run_async(loopback.base_url, KEY, taped=taped)
    loopback.stop()
    with use_cassette("c"):
        assert await run_async(loopback.base_url, "any", taped=taped) == recorded
    with use_cassette("c"):
        assert run(loopback.base_url, "any", taped=taped) == recorded


async def test_waits_between_attempts(loopback: OpenAILoopback) -> None:
    """After a recorded failure the SDK tries again at once, and the frozen clock passes by as long as it was told."""

    def ask() -> Any:
        client = openai.OpenAI(base_url=loopback.base_url, api_key=KEY, max_retries=1)
        return client.embeddings.create(model="text-embedding-3-small", input="hi").data

    async def ask_async() -> Any:
        client = openai.AsyncOpenAI(base_url=loopback.base_url, api_key=KEY, max_retries=1)
        return (await client.embeddings.create(model="text-embedding-3-small", input="hi")).data

    loopback.fail_next(429)
    with use_cassette("c", mode="once", http=True) as session:
        recorded = ask()
    loopback.stop()
    assert isinstance(session.path, Path)
    text = session.path.read_text("utf-8")
    session.path.write_text(text.replace('retry-after-ms: "1"', 'retry-after-ms: "45000"'), "utf-8")
    for replay in (ask, ask_async):
        with use_cassette("c"):
            began = time.time()
            assert await settled(replay()) == recorded
            assert time.time() - began >= 45


def test_another_sdk(tmp_path: Path) -> None:
    """Anthropic's client is recorded as it is, with its errors as its own."""

    def ask() -> list[Any]:
        client = anthropic.Anthropic(base_url=service.url, api_key="sk-any", max_retries=0)
        message = client.messages.create(model="claude-of-tomorrow", max_tokens=9, messages=QUESTION)
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.models.retrieve("none")
        return [message.model_dump(), str(caught.value)]

    content = [{"type": "text", "text": "Hello"}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "usage": usage}
    with Service() as service:
        service.answers["/v1/messages"] = Answer(json.dumps(message).encode(), JSON)
        service.answers["/v1/models/none"] = Answer(b'{"error": {"message": "no such model"}}', JSON, status=404)
        with use_cassette("c", mode="once", http=True):
            recorded = ask()
    with use_cassette("c"):
        assert ask() == recorded


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


def test_a_replay_saves_what_a_bare_client_cost(
    loopback: OpenAILoopback, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary of pytest counts the price of requests to models over plain HTTP, and no other requests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("BASE_URL", loopback.base_url)
    pytester.makepyfile(
        test_it="""
        import os, httpx2, openai, pytest

        @pytest.mark.cassette(http=True, check_replay=False)
        def test_it():
            client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key="sk-any")
            asked = [{"role": "user", "content": "How are you?"}]
            for model in ("gpt-5-mini", "nobody-knows"):
                assert client.chat.completions.create(model=model, messages=asked).usage.total_tokens
            httpx2.get(os.environ["BASE_URL"] + "/other")
    """
    )
    words = ("-p", "agenttape_core.pytest_plugin", "-p", "no:cacheprovider", "-W", "ignore")
    pytester.runpytest_inprocess(*words, "--cassette-mode=once").assert_outcomes(passed=1)
    replayed = pytester.runpytest_inprocess(*words)
    replayed.stdout.fnmatch_lines(
        ["1 cassette replayed, 3 calls; saved * s and about $0.0* (1 call of models without a known price)"]
    )
