"""An agent that answers customers. Nothing in this file knows that its runs are recorded."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

PROMPT = "You answer customers of a bookshop. Use the tools, then answer in one or two sentences."
STOCK = {"Dune": 3, "Solaris": 0}


def in_stock(title: str) -> str:
    """Tell how many copies of a book there are."""
    return f"{STOCK.get(title, 0)} copies of {title}"


def reserve(title: str) -> str:
    """Reserve a copy of a book."""
    STOCK[title] -= 1
    return f"A copy of {title} is reserved."


def answer(question: str) -> str:
    """Return the agent's answer to a customer."""
    agent: Any = create_agent(ChatOpenAI(model="gpt-5-mini"), [in_stock, reserve], system_prompt=PROMPT)
    text: str = agent.invoke({"messages": [("user", question)]})["messages"][-1].text
    return text
