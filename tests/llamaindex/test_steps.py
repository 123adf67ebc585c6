"""Workflows are stepped through: their ticks are recorded, and a recorded run goes on from any of its steps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, Memory
from pydantic import BaseModel
from tests.kit.world import gone
from workflows import Context, Workflow, step
from workflows.errors import WorkflowTimeoutError
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent
from workflows.plugins.basic import basic_runtime
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.pytest_plugin import TestCassette
from agenttape_llamaindex import RecordedStep, TapeEventHandler, TapeRuntime, context_at, steps_of

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .programs import Parallel, Part
from .scripted import Reply, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS

NO_STEPS = r"observe the workflow with TapeEventHandler, or record it with runtime=TapeRuntime\(\.\.\.\)"


class Named(Event):
    """The name of the person."""

    name: str


class Greeter(Workflow):
    """Asks a person's name, and greets; notes which of its steps really ran."""

    def __init__(self, ran: list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ran = ran if ran is not None else []

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> InputRequiredEvent:
        """Ask."""
        self.ran.append("begin")
        await ctx.store.set("greeting", ev.greeting)
        await ctx.store.set("asked", [1, {"deep": [True, None, 2.5]}])
        ctx.write_event_to_stream(Event(note="thinking"))
        return InputRequiredEvent(prefix="Your name?")

    @step
    async def hear(self, ctx: Context, ev: HumanResponseEvent) -> Named:
        """Hear."""
        self.ran.append("hear")
        return Named(name=ev.response)

    @step
    async def greet(self, ctx: Context, ev: Named) -> StopEvent:
        """Greet."""
        self.ran.append("greet")
        return StopEvent(result=f"{await ctx.store.get('greeting')}, {ev.name}!")


async def answered(handler: Any, answer: str = "Ada") -> Any:
    """Answer what a workflow asks, and return its result."""
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response=answer))
    return await handler


async def greeted(greeting: str = "Hello") -> Any:
    """Greet once."""
    return await answered(Greeter().run(greeting=greeting))


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The cassette of a greeting that was observed."""
    with observing(tmp_path / "seen.yaml"):
        assert asyncio.run(greeted()) == "Hello, Ada!"
    return tmp_path / "seen.yaml"


def told(steps: Sequence[RecordedStep]) -> list[tuple[Any, ...]]:
    """The steps in short."""
    return [(s.number, s.kind, s.name, s.input and s.input.name, [event.name for event in s.outputs]) for s in steps]


def test_the_steps_of_a_workflow(seen: Path) -> None:
    """Each step has its input, its outputs, what it published and the state after it; so do events from outside."""
    steps = steps_of(seen)
    assert told(steps) == [
        (1, "start", "StartEvent", None, ["StartEvent"]),
        (2, "step", "begin", "StartEvent", ["InputRequiredEvent"]),
        (3, "answer", "HumanResponseEvent", None, ["HumanResponseEvent"]),
        (4, "step", "hear", "HumanResponseEvent", ["Named"]),
        (5, "step", "greet", "Named", ["StopEvent"]),
    ]
    assert steps[0].outputs[0].fields == {"greeting": "Hello"}
    assert steps[1].published[0].fields == {"note": "thinking"}
    assert [step.state for step in steps[:2]] == [{}, {"greeting": "Hello", "asked": [1, {"deep": [True, None, 2.5]}]}]
    assert steps[2].outputs[0].fields == {"response": "Ada"}
    assert {step.status for step in steps} == {"ended"}
    assert {step.run for step in steps} == {"Greeter.run"}


def test_the_tree_of_a_workflow(seen: Path) -> None:
    """The run and its step functions are steps of the tree, with the words that graphs have for them."""
    steps = [step for step in open_cassette(seen).steps() if step.kind in ("chain", "node")]
    assert [(step.kind, step.name) for step in steps] == [
        ("chain", "Greeter.run"),
        ("node", "begin"),
        ("node", "hear"),
        ("node", "greet"),
    ]
    assert steps[0].input == {"event": "StartEvent", "greeting": "Hello"}
    assert steps[0].output == {"event": "StopEvent", "result": "Hello, Ada!"}


@pytest.mark.parametrize(
    ("number", "ran"), [(1, ["begin", "hear", "greet"]), (2, ["hear", "greet"]), (3, ["hear", "greet"]), (4, ["greet"])]
)
async def test_going_on_from_a_step(number: int, ran: list[str], seen: Path) -> None:
    """A run goes on from any step: what was before it does not run again, and what comes after it does."""
    workflow = Greeter()
    handler = workflow.run(ctx=context_at(seen, workflow, step=number))
    if number == 2:  # it had asked already, and waits
        handler.ctx.send_event(HumanResponseEvent(response="Ada"))
    assert await answered(handler) == "Hello, Ada!"
    assert workflow.ran == ran


async def test_going_on_with_another_state_and_another_answer(seen: Path) -> None:
    """A run continues with an edited state and another answer of the person."""
    workflow = Greeter()
    handler = workflow.run(ctx=context_at(seen, workflow, step=2, state_update={"greeting": "Salve"}))
    handler.ctx.send_event(HumanResponseEvent(response="Marcus"))
    assert await answered(handler) == "Salve, Marcus!"


async def test_a_run_that_went_on_is_recorded_too(seen: Path, tmp_path: Path) -> None:
    """A run that began with the context of another one can itself be gone back to."""
    workflow = Greeter()
    with observing(tmp_path / "second.yaml"):
        assert await answered(workflow.run(ctx=context_at(seen, workflow, step=3))) == "Hello, Ada!"
    assert [step.name for step in steps_of(tmp_path / "second.yaml")] == ["hear", "greet"]
    again = Greeter()
    assert await answered(again.run(ctx=context_at(tmp_path / "second.yaml", again, step=1))) == "Hello, Ada!"
    assert again.ran == ["greet"]


async def test_several_runs_in_one_file(tmp_path: Path) -> None:
    """Runs at once and one after the other are told apart."""
    with TapeEventHandler(tmp_path / "seen.jsonl"):
        await asyncio.gather(*(greeted(word) for word in ("Hi", "Ho")))
        await answered(Greeter().run(greeting="Last"))
    assert len(steps_of(tmp_path / "seen.jsonl")) == 15
    greetings = {steps_of(tmp_path / "seen.jsonl", run=run)[0].outputs[0].fields["greeting"] for run in range(3)}
    assert greetings == {"Hi", "Ho", "Last"}
    assert steps_of(tmp_path / "seen.jsonl", run=-1)[0].outputs[0].fields == {"greeting": "Last"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"step": 9}, "expected a step from 1 to 5, found 9"),
        ({"step": 0}, "expected a step from 1 to 5, found 0"),
    ],
)
def test_no_such_step(arguments: dict[str, int], expected: str, seen: Path) -> None:
    """A step that is not there is refused, with those that are."""
    with pytest.raises(ConfigurationError, match=expected):
        context_at(seen, Greeter(), **arguments)


@pytest.mark.parametrize("run", [1, 9, -2])
def test_no_such_run(run: int, seen: Path) -> None:
    """A run that is not there is refused, with those that are."""
    expected = rf"expected a run from -1 to 0 .*, found {run}$"
    with pytest.raises(ConfigurationError, match=expected):
        steps_of(seen, run=run)
    with pytest.raises(ConfigurationError, match=expected):
        context_at(seen, Greeter(), run=run)


def test_another_workflow(seen: Path) -> None:
    """A recording that does not fit the workflow is refused by our error."""
    with pytest.raises(ConfigurationError, match="does not fit the workflow"):
        context_at(seen, Parallel(ScriptedLLM(World())), step=5)


def test_a_cassette_without_workflows(tmp_path: Path) -> None:
    """Steps of a cassette that has none, and a way back in it, are refused, and it is said how to record them."""
    with use_cassette(tmp_path / "none.yaml", mode="all"):
        ScriptedLLM(World()).complete("a")
    for run in (None, 0):
        with pytest.raises(ConfigurationError, match=NO_STEPS):
            steps_of(tmp_path / "none.yaml", run=run)
    with pytest.raises(ConfigurationError, match=NO_STEPS):
        context_at(tmp_path / "none.yaml", Greeter())


# -- agents -----------------------------------------------------------------------------------------------------------


def adding(turns: int) -> Any:
    """A script that calls a tool for some turns."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        done = sum(message.role.value == "tool" for message in messages)
        return [("add", {"a": done, "b": 1})] if done < turns else "done"

    return script


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(world: World, turns: int = 2) -> FunctionAgent:
    """An agent that adds for some turns."""
    return FunctionAgent(tools=[add], llm=ScriptedLLM(world, adding(turns)), system_prompt="Add.", timeout=60)


MEMORIES = {
    "by default": lambda: None,
    "buffer": lambda: ChatMemoryBuffer.from_defaults(chat_history=[ChatMessage(role="user", content="before")]),
    "database": lambda: Memory.from_defaults(session_id="s"),
}


@pytest.mark.parametrize("memory", MEMORIES)
async def test_an_agent_goes_on_from_every_step(memory: str, tmp_path: Path) -> None:
    """From each step of an agent on, only the calls after it are made, and the result is the same."""
    world = World()
    with observing(tmp_path / "seen.yaml"):
        result = str(await agent(world).run("Add up", memory=MEMORIES[memory]()))
    steps = steps_of(tmp_path / "seen.yaml")
    asked = 0
    for recorded in steps[:-1]:
        asked += recorded.name == "run_agent_step"
        again = World()
        ended = await agent(again).run(ctx=context_at(tmp_path / "seen.yaml", agent(again), step=recorded.number))
        assert len(again.reached) == 3 - asked, recorded
        assert str(ended).partition("(")[0] == result.partition("(")[0]
    assert asked == 3


async def test_an_agent_goes_on_from_a_step_with_nothing_live(tmp_path: Path) -> None:
    """The calls of a continued run are replayed from the cassette of the recorded run."""
    with TapeEventHandler(tmp_path / "seen.yaml"):
        result = str(await agent(World()).run("Add up"))
    world = gone()
    with use_cassette(tmp_path / "seen.yaml", on_unused="ignore") as session:
        again = agent(world)
        assert str(await again.run(ctx=context_at(tmp_path / "seen.yaml", again, step=7))) == result
    assert world.trespasses == []
    assert [call_record.kind for call_record in session.report.replayed] == ["chat", "tool", "chat"]


async def test_the_ticks_of_an_agent_grow_as_it_does(tmp_path: Path) -> None:
    """Four times the turns take about four times the bytes, although each step is handed the whole conversation."""
    sizes = []
    for turns in (6, 24):
        path = tmp_path / f"{turns}.jsonl"
        with TapeEventHandler(path):
            await agent(World(), turns).run("Add up", max_iterations=100)
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] * 5


# -- sessions ---------------------------------------------------------------------------------------------------------


async def test_a_session_has_the_tree_and_no_ticks(tmp_path: Path) -> None:
    """The cassette of a session shows runs and step functions; a replay writes and asks for nothing of them."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "recorded.yaml", mode=mode):
            await agent(World()).run("Add up")
    steps = list(open_cassette(tmp_path / "recorded.yaml").steps())
    assert steps[0].kind == "agent"
    assert {step.kind for step in steps} == {"agent", "node"}
    assert [step.name for step in steps][1:4] == ["init_run", "setup_agent", "run_agent_step"]
    assert all(step.address.startswith(steps[0].address) for step in steps)
    with pytest.raises(ConfigurationError, match=NO_STEPS):
        steps_of(tmp_path / "recorded.yaml")


async def test_a_session_has_the_ticks_of_a_tape_runtime(tmp_path: Path) -> None:
    """A workflow on a `TapeRuntime` can be stepped through in the cassette of a session, and beside a handler."""
    workflow = Greeter(runtime=TapeRuntime(basic_runtime))
    with use_cassette(tmp_path / "recorded.yaml", mode="all"), TapeEventHandler(tmp_path / "seen.yaml"):
        await answered(workflow.run(greeting="Hello"))
    assert told(steps_of(tmp_path / "recorded.yaml")) == told(steps_of(tmp_path / "seen.yaml"))
    again = Greeter()
    assert await answered(again.run(ctx=context_at(tmp_path / "recorded.yaml", again, step=3))) == "Hello, Ada!"


async def test_a_run_that_was_added(tmp_path: Path) -> None:
    """A run that is added to a cassette has a place and steps of its own, and can be stepped through like the first."""
    path = tmp_path / "recorded.yaml"
    for mode, greeting in (("once", "Hello"), ("new_episodes", "Hi")):
        with use_cassette(path, mode=mode):
            await answered(Greeter(runtime=TapeRuntime(basic_runtime)).run(greeting=greeting))
    first, added = (steps_of(path, run=run) for run in (0, 1))
    assert [one.name for one in added] == [one.name for one in first]
    again = Greeter()
    assert await answered(again.run(ctx=context_at(path, again, step=3, run=1))) == "Hi, Ada!"
    before = path.read_bytes()
    with use_cassette(path, mode="new_episodes"):
        await answered(Greeter(runtime=TapeRuntime(basic_runtime)).run(greeting="Hi"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["all", "none"])
async def test_the_fixture_knows_the_steps(tmp_path: Path, mode: str) -> None:
    """The nodes of pytest's fixture are the step functions of a workflow, recorded or replayed."""
    path = tmp_path / "recorded.yaml"
    with use_cassette(path, mode="all"):
        await answered(Greeter().run(greeting="Hello"))
    with use_cassette(path, mode=mode) as session:
        session.ledger.watch_steps()
        await answered(Greeter().run(greeting="Hello"))
        TestCassette(session, "test", "pytest").assert_nodes(["begin", "hear", "greet"])


async def test_recording_again_changes_nothing(tmp_path: Path) -> None:
    """Two recordings of one run, with its steps and ticks, differ in what is volatile only."""
    written = []
    for _ in range(2):
        with use_cassette(tmp_path / "recorded.yaml", mode="all"):
            await answered(Greeter(runtime=TapeRuntime(basic_runtime)).run(greeting="Hello"))
        written.append([record.model_dump() for record in open_cassette(tmp_path / "recorded.yaml").records()])
    assert written[0] == written[1]


# -- what goes wrong --------------------------------------------------------------------------------------------------


class Handle:
    """A value that has no JSON form."""


class Holding(Event):
    """Holds such a value."""

    handle: Any


class Careless(Workflow):
    """Keeps and hands on what cannot be written."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Named | Holding:
        """Keep it."""
        await ctx.store.set("handle", Handle())
        return Holding(handle=Handle()) if ev.get("hand_on", False) else Named(name="x")

    @step
    async def end(self, ctx: Context, ev: Named | Holding) -> StopEvent:
        """End."""
        assert isinstance(await ctx.store.get("handle"), Handle)
        return StopEvent(result="ended")


async def test_a_state_that_cannot_be_written(tmp_path: Path) -> None:
    """A value of the state that could not be recorded is named when it is needed, and can be supplied."""
    with observing(tmp_path / "seen.yaml"):
        assert await Careless().run() == "ended"
    with pytest.raises(ConfigurationError, match=r"handle .*Handle.* could not be recorded; give it as state_update"):
        context_at(tmp_path / "seen.yaml", Careless(), step=2)
    workflow = Careless()
    context = context_at(tmp_path / "seen.yaml", workflow, step=2, state_update={"handle": Handle()})
    assert await workflow.run(ctx=context) == "ended"


async def test_an_event_that_cannot_be_written(tmp_path: Path) -> None:
    """The run goes on, its steps say what is missing, and there is no way back beyond it."""
    with observing(tmp_path / "seen.yaml"):
        assert await Careless().run(hand_on=True) == "ended"
    steps = steps_of(tmp_path / "seen.yaml")
    assert "cannot be written" in steps[1].note
    with pytest.raises(ConfigurationError, match="cannot go back to step 2"):
        context_at(tmp_path / "seen.yaml", Careless(), step=2)
    assert await Careless().run(ctx=context_at(tmp_path / "seen.yaml", Careless(), step=1)) == "ended"


class Flaky(Workflow):
    """Fails, is tried again, and fails for good."""

    @step(retry_policy=retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(2)))
    async def begin(self, ev: StartEvent) -> StopEvent:
        """Fail."""
        raise ValueError("no luck")


async def test_steps_that_fail(tmp_path: Path) -> None:
    """Each attempt of a step is there with its error, and the run in the tree has failed."""
    with TapeEventHandler(tmp_path / "seen.yaml"), pytest.raises(ValueError, match="no luck"):
        await Flaky().run()
    failed = [step for step in steps_of(tmp_path / "seen.yaml") if step.kind == "step"]
    assert [(step.name, step.status) for step in failed] == [("begin", "failed"), ("begin", "failed")]
    assert "no luck" in str(failed[0].error)
    (run,) = (step for step in open_cassette(tmp_path / "seen.yaml").steps() if step.kind == "chain")
    assert (run.status, run.error and run.error.message) == ("failed", "no luck")


class Waits(Workflow):
    """Waits for an answer that does not come."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Wait."""
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="Well?"))
        return StopEvent(result=answer.response)


async def test_interrupts_and_timeouts(tmp_path: Path) -> None:
    """A step that waits is an interrupt with what it asks, and a timeout is a step; both lead on when answered."""
    with TapeEventHandler(tmp_path / "seen.yaml"), pytest.raises(WorkflowTimeoutError):
        await Waits(timeout=0.05).run()
    steps = steps_of(tmp_path / "seen.yaml")
    assert [(step.kind, step.status) for step in steps] == [
        ("start", "ended"),
        ("step", "waiting"),
        ("timeout", "ended"),
    ]
    assert [event.fields for event in steps[1].outputs] == [{"prefix": "Well?"}]
    assert [step.name for step in open_cassette(tmp_path / "seen.yaml").steps() if step.kind == "interrupt"] == [
        "begin"
    ]
    workflow = Waits(timeout=20)
    handler = workflow.run(ctx=context_at(tmp_path / "seen.yaml", workflow, step=2))
    handler.ctx.send_event(HumanResponseEvent(response="at last"))
    assert await handler == "at last"


async def test_steps_at_once(tmp_path: Path) -> None:
    """Steps that run at once are recorded in the order in which they ended, and from each on only the rest is done."""
    with observing(tmp_path / "seen.yaml"):
        await Parallel(ScriptedLLM(World()), timeout=20).run(parts=3)
    worked = [step for step in steps_of(tmp_path / "seen.yaml") if step.name == "work"]
    assert sorted(step.input.fields["number"] for step in worked if step.input) == [0, 1, 2]
    for done, recorded in enumerate(worked, 1):
        world = World()
        again = Parallel(ScriptedLLM(world), timeout=20)
        assert "Sum up" in await again.run(ctx=context_at(tmp_path / "seen.yaml", again, step=recorded.number))
        assert len(world.reached) == 4 - done  # the parts that had not ended, and the sum


class Account(BaseModel):
    """A state of a class of its own."""

    owner: str = ""
    history: list[str] = []


async def test_typed_states_and_secrets(tmp_path: Path) -> None:
    """A state of a class of its own comes back as one; secrets in it are pseudonyms in the file."""

    class Typed(Workflow):
        """Has a state of its own class."""

        @step
        async def begin(self, ctx: Context[Account], ev: StartEvent) -> Part:
            """Write."""
            async with ctx.store.edit_state() as state:
                state.owner = ev.owner
                state.history.append("begun")
            return Part(number=1)

        @step
        async def end(self, ctx: Context[Account], ev: Part) -> StopEvent:
            """Read."""
            state = await ctx.store.get_state()
            return StopEvent(result=(state.owner, state.history))

    secret = "sk-" + "proj-" + "Qw7" * 12
    with observing(tmp_path / "seen.yaml"):
        await Typed().run(owner=f"Ada {secret}")
    assert secret not in (tmp_path / "seen.yaml").read_text()
    workflow = Typed()
    owner, history = await workflow.run(ctx=context_at(tmp_path / "seen.yaml", workflow, step=2))
    assert owner.startswith("Ada [REDACTED:")
    assert history == ["begun"]
    edited = context_at(tmp_path / "seen.yaml", workflow, step=2, state_update={"owner": "Eve"})
    assert (await workflow.run(ctx=edited))[0] == "Eve"
