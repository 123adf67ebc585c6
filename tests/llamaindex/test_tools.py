"""Tools: what is replayed of them, what they do besides, and whose tools run."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.

import asyncio
from pathlib import Path
from typing import Any

import llama_index.core
import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.workflow import Context, Event, HumanResponseEvent, InputRequiredEvent
from packaging.version import Version

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedCallError
from agenttape_llamaindex import ReplayTool, TapeEventHandler, tape

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay, run
from .programs import Weather, after_tools, city_tools, engine_tools, librarian, shown
from .scripted import ScriptedLLM, World

CALLED_ONCE = pytest.mark.skipif(
    Version(llama_index.core.__version__) < Version("0.14.25"), reason="LlamaIndex calls a tool that raised once more"
)

pytestmark = FRAMEWORK_WARNINGS


def rows(run_: Any) -> list[tuple[str, str]]:
    """Return the kinds and names of what was recorded."""
    return [(item.kind, item.name) for item in run_.cassette.interactions]


class Thermometer(AsyncBaseTool):
    """A tool of a class of its own."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(name="thermometer", description="Measures.")

    def call(self, input: str) -> ToolOutput:  # noqa: A002 - the framework's name
        return self._measured(input)

    async def acall(self, input: str) -> ToolOutput:  # noqa: A002 - the framework's name
        return self._measured(input)

    def _measured(self, where: str) -> ToolOutput:
        number = self.world.reach("thermometer")
        return ToolOutput(
            tool_name="thermometer", content=f"{number} in {where}", raw_input={}, raw_output={"degrees": number}
        )


class OldThermometer(BaseTool):
    """A tool that is only synchronous."""

    def __init__(self, world: World) -> None:
        self.world = world

    metadata = ToolMetadata(name="old", description="Measures.")  # type: ignore[assignment]

    def __call__(self, input: str) -> ToolOutput:  # noqa: A002 - the framework's name
        return ToolOutput(tool_name="old", content=f"{self.world.reach('old')} in {input}", raw_input={})


def blocks_tool(world: World) -> FunctionTool:
    """Return a tool whose result is blocks."""

    def look(at: str) -> list[Any]:
        return [TextBlock(text=f"{at} {world.reach('look')}"), ImageBlock(image=b"aGk=", image_mimetype="image/png")]

    return FunctionTool.from_defaults(look)


@pytest.mark.parametrize("auto", [True, False])
def test_outputs_of_tools_are_replayed(auto: bool, tmp_path: Path) -> None:
    """Blocks, raw outputs and inputs are equal, however a tool is called; taped by hand or met."""

    def given_to(tool: Any) -> dict[str, Any]:
        """Return an argument for a tool that has one."""
        if not isinstance(tool, FunctionTool):
            return {"input": "Oslo"}
        return {next(iter(tool.metadata.get_parameters_dict()["properties"])): "Oslo"}

    async def every_call(world: World) -> Any:
        """Call every sort of tool in every way there is."""
        tools: list[Any] = [*city_tools(world), Thermometer(world), OldThermometer(world), blocks_tool(world)]
        told = []
        for tool in tools:
            given = given_to(tool)
            told.append(call_tool(tool, given))
            told.append(tool(next(iter(given.values()))))
            told.append(await acall_tool(tool, given))
        return [(shown(output), output.content) for output in told]

    def program(world: World) -> Any:
        if auto:
            return every_call(world)
        tools = [tape(tool) for tool in (*city_tools(world), Thermometer(world), OldThermometer(world))]
        return [shown(call_tool(tool, given_to(tool))) for tool in tools]

    recorded, replayed = record_and_replay(program, tmp_path / "tools.yaml", auto=auto)
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    assert {kind for kind, _ in rows(recorded)} == {"tool"}
    if not auto:
        assert [name for _, name in rows(recorded)] == ["temperature", "population", "thermometer", "old"]


def test_what_a_tool_makes_of_a_result_runs(tmp_path: Path) -> None:
    """A callback of the user's is not part of what is recorded: it may change between recording and replay."""
    said = ["as recorded"]

    def program(world: World) -> Any:
        def measure(city: str) -> Weather:
            return Weather(city=city, degrees=world.reach("measure"))

        tool = FunctionTool.from_defaults(measure, callback=lambda weather: f"{weather.degrees} {said[0]}")
        output = tool(city="Oslo")
        return output.content, output.raw_output

    path, world = tmp_path / "callback.yaml", World()
    assert run(program, world, path, "once").value == ("1 as recorded", Weather(city="Oslo", degrees=1))
    said[0], world.gone = "as now", True
    assert run(program, world, path, "none").value == ("1 as now", Weather(city="Oslo", degrees=1))


def shelves(world: World) -> FunctionTool:
    """Return a tool with a set in its result, written `{8, 0}` where it was made, and `{0, 8}` where it was read."""

    def shelves(of: str) -> dict[str, Any]:
        world.reach(of)
        return {"free": {8, 0}}

    return FunctionTool.from_defaults(shelves)


async def test_the_text_of_a_set_is_the_recorded_one(world: World, tmp_path: Path) -> None:
    """A model is shown the text that it was shown, though a set has another order in each process."""
    path, tool = tmp_path / "set.yaml", shelves(world)
    with TapeEventHandler(tmp_path / "seen.yaml"):
        assert tool(of="a").content == "{'free': {8, 0}}"
    with use_cassette(path, mode="all"):
        recorded = [tool(of="b").content, (await tool.acall(of="c")).content]
    world.gone = True
    assert str({"free": {0, 8}}) not in recorded
    for read in (path, tmp_path / "seen.yaml"):
        stand_in = ReplayTool(read, "shelves", metadata=tool.metadata)
        with use_cassette(read, on_unused="ignore"):
            for of in "a" if read is not path else "bc":
                replayed = [tool(of=of), await stand_in.acall(of=of)]
                assert [output.content for output in replayed] == ["{'free': {8, 0}}"] * 2
                assert replayed[0].raw_output == {"free": {0, 8}}


@CALLED_ONCE
def test_an_error_of_a_tool_is_raised_again(tmp_path: Path) -> None:
    """The output that the framework makes of it holds an error of the recorded type."""

    def program(world: World) -> Any:
        def fly(to: str) -> str:
            raise FileNotFoundError(2, "no flight", f"{to}-{world.reach('fly')}")

        output = call_tool(FunctionTool.from_defaults(fly), {"to": "Rome"})
        error = output.exception
        assert isinstance(error, FileNotFoundError)
        return output.content, output.is_error, error.errno, error.filename

    recorded, replayed = record_and_replay(program, tmp_path / "error.yaml")
    assert replayed.value == recorded.value == ("Encountered error: [Errno 2] no flight: 'Rome-1'", True, 2, "Rome-1")


def test_a_call_is_the_same_however_its_arguments_are_given(tmp_path: Path) -> None:
    """By position or by name, awaited or not, in a context or not: it is one request."""
    temperature = city_tools(World())[0]
    with use_cassette(tmp_path / "same.yaml", mode="once"):
        recorded = temperature("Oslo").content
    with use_cassette(tmp_path / "same.yaml"):
        assert asyncio.run(temperature.acall(city="Oslo")).content == recorded


def test_tools_of_engines_run(tmp_path: Path) -> None:
    """A tool that the framework makes of an engine is no boundary: the engine runs, and its models are replayed."""

    def program(world: World) -> Any:
        facts = engine_tools(world, ScriptedLLM(world, librarian))[0]
        return shown(facts(input="Where is the Louvre?").content)

    recorded, replayed = record_and_replay(program, tmp_path / "engine.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    assert {kind for kind, _ in rows(recorded)} == {"embeddings", "chat"}


def test_a_taped_tool_of_an_engine_is_a_call_of_its_own(tmp_path: Path) -> None:
    """Taped by hand it is a tool call, which is stepped into on replay."""

    def program(world: World) -> Any:
        facts = tape(engine_tools(world, ScriptedLLM(world, librarian))[0])
        return facts(input="Where is the Louvre?").content

    recorded, replayed = record_and_replay(program, tmp_path / "engine.yaml")
    assert replayed.value == recorded.value
    assert ("tool", "facts") in rows(recorded)
    assert [call_record.name for call_record in replayed.cassette.report.stepped_into] == ["facts"]


def test_a_miss_passes_the_error_handling_of_tools(tmp_path: Path) -> None:
    """A runner that makes an output of every error does not make one of a miss."""
    temperature = city_tools(World())[0]
    with use_cassette(tmp_path / "miss.yaml", mode="once"):
        temperature(city="Oslo")
    with pytest.raises(CassetteMissError, match="Rome"), use_cassette(tmp_path / "miss.yaml", on_unused="ignore"):
        call_tool(temperature, {"city": "Rome"})


@CALLED_ONCE
def test_drift_is_an_error_for_the_model(tmp_path: Path) -> None:
    """With `on_miss="return"` an unrecorded call is an output with an error."""
    world = World()
    temperature, thermometer = city_tools(world)[0], Thermometer(world)
    with use_cassette(tmp_path / "unrecorded.yaml", mode="once"):
        call_tool(temperature, {"city": "Oslo"})
        call_tool(thermometer, {"input": "Oslo"})
    with use_cassette(tmp_path / "unrecorded.yaml", on_miss="return", on_unused="ignore") as cassette:
        outputs = [call_tool(temperature, {"city": "Rome"}), call_tool(thermometer, {"input": "Rome"})]
    assert [output.is_error for output in outputs] == [True, True]
    assert isinstance(outputs[0].exception, UnrecordedCallError)
    assert all("The tool is not available." in output.content for output in outputs)
    assert not any("recording" in output.content for output in outputs)
    assert len(cassette.report.unrecorded) == 2


# -- what a tool does to its workflow ---------------------------------------------------------------------------------


def test_changes_of_the_state_are_made_again(tmp_path: Path) -> None:
    """A replayed tool leaves the state of its workflow as the real one did."""

    def stateful(world: World) -> Any:
        """Run an agent whose tools change the state that they share in every way there is."""

        async def set_deep(ctx: Context, place: str) -> str:
            await ctx.store.set("state.seen.here", f"{place} {world.reach('set')}")
            return "set"

        async def edit(ctx: Context, place: str) -> str:
            async with ctx.store.edit_state() as state:
                state["state"]["list"].append(f"{place} {world.reach('edit')}")
                state["state"].pop("gone", None)
                state["added"] = {"by": place}
            return "edited"

        async def take_and_put(ctx: Context, place: str) -> str:
            state = await ctx.store.get("state")
            await ctx.store.set("state", {**state, "count": state["count"] + world.reach("count")})
            return "counted"

        script = after_tools([(name, {"place": "Oslo"}) for name in ("set_deep", "edit", "take_and_put")])
        initial = {"seen": {}, "list": ["first"], "gone": 1, "count": 0}
        agent = FunctionAgent(
            llm=ScriptedLLM(world, one_at_a_time(script)), tools=[set_deep, edit, take_and_put], initial_state=initial
        )

        async def main() -> Any:
            handler = agent.run("Change the state")
            await handler
            return [await handler.ctx.store.get("state"), await handler.ctx.store.get("added")]

        return main()

    def one_at_a_time(script: Any) -> Any:
        """Make a script call one tool after the other."""

        def called(messages: Any, tools: Any) -> Any:
            done = sum(message.role == "tool" for message in messages)
            calls = script([], tools)
            return [calls[done]] if done < len(calls) else "Done"

        return called

    recorded, replayed = record_and_replay(stateful, tmp_path / "state.yaml")
    assert recorded.value == [
        {"seen": {"here": "Oslo 2"}, "list": ["first", "Oslo 4"], "count": 6},
        {"by": "Oslo"},
    ]
    assert replayed.value == recorded.value


async def told(world: World) -> Any:
    """Run an agent with a tool that wants to tell what it does from a thread, where that fails."""

    def tell(ctx: Context, what: str) -> str:
        world.reach("tell")
        ctx.write_event_to_stream(Event(msg=what))
        return "told"

    handler = FunctionAgent(
        llm=ScriptedLLM(world, after_tools([("tell", {"what": "news"})])), tools=[tell], timeout=None
    ).run("Go")
    return [type(event).__name__ async for event in handler.stream_events()], str(await handler)


@pytest.mark.filterwarnings("ignore:.*never awaited")  # the framework leaves its own coroutine behind
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_tool_failed_to_do_is_not_done_again(tmp_path: Path) -> None:
    """An event that the framework refused to stream is streamed by no replay."""
    recorded, replayed = record_and_replay(told, tmp_path / "told.yaml")
    assert "Event" not in recorded.value[0]
    assert replayed.value == recorded.value


def test_another_answer_of_a_person_is_another_request(tmp_path: Path) -> None:
    """The result for the recorded answer of a person is not replayed for another answer."""

    def asks(answer: str) -> Any:
        """Make a program in which a tool asks a person, who gives this answer."""

        async def program(world: World) -> Any:
            async def delete(ctx: Context, what: str) -> str:
                said = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=f"{what}?"))
                return f"{said.response}: {world.reach('delete')}"

            handler = FunctionAgent(
                llm=ScriptedLLM(world, after_tools([("delete", {"what": "logs"})])), tools=[delete]
            ).run("Go")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    handler.ctx.send_event(HumanResponseEvent(response=answer))
            return str(await handler)

        return program

    path, world = tmp_path / "person.yaml", World()
    recorded = run(asks("yes"), world, path, "once")
    assert run(asks("yes"), world, path, "none").value == recorded.value
    with pytest.raises(CassetteMissError, match="delete"):
        run(asks("no"), world, path, "none")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_replayed_tool_changes_what_it_was_given(tmp_path: Path, is_async: bool) -> None:
    """What a function puts into its argument is there in a replay."""

    def collect(rows: list[str]) -> int:
        rows.append("found")
        return len(rows)

    tool = FunctionTool.from_defaults(collect)
    for mode in ("all", "none"):
        rows: list[str] = []
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            output = asyncio.run(tool.acall(rows=rows)) if is_async else tool.call(rows=rows)
        assert (output.raw_output, rows) == (1, ["found"])
