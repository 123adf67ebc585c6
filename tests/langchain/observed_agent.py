"""An agent that retrieves, uses three tools and answers in a structure; a program for `test_observation_files.py`.

`observed_agent.py record CASSETTE BASE_URL` runs it with OpenAI's client, observed by a handler and nothing else;
`observed_agent.py replay CASSETTE` in a process that has no provider package, where whatever reaches outside fails.
Both print the conversation and the structured answer as JSON.
"""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from typing import Any

_PROVIDERS = {"openai", "langchain_openai", "tiktoken"}


class NotInstalled(MetaPathFinder):
    """Lets the provider packages look as if they were not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse them, and pass on all others."""
        if name.partition(".")[0] in _PROVIDERS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def agent_of(model: Any, embeddings: Any, *, replayed: bool) -> Any:
    """Make the agent.

    Args:
        model: The chat model.
        embeddings: What the vector store behind its retriever embeds with.
        replayed: Whether its tools and its retriever are taped, and their own code must not run.
    """
    from langchain.agents import create_agent
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tools import tool
    from langchain_core.vectorstores import InMemoryVectorStore
    from pydantic import BaseModel

    from agenttape_langchain import tape

    class Report(BaseModel):
        city: str
        advice: str

    @tool
    def lookup(query: str) -> str:
        """Look something up."""
        return str(retriever.invoke(query)[0].page_content)

    @tool
    def weather(city: str) -> dict[str, Any]:
        """Tell the weather."""
        assert not replayed
        return {"city": city, "sky": "rain", "at": (1, 2)}

    @tool(response_format="content_and_artifact")
    def chart(city: str) -> tuple[str, dict[str, Any]]:
        """Draw a chart."""
        assert not replayed
        return f"a chart of {city}", {"points": [1, 2]}

    pages = [Document("Paris is wet."), Document("Rome is dry.")]
    retriever: Any = InMemoryVectorStore.from_documents(pages, embeddings).as_retriever(search_kwargs={"k": 1})
    tools = [lookup, weather, chart]
    if replayed:
        retriever, tools = tape(retriever), [tape(one) for one in tools]
    agent = create_agent(model, tools, response_format=Report)
    return (
        RunnableLambda(lambda asked: {"messages": [("user", retriever.invoke(asked)[0].page_content + asked)]}) | agent
    )


def record(cassette: str, base_url: str) -> Any:
    """Run the agent for real, observed."""
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    from agenttape_langchain import TapeCallbackHandler

    model = ChatOpenAI(model="gpt-5-mini", base_url=base_url, api_key="sk-any")
    embeddings = OpenAIEmbeddings(base_url=base_url, api_key="sk-any", check_embedding_ctx_length=False)
    with TapeCallbackHandler(cassette) as handler:
        given = agent_of(model, embeddings, replayed=False).invoke("Weather?", {"callbacks": [handler]})
        assert handler.errors == []
    return given


def replay(cassette: str) -> Any:
    """Run the same agent from what was observed."""
    sys.meta_path.insert(0, NotInstalled())
    from langchain_core.embeddings import DeterministicFakeEmbedding

    from agenttape_core import use_cassette
    from agenttape_langchain import ReplayChatModel

    model = ReplayChatModel(cassette)
    agent = agent_of(model, DeterministicFakeEmbedding(size=3), replayed=True)
    with use_cassette(cassette, auto=False, on_unused="ignore") as session:
        given = agent.invoke("Weather?")
    # The retrieval inside the tool `lookup` is part of it; the chats are the stand-in's.
    assert (len(model.report.replayed), len(session.report.replayed), len(session.report.unused)) == (3, 4, 3)
    assert not _PROVIDERS & sys.modules.keys()
    return given


if __name__ == "__main__":
    how, *arguments = sys.argv[1:]
    result = {"record": record, "replay": replay}[how](*arguments)
    said = [
        message.model_dump(mode="json", exclude=set() if message.type == "ai" else {"id"})
        for message in result["messages"]
    ]
    sys.stdout.write(json.dumps([said, result["structured_response"].model_dump()]))
