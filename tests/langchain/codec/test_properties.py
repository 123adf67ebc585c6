from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from tests.kit.fields_given import fields_given

from agenttape_core.schema import PYTHON_VALUES
from agenttape_core.schema.codecs import keeping_sets
from agenttape_langchain.codec import CODECS, join_chunks, split_result

VALUES = PYTHON_VALUES.extended(CODECS)

text = st.text(max_size=8)
any_text = st.text(st.characters(exclude_categories=()), max_size=8)
keys = st.sampled_from(["a", "b", "type", "$message", "$chunk", "lc", "text", "index", "id"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary(max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
free = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(keys | st.integers(), inner),
    max_leaves=6,
)
metadata = st.dictionaries(keys, free, max_size=3)
blocks = st.one_of(
    any_text,
    st.fixed_dictionaries({"type": st.just("text"), "text": any_text}, optional={"index": st.integers(0, 3)}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "reasoning": text, "extras": metadata}),
    st.fixed_dictionaries({"text": text}),
    st.dictionaries(keys.filter(lambda key: key not in {"type", "text"}), free, max_size=3),
)
content = any_text | st.lists(blocks, max_size=3)
args = st.dictionaries(keys, json_values, max_size=3)
ids = st.none() | st.text(min_size=1, max_size=6)
calls = st.fixed_dictionaries({"name": text, "args": args, "id": ids})
invalid_calls = st.fixed_dictionaries({"name": st.none() | text, "args": st.none() | text, "id": ids, "error": ids})
call_chunks = st.fixed_dictionaries(
    {
        "name": st.none() | text,
        "args": st.none() | args.map(json.dumps).flatmap(lambda raw: st.integers(0, len(raw)).map(lambda n: raw[:n])),
        "id": ids,
        "index": st.none() | st.integers(0, 3),
    }
)
usage = st.none() | st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9), "total_tokens": st.integers(0, 9)},
    optional={"output_token_details": st.fixed_dictionaries({"reasoning": st.integers(0, 9)})},
)
common = {
    "content": content,
    "additional_kwargs": metadata,
    "response_metadata": metadata,
    "id": ids,
    "name": st.none() | text,
}
ai_messages = st.builds(
    AIMessage,
    **common,
    tool_calls=st.lists(calls, max_size=2),
    invalid_tool_calls=st.lists(invalid_calls, max_size=2),
    usage_metadata=usage,
)
ai_chunks = st.builds(
    AIMessageChunk,
    **common,
    tool_call_chunks=st.lists(call_chunks, max_size=2),
    chunk_position=st.sampled_from([None, "last"]),
    usage_metadata=usage,
)
messages = st.one_of(
    ai_messages,
    ai_chunks,
    st.builds(HumanMessage, **common),
    st.builds(ToolMessage, **common, tool_call_id=text, artifact=free, status=st.sampled_from(["success", "error"])),
)
infos = st.none() | metadata
chunks = st.builds(ChatGenerationChunk, message=ai_chunks, generation_info=infos)


def state(value: Any) -> str:
    """Everything that an object holds, spelled out: `repr` tells 1 from 1.0 and knows nan."""
    return f"{type(value)}{value.__dict__!r}{value.__pydantic_extra__!r}"


def check(value: Any) -> None:
    """Assert that a value survives a trip through JSON."""
    plain = VALUES.encode(value)
    assert state(VALUES.decode(json.loads(json.dumps(plain)))) == state(value)


@given(messages)
def test_messages_survive(message: Any) -> None:
    """Any message must come back the same after a trip through JSON, and so must the fields that it was given."""
    check(message)
    with keeping_sets():
        plain = VALUES.encode(message)
    assert fields_given(VALUES.decode(json.loads(json.dumps(plain)))) == fields_given(message)


@given(chunks)
def test_chunks_survive(chunk: ChatGenerationChunk) -> None:
    """Any chunk of a stream must come back the same after a trip through JSON."""
    check(chunk)


@given(st.lists(st.builds(ChatGeneration, message=ai_messages, generation_info=infos), max_size=2), infos)
def test_results_survive(generations: list[ChatGeneration], llm_output: Any) -> None:
    """Any result must come back the same after a trip through JSON."""
    check(ChatResult(generations=generations, llm_output=llm_output))


plain_chunks = st.builds(
    ChatGenerationChunk,
    message=st.builds(
        AIMessageChunk,
        content=st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["text", "server_tool_call_chunk", "tool_call_chunk"]),
                    "args": args.map(json.dumps),
                    "id": st.just("1"),
                    "index": st.integers(0, 2),
                }
            ),
            max_size=3,
        ),
        additional_kwargs=st.just({}) | st.just({"items": [{"index": 0, "text": "a"}], "nested": {"text": "b"}}),
        response_metadata=st.sampled_from([{}, {"output_version": "v1"}]),
        tool_call_chunks=st.lists(call_chunks.map(lambda chunk: {**chunk, "id": "1"}), max_size=2),
        chunk_position=st.sampled_from([None, "last"]),
        usage_metadata=usage,
        id=st.sampled_from([None, "lc_1", "lc_run-1", "x"]),
    ),
    generation_info=st.sampled_from([None, {}, {"a": "b"}]),
)


@given(st.lists(plain_chunks, min_size=1, max_size=4))
def test_joining_changes_no_chunk(stream: list[ChatGenerationChunk]) -> None:
    """The chunks of a stream that is joined are replayed too: they must be left as they were."""
    before = copy.deepcopy(stream)
    with contextlib.suppress(TypeError):  # LangChain refuses to add blocks that do not fit; even then
        join_chunks(stream)
    assert [state(chunk) for chunk in stream] == [state(chunk) for chunk in before]


@settings(deadline=None)
@given(
    st.builds(
        AIMessage,
        content=any_text | st.lists(blocks, max_size=3),
        additional_kwargs=st.dictionaries(keys, json_values, max_size=2),
        response_metadata=st.dictionaries(keys, json_values, max_size=2),
        id=ids,
        tool_calls=st.lists(calls, max_size=3),
        usage_metadata=usage,
    ),
    st.none() | st.dictionaries(keys, json_values, min_size=1, max_size=2),
)
def test_a_split_result_joins_to_itself(message: AIMessage, info: Any) -> None:
    """A result that is replayed as a stream and collected must be that result."""
    result = ChatResult(generations=[ChatGeneration(message=message, generation_info=info)])
    before = state(result)
    joined = join_chunks(split_result(result))
    assert state(joined) == before
    assert state(result) == before
