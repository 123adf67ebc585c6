"""The agent: an index of books with a query engine, a reranker, and a tool with a side effect. No AgentTape in it."""

from __future__ import annotations

from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool, QueryEngineTool

from .client import ServiceEmbedding, ServiceLLM

BOOKS = {
    "Notes on the Engine": "Ada Lovelace explains how a machine could compute numbers, and more than numbers.",
    "Tea and Rain": "A traveller walks through Yorkshire for a year, and drinks tea in every village.",
    "The Deep": "What lives below two thousand metres, and how we came to know.",
}
INSTRUCTIONS = "You are a librarian. Look a book up before you reserve it."


class LibraryAgent:
    """An agent that finds a book and reserves it.

    Args:
        base_url: Where the model service is.
        reservations: The file that a reservation adds a line to: the side effect.
        instructions: What the agent is told about its work.
    """

    def __init__(self, base_url: str, reservations: Path, instructions: str = INSTRUCTIONS) -> None:
        self._reservations = reservations
        llm = ServiceLLM(base_url=base_url)
        documents = [Document(text=text, id_=title, metadata={"title": title}) for title, text in BOOKS.items()]
        index = VectorStoreIndex.from_documents(documents, embed_model=ServiceEmbedding(base_url=base_url))
        catalogue = QueryEngineTool.from_defaults(
            index.as_query_engine(llm=llm, similarity_top_k=2), name="look_up", description="Look a book up."
        )
        reserve = FunctionTool.from_defaults(
            fn=self.reserve, name="reserve", description="Reserve a book by its title."
        )
        self._agent = FunctionAgent(tools=[catalogue, reserve], llm=llm, system_prompt=instructions, timeout=None)

    def reserve(self, title: str) -> str:
        """Reserve a book."""
        with self._reservations.open("a", encoding="utf-8") as file:
            file.write(f"{title}\n")
        return f"Reserved: {title}"

    async def ask(self, question: str) -> tuple[str, list[str]]:
        """Ask the agent.

        Args:
            question: What the reader wants.

        Returns:
            The answer, and the events that the agent streamed on its way to it, as text.
        """
        handler = self._agent.run(question)
        events = [f"{type(event).__name__} {event.model_dump_json()}" async for event in handler.stream_events()]
        return str(await handler), events
