"""Messages of any framework, in the shape of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from typing import Any

import pytest

from agenttape_core.tools.reading.messages import input_messages, message_of, system_instructions, tool_definitions

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
