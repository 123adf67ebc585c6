from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from pydantic import BaseModel, Field

from agenttape_core.schema import FORMAT_VERSION, Header, Outcome, ValueCodec

Survives = Callable[[Any], Any]


def message_with(parsed: Any, **more: Any) -> AIMessage:
    """A message as providers return it for structured output."""
    return AIMessage('{"a": 1}', additional_kwargs={"parsed": parsed, **more})


def test_a_parsed_model_comes_back_as_the_model(survives: Survives) -> None:
    """Structured output of a class that is found by name must be that class's instance again."""
    survives(message_with(Header(name="x"), refusal=None))
    survives(message_with(Header(name="x")))
    survives(AIMessageChunk(content="", additional_kwargs={"parsed": Header(name="x")}))


def test_a_model_of_a_local_class_comes_back_as_its_data(values: ValueCodec) -> None:
    """A schema local to a function must come back as a dict that builds the schema, aliases included."""

    class Answer(BaseModel):
        number: int = Field(alias="theNumber")
        pair: tuple[int, int] = (1, 2)

    plain = values.encode(message_with(Answer(theNumber=1)))
    parsed = values.decode(plain).additional_kwargs["parsed"]
    assert plain["$message"]["additional_kwargs"]["parsed"].keys() == {"$parsed"}
    assert parsed == {"theNumber": 1, "pair": (1, 2)}
    assert Answer(**parsed) == Answer(theNumber=1)


def test_a_model_whose_class_is_gone_comes_back_as_its_data(values: ValueCodec) -> None:
    """A schema that was renamed since the recording must not break the replay."""
    plain = values.encode(message_with(Outcome(status="returned", value=[Header(name="x")])))
    parsed = plain["$message"]["additional_kwargs"]["parsed"]["$model"]
    parsed["type"] = "nowhere:Outcome"
    found = values.decode(plain).additional_kwargs["parsed"]
    assert isinstance(found, dict)
    assert found["status"] == "returned"
    assert found["value"][0]["name"] == "x"


@pytest.mark.parametrize("parsed", [None, {"a": 1}, {"$parsed": 1}, {"$model": {"type": "x"}}, [1], FORMAT_VERSION])
def test_other_parsed_values_are_plain(parsed: Any, survives: Survives) -> None:
    """A parsed value of a provider that is no model must come back as it is."""
    survives(message_with(parsed))


def test_kwargs_with_other_keys_survive(survives: Survives) -> None:
    """Keys that are no strings must survive beside a parsed model."""
    message = message_with(Header(name="x"))
    message.additional_kwargs[Fraction(1, 2)] = 1
    survives(message)
