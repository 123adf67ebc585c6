"""Anthropic's real client, alone and within LlamaIndex: recorded against a loopback service, replayed without it.

`make openai` runs them, with its older clients. That of LangChain stands in `tests/langchain/providers`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette

pytest.importorskip("llama_index.llms.anthropic")
pytest.importorskip("llama_index.llms.openai")

import anthropic
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.openai import OpenAI

from ..langchain.providers.loopback import Answer, Loopback
from ..langchain.providers.messages_api import MessagesWire
from ..llamaindex.openai_packages.service import service as openai_service

pytestmark = pytest.mark.filterwarnings("ignore")
QUESTION: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
SAID = [ChatMessage(role="user", content="What is the weather in Paris?")]
TOOL: Any = {"name": "look_up", "description": "", "input_schema": {"type": "object", "properties": {"city": {}}}}
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}
MODEL = "claude-sonnet-4-5"


class Soon(MessagesWire):
    """A service whose failures may be followed by another attempt at once."""

    def failure(self, status: int, message: str) -> Answer:
        """Answer with an error object."""
        failed = super().failure(status, message)
        return dataclasses.replace(failed, headers={**failed.headers, "retry-after": "0.01"})


def replayed(program: Callable[[str], Any], path: Path, *failures: int, **options: Any) -> tuple[Any, Any]:
    """Record a program, replay it without the service, and compare; return what it got, and the report.

    Args:
        program: Gets the URL of the service.
        path: The cassette.
        failures: The statuses of the first answers.
        options: Those of the session that records.
    """
    with Loopback(Soon()) as service:
        for status in failures:
            service.fail_next(status, "slow down")
        with use_cassette(path, mode="all", **options):
            first = program(service.url)
    with use_cassette(path) as session:
        assert program(service.url) == first
    return first, session.report


async def of_the_client(url: str) -> list[Any]:
    """Use the client without any framework."""
    found: list[Any] = []
    with anthropic.Anthropic(base_url=url, api_key="x") as client:
        ask = partial(client.messages.create, model=MODEL, max_tokens=2000, messages=QUESTION)
        found += [ask().to_dict(), ask(tools=[TOOL]).to_dict(), ask(thinking=THINKING).to_dict()]
        with ask(stream=True, tools=[TOOL], thinking=THINKING) as events:
            found.append([event.to_dict() for event in events])
        with client.messages.stream(model=MODEL, max_tokens=2000, messages=QUESTION) as stream:
            found += [list(stream.text_stream), stream.get_final_message().to_dict()]
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x") as other:
        events = await other.messages.create(model=MODEL, max_tokens=9, messages=QUESTION, stream=True)
        found.append([event.to_dict() async for event in events])
    return found


@pytest.mark.parametrize("failures", [(), (429, 529)])
def test_the_client(tmp_path: Path, failures: tuple[int, ...]) -> None:
    """With `http=True`, messages, events, tools and thoughts come again, and so do attempts after errors."""
    _, report = replayed(lambda url: asyncio.run(of_the_client(url)), tmp_path / "a.yaml", *failures, http=True)
    assert len(report.replayed) == 6 + len(failures)


def look_up(city: str) -> str:
    """Look up the weather."""
    return f"sunny in {city}"


def llm_of(url: str, **options: Any) -> Anthropic:
    """Return LlamaIndex's LLM."""
    return Anthropic(model=MODEL, base_url=url, api_key="x", **options)


async def answered(llm: Any, *, streaming: bool) -> str:
    """Return the answer of an agent."""
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(look_up)], llm=llm, streaming=streaming)
    return str(await agent.run("What is the weather in Paris?"))


async def of_llama_index(url: str) -> list[Any]:
    """Use the LLM in each of its ways."""
    llm, thinker = llm_of(url), llm_of(url, max_tokens=4000, temperature=1, thinking_dict=THINKING)
    thought = thinker.chat(SAID)
    chats = [
        llm.chat(SAID),
        await llm.achat(SAID),
        *llm.stream_chat(SAID),
        *[chunk async for chunk in await llm.astream_chat(SAID)],
        thought,
        *thinker.stream_chat(SAID),
        thinker.chat([*SAID, thought.message, ChatMessage(role="user", content="Why?")]),
        llm.chat_with_tools([FunctionTool.from_defaults(look_up)], user_msg="What?"),
    ]
    agents = [await answered(llm, streaming=streaming) for streaming in (False, True)]
    return [*(chat.model_dump(mode="json") for chat in chats), llm.complete("What?").text, *agents]


def test_llama_index(tmp_path: Path) -> None:
    """Messages, chunks, thoughts with their signatures, tool calls and agents come again."""
    _, report = replayed(lambda url: asyncio.run(of_llama_index(url)), tmp_path / "a.yaml")
    assert (len(report.replayed), report.recorded) == (15, ())


@pytest.mark.parametrize("status", [429, 529])
@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "agent"])
def test_errors_in_llama_index(tmp_path: Path, status: int, retries: int, way: str) -> None:
    """An error is raised again as its own type; one that the client has tried again after is in no recording."""

    async def asked(llm: Any) -> Any:
        if way == "agent":
            return await answered(llm, streaming=False)
        answer = getattr(llm, way)(SAID)
        return str(await answer) if way == "achat" else list(map(str, answer)) if way == "stream_chat" else str(answer)

    def program(url: str) -> Any:
        try:
            return asyncio.run(asked(llm_of(url, max_retries=retries)))
        except anthropic.APIStatusError as error:
            return type(error), str(error), error.status_code, error.response.headers["retry-after"]

    found, report = replayed(program, tmp_path / "a.yaml", status)
    assert isinstance(found, tuple) == (retries == 0)
    assert report.recorded == ()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("name", [f"anthropic:{MODEL}", "openai:gpt-4o-mini"])
def test_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, by_name: bool, streaming: bool
) -> None:
    """An agent of one provider tries the other: tools are offered in its form and held still, and the end replays."""
    with Loopback(Soon()) as service, openai_service() as other:
        kinds: dict[str, Callable[[], Any]] = {
            "anthropic": lambda: llm_of(service.url, max_retries=0),
            "openai": lambda: OpenAI(model="gpt-4o-mini", api_base=other.base_url, api_key="x", max_retries=0),
        }
        for provider, url in (("ANTHROPIC", service.url), ("OPENAI", other.base_url)):
            monkeypatch.setenv(f"{provider}_BASE_URL", url)
            monkeypatch.setenv(f"{provider}_API_BASE", url)
            monkeypatch.setenv(f"{provider}_API_KEY", "x")
        candidate = kinds[name.partition(":")[0]]
        (own,) = [kind for kind in kinds.values() if kind is not candidate]
        with use_cassette(tmp_path / "a.yaml", mode="all"):
            asyncio.run(answered(own(), streaming=streaming))
        tried = name if by_name else candidate()
        with use_cassette(tmp_path / "a.yaml", candidate=tried, to=tmp_path / "b.yaml") as session:
            found = asyncio.run(answered(own(), streaming=streaming))
    assert [call.kind for call in session.report.recorded] == ["chat", "chat"]
    assert [unrecorded.name for unrecorded in session.report.unrecorded] == ["look_up"]
    with use_cassette(tmp_path / "b.yaml") as session:
        assert asyncio.run(answered(own(), streaming=streaming)) == found
    assert len(session.report.replayed) == 3
