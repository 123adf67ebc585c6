"""Edits of prompts, tools and schemas of LangChain's agents that stand in a request are noticed by the replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..kit.edited import noticed, recorded
from .fakes import NativeChat, World, in_turn

PROGRAM = '''
from typing import Annotated, Literal
from langchain.agents import create_agent
from langchain_core.tools import tool
from pydantic import BaseModel, Field

class Place(BaseModel):
    """Where to go."""
    place: str = Field(description="The name of it.")
    kind: Literal["bar", "restaurant"] = "bar"
    guests: int | None = None

@tool
def book(place: str, hour: int = 8) -> str:
    """Book a table. Ask before."""
    return f"{place} at {hour}"

@tool(args_schema=Place)
def search(**wanted) -> str:
    """Find a place."""
    return wanted["place"]

def agent():
    city = "Rome"
    return create_agent(model, [search, book], system_prompt=f"You book tables in {city}. Never book twice.")

def answer():
    return agent().invoke({"messages": [("user", "A table.")]})["messages"][-1].text
'''
STREAMED = PROGRAM.replace(
    'agent().invoke({"messages": [("user", "A table.")]})["messages"][-1].text',
    '[str(one) for one in agent().stream({"messages": [("user", "A table.")]}, stream_mode="messages")]',
)
AWAITED = (
    PROGRAM.replace("def answer", "async def answer")
    .replace("agent().invoke", "(await agent().ainvoke")
    .replace('"A table.")]})', '"A table.")]}))')
)


booking = in_turn([("search", {"place": "Luigi"})], then="Booked.")
"""Search, and say what was found."""


def test_what_stands_in_a_request_is_noticed(tmp_path: Path) -> None:
    """Each edit of a prompt, a tool or a schema that reaches a request is noticed."""
    found = _found(PROGRAM, tmp_path)
    assert [one for one, is_noticed in found.items() if not is_noticed] == []
    operators = {one.split(":")[2].partition("~")[0] for one in found}
    assert operators >= {
        *("drop_sentence", "negate_sentence", "drop_placeholder", "empty", "rename"),
        *("drop_field", "type", "optional", "required", "drop_value", "drop_description"),
    }


@pytest.mark.parametrize(
    "source", [STREAMED, pytest.param(AWAITED, marks=pytest.mark.night)], ids=["streamed", "awaited"]
)
def test_other_ways(source: str, tmp_path: Path) -> None:
    """Edits of prompts are noticed in whatever way the agent is run."""
    assert set(_found(source, tmp_path, "prompts").values()) == {True}


def _found(source: str, folder: Path, *kinds: str) -> dict[str, bool]:
    given = {"model": NativeChat(world=World(), reply=booking)}
    recorded(source, given, folder / "a.yaml")
    return noticed(source, given, folder / "a.yaml", kinds or ("prompts", "tools", "schemas"))
