"""A tool oracle of agents of frameworks: what their tools answered, as plain as any tool does."""

from __future__ import annotations

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from llama_index.core.tools import FunctionTool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.tools.oracle import entries_of


def test_frameworks_are_made_plain() -> None:
    """What a tool of LangChain or LlamaIndex answered is its content, without the objects around it."""

    @tool
    def search(query: str) -> str:
        """Search."""
        return f"found {query}"

    def find(query: str) -> str:
        """Find."""
        return f"found {query}"

    with use_cassette("frameworks", mode="once"):
        message = search.invoke({"name": "search", "args": {"query": "a"}, "id": "call_1", "type": "tool_call"})
        FunctionTool.from_defaults(find)(query="b")
    assert isinstance(message, ToolMessage)
    entries = entries_of(open_cassette("cassettes/frameworks.yaml"))
    assert [(entry.tool_name, entry.args, entry.response) for entry in entries] == [
        ("search", {"query": "a"}, "found a"),
        ("find", {"query": "b"}, "found b"),
    ]
