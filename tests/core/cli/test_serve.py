"""`agenttape serve --as`: its refusals, and what its server refuses."""

from __future__ import annotations

import base64
import http.client
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agenttape_core import use_cassette
from agenttape_core.schema import Outcome, RecordedError
from agenttape_core.tools.model_server import ModelServer, Provider, serve_models
from agenttape_core.tools.model_server.answers import RecordedAnswer, RecordedAnswers, UnknownRequest, asked_in
from agenttape_core.tools.model_server.wire import chat_completion, message, response, response_events, said_in
from agenttape_core.tools.reading.provider_calls import model_call, pieces_in, request_to_model

from ...kit import records
from ..session.world import call

ASKED = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def talk(folder: Path) -> Path:
    """A recorded call of a model."""
    return talked(folder / "talk.yaml", "Good morning.")


def talked(path: Path, answer: str) -> Path:
    """Record a call of a model."""
    with use_cassette(path, mode="record"):
        call("Model", lambda: answer, "chat", **ASKED)
    return path


@pytest.fixture
def served(talk: Path) -> Iterator[ModelServer]:
    """A server of that call, in OpenAI's wire format."""
    with serve_models(talk) as server:
        yield server


def answered(
    server: ModelServer, body: bytes | None, path: str = "/v1/chat/completions", **headers: str
) -> tuple[int, bytes]:
    """Post a body, and return the status and the bytes of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        given = {"Content-Type": "application/json", "Connection": "close", **headers}
        connection.request("GET" if body is None else "POST", path, body, given)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def posted(*asked: Any, **headers: str) -> tuple[int, Any]:
    """Post a body, and return the status and the object of the answer."""
    status, body = answered(*asked, **headers)
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["talk.yaml", "--as", "openai", "--pace", "slow"], "--pace: expected none, recorded or a factor"),
        (["talk.yaml", "--as", "google"], "'google' is not one of 'openai', 'anthropic'"),
        (["talk.yaml", "talk.yaml"], "--as openai or --as anthropic"),
        (["talk.yaml", "--pace", "recorded"], "--as openai or --as anthropic"),
        (["talk.yaml", "--on-repeat", "cycle"], "--as openai or --as anthropic"),
        (["tool.yaml", "--as", "openai"], "tool.yaml: no call of a model is recorded"),
        (["talk.yaml", "--as", "openai", "--port", "PORT"], "--port"),
        (["-", "--as", "openai"], "name a file"),
    ],
)
def test_wrong_usage(served: ModelServer, command: Any, words: list[str], said: str) -> None:
    """Wrong options, a port in use and what holds no model's call are refused, with what to do."""
    with use_cassette("./tool.yaml", mode="record"):
        call("walk", lambda: "far")
    done = command("serve", *(word.replace("PORT", str(served.server_port)) for word in words))
    assert done.code == 2
    assert said in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": "999999999"}, 400),
    ],
)
def test_pages_and_large_bodies_get_nothing(served: ModelServer, headers: dict[str, str], status: int) -> None:
    """Another host, a page of a browser, another type and a body that is too large are refused."""
    found, answer = posted(served, json.dumps(ASKED).encode(), **headers)
    assert found == status
    assert answer["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"messages": 3}', b'{"messages": [{"content": {"a": [[]]}}]}'])
def test_a_body_that_is_no_request_is_told_so(served: ModelServer, body: bytes) -> None:
    """A body that isn't a request of the provider gets an answer, and the server goes on."""
    assert posted(served, body)[0] in {400, 409}
    assert posted(served, json.dumps(ASKED).encode())[0] == 200


def test_another_path_is_named(served: ModelServer) -> None:
    """A path that this provider doesn't have gets 404, with those that it has."""
    status, answer = posted(served, b"{}", "/v1/messages")
    assert status == 404
    assert "/chat/completions" in answer["error"]["message"]


def test_unrecorded_requests_are_listed_and_bounded(served: ModelServer) -> None:
    """Requests without a recording are all counted, and the first hundred are kept."""
    other = json.dumps({**ASKED, "model": "gpt-5"}).encode()
    for _ in range(105):
        assert posted(served, other)[0] == 409
    status, answer = posted(served, None, "/unrecorded")
    assert status == 200
    assert (answer["answered"], answer["unknown"], len(answer["unrecorded"])) == (0, 105, 100)
    assert answer["unrecorded"][0]["nearest"] == "talk.yaml call 1"


def test_a_client_that_leaves_changes_nothing(served: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A client that closes its connection before the answer leaves the server as it was."""
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port, timeout=10)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"{")
    connection.close()
    assert posted(served, json.dumps(ASKED).encode())[0] == 200
    assert capsys.readouterr().err == ""


def exchange(asked: dict[str, Any], code: int, *chunks: Any, path: str = "/v1/chat/completions", **how: Any) -> Any:
    """Return a request over HTTP as the transports record it, as the answers of a server."""
    head = {"status": code, "headers": [{"Content-Type": "application/json"}, {"Retry-After": "7"}]}
    request = {"method": "POST", "url": {"host": "api.test", "path": path}, "body": asked}
    outcome = Outcome(**{"status": "streamed", "chunks": [head, *chunks], "ended": "exhausted", **how})
    item = records.call(kind="http", request=request, outcome=outcome)
    wanted = asked_in(*request_to_model(path, asked))
    return RecordedAnswer("talk.yaml", item, model_call(item), None, wanted, None)


PATHS: list[tuple[Provider, str, bool]] = [
    ("openai", "/v1/chat/completions", False),
    ("openai", "/v1/chat/completions", True),
    ("openai", "/v1/responses", True),
    ("anthropic", "/v1/messages", False),
]


@pytest.mark.parametrize(("provider", "path", "streamed"), PATHS)
def test_an_error_stays_one_in_any_form(provider: Provider, path: str, streamed: bool) -> None:
    """A rate limit that was recorded over HTTP is one for every provider, streamed or not."""
    answer = exchange(ASKED, 429, {"text": '{"error": {"message": "Slow down."}}'})
    body = {"model": "gpt-5-mini", "input": "Hello"} if path.endswith("responses") else ASKED
    with ModelServer(RecordedAnswers([answer]), provider) as server:
        status, found = posted(server, json.dumps({**body, "stream": streamed}).encode(), path)
    assert (status, found["error"]["message"]) == (429, "Slow down.")


def test_bytes_that_are_not_utf8_are_sent_as_recorded() -> None:
    """Damaged text comes back byte for byte."""
    answer = exchange(ASKED, 200, {"text": {"$str": '{"a": "\\udcff"}'}})
    with ModelServer(RecordedAnswers([answer]), "openai") as server:
        assert answered(server, json.dumps(ASKED).encode())[1] == b'{"a": "\xff"}'


@pytest.mark.parametrize(
    "how",
    [
        {"status": "raised", "chunks": None, "ended": None},
        {"ended": "raised"},
    ],
)
def test_a_connection_that_broke_breaks(how: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A request without an answer gets none, and a stream that broke has no end."""
    error = RecordedError(type="httpx:ReadError", message="gone")
    answer = exchange(ASKED, 200, {"text": "{"}, error=error, **how)
    with ModelServer(RecordedAnswers([answer]), "openai") as server, pytest.raises(http.client.HTTPException):
        posted(server, json.dumps(ASKED).encode())
    assert capsys.readouterr().err == ""


def test_an_answer_in_no_known_form_is_an_error() -> None:
    """An answer that can't be translated into another provider's form is an error, not an empty answer."""
    answer = exchange(ASKED, 200, {"text": "<html>"})
    with ModelServer(RecordedAnswers([answer]), "anthropic") as server:
        status, found = posted(server, json.dumps(ASKED).encode(), "/v1/messages")
    assert status == 500
    assert "no known form" in found["error"]["message"]


def test_cached_tokens_that_are_counted_apart_are_input_tokens() -> None:
    """Anthropic counts cached tokens apart, OpenAI among the input tokens: each gets its own sums."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 50, "output_tokens": 2}
    whole = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "usage": usage}
    answers = [exchange(ASKED, 200, {"text": json.dumps(whole)}, path="/v1/messages")]
    with ModelServer(RecordedAnswers(answers), "openai") as server:
        found = posted(server, json.dumps(ASKED).encode())[1]["usage"]
    assert (found["prompt_tokens"], found["prompt_tokens_details"]["cached_tokens"]) == (1060, 1000)
    said = said_in(answers[0].call, "claude-sonnet-4-5")
    assert message(said)["usage"] == usage


def test_vectors_are_sent_in_the_form_that_is_asked_for() -> None:
    """Vectors that were recorded as bytes come as numbers if a client asks for these, and the other way round."""
    asked = {"model": "small", "input": "Hello"}
    packed = base64.b64encode(struct.pack("<2f", 1, 2)).decode()
    for given, kept, sent in (("base64", packed, [1.0, 2.0]), ("float", [1.0, 2.0], packed)):
        recorded = {"data": [{"embedding": kept}]}
        answer = exchange(
            {**asked, "encoding_format": given}, 200, {"text": json.dumps(recorded)}, path="/v1/embeddings"
        )
        other = {**asked, "encoding_format": {"base64": "float", "float": "base64"}[given]}
        with ModelServer(RecordedAnswers([answer]), "openai") as server:
            _, found = posted(server, json.dumps(other).encode(), "/v1/embeddings")
        assert found["data"][0]["embedding"] == sent


def test_a_request_of_several_cassettes_has_all_their_answers(talk: Path, folder: Path) -> None:
    """A request that two cassettes hold was recorded twice."""
    again = talked(folder / "again/talk.yaml", "Good evening.")
    with serve_models(talk, again) as server:
        found = [posted(server, json.dumps(ASKED).encode()) for _ in range(3)]
    assert [status for status, _ in found] == [200, 200, 409]
    texts = [answer["choices"][0]["message"]["content"] for _, answer in found[:2]]
    assert texts == ["Good morning.", "Good evening."]


def test_secrets_of_unknown_requests_are_pseudonyms(served: ModelServer) -> None:
    """The list of unknown requests, which is printed, holds no secret."""
    secret = "sk-proj-" + "Ab3" * 16
    other = {**ASKED, "messages": [{"role": "user", "content": f"Hello, {secret}"}]}
    assert posted(served, json.dumps(other).encode())[0] == 409
    assert "Hello" in str(served.answers.unrecorded)
    assert secret not in str(served.answers.unrecorded)


CALLS = [("c1", "look_up", '{"city": "Paris"}'), ("c2", "walk", "{}")]


def test_one_request_has_one_form_for_all_interfaces() -> None:
    """Parallel calls, texts with calls and images are the same in each interface of the providers."""
    image = "data:image/png;base64,AAAA"
    chat = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]},
        {"role": "assistant", "content": "One moment.", "tool_calls": [
            {"id": key, "function": {"name": name, "arguments": text}} for key, name, text in CALLS]},
        *({"role": "tool", "tool_call_id": key, "content": "far"} for key, _, _ in CALLS),
    ]  # fmt: skip
    responses = [
        {"role": "user", "content": [{"type": "input_image", "image_url": image}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]},
        *({"type": "function_call", "call_id": key, "name": name, "arguments": text} for key, name, text in CALLS),
        *({"type": "function_call_output", "call_id": key, "output": "far"} for key, _, _ in CALLS),
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    messages = [
        {"role": "user", "content": [{"type": "image", "source": source}]},
        {"role": "assistant", "content": [{"type": "text", "text": "One moment."}, *(
            {"type": "tool_use", "id": key, "name": name, "input": json.loads(text)} for key, name, text in CALLS)]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": key, "content": "far"} for key, _, _ in CALLS]},
    ]  # fmt: skip
    whole: dict[str, dict[str, Any]] = {
        "/chat/completions": {"messages": chat},
        "/responses": {"input": responses},
        "/messages": {"messages": messages},
    }
    first, *others = [asked_in(*request_to_model(path, given)) for path, given in whole.items()]
    assert "AAAA" in str(first)
    assert others == [first, first]


@pytest.mark.parametrize(
    ("recorded", "anthropic", "openai", "status"),
    [
        ("MAX_TOKENS", "max_tokens", "length", "incomplete"),
        ("length", "max_tokens", "length", "incomplete"),
        ("STOP", "end_turn", "stop", "completed"),
        ("stop_sequence", "stop_sequence", "stop", "completed"),
        ("refusal", "refusal", "content_filter", "completed"),
    ],
)
def test_the_reason_of_the_end_is_in_the_words_of_the_provider(
    recorded: str, anthropic: str, openai: str, status: str
) -> None:
    """An answer ends for the same reason in each form, in the words that the form has for it."""
    said = said_in(exchange(ASKED, 200, {"text": '{"message": {"content": "Hi"}}'}).call, "small")._replace(
        reason=recorded
    )
    assert message(said)["stop_reason"] == anthropic
    assert chat_completion(said)["choices"][0]["finish_reason"] == openai
    assert response(said)["status"] == status
    assert f"event: response.{status}" in list(response_events(said))[-1]


@pytest.mark.parametrize(
    ("path", "events"),
    [
        ("/v1/messages", [
            {"type": "message_start", "message": {"model": "small", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}}
              for each in ("Good ", "morn", "ing.")),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}]),
        ("/v1/chat/completions", [{"choices": [{"index": 0, "delta": {"content": each}}]}
                                  for each in ("Good ", "morn", "ing.")]),
        ("/v1/responses", [
            *({"type": "response.output_text.delta", "delta": each} for each in ("Good ", "morn", "ing.")),
            {"type": "response.completed", "response": {"output": [
                {"type": "message", "content": [{"type": "output_text", "text": "Good morning."}]}]}}]),
        ("/v1beta/models/gpt-5-mini:streamGenerateContent", [
            {"candidates": [{"content": {"role": "model", "parts": [{"text": each}]}}]}
            for each in ("Good ", "morn", "ing.")]),
    ],
)  # fmt: skip
def test_a_stream_of_another_provider_comes_in_its_pieces(path: str, events: list[dict[str, Any]]) -> None:
    """A stream that was recorded over HTTP has its pieces in the form of any provider."""
    texts = [{"text": f"data: {json.dumps(event)}\n\n"} for event in events]
    answer = exchange({**ASKED, "stream": True}, 200, *texts, path=path)
    assert said_in(answer.call, "small", pieces_in(answer.original.outcome)).pieces == ["Good ", "morn", "ing."]
    for provider, asked in (
        ("openai", "/v1/chat/completions"),
        ("openai", "/v1/responses"),
        ("anthropic", "/v1/messages"),
    ):
        with ModelServer(RecordedAnswers([answer]), cast("Provider", provider)) as server:
            form = {"input": ASKED["messages"]} if asked == "/v1/responses" else {"messages": ASKED["messages"]}
            body = json.dumps({"model": "gpt-5-mini", "stream": True, **form})
            streamed = answered(server, body.encode(), asked)[1].decode()
        assert [piece for piece in ("Good ", "morn", "ing.") if f'"{piece}"' not in streamed] == []


@pytest.mark.parametrize(
    ("path", "body", "whole"),
    [
        ("gemini-2:embedContent", {"content": {"parts": [{"text": "Hello"}]}}, {"embedding": {"values": [1.0, 2.0]}}),
        (
            "gemini-2:batchEmbedContents",
            {"requests": [{"model": "models/gemini-2", "content": {"parts": [{"text": "Hello"}]}}]},
            {"embeddings": [{"values": [1.0, 2.0]}]},
        ),
        (
            "gemini-2:predict",
            {"instances": [{"content": "Hello"}]},
            {"predictions": [{"embeddings": {"values": [1.0, 2.0], "statistics": {"token_count": 1}}}]},
        ),
    ],
)
def test_embeddings_of_google_are_served(path: str, body: dict[str, Any], whole: dict[str, Any]) -> None:
    """Vectors that were recorded from Google come in OpenAI's form."""
    answer = exchange(body, 200, {"text": json.dumps(whole)}, path=f"/v1beta/models/{path}")
    with ModelServer(RecordedAnswers([answer]), "openai") as server:
        status, found = posted(server, b'{"model": "gemini-2", "input": "Hello"}', "/v1/embeddings")
    assert (status, [each["embedding"] for each in found["data"]]) == (200, [[1.0, 2.0]])


def test_the_nearest_of_many_recordings_is_found() -> None:
    """Of more recordings than are compared in full, the one that shares most messages is the nearest."""
    talks = [[{"role": "user", "content": f"Question {at}"}, {"role": "assistant", "content": f"Answer {at}"}]
             for at in range(100)]  # fmt: skip
    more = {"role": "user", "content": "More?"}
    answers = [exchange({**ASKED, "messages": [*talk, more]}, 200, {"text": "{}"}) for talk in talks]
    found = RecordedAnswers(answers).next(
        "", asked_in("chat", {**ASKED, "messages": [*talks[70], {**more, "content": "Less?"}]})
    )
    assert isinstance(found, UnknownRequest)
    assert found.differences == ("messages[2].text: recorded [-More-]?, asked {+Less+}?",)
