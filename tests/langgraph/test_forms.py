"""An agent whose tools and models bring up addresses replays with validators, and the addresses are in no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import PydanticOutputParser
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field

from agenttape_core import use_cassette

MAIL = "ann.lee@acme-mail.com"
DATABASE = "postgresql://app:hunter2hunter@db.internal/shop"
VALID = r"^[^@\s]+@[^@\s]+\.[a-z]{2,4}$"


class Contact(BaseModel):
    """A contact with a validated address."""

    email: str = Field(pattern=VALID)
    card: str = Field(pattern=r"^\d{4}( \d{4}){3}$")
    database: str


def test_structured_output_with_a_validated_address(tmp_path: Path) -> None:
    """The parser takes the pseudonym as it took the address."""

    def structured() -> str:
        """Let a model make up a contact, parse it, and return the domain and the host."""
        answer = f'{{"email": "{MAIL}", "card": "4556 7375 8689 9855", "database": "{DATABASE}"}}'
        model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
        found: Contact = (model | PydanticOutputParser(pydantic_object=Contact)).invoke("Invent a contact")
        return f"{found.email.split('@')[1].rpartition('.')[2]} {urlsplit(found.database).hostname}"

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert structured() == "com db.internal"
    assert MAIL not in path.read_text("utf-8")
    assert "hunter2" not in path.read_text("utf-8")
    with use_cassette(path):
        assert structured() == "com db.internal"


def test_tools_that_hand_an_address_on(tmp_path: Path) -> None:
    """A tool's schema takes the pseudonym of what another tool has found, and the run is the same."""

    def agent() -> str:
        """Let a graph look an address up with one tool and send a mail with another, which validates it."""

        @tool
        def find_contact(name: str) -> str:
            """Find the address of a person."""
            return f"{name}: {MAIL}"

        @tool
        def send_mail(to: str = Field(pattern=VALID)) -> str:
            """Send a mail."""
            return f"sent to {to}"

        def model(state: MessagesState) -> Any:
            last = state["messages"][-1]
            if last.type == "human":
                calls = [{"name": "find_contact", "args": {"name": "Ann"}, "id": "1"}]
            elif "sent" in last.text or "Error" in last.text:
                return {"messages": [AIMessage(last.text)]}
            else:
                calls = [{"name": "send_mail", "args": {"to": last.text.split(": ")[1]}, "id": "2"}]
            fake = GenericFakeChatModel(messages=iter([AIMessage("", tool_calls=calls)]))
            return {"messages": [fake.invoke(state["messages"])]}

        graph = (
            StateGraph(MessagesState).add_node("model", model).add_node("tools", ToolNode([find_contact, send_mail]))
        )
        graph.add_edge(START, "model").add_edge("tools", "model")
        graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        done = graph.compile().invoke({"messages": [("user", "write to Ann")]})
        return str(done["messages"][-1].text)

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert agent() == f"sent to {MAIL}"
    assert MAIL not in path.read_text("utf-8")
    with use_cassette(path, on_unused="ignore"):
        assert agent().startswith("sent to ")
