"""Cassettes are quiet in a review: what is made anew for each recording changes the volatile block only."""

from __future__ import annotations

import asyncio
import difflib
import json
import random
import re
import string
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, SystemMessage, message_to_dict
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteNotFoundError
from agenttape_core.testing import stable_text
from agenttape_core.transports.httpx import TapeTransport

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),  # of LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


# -- Cassettes are quiet in a review: what a provider makes anew for each answer changes the volatile block only -------

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMPT = "You are a helpful assistant.\nAnswer in one sentence."
QUESTION = "What is the weather in Paris?"
ANSWER = "It is sunny in Paris."

Provider = Callable[[httpx.Request], httpx.Response]
Program = Callable[[Provider, str], Any]


def provider(seed: int) -> Provider:
    """A provider whose ids, counts, dates, fingerprints and headers follow from a seed; its words never change."""
    draw = random.Random(seed)

    def made(prefix: str, length: int) -> str:
        return prefix + "".join(draw.choice(string.ascii_letters + string.digits) for _ in range(length))

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)["messages"]
        call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        calls = {"tool_calls": [{"id": made("call_", 24), "type": "function", "function": call}]}
        is_last = any(message["role"] == "tool" for message in asked)
        tokens = {"prompt_tokens": draw.randint(50, 90), "completion_tokens": draw.randint(5, 40)}
        body = {
            "id": made("chatcmpl-", 29),
            "object": "chat.completion",
            "created": 1_750_000_000 + draw.randint(0, 10**6),
            "model": "gpt-4.1-2025-04-14",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": ANSWER if is_last else None,
                        **({} if is_last else calls),
                    },
                    "finish_reason": "stop" if is_last else "tool_calls",
                }
            ],
            "usage": {**tokens, "total_tokens": sum(tokens.values()), "prompt_tokens_details": {"cached_tokens": 0}},
            "system_fingerprint": made("fp_", 10),
        }
        headers = {"x-request-id": made("req_", 20), "openai-processing-ms": str(draw.randint(100, 900))}
        return httpx.Response(200, headers=headers, json=body)

    return answer


def get_weather(city: str) -> str:
    """Look up the weather in a city."""
    return f"sunny in {city}, 21 degrees"


def chat_model(serve: Provider) -> ChatOpenAI:
    """A real client of the provider."""
    return ChatOpenAI(model="gpt-4.1", api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(serve)))


def messages_of(state: dict[str, Any]) -> list[Any]:
    """Every message of a final state, whole."""
    return [message_to_dict(message) for message in state["messages"]]


def langchain(serve: Provider, prompt: str) -> Any:
    """An agent of LangChain: model, tool, model."""
    agent = create_agent(chat_model(serve), [get_weather], system_prompt=prompt)
    return messages_of(agent.invoke({"messages": [HumanMessage(QUESTION)]}))


def langgraph(serve: Provider, prompt: str) -> Any:
    """The same as a graph of LangGraph, put together by hand."""
    model = chat_model(serve).bind_tools([get_weather])

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke([SystemMessage(prompt), *state["messages"]])]}

    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "ask").add_conditional_edges("ask", tools_condition).add_edge("tools", "ask")
    return messages_of(graph.compile().invoke({"messages": [HumanMessage(QUESTION)]}))


def llamaindex(serve: Provider, prompt: str) -> Any:
    """The same as an agent of LlamaIndex."""
    client = import_module("library_agent.client")

    class Model(client.ServiceLLM):  # type: ignore[misc, name-defined]
        async def _achat(self, messages: Any, **kwargs: Any) -> Any:
            async with httpx.AsyncClient(transport=httpx.MockTransport(serve)) as http:
                return client._answer(await http.post(**self._request(messages, kwargs)))

    model = Model(base_url="http://127.0.0.1:1/v1")
    tools = [FunctionTool.from_defaults(get_weather)]
    agent = FunctionAgent(tools=tools, llm=model, system_prompt=prompt, timeout=None, streaming=False)

    async def run() -> Any:
        result = await agent.run(QUESTION)
        return str(result), [call.tool_id for call in result.tool_calls], result.raw

    return asyncio.run(run())


def over_http(serve: Provider, prompt: str) -> Any:
    """The same by requests of a client that belongs to no framework."""
    with httpx.Client(transport=TapeTransport(httpx.MockTransport(serve))) as client:

        def ask(*more: dict[str, Any]) -> dict[str, Any]:
            asked = [{"role": "system", "content": prompt}, {"role": "user", "content": QUESTION}, *more]
            found: dict[str, Any] = client.post("http://provider.test/v1/chat", json={"messages": asked}).json()
            return found

        first = ask()
        (call,) = first["choices"][0]["message"]["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": get_weather("Paris")}
        return first, ask(first["choices"][0]["message"], result)


PROGRAMS = pytest.mark.parametrize("program", [langchain, langgraph, llamaindex, over_http])
MADE = re.compile("(?:call_|chatcmpl-|fp_|req_)[A-Za-z0-9]{9}")
"""What a provider makes anew."""


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of the library agent can be imported, and nothing of a test stays imported."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def recorded(path: Path, program: Program, seed: int, prompt: str = PROMPT) -> str:
    """Record a program, and return the text of the cassette."""
    with use_cassette(path, mode="all"):
        program(provider(seed), prompt)
    return path.read_text("utf-8")


@PROGRAMS
def test_recorded_anew(tmp_path: Path, program: Program) -> None:
    """The same run with other ids, counts, fingerprints, dates and headers differs in the volatile block only."""

    def stable(text: str) -> str:
        """A cassette without its volatile block."""
        head, rest = text.split("---\n", 1)
        return head.split("volatile:\n")[0] + rest

    path = tmp_path / "run.yaml"
    first, second = recorded(path, program, 1), recorded(path, program, 2)
    assert first != second
    assert stable(first) == stable(second)
    assert MADE.search(stable(first)) is None
    for said in ("You are a helpful assistant.", QUESTION, ANSWER, "sunny in Paris, 21 degrees"):
        assert said in stable(first)


@PROGRAMS
def test_one_edit_of_a_prompt(tmp_path: Path, program: Program) -> None:
    """A prompt with one line edited, recorded anew with all that a provider makes anew, changes at most 25 lines."""

    def changed(before: str, after: str) -> list[str]:
        """The lines that `git diff` counts."""
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
        return [line for line in lines if line[:1] in "+-" and not line.startswith(("+++ ", "--- "))]

    path = tmp_path / "run.yaml"
    before = recorded(path, program, 1)
    lines = changed(before, recorded(path, program, 2, PROMPT.replace("helpful", "careful")))
    assert len(lines) <= 25
    assert any("You are a careful assistant." in line for line in lines)


@PROGRAMS
def test_replayed_bit_for_bit(tmp_path: Path, program: Program) -> None:
    """The program gets every id, count and date as it was recorded, whatever would be drawn now."""
    with use_cassette(tmp_path / "run.jsonl", mode="all"):
        real = program(provider(1), PROMPT)
    with use_cassette(tmp_path / "run.jsonl"):
        assert program(provider(2), PROMPT) == real


def test_an_answer_edited_by_hand(tmp_path: Path) -> None:
    """Words of an answer can be edited in the file, and an id be written in the place of a reference."""
    path = tmp_path / "run.yaml"
    text = recorded(path, langchain, 1)
    number = open_cassette(path).entries[-1].number
    edited = text.replace(ANSWER, "It rains in Paris.").replace(f"id: ${{{number}.id}}", "id: by-hand")
    assert edited != text
    path.write_text(edited, "utf-8")
    with use_cassette(path):
        last = langchain(provider(2), PROMPT)[-1]["data"]
    assert (last["content"], last["response_metadata"]["id"]) == ("It rains in Paris.", "by-hand")


# -- The text of a cassette without its volatile block -----------------------------------------------------------------

NAMES = ("run.yaml", "run.jsonl", "run.yaml.gz", "run.jsonl.gz")


def record(path: Path, text: str) -> None:
    """Record one call that returns a text."""
    with use_cassette(path, mode="all"):
        boundary("tool", name="tell")(lambda: text)()


@pytest.mark.parametrize("name", NAMES)
def test_same_run(tmp_path: Path, name: str) -> None:
    """Two recordings of the same run have the same stable text, without the time at which they were made."""
    texts = []
    for _ in range(2):
        record(tmp_path / name, "volatile:\n  not this one\n")
        texts.append(stable_text(tmp_path / name))
    assert texts[0] == texts[1]
    assert "created" not in texts[0]
    assert "not this one" in texts[0]


@pytest.mark.parametrize("name", NAMES)
def test_another_run(tmp_path: Path, name: str) -> None:
    """Another answer gives another stable text."""
    texts = []
    for answer in ("one", "other"):
        record(tmp_path / name, answer)
        texts.append(stable_text(tmp_path / name))
    assert texts[0] != texts[1]


def test_header_is_kept(tmp_path: Path) -> None:
    """Everything of the header but the volatile block stays."""
    with use_cassette(tmp_path / "run.yaml", mode="all", tags=["mine"]) as session:
        boundary("tool", name="tell")(lambda: "told")()
    whole = session.path.read_text(encoding="utf-8")
    header, _, records = whole.partition("volatile:\n")
    assert stable_text(session.path) == header + records[records.index("---\n") :]


def test_no_cassette(tmp_path: Path) -> None:
    """A cassette that is not there is reported as that."""
    with pytest.raises(CassetteNotFoundError):
        stable_text(tmp_path / "none.yaml")
