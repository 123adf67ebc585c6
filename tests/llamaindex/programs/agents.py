"""Programs with agents: tools, structured output, hand-offs, people, memories."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import FactExtractionMemoryBlock, Memory, StaticMemoryBlock
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
)
from pydantic import BaseModel

from ..scripted import Call, Reply, Reversing, ScriptedLLM, World
from .registry import followed, program, shown


def after_tools(calls: Sequence[Call], answer: str = "That is all.") -> Callable[..., Reply]:
    """Make a script that first calls tools, and then answers."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return f"{answer} {said}" if said or not tools else list(calls)

    return script


def city_tools(world: World) -> list[FunctionTool]:
    """Return two tools, of which one is asynchronous."""

    def temperature(city: str) -> str:
        """Tell the temperature of a city."""
        return f"{10 + world.reach('temperature')} degrees in {city}"

    async def population(city: str, year: int = 2026) -> dict[str, int]:
        """Tell how many people live in a city."""
        return {city: year * 1000 + world.reach("population")}

    return [FunctionTool.from_defaults(temperature), FunctionTool.from_defaults(population)]


@program
async def function_agent(world: World) -> Any:
    """A function agent that calls a tool, then another one."""
    calls = [("temperature", {"city": "Paris"}), ("population", {"city": "Rome", "year": 2020})]

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return [calls[len(said)]] if len(said) < len(calls) else f"That is all: {said}"

    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=city_tools(world), system_prompt="Be brief.")
    return await followed(agent.run("How warm is Paris, how large is Rome?"))


@program
async def parallel_tools(world: World) -> Any:
    """An agent whose tools answer in another order than they were called in."""
    reversing = Reversing(3)

    async def look(where: str) -> str:
        """Look somewhere."""
        number = world.reach("look")
        await reversing()
        return f"{where} was the number {number}"

    script = after_tools([("look", {"where": where}) for where in ("left", "right", "up")])
    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=[look]).run("Look around"))


@program
async def function_agent_that_does_not_stream(world: World) -> Any:
    """The same without streaming, over two turns of one context."""
    script = after_tools([("temperature", {"city": "Paris"})])
    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=city_tools(world), streaming=False)
    context = Context(agent)
    first = await followed(agent.run("How warm is Paris?", ctx=context))
    return [first, await followed(agent.run("And tomorrow?", ctx=context))]


@program
async def agent_whose_tool_fails(world: World) -> Any:
    """An agent whose model sees the error of its tool."""

    def fly(to: str) -> str:
        """Fly somewhere."""
        raise ValueError(f"no flight {world.reach('fly')} to {to}")

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return [[("fly", {"to": "Rome"})], [("walk", {})], f"I stay: {said}"][len(said)]

    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=[fly]).run("Go to Rome"))


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


@program
async def agent_with_structured_output(world: World) -> Any:
    """An agent that ends with an object, after a tool that returns directly what a callback made of it."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        if tools == ["Weather"]:
            return [("Weather", {"city": "Oslo", "degrees": 3})]
        return after_tools([("measure", {"city": "Oslo"})])(messages, tools)

    def measure(city: str) -> Weather:
        """Measure the weather."""
        return Weather(city=city, degrees=world.reach("measure"))

    tool = FunctionTool.from_defaults(measure, callback=lambda weather: f"{weather.degrees} C", return_direct=True)
    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=[tool], output_cls=Weather)
    return await followed(agent.run("The weather in Oslo?"))


@program
async def react_agent(world: World) -> Any:
    """A ReAct agent."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        seen = "\n".join(message.content or "" for message in messages)
        if "Observation:" not in seen.split("Current Conversation")[-1]:
            return 'Thought: I need a tool.\nAction: temperature\nAction Input: {"city": "Paris"}'
        return "Thought: I can answer without using any more tools.\nAnswer: It is warm"

    agent = ReActAgent(llm=ScriptedLLM(world, script, function_calling=False), tools=city_tools(world))
    return await followed(agent.run("How warm is Paris?"))


@program
async def code_act_agent(world: World) -> Any:
    """An agent that writes code, which somebody else executes."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        done = any("Result of executing" in (message.content or "") for message in messages)
        return "It is 42." if done else "I compute.\n<execute>\nprint(6 * 7)\n</execute>"

    async def execute(code: str) -> str:
        return f"{eval(code.removeprefix('print(').removesuffix(')'))} after {world.reach('execute')}"

    agent = CodeActAgent(llm=ScriptedLLM(world, script), tools=city_tools(world)[:1], code_execute_fn=execute)
    return await followed(agent.run("What is six times seven?"))


@program
async def handoff(world: World) -> Any:
    """Two agents; the first writes into the state that both share, and hands off to the second."""

    async def note(ctx: Context, text: str) -> str:
        """Keep a note."""
        async with ctx.store.edit_state() as state:
            state["state"]["notes"] = [*state["state"]["notes"], f"{text} {world.reach('note')}"]
        return "Noted."

    async def publish(ctx: Context) -> str:
        """Publish the notes."""
        state = await ctx.store.get("state")
        await ctx.store.set("state.published", True)
        ctx.write_event_to_stream(Published(notes=len(state["notes"])))
        return f"published {state['notes']} as {world.reach('publish')}"

    def researcher(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        if not said:
            return [("note", {"text": "Paris is large"})]
        return [("handoff", {"to_agent": "Writer", "reason": "the notes are there"})]

    agents = [
        FunctionAgent(
            name="Researcher",
            description="Finds facts.",
            llm=ScriptedLLM(world, researcher),
            tools=[note],
            can_handoff_to=["Writer"],
        ),
        FunctionAgent(
            name="Writer",
            description="Writes.",
            llm=ScriptedLLM(world, after_publish),
            tools=[publish],
            can_handoff_to=[],
        ),
    ]
    workflow = AgentWorkflow(agents=agents, root_agent="Researcher", initial_state={"notes": []})
    handler = workflow.run("Write about Paris")
    told = await followed(handler)
    return {**told, "state": shown(await handler.ctx.store.get("state"))}


class Published(Event):
    """A report of a tool while it works."""

    notes: int


def after_publish(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Publish once, then end."""
    done = any("published" in (message.content or "") for message in messages if message.role == "tool")
    return "It is out." if done else [("publish", {})]


@program
async def agent_as_tool(world: World) -> Any:
    """An agent whose tool is another agent."""
    expert = FunctionAgent(
        llm=ScriptedLLM(world, after_tools([("temperature", {"city": "Rome"})])), tools=city_tools(world)
    )

    async def ask_expert(ctx: Context, question: str) -> str:
        """Ask the expert."""
        return str(await expert.run(question))

    script = after_tools([("ask_expert", {"question": "How warm is Rome?"})])
    return await followed(FunctionAgent(llm=ScriptedLLM(world, script), tools=[ask_expert]).run("Find out."))


@program
async def tool_that_asks_a_human(world: World) -> Any:
    """An agent whose tool waits for a person."""

    async def delete(ctx: Context, what: str) -> str:
        """Delete something, if a person agrees."""
        answer = await ctx.wait_for_event(
            HumanResponseEvent,
            waiter_id=what,
            waiter_event=InputRequiredEvent(prefix=f"Delete {what}?"),
            requirements={"who": "Ada"},
        )
        return f"deleted {what} as {world.reach('delete')}" if answer.response == "yes" else "kept"

    script = after_tools([("delete", {"what": "logs"})])
    handler = FunctionAgent(llm=ScriptedLLM(world, script), tools=[delete]).run("Clean up")
    events = []
    async for event in handler.stream_events():
        events.append(shown(event))
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes", who="Ada"))
    return {"events": events, "result": shown(await handler)}


def rememberer(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Extract facts if the prompt is for facts."""
    text = "\n".join(message.content or "" for message in messages)
    if "fact extraction system" in text:
        return "<facts>\n  <fact>She likes Paris</fact>\n</facts>"
    return f"I remember {len(messages)} messages."


@program
async def agent_with_memory(world: World) -> Any:
    """An agent over five turns, whose memory is cut and kept as facts."""
    llm = ScriptedLLM(world, rememberer)
    memory = Memory.from_defaults(
        token_limit=60,
        token_flush_size=10,
        chat_history_token_ratio=0.5,
        memory_blocks=[
            StaticMemoryBlock(name="who", static_content="She is Ada."),
            FactExtractionMemoryBlock(name="facts", llm=llm, max_facts=5),
        ],
    )
    agent = FunctionAgent(llm=llm, tools=[])
    said = [f"This is what I say in turn {turn}, and it is long enough" for turn in range(5)]
    told = [str(await agent.run(line, memory=memory)) for line in said]
    kept = [(message.role.value, message.content) for message in await memory.aget()]
    everything = [message.content for message in await memory.aget_all()]
    await close(memory)
    return [told, kept, memory.session_id, everything]


async def close(memory: Memory) -> None:
    """Close the database of a memory, which nothing else does."""
    engine = memory.sql_store._async_engine
    assert engine is not None
    await engine.dispose()


@program
async def agent_with_history(world: World) -> Any:
    """An agent that is given what was said before."""
    history = [ChatMessage(role=role, content=f"{role} {turn}") for turn in range(3) for role in ("user", "assistant")]

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        return f"I was told {[message.content for message in messages]}."

    memory = Memory.from_defaults(session_id="ada")
    agent = FunctionAgent(llm=ScriptedLLM(world, script), tools=[])
    told = str(await agent.run("And now?", chat_history=history, memory=memory))
    await close(memory)
    return told
