"""A program that uses the package of OpenAI by itself, without a framework."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openai import OpenAI

from agenttape_core import open_cassette, use_cassette
from agenttape_core.checks import at_most, check, run_of

if TYPE_CHECKING:
    from examples.weather_agent.server import OpenAILoopback


@pytest.fixture
def client(server: OpenAILoopback) -> Iterator[OpenAI]:
    """A client of the model of the examples."""
    with OpenAI(base_url=server.base_url, api_key="any-text") as client:
        yield client


@pytest.mark.parametrize("streamed", [False, True])
def test_a_bare_sdk_has_model_tokens_and_answer(client: OpenAI, tmp_path: Path, streamed: bool) -> None:
    """A call that the SDK makes over HTTP has its answer and its tokens, and a budget judges it."""
    create: Any = client.chat.completions.create
    asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Hello"}]}
    with use_cassette(tmp_path / "bare.yaml", mode="record", http=True):
        if streamed:
            usage = [chunk.usage for chunk in create(**asked, stream=True, stream_options={"include_usage": True})][-1]
        else:
            usage = create(**asked).usage
    run = run_of(open_cassette(tmp_path / "bare.yaml"))
    assert (run.prompt, run.model, run.tokens) == ("Hello", "gpt-5-mini", usage.total_tokens)
    assert run.answer
    assert not run.uncounted
    with pytest.raises(AssertionError, match=f"{usage.total_tokens} tokens, and at most 3 tokens"):
        check(open_cassette(tmp_path / "bare.yaml"), at_most(tokens=3))
