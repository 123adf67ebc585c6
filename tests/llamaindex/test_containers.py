"""Taped engines, agents, workflows and indexes run on every replay, and take part in sessions that aren't automatic."""

from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.extractors import TitleExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.memory import ChatSummaryMemoryBuffer
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.testing import compare_runs
from agenttape_llamaindex import tape

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay
from .programs import (
    PROGRAMS,
    Answer,
    Ask,
    Interview,
    Parallel,
    after_tools,
    city_tools,
    followed,
    librarian,
    shown_response,
)
from .scripted import ScriptedEmbedding, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


# -- Taped engines, agents, workflows and indexes run on every replay, and take part in sessions that aren't -----------


async def agent(world: World) -> Any:
    """A function agent."""
    llm = ScriptedLLM(world, after_tools([("temperature", {"city": "Paris"})]))
    taped = tape(FunctionAgent(llm=llm, tools=city_tools(world)))
    assert isinstance(taped, FunctionAgent)
    return await followed(taped.run("How warm is it?"))


async def agent_workflow(world: World) -> Any:
    """A workflow of agents."""
    llm = ScriptedLLM(world, after_tools([("population", {"city": "Paris"})]))
    return await followed(
        tape(AgentWorkflow(agents=[FunctionAgent(llm=llm, tools=city_tools(world))])).run("How many?")
    )


async def workflow(world: World) -> Any:
    """A workflow of the user's own."""
    return await followed(tape(Parallel(ScriptedLLM(world), timeout=20)).run(parts=3))


async def interview(world: World) -> Any:
    """A workflow that a person takes part in."""
    handler = tape(Interview(ScriptedLLM(world), timeout=20)).run(topic="Rome")
    async for event in handler.stream_events():
        if isinstance(event, Ask):
            handler.ctx.send_event(Answer(text="old"))
    return await handler


def index_over(nodes: list[TextNode], world: World) -> VectorStoreIndex:
    """Return an index of nodes that have their vectors."""
    return VectorStoreIndex(nodes=nodes, embed_model=ScriptedEmbedding(world))


def index(world: World) -> Any:
    """An index, and the engines that it makes: whole, streamed, for chats."""
    nodes = [TextNode(id_=letter, text=letter, embedding=[n + 1.0, *[0.5] * 9]) for n, letter in enumerate("abc")]
    taped, llm = tape(index_over(nodes, world)), ScriptedLLM(world, librarian)
    engine = taped.as_query_engine(llm=llm)
    assert isinstance(engine, BaseQueryEngine)
    streaming = taped.as_query_engine(llm=llm, streaming=True)
    chat = taped.as_chat_engine(llm=llm, chat_mode="condense_plus_context")
    return [
        shown_response(engine.query("Where is the Louvre?")),
        list(streaming.query("And Rome?").response_gen),
        [str(chat.chat("Hello")), list(chat.stream_chat("Again").response_gen)],
        [(node.node.node_id, node.score) for node in taped.as_retriever().retrieve("Rome")],
    ]


class Own(CustomQueryEngine):
    """A query engine of the user's own."""

    llm: Any

    def custom_query(self, query_str: str) -> str:
        """Ask twice."""
        return f"{self.llm.complete(query_str)} {self.llm.complete(query_str)}"


async def parts_of_engines(world: World) -> Any:
    """The components of engines, used alone."""
    llm = ScriptedLLM(world, librarian)
    node = NodeWithScore(node=TextNode(id_="a", text="a"), score=1.0)
    synthesizer = tape(get_response_synthesizer(llm=llm, streaming=True, use_async=True))
    streamed = await synthesizer.asynthesize("Why?", [node])
    selected = await tape(LLMSingleSelector.from_defaults(llm=llm)).aselect(["one", "two"], "Which?")
    memory = tape(ChatSummaryMemoryBuffer.from_defaults(llm=llm, token_limit=5))
    await memory.aput_messages([ChatMessage(role="user", content="a long line " * 9) for _ in range(3)])
    return [
        [token async for token in streamed.async_response_gen()],
        selected.ind,
        [message.content for message in await memory.aget()],
        str(await tape(Own(llm=llm)).aquery("Own?")),
        str(tape(SimpleChatEngine.from_defaults(llm=llm)).chat("Hi")),
        [list(node.metadata.values()) for node in tape(TitleExtractor(llm=llm, nodes=1))([TextNode(text="x")])],
        [
            node.embedding
            for node in await tape(IngestionPipeline(transformations=[ScriptedEmbedding(world)])).arun(
                documents=[Document(text="y")]
            )
        ],
    ]


@pytest.mark.parametrize("program", [agent, agent_workflow, workflow, interview, index, parts_of_engines])
def test_a_taped_whole_takes_part_where_nothing_else_does(program: Any, tmp_path: Path) -> None:
    """Its parts are recorded and replayed without an automatic session; values, events and spans are equal."""
    recorded, replayed = record_and_replay(program, tmp_path / "whole.yaml", auto=False)
    assert replayed.value == recorded.value
    if program is index:  # a streamed chat is read in a thread: its order is kept where all of the framework takes part
        for part, take in (("events", repr), ("spans", lambda span: repr(span[:2]))):
            assert sorted(map(take, replayed.log[part])) == sorted(map(take, recorded.log[part]))
    else:
        assert compare_runs(recorded.log, replayed.log) == []
    assert all(item.parent is None for item in recorded.cassette.interactions)


def test_a_taped_whole_is_what_it_was(tmp_path: Path) -> None:
    """World of a session, and beside it, it shares the state of the original; taping twice is taping once."""
    world = World()
    engine = SimpleChatEngine.from_defaults(llm=ScriptedLLM(world))
    taped = tape(engine)
    assert type(taped).__name__ == "SimpleChatEngine"
    assert tape(taped) is taped
    taped.chat("Hello")
    assert len(engine.chat_history) == 2
    with use_cassette(tmp_path / "beside.yaml", mode="once", auto=False) as cassette:
        engine.chat("I do not take part")
        taped.chat("I do")
    assert str(cassette.report) == "0 replayed, 1 recorded"


def test_what_is_no_part_is_refused() -> None:
    """`tape` names what it takes."""
    with pytest.raises(ConfigurationError, match=r"cannot tape builtins\.object[\s\S]*a workflow of LlamaIndex"):
        tape(object())


# -- What is recorded of programs. That they are the same on replay is tested with those of the other frameworks -------


def test_an_agent_that_is_a_tool_is_recorded_as_a_tool(tmp_path: Path) -> None:
    """An agent within another's tool is recorded with the tool around it."""
    recorded, _ = record_and_replay(PROGRAMS["agent_as_tool"], tmp_path / "agents.yaml")
    assert "ask_expert" in {row.name for row in recorded.cassette.interactions}


def test_the_function_that_fills_in_an_object_is_no_tool(tmp_path: Path) -> None:
    """The function that the framework makes of a class runs; only models are recorded."""
    recorded, _ = record_and_replay(PROGRAMS["extraction"], tmp_path / "objects.yaml")
    assert {item.kind for item in recorded.cassette.interactions} == {"chat", "embeddings"}
