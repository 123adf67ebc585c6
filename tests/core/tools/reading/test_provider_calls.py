"""Requests to models over plain HTTP have a model, tokens and an answer, in each provider's form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.schema import Interaction, Outcome, Usage
from agenttape_core.tools.reading.messages import Answer, input_messages, system_instructions
from agenttape_core.tools.reading.provider_calls import model_call
from agenttape_core.tools.reading.summary import model_of

from ....kit import records

EXCHANGES = Path(__file__).parents[5] / "shared/data/openai"
CALL = {"city": "Paris"}
ARGUMENTS = json.dumps(CALL)


def request_to(path: str, body: dict[str, Any], *pieces: str, status: int = 200, **more: Any) -> Interaction:
    """Return a request as the transports record it."""
    head = {"status": status, "headers": [{"content-type": "application/json"}]}
    request = {"method": "POST", "url": {"host": "api.test", "path": path}, "body": body, **more}
    chunks = [head, *({"text": piece} for piece in pieces)]
    return records.call(
        kind="http", request=request, outcome=Outcome(status="streamed", chunks=chunks, ended="exhausted")
    )


def events(*values: Any) -> Iterable[str]:
    """Return server-sent events."""
    return [f"data: {json.dumps(value)}\n\n" for value in values]


USER = {"role": "user", "content": "Weather in Paris?"}
OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": ARGUMENTS}}
OPENAI = {"model": "gpt-5-mini", "id": "chatcmpl-1"}
COUNTS = {"prompt_tokens": 15, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}
CLAUDE = {"type": "message", "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5"}
CLAUDE_COUNTS = {"input_tokens": 15, "output_tokens": 9, "cache_read_input_tokens": 4}
TOOL_USE = {"type": "tool_use", "id": "c1", "name": "look_up", "input": CALL}
GOOGLE_PARTS = [{"text": "One moment."}, {"functionCall": {"name": "look_up", "args": CALL}}]
GOOGLE = {"modelVersion": "gemini-3-pro", "responseId": "r1"}
GOOGLE_COUNTS = {"promptTokenCount": 15, "candidatesTokenCount": 9, "cachedContentTokenCount": 4}
RESPONSE = {
    "id": "resp_1",
    "model": "gpt-5-mini",
    "status": "completed",
    "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]},
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": ARGUMENTS},
    ],
    "usage": {"input_tokens": 15, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 4}},
}
PIECES: dict[str, tuple[str, Iterable[str]]] = {
    "OpenAI": (
        "/v1/chat/completions",
        [json.dumps({**OPENAI, "usage": COUNTS, "choices": [
            {"message": {"content": "One moment.", "tool_calls": [OPENAI_CALL]}, "finish_reason": "tool_calls"}]})],
    ),
    "OpenAI, streamed": (
        "/v1/chat/completions",
        events(
            {**OPENAI, "choices": [{"delta": {"role": "assistant", "content": "One "}}]},
            {**OPENAI, "choices": [{"delta": {"content": "moment."}}]},
            {**OPENAI, "choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {
                "name": "look_up", "arguments": ARGUMENTS[:5]}}]}}]},
            {**OPENAI, "choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[5:]}}]},
                                    "finish_reason": "tool_calls"}]},
            {**OPENAI, "choices": [], "usage": COUNTS},
        ),
    ),
    "OpenAI's responses": ("/v1/responses", [json.dumps(RESPONSE)]),
    "OpenAI's responses, streamed": (
        "/v1/responses",
        events(
            {"type": "response.output_text.delta", "delta": "One"},
            {"type": "response.completed", "response": RESPONSE},
        ),
    ),
    "Anthropic": (
        "/v1/messages",
        [json.dumps({**CLAUDE, "stop_reason": "tool_use", "usage": CLAUDE_COUNTS,
                     "content": [{"type": "text", "text": "One moment."}, TOOL_USE]})],
    ),
    "Anthropic, streamed": (
        "/v1/messages",
        events(
            {"type": "message_start",
             "message": {**CLAUDE, "content": [], "usage": {**CLAUDE_COUNTS, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One moment."}},
            {"type": "content_block_start", "index": 1, "content_block": {**TOOL_USE, "input": {}}},
            {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": ARGUMENTS}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        ),
    ),
    "Google": (
        "/v1beta/models/gemini-3-pro:generateContent",
        [json.dumps({**GOOGLE, "usageMetadata": GOOGLE_COUNTS,
                     "candidates": [{"content": {"role": "model", "parts": GOOGLE_PARTS}, "finishReason": "STOP"}]})],
    ),
    "Google, streamed": (
        "/v1beta/models/gemini-3-pro:streamGenerateContent",
        events(*({**GOOGLE, "usageMetadata": GOOGLE_COUNTS,
                  "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
                 for part in GOOGLE_PARTS)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", PIECES)
def test_an_answer_is_read_in_each_form(form: str) -> None:
    """The model, the tokens, those from the cache, the text and the tool calls of an answer are read."""
    path, pieces = PIECES[form]
    call = model_call(
        request_to(path, {"model": "asked-for"} if "gemini" not in path else {}, *pieces, messages=[USER])
    )
    answer = Answer(call.outcome)
    assert call.kind == "chat"
    assert call.outcome.usage is not None
    assert (call.outcome.usage.input_tokens, call.outcome.usage.output_tokens) == (15, 9)
    assert answer.tokens["cache_read.input_tokens"] == 4
    assert answer.text == "One moment."
    assert [(tool.name, tool.args) for tool in answer.tool_calls] == [("look_up", CALL)]
    assert model_of(call) == ("asked-for" if "gemini" not in path else "gemini-3-pro")
    assert answer.finish_reasons


REQUESTS: dict[str, dict[str, Any]] = {
    "OpenAI": {
        "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
                     {"role": "tool", "tool_call_id": "c1", "content": "Sunny"}],
    },
    "OpenAI's responses": {
        "input": [USER, {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": ARGUMENTS},
                  {"type": "function_call_output", "call_id": "c1", "output": "Sunny"}],
    },
    "Anthropic": {
        "messages": [USER, {"role": "assistant", "content": [TOOL_USE]},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Sunny"}]}],
    },
    "Google": {
        "contents": [{"role": "user", "parts": [{"text": "Weather in Paris?"}]},
                     {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look_up", "args": CALL}}]},
                     {"role": "user", "parts": [{"functionResponse": {"id": "c1", "response": "Sunny"}}]}],
    },
}  # fmt: skip


@pytest.mark.parametrize("form", REQUESTS)
def test_a_history_is_read_in_each_form(form: str) -> None:
    """The messages of a request, with the tools that were asked for and their results, are the same in each form."""
    path, pieces = PIECES[form]
    question, asked, result = input_messages(model_call(request_to(path, REQUESTS[form], *pieces)).request)
    assert question == {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]}
    assert asked["parts"] == [{"type": "tool_call", "id": "c1", "name": "look_up", "arguments": CALL}]
    assert result == {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "Sunny"}]}


@pytest.mark.parametrize("given", [{"instructions": "Be brief."}, {"system": "Be brief."},
                                   {"systemInstruction": {"parts": [{"text": "Be brief."}]}}])  # fmt: skip
def test_instructions_are_read(given: dict[str, Any]) -> None:
    """Instructions beside the messages are those of the request."""
    path, pieces = PIECES["OpenAI"]
    call = model_call(request_to(path, given, *pieces, messages=[USER]))
    assert system_instructions(call.request) == [{"type": "text", "content": "Be brief."}]


def test_a_prompt_is_the_message_of_a_user() -> None:
    """The prompt of a completion, and an input that is a text, are messages of the user."""
    path, pieces = PIECES["OpenAI"]
    for key in ("prompt", "input"):
        (message,) = input_messages(model_call(request_to(path, {key: "Hello"}, *pieces)).request)
        assert message == {"role": "user", "parts": [{"type": "text", "content": "Hello"}]}


def test_embeddings_are_embeddings() -> None:
    """A request for embeddings has the kind of one, and its tokens."""
    body = {"model": "text-embedding-3-small", "data": [{"embedding": [0.1]}], "usage": {"prompt_tokens": 7}}
    call = model_call(request_to("/v1/embeddings", {"input": "Hello"}, json.dumps(body)))
    assert call.kind == "embeddings"
    assert call.outcome.usage is not None
    assert call.outcome.usage.input_tokens == 7


VERTEX = "/v1/projects/p/locations/l/publishers/google/models/"


@pytest.mark.parametrize("statistics", [{"statistics": {"token_count": 4}}, {}], ids=["counted", "uncounted"])
def test_embeddings_of_vertex(statistics: dict[str, Any]) -> None:
    """Vertex predicts the embeddings of each instance, in its own form."""
    body = {"predictions": [{"embeddings": {"values": [value, 0.5], **statistics}} for value in (0.25, 0.75)]}
    asked = {"instances": [{"content": "One."}, {"content": "Two."}]}
    call = model_call(request_to(f"{VERTEX}text-embedding-005:predict", asked, json.dumps(body)))
    assert (call.kind, call.request) == ("embeddings", {"model": "text-embedding-005", "input": ["One.", "Two."]})
    assert call.outcome.usage == (Usage(input_tokens=8) if statistics else None)
    assert [each["values"] for each in call.outcome.value] == [[0.25, 0.5], [0.75, 0.5]]


@pytest.mark.parametrize(
    ("path", "text", "status"),
    [
        ("/v1/chat/completions", '{"error": {"message": "Slow down."}}', 429),
        ("/v1/chat/completions", "not JSON", 200),
        ("/v1/chat/completions", '{"surprise": 1}', 200),
        ("/v1/chat/completions", "", 200),
        ("/v1/orders", json.dumps(RESPONSE), 200),
        (f"{VERTEX}imagen-4:predict", '{"predictions": [{"bytesBase64Encoded": "AAAA"}]}', 200),
    ],
)
def test_anything_else_stays_what_it_is(path: str, text: str, status: int) -> None:
    """An error, a body in no known form and a request to something else are returned unchanged."""
    item = request_to(path, {"model": "gpt-5-mini"}, text, status=status)
    assert model_call(item) is item


@pytest.mark.skipif(not EXCHANGES.is_dir(), reason="the recorded exchanges are not here")
@pytest.mark.parametrize("line", [
    pytest.param(line, id=f"{file.stem}-{at}")
    for file in (sorted(EXCHANGES.glob("*.jsonl")) if EXCHANGES.is_dir() else [])
    for at, line in enumerate(file.read_text(encoding="utf-8").splitlines())
])  # fmt: skip
def test_real_answers_are_read(line: str) -> None:
    """Every exchange with a live provider has its model and its tokens, and chats have an answer."""
    row = json.loads(line)
    call = model_call(request_to(row["path"], row["request"], row["body"], status=row["status"]))
    assert call.kind == ("embeddings" if row["path"].endswith("embeddings") else "chat")
    assert model_of(call) == row["request"]["model"]
    assert call.outcome.usage is not None
    assert (call.outcome.usage.input_tokens or 0) > 0
    answer = Answer(call.outcome)
    assert call.kind == "embeddings" or answer.text or answer.tool_calls or answer.finish_reasons == ["incomplete"]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "assistant", "tool_calls": ["x"]}]},
        {"input": [{"role": "user", "content": ["a"]}, {"type": "reasoning", "summary": ["a"]}]},
        {"systemInstruction": {"parts": ["a"]}},
    ],
)
def test_a_request_in_no_known_form_stays_as_it_is(body: dict[str, Any]) -> None:
    """A request whose parts aren't those of a provider is read as any other one."""
    item = request_to("/v1/chat/completions", body, json.dumps({"choices": [{"message": {"content": "Yes."}}]}))
    assert model_call(item) is item


@pytest.mark.parametrize(
    "event",
    [
        {"choices": ["x"]},
        {"choices": [{"delta": {"content": [{"type": "text", "text": "a"}]}}]},
        {"candidates": ["x"]},
        {"type": "content_block_start", "content_block": "x"},
        {"type": "response.completed", "response": "x"},
    ],
)
def test_an_answer_in_no_known_form_stays_as_it_is(event: dict[str, Any]) -> None:
    """A stream whose events aren't those of a provider is read as any other one."""
    item = request_to("/v1/chat/completions", {"messages": []}, *events(event))
    assert model_call(item) is item


@pytest.mark.parametrize("indexes", [(None, None, None), (1, 1, 2), (10**9, 10**9, 0), (0, 0, 0)])
def test_pieces_of_calls_are_joined_by_any_index(indexes: tuple[int | None, ...]) -> None:
    """Pieces of a streamed call are joined, whether a provider numbers its calls from 0, otherwise or not at all."""
    pieces = [("c1", "look_up", '{"city": '), (None, None, '"Paris"}'), ("c2", "walk", "{}")]
    found = request_to(
        "/v1/chat/completions",
        {"messages": []},
        *events(
            *(
                {"choices": [{"delta": {"tool_calls": [
                    {"index": at, "id": call, "function": {"name": name, "arguments": text}}]}}]}
                for at, (call, name, text) in zip(indexes, pieces, strict=True)
            )
        ),
    )  # fmt: skip
    assert [(call.name, call.args) for call in Answer(model_call(found).outcome).tool_calls] == [
        ("look_up", CALL),
        ("walk", {}),
    ]


def test_damaged_text_is_read() -> None:
    """Bytes in an answer that aren't UTF-8 are replaced, and the rest is read."""
    item = request_to("/v1/chat/completions", {"messages": []})
    assert item.outcome.chunks is not None
    item.outcome.chunks.append({"text": {"$str": '{"choices": [{"message": {"content": "a\\udcffb"}}]}'}})
    assert Answer(model_call(item).outcome).text == "a\ufffdb"
