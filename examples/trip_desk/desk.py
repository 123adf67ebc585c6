"""An ordinary LangGraph graph. This file does not know AgentTape."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import SecretStr


class Trip(TypedDict, total=False):
    """The state of a trip."""

    wish: str
    notes: Annotated[list[str], operator.add]


class Ferry:
    """A booking service of the real world: it is down when it is first asked.

    Args:
        ledger: The file to which each booking adds a line.
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self._is_down = True

    def book(self, day: str) -> str:
        """Book a seat, or fail."""
        if self._is_down:
            self._is_down = False
            raise ConnectionError("the ferry's computer does not answer")
        with self.ledger.open("a", encoding="utf-8") as file:
            file.write(f"seat on {day}\n")
        return f"seat {uuid4().hex[:4]} on {day}"


def build_desk(base_url: str, ferry: Ferry) -> StateGraph[Any]:
    """A graph that plans a trip, books a seat, asks a human, and writes a letter.

    Args:
        base_url: Where the model service is.
        ferry: The booking service.
    """
    model = ChatOpenAI(model="gpt-5-mini", base_url=base_url, api_key=SecretStr(f"sk-demo-{uuid4().hex}"))

    @tool
    def book_ferry(day: str) -> str:
        """Book a seat on the ferry."""
        return ferry.book(day)

    def ask_model(task: str, trip: Trip) -> Trip:
        known = "; ".join(trip.get("notes", []))
        return {"notes": [model.invoke(f"{task} Wish: {trip['wish']}. Known: {known}.").text]}

    builder = StateGraph(Trip)
    builder.add_node("plan", lambda trip: ask_model("Plan the trip in one sentence.", trip))
    builder.add_node("book", _book(book_ferry))
    builder.add_node("letter", lambda trip: ask_model("Write a letter of one sentence.", trip))
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "book")
    builder.add_edge("book", "letter")
    return builder


def _book(book_ferry: BaseTool) -> Any:
    def book(trip: Trip) -> Trip:
        seat = book_ferry.invoke({"day": f"Friday, for {trip['wish']}"})
        # On resuming, LangGraph runs this node from its beginning.
        return {"notes": [seat, f"breakfast: {interrupt('With breakfast?')}"]}

    return book
