from __future__ import annotations

from typing import Any

import pytest
from langchain_core import messages as lc
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agenttape_langchain.codec import join_chunks, split_result

CALLS = [{"name": "f", "args": {"é": [1, "ü"]}, "id": "1"}, {"name": "g", "args": {}, "id": None}]


def result_of(message: lc.BaseMessage, **more: Any) -> ChatResult:
    """A result of one generation."""
    return ChatResult(generations=[ChatGeneration(message=message, **more)])


def test_a_result_becomes_one_last_chunk() -> None:
    """The one chunk must be marked as the last and carry the calls with an index each."""
    message = AIMessage("hi", tool_calls=CALLS, id="m", response_metadata={"a": 1})
    (chunk,) = split_result(result_of(message, generation_info={"finish_reason": "stop"}))
    assert isinstance(chunk.message, AIMessageChunk)
    assert chunk.message.chunk_position == "last"
    assert [call["index"] for call in chunk.message.tool_call_chunks] == [0, 1]
    assert chunk.message.tool_call_chunks[0]["args"] == '{"é": [1, "ü"]}'
    assert chunk.message.tool_calls == message.tool_calls
    assert (chunk.message.id, chunk.message.response_metadata) == ("m", {"a": 1})
    assert chunk.generation_info == {"finish_reason": "stop"}


def test_an_invalid_call_stays_invalid() -> None:
    """A call whose arguments are no JSON object must join to an invalid call."""
    invalid = {"name": "f", "args": "[1", "id": "1", "error": None, "type": "invalid_tool_call"}
    result = result_of(AIMessage("", invalid_tool_calls=[invalid], tool_calls=CALLS))
    assert join_chunks(split_result(result)) == result


def test_a_chunk_in_a_result_keeps_its_call_chunks() -> None:
    """A model that returns a chunk from `_generate` must stream that chunk's own parts."""
    part = {"name": "f", "args": '{"a": 1}', "id": "1", "index": 7}
    (chunk,) = split_result(result_of(AIMessageChunk(content="", tool_call_chunks=[part])))
    assert isinstance(chunk.message, AIMessageChunk)
    assert chunk.message.tool_call_chunks == [{**part, "type": "tool_call_chunk"}]


@pytest.mark.parametrize(
    "message",
    [
        lc.ChatMessage(content="a", role="critic"),
        lc.HumanMessage("a"),
        lc.SystemMessage("a"),
        lc.FunctionMessage(content="a", name="f"),
        lc.ToolMessage("a", tool_call_id="1"),
    ],
    ids=lambda message: message.type,
)
def test_other_roles_are_split_and_joined(message: lc.BaseMessage) -> None:
    """Models that answer in another role must be replayed as a stream too."""
    assert join_chunks(split_result(result_of(message))) == result_of(message)


def test_several_chunks_of_another_role_join() -> None:
    """A stream in another role must join too, which LangChain's own adding of lists refuses."""
    stream = [ChatGenerationChunk(message=lc.ChatMessageChunk(content=part, role="critic")) for part in "ab"]
    assert join_chunks(stream) == result_of(lc.ChatMessage(content="ab", role="critic"))


def test_what_has_no_chunk_is_refused() -> None:
    """A result that cannot be a stream must be refused with the reason."""
    with pytest.raises(ValueError, match="found none"):
        split_result(ChatResult(generations=[]))
    with pytest.raises(ValueError, match="RemoveMessage"):
        split_result(result_of(lc.RemoveMessage(id="1")))


def test_an_empty_stream_is_what_langchain_says_it_is() -> None:
    """A stream without chunks must raise what LangChain raises for it."""
    with pytest.raises(ValueError, match="No generations"):
        join_chunks([])


def test_parts_of_calls_join_by_index() -> None:
    """Deltas of two interleaved calls must join to two calls."""

    def chunk_of(**fields: Any) -> ChatGenerationChunk:
        """A chunk of an AI message."""
        return ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **fields}))

    joined = join_chunks(
        [
            chunk_of(tool_call_chunks=[{"name": "f", "args": "", "id": "1", "index": 0}]),
            chunk_of(tool_call_chunks=[{"name": "g", "args": "{", "id": "2", "index": 1}]),
            chunk_of(tool_call_chunks=[{"name": None, "args": '{"a": 1}', "id": None, "index": 0}]),
            chunk_of(tool_call_chunks=[{"name": None, "args": "}", "id": None, "index": 1}], chunk_position="last"),
        ]
    )
    message = joined.generations[0].message
    assert type(message) is AIMessage
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("f", {"a": 1}), ("g", {})]


def test_arguments_that_are_no_json_become_text() -> None:
    """A value in the arguments that a provider could not have sent must not break the stream."""
    (chunk,) = split_result(result_of(AIMessage("", tool_calls=[{"name": "f", "args": {"a": {1}}, "id": "1"}])))
    assert isinstance(chunk.message, AIMessageChunk)
    assert chunk.message.tool_calls[0]["args"] == {"a": "{1}"}
