"""A function that is an agent or an engine is run on replay, and the calls inside it are replayed and compared."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from agenttape_core import Session, use_cassette
from agenttape_core.errors import CassetteMissError

from ..kit.world import gone
from .acceptance import FRAMEWORK_WARNINGS
from .programs.agents import after_tools
from .programs.engines import engine_tools, librarian
from .scripted import Reversing, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


def chief(world: World, prompt: str = "You are an expert.") -> FunctionAgent:
    """Return an agent with two tools: an agent with a tool of its own, and a workflow of one that notes its state."""

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b + 0 * world.reach("add")

    expert = FunctionAgent(
        llm=ScriptedLLM(world, after_tools([("add", {"a": 1, "b": 2})])), tools=[add], system_prompt=prompt
    )
    critic = FunctionAgent(name="critic", description="Criticizes.", llm=ScriptedLLM(world), tools=[])

    async def ask_expert(question: str) -> str:
        """Ask the expert."""
        return str(await expert.run(f"{question} {uuid.uuid4().hex[:6]} at {datetime.now(UTC)}"))

    async def ask_critic(ctx: Context, text: str) -> str:
        """Ask the critic."""
        said = str(await AgentWorkflow(agents=[critic], root_agent="critic").run(text))
        async with ctx.store.edit_state() as state:
            state["said"] = said
        return said

    script = after_tools([("ask_expert", {"question": "1 + 2?"}), ("ask_critic", {"text": "three"})])
    return FunctionAgent(llm=ScriptedLLM(world, script), tools=[ask_expert, ask_critic])


async def run(agent: FunctionAgent) -> Any:
    """Return the answer of an agent, and the state of its context."""
    context: Context[Any] = Context(agent)
    answer = await agent.run("1 + 2?", ctx=context)
    state = await context.store.get_state()
    return str(answer), state.get("said"), [str(call.tool_output) for call in answer.tool_calls]


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Any]:
    """Record the chief; return the cassette and what came of its run."""
    path = tmp_path / "chief.yaml"
    with use_cassette(path, mode="once"):
        return path, asyncio.run(run(chief(World())))


def replayed(path: Path, agent: FunctionAgent, **options: Any) -> tuple[Any, Session]:
    """Replay an agent."""
    with use_cassette(path, **options) as session:
        return asyncio.run(run(agent)), session


def test_agents_as_tools_replay(recorded: tuple[Path, Any]) -> None:
    """Both agents run, with their workflows and what they do to the state; all that they ask is replayed."""
    path, result = recorded
    found, session = replayed(path, chief(gone()))
    assert found == result
    assert {call_record.name for call_record in session.report.stepped_into} == {"ask_expert", "ask_critic"}
    assert [str(one) for one in session.report.not_run] == ["add (calls nothing that is recorded)"]
    assert len(session.report.replayed) == 6


def test_edited_prompt_inside_is_a_miss(recorded: tuple[Path, Any]) -> None:
    """The prompt of an agent inside a tool is compared, unless the tool is frozen."""
    path, result = recorded
    with pytest.raises(CassetteMissError, match="pirate"):
        replayed(path, chief(gone(), "You are a pirate."))
    found, _ = replayed(path, chief(gone(), "You are a pirate."), replay_only={"ask_expert"})
    assert found == result


def test_engine_in_a_function_is_stepped_into(tmp_path: Path) -> None:
    """A function around a query engine runs: its retrieval and its synthesis are compared."""

    def lookup(world: World, script: Any = librarian) -> FunctionTool:
        facts = engine_tools(world, ScriptedLLM(world, script))[0]

        def look_up(question: str) -> str:
            """Look it up."""
            return str(facts(input=question).content)

        return FunctionTool.from_defaults(look_up)

    path = tmp_path / "engine.yaml"
    with use_cassette(path, mode="once"):
        recorded = lookup(World())(question="Where is the Louvre?").content
    with use_cassette(path) as session:
        assert lookup(gone())(question="Where is the Louvre?").content == recorded
    assert [call_record.name for call_record in session.report.stepped_into] == ["look_up"]
    assert {call_record.kind for call_record in session.report.replayed} == {"embeddings", "chat"}


def test_order_of_answers_inside_a_tool(tmp_path: Path) -> None:
    """Calls inside a tool that answered in another order than they were made do so again: their agent asks the same."""

    def asking(world: World) -> FunctionTool:
        reversing = Reversing(3)

        async def look(where: str) -> str:
            number = world.reach("look")
            await reversing()
            return f"{where} was the number {number}"

        script = after_tools([("look", {"where": where}) for where in ("left", "right", "up")])
        inner = FunctionAgent(llm=ScriptedLLM(world, script), tools=[look])

        async def look_around() -> str:
            return str(await inner.run("Look around"))

        return FunctionTool.from_defaults(look_around)

    path = tmp_path / "order.yaml"
    with use_cassette(path, mode="once"):
        recorded = asyncio.run(asking(World()).acall()).content
    with use_cassette(path) as session:
        assert asyncio.run(asking(gone()).acall()).content == recorded
    assert [call_record.name for call_record in session.report.stepped_into] == ["look_around"]


def test_chat_messages_inside_a_tool_called_by_hand(tmp_path: Path) -> None:
    """A tool that asks a model itself is stepped into, by `call` and by `acall`, whichever was recorded."""

    def tool(world: World, prompt: str) -> FunctionTool:
        llm = ScriptedLLM(world)

        def ask(question: str) -> str:
            return str(llm.chat([ChatMessage(role="user", content=f"{prompt} {question}")]).message.content)

        return FunctionTool.from_defaults(ask)

    path = tmp_path / "asked.yaml"
    with use_cassette(path, mode="once"):
        recorded = tool(World(), "Briefly:").call("why?").content
    with use_cassette(path):
        assert asyncio.run(tool(gone(), "Briefly:").acall("why?")).content == recorded
    with pytest.raises(CassetteMissError, match="At length"), use_cassette(path):
        tool(gone(), "At length:").call("why?")
