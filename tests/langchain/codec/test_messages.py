from __future__ import annotations

import datetime as dt
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core import messages as lc

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

Survives = Callable[[Any], Any]

CALL = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}

EVERY_CLASS = [
    lc.HumanMessage("hi"),
    lc.HumanMessageChunk(content="hi"),
    lc.AIMessage("hi"),
    lc.AIMessageChunk(content="hi"),
    lc.SystemMessage("hi"),
    lc.SystemMessageChunk(content="hi"),
    lc.ToolMessage("hi", tool_call_id="1"),
    lc.ToolMessageChunk(content="hi", tool_call_id="1"),
    lc.ChatMessage(content="hi", role="critic"),
    lc.ChatMessageChunk(content="hi", role="critic"),
    lc.FunctionMessage(content="hi", name="f"),
    lc.FunctionMessageChunk(content="hi", name="f"),
    lc.RemoveMessage(id="m1"),
]


class Secretive(lc.AIMessage):
    _secret: int = 0


@pytest.mark.parametrize("message", EVERY_CLASS, ids=lambda message: type(message).__name__)
def test_each_class_comes_back_as_itself(message: lc.BaseMessage, survives: Survives, values: ValueCodec) -> None:
    """Every message class, chunks included, must come back as the same class and equal."""
    plain = survives(message)
    assert plain["$message"]["type"] == message.type
    assert values.decode(plain) == message


@pytest.mark.parametrize("message", EVERY_CLASS, ids=lambda message: type(message).__name__)
def test_model_dump_is_unchanged(message: lc.BaseMessage, values: ValueCodec) -> None:
    """The framework's dump of a message must be the same, in the same order, after the trip."""
    assert repr(values.decode(values.encode(message)).model_dump()) == repr(message.model_dump())


def test_only_what_differs_is_written() -> None:
    """A plain message must read as its type and its content."""
    from agenttape_core.schema import PYTHON_VALUES
    from agenttape_langchain.codec import CODECS

    plain = PYTHON_VALUES.extended(CODECS).encode(lc.AIMessage("hi"))
    assert plain == {"$message": {"type": "ai", "content": "hi"}}


def test_fields_are_in_reading_order(survives: Survives) -> None:
    """The content must come first, and the provider's additions last."""
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 3},
        "output_token_details": {"reasoning": 2},
    }

    message = lc.AIMessage(
        usage_metadata=usage,
        id="m",
        response_metadata={"finish_reason": "stop"},
        tool_calls=[CALL],
        content="Let me see.",
        additional_kwargs={"refusal": None},
        name="bob",
    )
    assert list(survives(message)["$message"]) == [
        "type", "content", "tool_calls", "name", "additional_kwargs", "id", "response_metadata", "usage_metadata",
    ]  # fmt: skip


def test_tool_calls_are_written_without_their_constant_type(survives: Survives) -> None:
    """A call must read as name, args and id."""
    assert survives(lc.AIMessage("", tool_calls=[CALL]))["$message"] == {"type": "ai", "tool_calls": [CALL]}


def test_a_tool_call_with_other_keys_survives(survives: Survives) -> None:
    """A call that middleware changed in place must keep its keys and their order."""
    message = lc.AIMessage("", tool_calls=[CALL])
    message.tool_calls[0]["extras"] = {"signature": b"x"}  # type: ignore[typeddict-unknown-key]
    survives(message)
    message.tool_calls[0] = {"id": "1", "args": {}, "name": "f"}
    survives(message)


def test_invalid_tool_calls_survive(survives: Survives) -> None:
    """A call whose arguments did not parse must come back with its error."""
    invalid = {"name": "f", "args": '{"a', "id": "1", "error": "cut off", "type": "invalid_tool_call"}
    survives(lc.AIMessage("", invalid_tool_calls=[invalid]))


def test_calls_derived_from_provider_arguments_are_not_derived_again(survives: Survives) -> None:
    """A message whose calls were removed must not get them back from `additional_kwargs`."""
    raw = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = lc.AIMessage("", additional_kwargs={"tool_calls": raw})
    assert message.tool_calls
    survives(message)
    message.tool_calls = []
    survives(message)


def test_v1_content_of_the_last_chunk_is_left_alone(survives: Survives) -> None:
    """The constructor rewrites blocks of a last v1 chunk; restoring one must not."""
    chunk = lc.AIMessageChunk(content=[], response_metadata={"output_version": "v1"}, chunk_position="last")
    chunk.content = [{"type": "server_tool_call_chunk", "args": '{"a": 1}', "id": "1"}]
    survives(chunk)


def test_calls_of_a_chunk_are_not_written_twice(survives: Survives) -> None:
    """Calls that follow from the chunks of calls must be left out, and come back."""
    chunk = lc.AIMessageChunk(content="", tool_call_chunks=[{"name": "f", "args": '{"a": ', "id": "1", "index": 0}])
    assert chunk.tool_calls
    body = survives(chunk)["$message"]
    assert body == {
        "type": "AIMessageChunk",
        "tool_call_chunks": [{"name": "f", "args": '{"a": ', "id": "1", "index": 0}],
    }


@pytest.mark.parametrize("calls", [[], [CALL | {"args": {"a": 1.0}, "type": "tool_call"}]], ids=["none", "other"])
def test_calls_of_a_chunk_that_do_not_follow_are_written(calls: list[Any], survives: Survives) -> None:
    """Calls that differ from what the chunks of calls say must come back as they were."""
    chunk = lc.AIMessageChunk(content="", tool_call_chunks=[{"name": "f", "args": '{"a": 1}', "id": "1", "index": 0}])
    chunk.tool_calls = calls
    survives(chunk)


def test_malformed_call_chunks_survive(survives: Survives) -> None:
    """A chunk of a call with keys that no constructor takes must come back as it was."""
    chunk = lc.AIMessageChunk(content="")
    chunk.tool_call_chunks = [{"bad": 1}]  # type: ignore[typeddict-unknown-key,typeddict-item]
    survives(chunk)


@pytest.mark.parametrize(
    "artifact",
    [(1, (2, [3])), {"at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC)}, pathlib.PurePosixPath("a"), b"\x00", {1: {2}}],
    ids=repr,
)
def test_artifacts_keep_their_types(artifact: Any, survives: Survives) -> None:
    """An artifact that a tool keeps from the model must come back with its Python types."""
    survives(lc.ToolMessage("done", tool_call_id="1", artifact=artifact, status="error"))


def test_an_artifact_may_hold_messages(survives: Survives) -> None:
    """LangChain objects nested in free fields must come back as themselves."""
    survives(lc.ToolMessage("done", tool_call_id="1", artifact=[lc.HumanMessage("x"), (lc.AIMessage("y"),)]))


@pytest.mark.parametrize(
    "user",
    [
        {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "AIMessage"], "kwargs": {"content": "x"}},
        {"$message": {"type": "ai"}},
        {"$chunk": "x"},
        {"$$message": 1},
        {"$dict": [[1, 2]]},
        {"type": "ai", "content": "x"},
    ],
    ids=lambda user: next(iter(user)),
)
def test_lookalikes_stay_dicts(user: dict[str, Any], survives: Survives) -> None:
    """A user's dict that looks like something serialised must stay a dict, wherever it stands."""
    survives(user)
    survives(lc.ToolMessage("x", tool_call_id="1", artifact=user))
    survives(lc.HumanMessage([user]))
    survives(lc.AIMessage("", tool_calls=[{"name": "f", "args": user, "id": None}], additional_kwargs=user))


def test_undeclared_fields_survive(survives: Survives, values: ValueCodec) -> None:
    """Fields that LangChain's messages take beyond their own must come back as such."""
    message = lc.HumanMessage("hi", example=True, weight=(1, 2))
    survives(message)
    assert values.decode(values.encode(message)).weight == (1, 2)


def test_every_string_survives(survives: Survives) -> None:
    """Lone surrogates, NUL and line separators must come back in the content."""
    for text in ["\ud800", "\x00\x85\u2028\r\n", "𝄞", ""]:
        survives(lc.AIMessage(text, id=text))
        survives(lc.AIMessageChunk(content=text))


def test_a_loaded_subclass_comes_back(survives: Survives, subclass: Callable[..., Any]) -> None:
    """A user's subclass that can be found by name must come back as itself."""
    cls = subclass(lc.AIMessage, __annotations__={"tag": str}, tag="none")
    survives(cls("hi", tag="x"))
    survives(cls("hi"))


def test_a_local_subclass_is_refused(values: ValueCodec) -> None:
    """A class that no name leads to must be refused while recording, not at replay."""

    class Local(lc.HumanMessage):
        pass

    with pytest.raises(UnrecordableValueError, match="top level"):
        values.encode(Local(content="hi"))


def test_private_attributes_are_refused(values: ValueCodec) -> None:
    """State that could not be restored must be refused while recording."""
    with pytest.raises(UnrecordableValueError, match="private"):
        values.encode(Secretive(content="hi"))


def test_a_plain_base_message_survives(survives: Survives) -> None:
    """A message of LangChain's base class, with a type of its own, must come back."""
    survives(lc.BaseMessage("hi", type="custom"))
    survives(lc.BaseMessageChunk(content="hi", type="custom"))


def test_replayed_messages_share_nothing(values: ValueCodec) -> None:
    """Frameworks change messages in place: two decodings must not see each other's changes."""
    plain = values.encode(lc.AIMessage(["a", {"type": "x"}], tool_calls=[CALL]))
    first = values.decode(plain)
    first.content.append("b")
    first.tool_calls[0]["args"]["city"] = "Rome"
    first.response_metadata["x"] = 1
    assert values.decode(plain) == lc.AIMessage(["a", {"type": "x"}], tool_calls=[CALL])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("x", "expected a mapping"),
        ({}, "expected a type"),
        ({"type": ["ai"]}, "expected a type"),
        ({"type": "robot"}, "found 'robot'"),
        ({"type": "ai", "content": 1}, "'content' must be str or list, found int"),
        ({"type": "ai", "content": [1]}, "must hold str or dict, found int"),
        ({"type": "ai", "tool_calls": "x"}, "'tool_calls' must be list"),
        ({"type": "ai", "tool_calls": {"a": 1}}, "expected a list, found dict"),
        ({"type": "ai", "tool_calls": [1]}, "expected a mapping"),
        ({"type": "ai", "tool_calls": [{"nam": "f"}]}, "found \\['nam'\\]"),
        ({"type": "ai", "additional_kwargs": [1]}, "'additional_kwargs' must be dict"),
        ({"type": "ai", "colour": 1}, "it has no field colour"),
        ({"type": "tool", "content": "x"}, "'tool_call_id' is missing"),
        ({"type": "AIMessageChunk", "tool_call_chunks": [{"args": 1}]}, "the chunks are malformed"),
        ({"type": "ai", "$extra": 1}, "expected a mapping"),
        ({"type": "ai", "$class": "nowhere:Message"}, "the class is not loaded"),
        ({"type": "ai", "$class": 1}, "the class is not loaded"),
        ({"type": "ai", "$class": "pathlib:Path"}, "expected a BaseMessage"),
        ({"type": "ai", "$class": "os:system"}, "the class is not loaded"),
    ],
)
def test_malformed_messages_are_explained(body: Any, says: str, values: ValueCodec) -> None:
    """A message that was edited by hand into something impossible must be refused with the reason."""
    with pytest.raises(UnreadableValueError, match=says):
        values.decode({"$message": body})


def test_impossible_messages_are_not_recorded(values: ValueCodec) -> None:
    """A message that could not be read again must be refused while recording."""
    message = lc.AIMessage("x")
    message.content = 3  # type: ignore[assignment]
    with pytest.raises(UnrecordableValueError, match="'content' must be str or list"):
        values.encode(message)
