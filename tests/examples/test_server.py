"""The example's model service behaves as OpenAI's does, as far as real clients can tell."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import openai
import pytest
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.weather_agent.server import OpenAILoopback

KEY = "sk-test"
HELLO: Any = [{"role": "user", "content": "What is it like in Paris, in EUR?"}]


def function(name: str, **properties: Any) -> Any:
    """A tool as the wire has it, with the given properties, all required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


WEATHER = function("get_weather", city={"type": "string"})
RATE = function("lookup_rate", currency={"enum": ["DKK", "EUR"]}, amount={"type": "integer", "minimum": 5})


@pytest.fixture
def client(server: OpenAILoopback) -> Iterator[openai.OpenAI]:
    """OpenAI's own client, talking to the server."""
    with openai.OpenAI(base_url=server.base_url, api_key=KEY) as client:
        yield client


def ask(client: openai.OpenAI, messages: Any = HELLO, **options: Any) -> Any:
    """Ask for a completion."""
    return client.chat.completions.create(model="gpt-5-mini", messages=messages, **options)


def post(url: str, data: bytes, **headers: str) -> tuple[int, Any]:
    """Send raw bytes; the status and the parsed answer."""
    try:
        with urlopen(Request(url, data=data, headers=headers)) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_never_the_same_answer_twice(client: openai.OpenAI) -> None:
    """Two equal requests get different ids and different words, so an equal replay is no accident."""
    first, second = ask(client), ask(client)
    assert first.id != second.id
    assert first.choices[0].message.content != second.choices[0].message.content
    assert first.choices[0].finish_reason == "stop"
    assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens > 0


def test_tools_then_answer(client: openai.OpenAI, server: OpenAILoopback) -> None:
    """Offered tools are called in parallel with arguments that fit their schemas; then comes a text."""
    message = ask(client, tools=[WEATHER, RATE]).choices[0].message
    called = {call.function.name: json.loads(call.function.arguments) for call in message.tool_calls}
    assert called == {"get_weather": {"city": "Paris"}, "lookup_rate": {"currency": "EUR", "amount": 6}}
    results = [{"role": "tool", "tool_call_id": call.id, "content": "21 degrees"} for call in message.tool_calls]
    history = [*HELLO, message.model_dump(exclude_none=True), *results]
    answer = ask(client, history, tools=[WEATHER, RATE]).choices[0]
    assert answer.message.tool_calls is None
    assert "21 degrees" in answer.message.content
    assert server.calls == 2
    assert [len(body["messages"]) for body in server.requests] == [1, 4]


def test_one_tool_at_a_time(client: openai.OpenAI) -> None:
    """A client that wants no parallel calls gets one."""
    message = ask(client, tools=[WEATHER, RATE], parallel_tool_calls=False).choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["get_weather"]


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ("none", []),
        ("auto", ["get_weather", "lookup_rate"]),
        ("required", ["get_weather", "lookup_rate"]),
        ({"type": "function", "function": {"name": "lookup_rate"}}, ["lookup_rate"]),
    ],
)
def test_tool_choice(client: openai.OpenAI, choice: Any, called: list[str]) -> None:
    """The client's choice of tools is obeyed."""
    message = ask(client, tools=[WEATHER, RATE], tool_choice=choice).choices[0].message
    assert [call.function.name for call in message.tool_calls or ()] == called


def test_required_tool_is_called_again(client: openai.OpenAI) -> None:
    """When a call is required and every tool was used, one is called once more."""
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    used: Any = [*HELLO, {"role": "assistant", "tool_calls": [call]}]
    used.append({"role": "tool", "tool_call_id": "call_1", "content": "x"})
    message = ask(client, used, tools=[WEATHER], tool_choice="required").choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["get_weather"]


def test_stream_of_text(client: openai.OpenAI) -> None:
    """A text comes in pieces of a few words: role first, then contents, the reason, and the usage last."""
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    parts = [chunk.choices[0].delta.content for chunk in chunks[1:-2]]
    assert len(parts) > 3
    assert "Paris" in "".join(parts)
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens > 0


def test_stream_without_usage(client: openai.OpenAI) -> None:
    """No usage is sent to a client that does not ask for it."""
    assert all(chunk.choices and chunk.usage is None for chunk in ask(client, stream=True))


def test_stream_of_tool_calls(client: openai.OpenAI) -> None:
    """Each call begins with its id and name, and its arguments follow in fragments under its index."""
    chunks = list(ask(client, tools=[WEATHER, RATE], stream=True))
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    begins = [call for call in deltas if call.id]
    assert [(call.index, call.function.name) for call in begins] == [(0, "get_weather"), (1, "lookup_rate")]
    fragments = [call.function.arguments for call in deltas if call.index == 1]
    assert len(fragments) > 3
    assert json.loads("".join(fragments))["currency"] == "EUR"
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


class Forecast(BaseModel):
    city: str
    sky: Literal["clear", "grey"]
    degrees: float
    rain: bool
    hours: list[int]
    next: Forecast | None


def test_structured_output(client: openai.OpenAI) -> None:
    """A JSON schema is satisfied, even one that contains itself."""
    completion = client.chat.completions.parse(model="gpt-5-mini", messages=HELLO, response_format=Forecast)
    parsed = completion.choices[0].message.parsed
    assert parsed is not None
    assert parsed.city == "Paris"
    assert parsed.next is not None


def test_json_mode(client: openai.OpenAI) -> None:
    """JSON mode gives a JSON object."""
    text = ask(client, response_format={"type": "json_object"}).choices[0].message.content
    assert json.loads(text).keys() == {"answer"}
    keyed: Any = [{"role": "user", "content": "A joke, as JSON with 'setup' and 'punchline' keys."}]
    text = ask(client, keyed, response_format={"type": "json_object"}).choices[0].message.content
    assert json.loads(text).keys() == {"setup", "punchline"}


def test_several_choices(client: openai.OpenAI) -> None:
    """`n` gives so many choices, all different, plain and streamed."""
    plain = ask(client, n=3).choices
    assert len({choice.message.content for choice in plain}) == 3
    streamed = list(ask(client, n=2, stream=True))
    assert {chunk.choices[0].index for chunk in streamed} == {0, 1}


def test_quoted_text_goes_into_arguments(client: openai.OpenAI) -> None:
    """What a user quotes, in any script, is an argument as it stands."""
    asked: Any = [{"role": "user", "content": "It's a postcard to '北京'."}]
    call = ask(client, asked, tools=[WEATHER]).choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "北京"}


def test_logprobs(client: openai.OpenAI) -> None:
    """The tokens whose probabilities are asked for make the text, plain and streamed."""
    plain = ask(client, logprobs=True).choices[0]
    assert "".join(token.token for token in plain.logprobs.content) == plain.message.content
    streamed = [chunk.choices[0] for chunk in ask(client, logprobs=True, stream=True)]
    tokens = [token.token for choice in streamed if choice.logprobs for token in choice.logprobs.content]
    assert "".join(tokens) == "".join(choice.delta.content or "" for choice in streamed)
    assert ask(client).choices[0].logprobs is None


def test_sounds(client: openai.OpenAI) -> None:
    """A sound is heard and counted; an answer that is to be heard has a transcript."""
    sound = {"type": "input_audio", "input_audio": {"data": "UklG" * 10, "format": "wav"}}
    asked: Any = [{"role": "user", "content": [{"type": "text", "text": "Hi"}, sound]}]
    answer = ask(client, asked, modalities=["text", "audio"], audio={"voice": "alloy", "format": "wav"})
    message = answer.choices[0].message
    assert message.content is None
    assert "You asked: Hi" in message.audio.transcript
    assert answer.usage.prompt_tokens_details.audio_tokens == 10
    assert 0 < answer.usage.completion_tokens_details.audio_tokens < answer.usage.completion_tokens


def test_reasoning_is_counted(client: openai.OpenAI) -> None:
    """A model that is to think spends tokens that nobody sees."""
    usage = ask(client, reasoning_effort="low").usage
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens


def test_limits(client: openai.OpenAI) -> None:
    """A text ends at a stop sequence and at the token limit, and says which."""
    stopped = ask(client, stop=["sure"]).choices[0]
    assert "percent" in stopped.message.content
    assert "sure" not in stopped.message.content
    cut = ask(client, max_completion_tokens=2).choices[0]
    assert (len(cut.message.content.split()), cut.finish_reason) == (2, "length")


def test_embeddings_vary(client: openai.OpenAI) -> None:
    """Embeddings have the wanted size and differ from request to request, in either encoding."""
    wanted: Any = {"model": "text-embedding-3-small", "input": ["a", "b"], "dimensions": 4}
    first, second = (client.embeddings.create(**wanted) for _ in range(2))
    vectors = [tuple(item.embedding) for item in (*first.data, *second.data)]
    assert {len(vector) for vector in vectors} == {4}
    assert len(set(vectors)) == 4
    floats = client.embeddings.create(**wanted, encoding_format="float").data[0].embedding
    assert sum(x * x for x in floats) == pytest.approx(1)


def test_models(client: openai.OpenAI) -> None:
    """The models can be listed."""
    assert "gpt-5-mini" in {model.id for model in client.models.list()}


def test_key_is_required(server: OpenAILoopback) -> None:
    """Without a key the answer is 401, in OpenAI's form."""
    status, body = post(f"{server.base_url}/chat/completions", b"{}")
    assert status == 401
    assert body["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("path", "data", "status", "words"),
    [
        ("/chat/completions", b"{", 400, "could not parse the JSON body"),
        ("/chat/completions", b"[]", 400, "'model'"),
        ("/chat/completions", b'{"model": "m"}', 400, "'messages'"),
        ("/embeddings", b'{"model": "m"}', 400, "'input'"),
        ("/nowhere", b"{}", 404, "/nowhere"),
    ],
)
def test_bad_requests(server: OpenAILoopback, path: str, data: bytes, status: int, words: str) -> None:
    """A request that makes no sense is refused in OpenAI's form, and counted."""
    found, body = post(server.base_url + path, data, Authorization=f"Bearer {KEY}")
    assert found == status
    assert body["error"]["type"] == "invalid_request_error"
    assert words in body["error"]["message"]
    assert server.calls == 1


def test_scripted_failures_are_retried(client: openai.OpenAI, server: OpenAILoopback) -> None:
    """A client's own retries outlive as many failures as were ordered, and the calls tell of them."""
    server.fail_next(429)
    server.fail_next(503)
    assert ask(client).choices
    assert server.calls == 3


def test_scripted_failures_raise(client: openai.OpenAI, server: OpenAILoopback) -> None:
    """A failure that is not retried reaches the caller as the type that belongs to its status."""
    server.fail_next(429, times=1, message="slow down")
    with pytest.raises(openai.RateLimitError, match="slow down"):
        ask(client.with_options(max_retries=0))


def test_broken_stream(client: openai.OpenAI, server: OpenAILoopback) -> None:
    """A stream that breaks is noticed by the client after the events that came."""
    server.cut_next_stream(after=3)
    stream = iter(ask(client, stream=True))
    assert len([next(stream) for _ in range(3)]) == 3
    with pytest.raises(Exception, match=r"incomplete|closed connection|Connection"):
        next(stream)
    assert len(list(ask(client, stream=True))) > 3


def test_script_then_default(client: openai.OpenAI, server: OpenAILoopback) -> None:
    """A test can decide every reply: texts, tool calls, bad arguments, refusals; then the default answers."""
    policy = sys.modules["weather_agent.policy"]
    replies = ["Hi.", policy.Reply(tool_calls=(("f", "{oops"),)), policy.Reply(refusal="No.")]
    server.policy = policy.Script(replies)
    assert ask(client).choices[0].message.content == "Hi."
    assert ask(client).choices[0].message.tool_calls[0].function.arguments == "{oops"
    assert "No." in [chunk.choices[0].delta.refusal for chunk in ask(client, stream=True)]
    assert "percent" in ask(client).choices[0].message.content


def test_stopped_server_is_gone(client: openai.OpenAI, server: OpenAILoopback) -> None:
    """After `stop` no connection is accepted, not even from a client that talked to it before."""
    ask(client)
    server.stop()
    with pytest.raises(openai.APIConnectionError):
        ask(client.with_options(max_retries=0))
