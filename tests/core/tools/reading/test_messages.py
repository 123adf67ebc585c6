"""Messages and answers of any framework, in the shape of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.integration import Outcome
from agenttape_core.tools.reading.messages import (
    Answer,
    input_messages,
    joined,
    message_of,
    pieces_of,
    system_instructions,
    tool_definitions,
)

TEXT = {"type": "text", "content": "Hi"}
PNG = "data:image/png;base64,aGk="


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("Hi", [TEXT]),
        ("", []),
        (None, []),
        (["Hi"], [TEXT]),
        ([{"type": "text", "text": "Hi"}], [TEXT]),
        ([{"type": "thinking", "thinking": "Hm"}], [{"type": "reasoning", "content": "Hm"}]),
        ([{"type": "reasoning", "reasoning": "Hm"}], [{"type": "reasoning", "content": "Hm"}]),
        ([{"type": "tool_use", "id": "1", "name": "find", "input": {}}], []),
        (
            [{"type": "image_url", "image_url": {"url": PNG}}],
            [{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGk="}],
        ),
        (
            [{"type": "image_url", "image_url": "https://a.test/cat.png"}],
            [{"type": "uri", "modality": "image", "uri": "https://a.test/cat.png"}],
        ),
        (
            [{"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"}],
            [{"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "aGk="}],
        ),
        (
            [{"type": "input_audio", "input_audio": {"data": "aGk="}}],
            [{"type": "blob", "modality": "audio", "content": "aGk="}],
        ),
        (
            [{"type": "file", "file": {"file_id": "f-1"}}],
            [{"type": "file", "modality": "document", "file_id": "f-1"}],
        ),
        ([{"type": "image"}], [{"type": "image"}]),
        ([{"type": "strange", "key": 1}], [{"type": "strange", "key": 1}]),
        ([7], [{"type": "text", "content": "7"}]),
    ],
)
def test_parts(content: Any, parts: Any) -> None:
    """Each block of a message is the part that the conventions have for it, or stays what it is."""
    assert message_of({"role": "user", "content": content}) == {"role": "user", "parts": parts}


def test_messages_of_a_request() -> None:
    """Tool calls, their results and names are told; prompts are messages of the user."""
    call = {"name": "find", "args": {"q": 1}, "id": "1"}
    messages = [
        {"role": "user", "content": "Hi", "name": "ada"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "found", "tool_call_id": "1"},
        "no message",
    ]
    user, assistant, tool = input_messages({"messages": messages})
    assert user == {"role": "user", "parts": [TEXT], "name": "ada"}
    assert assistant["parts"] == [{"type": "tool_call", "id": "1", "name": "find", "arguments": {"q": 1}}]
    assert tool["parts"] == [{"type": "tool_call_response", "id": "1", "response": "found"}]
    assert input_messages({"prompts": ["Hi"]}) == [{"role": "user", "parts": [TEXT]}]
    assert input_messages({}) == []


def test_instructions_and_tools_of_a_request() -> None:
    """What is told apart from the messages is told so; tools are flat, whatever form the provider wants."""
    assert system_instructions({"system": [{"type": "text", "text": "Hi"}]}) == [TEXT]
    assert system_instructions({"instructions": "Hi"}) == [TEXT]
    assert system_instructions({"messages": []}) == []
    openai = {"type": "function", "function": {"name": "find", "parameters": {}}}
    tools = [openai, {"name": "find", "input_schema": {}}, {"type": "web_search", "name": "web"}, "find"]
    assert tool_definitions({"tools": tools}) == [
        {"type": "function", "name": "find", "parameters": {}},
        {"type": "function", "name": "find", "input_schema": {}},
        {"type": "web_search", "name": "web"},
    ]


ANSWERED = {"type": "text", "content": "Hi"}
CALL = {"name": "find", "args": {"q": 1}, "id": "1"}
PART = {"type": "tool_call", "id": "1", "name": "find", "arguments": {"q": 1}}
META = {"model_name": "gpt-5-2025", "finish_reason": "stop", "model_provider": "openai", "id": "resp-1"}
RAW = {"$model": ["openai:Completion", {"model": "gpt-5-2025", "id": "resp-1", "choices": [{"finish_reason": "stop"}]}]}


@pytest.mark.parametrize(
    "value",
    [
        {"$chat_result": {"message": {"type": "ai", "content": "Hi", "id": "run-1", "response_metadata": META}}},
        {"$chat_result": {"generations": [{"$chat_generation": {"message": {"content": "Hi"}}}], "llm_output": META}},
        {"$llm_result": {"generations": [[{"$generation": {"text": "Hi", "generation_info": META}}]]}},
        {"$chat_response": {"message": {"role": "assistant", "content": "Hi"}, "raw": RAW}},
        {"$chat_response": {"message": {"role": "assistant", "blocks": [{"type": "text", "text": "Hi"}]}, "raw": RAW}},
        {"$completion_response": {"text": "Hi", "raw": RAW}},
    ],
)
def test_an_answer(value: Any) -> None:
    """The message, the model, the id and the reason of an answer are found in what either framework records."""
    found = Answer(Outcome(status="returned", value=value))
    assert found.messages == [{"role": "assistant", "parts": [ANSWERED]}]
    assert found.finish_reasons == ["stop"]
    named = "generations" not in str(value) or "$llm_result" in value
    assert (found.model, found.id) == ("gpt-5-2025", "resp-1") or not named


@pytest.mark.parametrize(
    ("chunks", "parts"),
    [
        ([{"$chunk": "H"}, {"$chunk": {"content": "i", "response_metadata": META}}], [ANSWERED]),
        (
            [
                {"$chunk": {"tool_call_chunks": [{"name": "find", "args": '{"q"', "id": "1", "index": 0}]}},
                {"$chunk": {"tool_call_chunks": [{"args": ": 1}", "index": 0}]}},
            ],
            [PART],
        ),
        ([{"$chat_chunk": "H"}, {"$chat_chunk": {"content": "i", "raw": RAW}}], [ANSWERED]),
        (
            [{"$chat_chunk": {"changes": {"message": {"$in": {"tool_calls": {"$items": {"#0": {"$to": CALL}}}}}}}}],
            [PART],
        ),
        ([{"$text_chunk": "H"}, {"$text_chunk": "i"}], [ANSWERED]),
        ([{"$generation_chunk": "H"}, {"$generation_chunk": {"text": "i"}}], [ANSWERED]),
        (["H", "i"], [ANSWERED]),
        ([], None),
    ],
)
def test_an_answer_that_was_streamed(chunks: Any, parts: Any) -> None:
    """The chunks of a stream become the answer that they amount to, tool calls included."""
    outcome = Outcome(status="streamed", chunks=chunks, ended="exhausted")
    assert Answer(outcome).messages == ([{"role": "assistant", "parts": parts}] if parts is not None else [])
    assert Answer(outcome).tool_calls == ([("find", {"q": 1})] if parts == [PART] else [])


@pytest.mark.parametrize(
    "chunk",
    [
        {"$chat_chunk": {"changes": {"message": "no"}}},
        {"$chat_chunk": {"content": 1}},
        {"$chunk": {"tool_call_chunks": "no", "response_metadata": 1, "content": "Hi"}},
        {"$chunk": {"tool_call_chunks": [{"args": "{", "index": {}}]}},
        {"$chunk": {"tool_call_chunks": [{"args": '{"a": NaN}'}]}},
        {"$chunk": {"tool_call_chunks": [{"args": "[" * 5000}]}},
        {"$chunk": None},
        {"a": 1, "b": 2},
    ],
)
def test_chunks_that_are_none(chunk: Any) -> None:
    """A stream that somebody mangled is read as far as it can be, and never an error."""
    outcome = Outcome(status="streamed", chunks=[chunk, chunk], ended="exhausted")
    json.dumps([joined(outcome), Answer(outcome).messages], allow_nan=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Hello", "Hello"),
        ({"$chat_result": {"message": {"type": "ai", "content": "Hello"}}}, "Hello"),
        (
            {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": "Hel"}, {"text": "lo"}]}},
            "Hello",
        ),
        ([{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Hello"}], "Hello"),
        ({"a": 1}, ""),
        (7, ""),
    ],
)
def test_the_text_of_an_answer(value: Any, text: str) -> None:
    """The text of an answer is found in what any framework records, without the model's thoughts."""
    assert Answer(Outcome(status="returned", value=value)).text == text
    assert Answer(Outcome(status="streamed", chunks=[value, value], ended="exhausted")).text == text * 2


LOOK_UP = {"name": "look_up", "args": {"city": "Paris"}, "id": "1"}
BLOCK = {"block_type": "tool_call", "tool_name": "look_up", "tool_kwargs": {"city": "Paris"}}


@pytest.mark.parametrize(
    "value",
    [
        {"$chat_result": {"message": {"type": "ai", "content": "", "tool_calls": [LOOK_UP]}}},
        {"$chat_response": {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": ""}, BLOCK]}}},
    ],
)
def test_the_tool_calls_of_an_answer(value: Any) -> None:
    """The tool calls of an answer are found in what any framework records; a text has none."""
    assert Answer(Outcome(status="returned", value=value)).tool_calls == [("look_up", {"city": "Paris"})]
    assert Answer(Outcome(status="returned", value="Hello")).tool_calls == []


@pytest.mark.process
def test_reading_loads_no_framework() -> None:
    """Streams of every framework are joined without importing it: readers are found by their entry points."""
    code = """
import sys
from agenttape_core.schema import Outcome
from agenttape_core.tools.reading.messages import joined
for tag in ("$chunk", "$chat_chunk", "$text_chunk"):
    print(*joined(Outcome(status="streamed", chunks=[{tag: "Hi"}], ended="exhausted")))
print(sorted({"langchain_core", "llama_index", "httpx", "agenttape_langchain"} & sys.modules.keys()))
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["$chat_result", "$chat_response", "$completion_response", "[]"]


def test_an_integration_that_is_not_installed() -> None:
    """A stream whose chunks nobody can join is read as its text."""
    outcome = Outcome(status="streamed", chunks=[{"$unknown": "H"}, {"$unknown": {"content": "i"}}], ended="exhausted")
    assert joined(outcome) == "Hi"
    assert pieces_of({"$unknown": {"content": "i", "tool_call_chunks": [{"name": "f"}]}}) == ["i"]


KEYS = st.sampled_from(["type", "content", "raw", "$chunk", "id"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_any_value_is_an_answer(value: Any) -> None:
    """Whatever plain data an outcome holds, it is looked at without an error."""
    for message in Answer(Outcome(status="returned", value=value)).messages:
        assert all(isinstance(part["type"], str) for part in message["parts"])
    message_of({"role": "user", "content": value, "tool_calls": [value]})


def test_tokens_of_special_kinds() -> None:
    """Cached and reasoned tokens are found in the words of LangChain, of OpenAI and of Anthropic."""
    langchain = {"input_token_details": {"cache_read": 5}, "output_token_details": {"reasoning": 2}}
    openai = {
        "usage": {"prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 2}}
    }
    message = {"content": "Hi", "usage_metadata": langchain}
    for value in (
        {"$chat_result": {"message": message}},
        {"$chat_response": {"message": {"content": "Hi"}, "raw": openai}},
    ):
        assert Answer(Outcome(status="returned", value=value)).tokens == {
            "cache_read.input_tokens": 5,
            "reasoning.output_tokens": 2,
        }
