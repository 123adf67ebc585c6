"""Traffic of LlamaIndex's OpenAI packages, as vcrpy has recorded it, becomes cassettes that replay what they gave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

WHY = "LlamaIndex's OpenAI packages ask for an openai that this environment cannot have: run `make openai`"
openai_llms = pytest.importorskip("llama_index.llms.openai", reason=WHY)
openai_embeddings = pytest.importorskip("llama_index.embeddings.openai", reason=WHY)
httpx = pytest.importorskip("httpx", reason=WHY)

from llama_index.core import Document, VectorStoreIndex  # noqa: E402
from llama_index.core.agent.workflow import FunctionAgent  # noqa: E402
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from agenttape_core import use_cassette  # noqa: E402
from agenttape_llamaindex import ReplayLLM  # noqa: E402
from agenttape_llamaindex.importers import import_vcr  # noqa: E402

from .service import KEY, service  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated")  # the agent reads them

PICTURE = ImageBlock(image=b"\x89PNG\r\n\x1a\n" + b"a" * 16, image_mimetype="image/png")


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."


class Weather(BaseModel):
    """A weather."""

    city: str
    degrees: int


def user(text: str, *blocks: Any) -> list[ChatMessage]:
    """A conversation of one message."""
    return [ChatMessage(role="user", blocks=[TextBlock(text=text), *blocks])]


def agent(llm: Any, **options: Any) -> str:
    """The answer of an agent."""

    async def answer() -> str:
        running = FunctionAgent(tools=[get_weather], llm=llm, system_prompt="Be kind.", **options)
        return str(await running.run("Paris?"))

    return asyncio.run(answer())


def rag(llm: Any, embedding: Any) -> str:
    """The answer of a query engine over an index."""
    documents = [Document(text=text, id_=text[:1]) for text in ("The sky is blue.", "Grass is green.")]
    index = VectorStoreIndex.from_documents(documents, embed_model=embedding)
    return str(index.as_query_engine(llm=llm).query("Which colour is the sky?"))


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "chat": lambda llm, _: llm.chat(user("Why is the sky blue?")),
    "stream": lambda llm, _: list(llm.stream_chat(user("Why is the sky blue?"))),
    "conversation": lambda llm, _: llm.chat([ChatMessage(role="system", content="Be kind."), *user("Why?")]),
    "image": lambda llm, _: llm.chat(user("What is this?", PICTURE)),
    "tools": lambda llm, _: llm.chat_with_tools([FunctionTool.from_defaults(fn=get_weather)], user_msg="Paris?"),
    "structured": lambda llm, _: llm.as_structured_llm(Weather).chat(user("Paris?")),
    "agent": lambda llm, _: agent(llm),
    "agent that does not stream": lambda llm, _: agent(llm, streaming=False),
    "rag": rag,
}


class Tape:
    """The exchanges of a client, as vcrpy would have written them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.interactions: list[dict[str, Any]] = []
        self.sync = httpx.Client(event_hooks={"response": [self._note]})
        self.slow = httpx.AsyncClient(event_hooks={"response": [self._note_later]})

    def _note(self, response: Any) -> None:
        self._keep(response, response.read())

    async def _note_later(self, response: Any) -> None:
        self._keep(response, await response.aread())

    def _keep(self, response: Any, body: bytes) -> None:
        request = response.request
        sent = {"method": request.method, "uri": str(request.url), "body": request.content.decode(), "headers": {}}
        headers = {"content-type": [response.headers["content-type"]]}
        got = {"status": {"code": response.status_code}, "headers": headers, "body": {"string": body.decode()}}
        self.interactions.append({"request": sent, "response": got})
        self.path.write_text(json.dumps({"version": 1, "interactions": self.interactions}), encoding="utf-8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_vcrpy_recorded_replays(name: str, tmp_path: Path) -> None:
    """Every request is exact; a session and a stand-in serve each, and the program gets what it got."""
    program, source, target = PROGRAMS[name], Tape(tmp_path / "vcr.json"), tmp_path / "new.yaml"
    with service() as served:
        at = {"api_key": KEY, "api_base": served.base_url, "http_client": source.sync, "async_http_client": source.slow}
        models = openai_llms.OpenAI("gpt-4o-mini", **at), openai_embeddings.OpenAIEmbedding(**at)
        live = program(*models)
    report = import_vcr(source.path, target)
    assert [item.fidelity for item in report.items] == ["exact"] * len(source.interactions), str(report)
    with use_cassette(target, live={"tool"}) as session:
        assert program(openai_llms.OpenAI("gpt-4o-mini", api_key=KEY), models[1]) == live
    models_replayed = [row for row in session.report.replayed if row.kind in {"chat", "embeddings"}]
    assert len(models_replayed) == len(source.interactions)
    assert program(ReplayLLM(target), ReplayEmbeddingOf(target, models[1])) == live


def ReplayEmbeddingOf(target: Path, embedding: Any) -> Any:  # noqa: N802 - as the class that it makes
    """A stand-in for the embedding model of a cassette, if there is one in it."""
    from agenttape_llamaindex import ReplayEmbedding

    return ReplayEmbedding(target) if "kind: embeddings" in target.read_text(encoding="utf-8") else embedding


def written(folder: Path, *pairs: tuple[str, dict[str, Any], Any]) -> Path:
    """A cassette of vcrpy, of requests and answers."""
    found = [
        {
            "request": {"method": "POST", "uri": url, "body": json.dumps(request), "headers": {}},
            "response": {
                "status": {"code": 200},
                "headers": {"content-type": ["text/event-stream" if isinstance(body, str) else "application/json"]},
                "body": {"string": body if isinstance(body, str) else json.dumps(body)},
            },
        }
        for url, request, body in pairs
    ]
    (folder / "vcr.json").write_text(json.dumps({"version": 1, "interactions": found}), encoding="utf-8")
    return folder / "vcr.json"


def response(number: int, *output: dict[str, Any]) -> dict[str, Any]:
    """An answer of Responses."""
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1754425777,
        "model": "gpt-4o-mini",
        "status": "completed",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10, **details},
    }


def said(text: str) -> dict[str, Any]:
    """An item of Responses that is a message."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def test_an_agent_of_responses(tmp_path: Path) -> None:
    """Tools, their calls and their results come back from OpenAI's Responses."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "status": "completed"}
    call["arguments"] = '{"city": "Paris"}'
    answers = iter([response(1, call), response(2, said("It is sunny in Paris."))])
    sent: list[Any] = []

    def respond(request: Any) -> Any:
        answer = next(answers)
        sent.append((str(request.url), json.loads(request.content), answer))
        return httpx.Response(200, json=answer)

    wire = {kind: maker(transport=httpx.MockTransport(respond)) for kind, maker in CLIENTS.items()}
    llm = openai_llms.OpenAIResponses("gpt-4o-mini", api_key=KEY, **wire)
    live = agent(llm, streaming=False)
    report = import_vcr(written(tmp_path, *sent), tmp_path / "new.yaml")
    assert [item.fidelity for item in report.items] == ["exact", "exact"], str(report)
    with use_cassette(tmp_path / "new.yaml", live={"tool"}):
        assert agent(openai_llms.OpenAIResponses("gpt-4o-mini", api_key=KEY), streaming=False) == live


CLIENTS = {"http_client": httpx.Client, "async_http_client": httpx.AsyncClient}


def claude_answer(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    """An answer of Messages."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-3-5-haiku-latest",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 8, "output_tokens": 2},
    }


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
def test_an_agent_of_anthropic(tmp_path: Path) -> None:
    """Tools, their calls and their results come back from Anthropic's Messages, where its package is installed."""
    package = pytest.importorskip("llama_index.llms.anthropic", reason="its package is not installed")
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    answers = iter([claude_answer(use, stop="tool_use"), claude_answer({"type": "text", "text": "It is sunny."})])
    sent: list[Any] = []

    def respond(request: Any) -> Any:
        answer = next(answers)
        sent.append((str(request.url), json.loads(request.content), answer))
        return library.Response(200, json=answer)

    sdk = import_module("anthropic")
    library = import_module(sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])  # httpx, or httpx2
    llm = package.Anthropic("claude-3-5-haiku-latest", api_key=KEY)
    wire = library.AsyncClient(transport=library.MockTransport(respond))
    llm._aclient = llm._aclient.with_options(http_client=wire)
    live = agent(llm, streaming=False)
    report = import_vcr(written(tmp_path, *sent), tmp_path / "new.yaml")
    assert [item.fidelity for item in report.items] == ["exact", "exact"], str(report)
    with use_cassette(tmp_path / "new.yaml", live={"tool"}):
        assert agent(package.Anthropic("claude-3-5-haiku-latest", api_key=KEY), streaming=False) == live


def test_a_request_of_another_class_is_lossy(tmp_path: Path) -> None:
    """What LlamaIndex would send otherwise is lossy, and the report names the place."""
    request = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hi"}], "stream": False}
    message = {"role": "assistant", "content": "Hello"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
    answer["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    source = written(tmp_path, ("https://api.openai.com/v1/chat/completions", request, answer))
    (item,) = import_vcr(source, tmp_path / "new.yaml").items
    assert (item.fidelity, "another `temperature`" in item.reason) == ("lossy", True)


AZURE = {"api_key": KEY, "azure_endpoint": "https://mine.openai.azure.com", "api_version": "2024-06-01"}


def answering(answer: Any, sent: list[Any]) -> Any:
    """A client of HTTP that gets an answer, and notes what it sent."""

    def respond(request: Any) -> Any:
        sent.append((str(request.url), json.loads(request.content), answer))
        return httpx.Response(200, json=answer)

    return httpx.Client(transport=httpx.MockTransport(respond))


@pytest.mark.parametrize("named", [True, False])
def test_chats_of_azure(tmp_path: Path, *, named: bool) -> None:
    """A call of Azure's class is exact where the model is named, and lossy where only the deployment is known."""
    package = pytest.importorskip("llama_index.llms.azure_openai", reason="its package is not installed")
    chat = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini-2024-07-18"}
    chat["choices"] = [{"index": 0, "message": {"role": "assistant", "content": "Blue."}, "finish_reason": "stop"}]
    sent: list[Any] = []

    def answer(**options: Any) -> Any:
        return package.AzureOpenAI("gpt-4o-mini", engine="my-chats", **AZURE, **options).chat(user("Which colour?"))

    live = answer(http_client=answering(chat, sent))
    options = {"model": "gpt-4o-mini"} if named else {}
    (item,) = import_vcr(written(tmp_path, *sent), tmp_path / "new.yaml", model_options=options).items
    assert item.fidelity == ("exact" if named else "lossy"), item.reason
    assert ("name the deployment only" in item.reason) is not named
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}):
        assert answer() == live


def test_embeddings_of_azure(tmp_path: Path) -> None:
    """A call of Azure's embeddings names its model."""
    package = pytest.importorskip("llama_index.embeddings.azure_openai", reason="its package is not installed")
    vector = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
    vectors = {"object": "list", "model": "m", "data": [vector], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    sent: list[Any] = []

    def vector_of(text: str, **options: Any) -> Any:
        named = {"model": "text-embedding-3-small", "azure_deployment": "my-vectors"}
        return package.AzureOpenAIEmbedding(**named, **AZURE, **options).get_query_embedding(text)

    live = vector_of("sky", http_client=answering(vectors, sent))
    (item,) = import_vcr(written(tmp_path, *sent), tmp_path / "new.yaml").items
    assert item.fidelity == "exact", item.reason
    with use_cassette(tmp_path / "new.yaml"):
        assert vector_of("sky") == live


COMPLETIONS: dict[str, Callable[[Any], Any]] = {
    "complete": lambda llm: llm.complete("Why is the sky blue?"),
    "stream_complete": lambda llm: list(llm.stream_complete("Why is the sky blue?")),
    "acomplete": lambda llm: asyncio.run(llm.acomplete("Why is the sky blue?")),
}


@pytest.mark.parametrize("name", COMPLETIONS)
def test_completions_over_chats(name: str, tmp_path: Path) -> None:
    """With `completes=True`, a request of one message is the call of `complete` that it was."""
    program, source, target = COMPLETIONS[name], Tape(tmp_path / "vcr.json"), tmp_path / "new.yaml"
    with service() as served:
        at = {"api_key": KEY, "api_base": served.base_url, "http_client": source.sync, "async_http_client": source.slow}
        live = program(openai_llms.OpenAI("gpt-4o-mini", **at))
    report = import_vcr(source.path, target, completes=True)
    assert [item.fidelity for item in report.items] == ["exact"], str(report)
    with use_cassette(target) as session:
        assert program(openai_llms.OpenAI("gpt-4o-mini", api_key=KEY)) == live
    assert [row.kind for row in session.report.replayed] == ["completion"]
    assert program(ReplayLLM(target)) == live


def test_older_completions(tmp_path: Path) -> None:
    """A request of OpenAI's older Completions is a call of `complete`."""
    answer = {"id": "c", "object": "text_completion", "created": 1, "model": "gpt-3.5-turbo-instruct"}
    answer["choices"] = [{"index": 0, "text": "Blue.", "finish_reason": "stop", "logprobs": None}]
    sent: list[Any] = []

    def complete(**options: Any) -> Any:
        return openai_llms.OpenAI("gpt-3.5-turbo-instruct", api_key=KEY, **options).complete("Which colour?")

    live = complete(http_client=answering(answer, sent))
    (item,) = import_vcr(written(tmp_path, *sent), tmp_path / "new.yaml").items
    assert item.fidelity == "exact", item.reason
    with use_cassette(tmp_path / "new.yaml"):
        assert complete() == live
