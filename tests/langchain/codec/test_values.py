"""Messages, generations, documents and commands of graphs as plain data, and back: each returns as itself."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import sys
import uuid
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core import messages as lc
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
    RunInfo,
)
from langgraph.types import Command, Send, TimeoutPolicy
from pydantic import BaseModel, Field

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.schema import FORMAT_VERSION, Header, Outcome

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

Survives = Callable[[Any], Any]

CALL = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}
PART: Any = {"name": "f", "args": '{"a": 1}', "id": "1", "index": 0}
RAW_CALLS = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
STRINGS = ["\ud800", "\x00\x85\u2028\r\n", "𝄞", ""]
BLOCKS: list[list[Any]] = [
    [],
    ["a", {"type": "text", "text": "b"}],
    [{"text": "legacy"}],
    [{"type": "image", "url": "x"}],
]
ARTIFACTS: list[Any] = [
    (1, (2, [3])),
    {"at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC)},
    pathlib.PurePosixPath("a"),
    b"\x00",
    {1: {2}},
    [HumanMessage("x"), (AIMessage("y"),)],
]
LOOKALIKES: list[dict[str, Any]] = [
    {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "AIMessage"], "kwargs": {"content": "x"}},
    {"$message": {"type": "ai"}},
    {"$chunk": "x"},
    {"$$message": 1},
    {"$dict": [[1, 2]]},
    {"type": "ai", "content": "x"},
]
"""Dicts of a user that look like something serialized."""


def changed(value: Any, **fields: Any) -> Any:
    """A value whose fields were changed in place, as no constructor would make it."""
    for name, field in fields.items():
        setattr(value, name, field)
    return value


def chunk(content: Any = "", **fields: Any) -> ChatGenerationChunk:
    """A chunk of the usual class."""
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **fields))


def parsed(value: Any, **more: Any) -> AIMessage:
    """A message as providers return it for structured output."""
    return AIMessage('{"a": 1}', additional_kwargs={"parsed": value, **more})


MESSAGES = [
    HumanMessage("hi"),
    lc.HumanMessageChunk(content="hi"),
    AIMessage("hi"),
    AIMessageChunk(content="hi"),
    lc.SystemMessage("hi"),
    lc.SystemMessageChunk(content="hi"),
    ToolMessage("hi", tool_call_id="1"),
    lc.ToolMessageChunk(content="hi", tool_call_id="1"),
    lc.ChatMessage(content="hi", role="critic"),
    lc.ChatMessageChunk(content="hi", role="critic"),
    lc.FunctionMessage(content="hi", name="f"),
    lc.FunctionMessageChunk(content="hi", name="f"),
    lc.RemoveMessage(id="m1"),
]
COMMANDS: list[Any] = [
    Command(),
    Command(goto="agent"),
    Command(goto=["a", Send("b", {"x": (1,)})], graph=Command.PARENT),
    Command(update={"messages": [ToolMessage("done", tool_call_id="1")]}, goto=("a", "b")),  # type: ignore[arg-type]
    Command(update=[("a", 1)], resume={"id": [1]}),
]
V1: Any = {"response_metadata": {"output_version": "v1"}, "chunk_position": "last"}
ONE, TWO = (ChatGeneration(message=AIMessage(text), generation_info={"n": text}) for text in "ab")
VALUES: dict[str, list[Any]] = {
    "messages of LangChain's base classes": [
        lc.BaseMessage("hi", type="custom"),
        lc.BaseMessageChunk(content="hi", type="custom"),
    ],
    "any text": [make(text, id=text) for text in STRINGS for make in (AIMessage, AIMessageChunk)],
    "fields that LangChain's messages take beyond their own": [HumanMessage("hi", example=True, weight=(1, 2))],
    "calls that middleware changed in place": [
        changed(AIMessage(""), tool_calls=[{**CALL, "type": "tool_call", "extras": {"signature": b"x"}}]),
        changed(AIMessage("", tool_calls=[CALL]), tool_calls=[{"id": "1", "args": {}, "name": "f"}]),
    ],
    "a call whose arguments did not parse": [
        AIMessage(
            "", invalid_tool_calls=[{"name": "f", "args": '{"a', "id": "1", "error": "?", "type": "invalid_tool_call"}]
        )
    ],
    "calls of a provider's arguments, which are not derived again": [
        AIMessage("", additional_kwargs=RAW_CALLS),
        changed(AIMessage("", additional_kwargs=RAW_CALLS), tool_calls=[]),
    ],
    "blocks of a last v1 chunk, which the constructor rewrites": [
        changed(AIMessageChunk(content=[], **V1), content=[{"type": "server_tool_call_chunk", "args": "{}", "id": "1"}])
    ],
    "calls that don't follow from the chunks of calls": [
        changed(AIMessageChunk(content="", tool_call_chunks=[PART]), tool_calls=calls)
        for calls in ([], [CALL | {"args": {"a": 1.0}, "type": "tool_call"}])
    ],
    "a malformed chunk of a call": [changed(AIMessageChunk(content=""), tool_call_chunks=[{"bad": 1}])],
    "artifacts": [ToolMessage("", tool_call_id="1", artifact=artifact, status="error") for artifact in ARTIFACTS],
    "lookalikes": [
        value
        for user in LOOKALIKES
        for value in (
            user,
            ToolMessage("x", tool_call_id="1", artifact=user),
            HumanMessage([user]),
            AIMessage("", tool_calls=[{"name": "f", "args": user, "id": None}], additional_kwargs=user),
        )
    ],
    "models that a provider parsed": [
        parsed(Header(name="x"), refusal=None),
        parsed(Header(name="x")),
        AIMessageChunk(content="", additional_kwargs={"parsed": Header(name="x")}),
        changed(AIMessage(""), additional_kwargs={"parsed": Header(name="x"), Fraction(1, 2): 1}),
    ],
    "parsed values that are no models": [
        parsed(value) for value in (None, {"a": 1}, {"$parsed": 1}, {"$model": {"type": "x"}}, [1], FORMAT_VERSION)
    ],
    "generations": [
        Generation(text="a"),
        Generation(text="a", generation_info={"x": (1,)}),
        GenerationChunk(text="a"),
        GenerationChunk(text="\ud800"),
        ChatGeneration(message=HumanMessage("a")),
        ChatGenerationChunk(message=lc.ChatMessageChunk(content="x", role="critic")),
        *(make(message=message(content=blocks)) for blocks in BLOCKS for make, message in (
            (ChatGeneration, AIMessage), (ChatGenerationChunk, AIMessageChunk)
        )),
    ],
    "results of any length": [
        *(ChatResult(generations=given) for given in ([], [ONE], [ONE, TWO], [chunk("a")])),
        LLMResult(
            generations=[[Generation(text="a")], [ChatGeneration(message=AIMessage("b"))], []],
            llm_output={"token_usage": {}},
            run=[RunInfo(run_id=uuid.UUID(int=1))],
        ),
    ],
    "a document": [Document("text")],
    "the text of a message, which tools return": [AIMessage("a").text],
}  # fmt: skip


def test_values_survive(survives: Survives) -> None:
    """A value comes back as the same class with the same state."""
    for values in VALUES.values():
        for value in values:
            survives(value)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_each_class_comes_back_as_itself(message: lc.BaseMessage, survives: Survives, values: ValueCodec) -> None:
    """Every message class, chunks included, must come back equal, with the same dump in the same order."""
    plain = survives(message)
    assert plain["$message"]["type"] == message.type
    assert values.decode(plain) == message
    assert repr(values.decode(plain).model_dump()) == repr(message.model_dump())


WRITTEN: list[tuple[Any, Any]] = [
    (AIMessage("hi"), {"$message": {"type": "ai", "content": "hi"}}),
    (AIMessage("", tool_calls=[CALL]), {"$message": {"type": "ai", "tool_calls": [CALL]}}),
    (
        AIMessageChunk(content="", tool_call_chunks=[{**PART, "args": '{"a": '}]),
        {"$message": {"type": "AIMessageChunk", "tool_call_chunks": [{**PART, "args": '{"a": '}]}},
    ),
    (chunk("Hel"), {"$chunk": "Hel"}),
    (chunk(), {"$chunk": ""}),
    (
        ChatGenerationChunk(
            message=AIMessageChunk(content="", id="1", tool_call_chunks=[{**PART, "name": None, "id": None}]),
            generation_info={"finish_reason": "stop"},
        ),
        {
            "$chunk": {
                "tool_call_chunks": [{"args": '{"a": 1}', "index": 0}],
                "id": "1",
                "generation_info": {"finish_reason": "stop"},
            }
        },
    ),
    (GenerationChunk(text="a"), {"$generation_chunk": "a"}),
    (Generation(text="a"), {"$generation": "a"}),
    (
        ChatResult(generations=[ChatGeneration(message=AIMessage("a"))], llm_output={"model_name": "m"}),
        {"$chat_result": {"message": {"type": "ai", "content": "a"}, "llm_output": {"model_name": "m"}}},
    ),
    (LLMResult(generations=[]), {"$llm_result": {"generations": []}}),
    (
        Document("text", id="d", metadata={"span": (1, 2)}),
        {"$document": {"page_content": "text", "id": "d", "metadata": {"span": {"$tuple": [1, 2]}}}},
    ),
    (Command(goto="agent"), {"$command": {"goto": "agent"}}),
]


def test_only_what_differs_is_written(survives: Survives) -> None:
    """A value is written without its defaults, without constants, and without what follows from the rest."""
    for value, plain in WRITTEN:
        assert survives(value) == plain


def test_fields_are_in_reading_order(survives: Survives) -> None:
    """The content must come first, and the provider's additions last."""
    message = AIMessage(
        usage_metadata={"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
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


def test_text_is_written_where_it_differs_from_its_message(survives: Survives) -> None:
    """Text that follows from content blocks is left out; text that was made before its message changed is kept."""
    for blocks in BLOCKS:
        assert "text" not in survives(ChatGeneration(message=AIMessage(blocks)))["$chat_generation"]
    for made in (ChatGeneration(message=AIMessage("a")), chunk("a")):
        made.message.content = "b"
        assert "a" in str(survives(made.model_copy(update={"text": str(made.text)})))


def test_subclasses_come_back(survives: Survives, subclass: Callable[..., Any]) -> None:
    """Users' subclasses that can be found by name must come back as themselves, with all they hold."""
    message = subclass(AIMessage, __annotations__={"tag": str}, tag="none")
    survives(message("hi", tag="x"))
    survives(message("hi"))
    result = subclass(ChatResult, __annotations__={"message": str}, message="")
    survives(result(generations=[ChatGeneration(message=AIMessage("a"))], message="x"))
    survives(subclass(ChatGeneration, model_config={"extra": "allow"})(message=AIMessage("a"), weight=1))
    survives(subclass(ChatGenerationChunk)(message=AIMessageChunk(content="a")))
    survives(subclass(Document, model_config={"extra": "allow"})("text", score=0.5))
    survives(subclass(Generation)(text="a"))


class Secretive(AIMessage):
    _secret: int = 0


def test_what_could_not_be_read_is_not_recorded(values: ValueCodec) -> None:
    """A class that no name leads to, private state and an impossible message are refused while recording."""

    class Local(HumanMessage):
        pass

    class Special(Send):
        pass

    for value, says in [
        (Local(content="hi"), "top level"),
        (Secretive(content="hi"), "private"),
        (changed(AIMessage("x"), content=3), "'content' must be str or list"),
        (Special("node", 1), "Special"),
    ]:
        with pytest.raises(UnrecordableValueError, match=says):
            values.encode(value)


def test_replayed_messages_share_nothing(values: ValueCodec) -> None:
    """Frameworks change messages in place: two decodings must not see each other's changes."""
    plain = values.encode(AIMessage(["a", {"type": "x"}], tool_calls=[CALL]))
    first = values.decode(plain)
    first.content.append("b")
    first.tool_calls[0]["args"]["city"] = "Rome"
    first.response_metadata["x"] = 1
    assert values.decode(plain) == AIMessage(["a", {"type": "x"}], tool_calls=[CALL])


# -- structured output whose class is not at hand ------------------------------------------------------------------


def test_a_model_of_a_local_class_comes_back_as_its_data(values: ValueCodec) -> None:
    """A schema local to a function must come back as a dict that builds the schema, aliases included."""

    class Answer(BaseModel):
        number: int = Field(alias="theNumber")
        pair: tuple[int, int] = (1, 2)

    plain = values.encode(parsed(Answer(theNumber=1)))
    found = values.decode(plain).additional_kwargs["parsed"]
    assert plain["$message"]["additional_kwargs"]["parsed"].keys() == {"$parsed"}
    assert found == {"theNumber": 1, "pair": (1, 2)}
    assert Answer(**found) == Answer(theNumber=1)


def test_a_model_whose_class_is_gone_comes_back_as_its_data(values: ValueCodec) -> None:
    """A schema that was renamed since the recording must not break the replay."""
    plain = values.encode(parsed(Outcome(status="returned", value=[Header(name="x")])))
    plain["$message"]["additional_kwargs"]["parsed"]["$model"]["type"] = "nowhere:Outcome"
    found = values.decode(plain).additional_kwargs["parsed"]
    assert isinstance(found, dict)
    assert (found["status"], found["value"][0]["name"]) == ("returned", "x")


# -- commands of graphs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_commands_survive(command: Any, survives: Survives, values: ValueCodec) -> None:
    """A command that a tool returned must come back equal, messages in its update included."""
    survives(command)
    assert values.decode(values.encode(command)) == command


@pytest.mark.parametrize("timeout", [None, TimeoutPolicy(run_timeout=1.5)])
def test_sends_survive(timeout: Any, values: ValueCodec) -> None:
    """A send must come back equal, with its timeout."""
    send = Send("node", {"message": HumanMessage("x")}, timeout=timeout)
    assert values.decode(values.encode(send)) == send


def test_the_parent_graph_is_named_by_the_same_object(values: ValueCodec) -> None:
    """`ToolNode` compares a command's graph by identity."""
    decoded = values.decode(json.loads(json.dumps(values.encode(Command(graph=Command.PARENT)))))
    assert decoded.graph is Command.PARENT


def test_a_message_in_two_places_is_one(values: ValueCodec) -> None:
    """A graph gives a message without an id one in place, so copies of it would become two messages."""
    done, other = ToolMessage("done", tool_call_id="1"), ToolMessage("done", tool_call_id="1")
    command = Command(update={"messages": [done, other]}, goto=[Send("a", {"messages": (done,)})])
    decoded = values.decode(values.encode(command))
    first, second = decoded.update["messages"]
    assert decoded == command
    assert decoded.goto[0].arg["messages"][0] is first is not second


def test_langgraph_is_never_imported(values: ValueCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LangGraph loaded, a recorded command must be refused with what to import."""
    monkeypatch.delitem(sys.modules, "langgraph.types")
    with pytest.raises(UnreadableValueError, match="import it before the replay"):
        values.decode({"$command": {}})
    assert "langgraph.types" not in sys.modules


# -- what was edited into something impossible ---------------------------------------------------------------------

MALFORMED_MESSAGES: list[tuple[Any, str]] = [
    ("x", "expected a mapping"),
    ({}, "expected a type"),
    ({"type": ["ai"]}, "expected a type"),
    ({"type": "robot"}, "found 'robot'"),
    ({"type": "ai", "content": 1}, "'content' must be str or list, found int"),
    ({"type": "ai", "content": [1]}, "must hold str or dict, found int"),
    ({"type": "ai", "tool_calls": "x"}, "'tool_calls' must be list"),
    ({"type": "ai", "tool_calls": {"a": 1}}, "expected a list, found dict"),
    ({"type": "ai", "tool_calls": [1]}, "expected a mapping"),
    ({"type": "ai", "tool_calls": [{"nam": "f"}]}, r"found \['nam'\]"),
    ({"type": "ai", "additional_kwargs": [1]}, "'additional_kwargs' must be dict"),
    ({"type": "ai", "colour": 1}, "it has no field colour"),
    ({"type": "tool", "content": "x"}, "'tool_call_id' is missing"),
    ({"type": "AIMessageChunk", "tool_call_chunks": [{"args": 1}]}, "the chunks are malformed"),
    ({"type": "ai", "$extra": 1}, "expected a mapping"),
    ({"type": "ai", "$class": "nowhere:Message"}, "the class is not loaded"),
    ({"type": "ai", "$class": 1}, "the class is not loaded"),
    ({"type": "ai", "$class": "pathlib:Path"}, "expected a BaseMessage"),
    ({"type": "ai", "$class": "os:system"}, "the class is not loaded"),
]
MALFORMED: list[Any] = [
    {"$chunk": 1},
    {"$chunk": {"message": {"type": "robot"}}},
    {"$chunk": {"colour": 1}},
    {"$chat_result": {}},
    {"$chat_result": {"generations": "x"}},
    {"$chat_result": []},
    {"$chat_generation": {}},
    {"$generation": {}},
    {"$llm_result": {"generations": [], "run": ["x"]}},
    {"$llm_result": {"generations": [], "run": 1}},
    {"$document": {"metadata": {}}},
    {"$document": {"page_content": "x", "$class": "pathlib:Path"}},
    {"$command": {"gotoo": 1}},
    {"$command": {"same": [[0]]}},
    {"$command": 1},
    {"$send": {"node": 1}},
    {"$send": []},
    {"$http_response": {}},
    {"$http_response": {"library": "os"}},
    {"$http_response": {"library": "httpx", "status_code": 200, "headers": [1]}},
    {"$http_response": {"library": "httpx", "headers": []}},
    {"$http_request": {"library": "httpx"}},
    {"$http_request": {"library": "httpx", "method": 1, "url": 2}},
    {"$http_request": {"library": "httpx", "method": "GET", "url": "http://[::"}},
]


@pytest.mark.parametrize(
    ("plain", "says"),
    [*(({"$message": body}, says) for body, says in MALFORMED_MESSAGES), *((plain, None) for plain in MALFORMED)],
)
def test_malformed_values_are_refused(plain: Any, says: str | None, values: ValueCodec) -> None:
    """Plain data that was edited into something impossible is refused by an error of ours, with the reason."""
    with pytest.raises(UnreadableValueError, match=says):
        values.decode(plain)
