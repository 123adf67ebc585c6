"""The fields that a message or document was given (`model_fields_set`) are those of the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from agenttape_core import boundary, use_cassette
from agenttape_core.integration import value_codec

CALL: Any = {"name": "look", "args": {}, "id": "1"}
QUIET = [
    AIMessage("hi"),
    AIMessage("", tool_calls=[CALL]),
    AIMessage("hi", id="1", of_the_user="more"),
    AIMessageChunk("", tool_call_chunks=[{"name": "look", "args": "{}", "id": "1", "index": 0}]),
    ToolMessage("done", tool_call_id="1"),
    RemoveMessage(id="1"),
    Document("text"),
]
GIVEN = [
    AIMessage("hi", additional_kwargs={}, response_metadata={}, name=None, tool_calls=[], usage_metadata=None),
    AIMessageChunk("a") + AIMessageChunk("b"),
    ToolMessage("done", tool_call_id="1", artifact=None, status="success"),
    *messages_from_dict([message_to_dict(HumanMessage("hi"))]),
    HumanMessage.model_construct({"content"}, content="hi", id="1"),
    Document("text", metadata={}),
]


def test_what_a_call_returns(tmp_path: Path) -> None:
    """Dumps of what was given are the same in a replay, also where a field was given at its default."""

    @boundary
    def answers() -> list[Any]:
        """Return one of each."""
        return [*QUIET, *GIVEN]

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = answers()
    with use_cassette(tmp_path / "c.yaml"):
        replayed = answers()
    assert [each.model_fields_set for each in replayed] == [each.model_fields_set for each in recorded]
    assert [each.model_dump(exclude_unset=True) for each in replayed] == [
        each.model_dump(exclude_unset=True) for each in recorded
    ]
    marks = (tmp_path / "c.yaml").read_text().count("set: ")
    assert marks == len(GIVEN), "each is one line, and only where reading would take other fields"


@pytest.mark.parametrize("value", GIVEN, ids=repr)
def test_requests(value: Any) -> None:
    """A request is the same whether a field was given at its default or not."""
    plain = value_codec().encode(value)
    assert not {"$set", "$unset"} & next(iter(plain.values())).keys()


def test_marks_that_name_no_field() -> None:
    """A recording that names fields which the class no longer has is read all the same."""
    read = value_codec().decode({"$message": {"type": "human", "content": "hi", "$set": "id gone", "$unset": "never"}})
    assert read.model_fields_set == {"content", "id"}
