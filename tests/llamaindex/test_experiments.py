"""Experiments, judges and coverage over recorded runs of LlamaIndex."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.evaluation import FaithfulnessEvaluator
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step
from workflows.events import Event

from agenttape_core import Change, awhat_if, boundary, cut, edits, open_cassette, raises, returns, use_cassette, what_if
from agenttape_core.checks import check_run, judged, run_of
from agenttape_core.checks.judges import recording_judges
from agenttape_core.cli.app import run
from agenttape_core.cli.measures import Coverage
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import afaults, orders, why
from agenttape_llamaindex import TapeEventHandler

from ..kit.edited import noticed
from ..kit.edited import recorded as recorded_edit
from .acceptance import FRAMEWORK_WARNINGS
from .programs.workflows import Done, Part
from .scripted import Reply, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


# -- Recorded calls of LlamaIndex's agents are changed in LlamaIndex's own terms ---------------------------------------

WORLD = World()


@pytest.fixture(autouse=True)
def _nothing_is_done() -> Iterator[None]:
    yield
    assert WORLD.trespasses == []


def booking(messages: Sequence[ChatMessage], _: Sequence[str]) -> Reply:
    """Search, and say what was found."""
    results = [message.content for message in messages if message.role == "tool"]
    return f"Booked {results[-1]}" if results else [("search", {"place": "Luigi"})]


def search(place: str) -> str:
    """Find a place."""
    return f"{place} at eight, {WORLD.reach('search')}"


async def agent(*, streaming: bool = False) -> str:
    found = FunctionAgent(llm=ScriptedLLM(WORLD, booking), tools=[search], streaming=streaming)
    return str(await found.run("Book a table."))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A run that streams and one that does not, of a model that is gone then."""
    folder = tmp_path_factory.mktemp("what_if")
    paths = {streaming: folder / f"streaming-{streaming}.yaml" for streaming in (False, True)}
    WORLD.gone = False
    WORLD.reached.clear()  # a worker that comes back to this file records again, and answers have numbers
    for streaming, path in paths.items():
        asyncio.run(use_cassette(path, mode="all")(agent)(streaming=streaming))
    WORLD.gone = True
    return paths


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({3: returns("Done.")}, "Done."),
        ({3: returns(ChatMessage(role="assistant", content="Sure."))}, "Sure."),
        ({3: edits(lambda response: response.message.content.upper())}, "BOOKED LUIGI AT EIGHT, 2 (3)"),
        ({1: returns(ChatResponse(message=ChatMessage(role="assistant", content="No.")))}, "No."),
    ],
)
async def test_answers_of_models(recorded: dict[bool, Path], change: dict[int, Change], expected: str) -> None:
    """A text, a message or a response is the answer of a model, also of one that streamed."""
    assert (await awhat_if(recorded[False], agent, change)).result == expected
    streamed = await awhat_if(recorded[True], lambda: agent(streaming=True), change)
    again = expected.replace(", 2 (3)", ", 5 (6)")  # the numbers of the calls that were recorded later
    assert (streamed.result, streamed.new) == (again, ())


async def test_a_tool_that_fails(recorded: dict[bool, Path]) -> None:
    """The agent tells its model of the error of a tool, so the model is asked something else; nothing is executed."""
    found = await awhat_if(recorded[False], agent, {"search": raises(TimeoutError("slow"))}, on_new_call="address")
    assert ([one.number for one in found.changed], found.first_divergence and found.first_divergence.number) == ([3], 3)
    (content,) = [new for path, _, new in found.changed[0].differences if "slow" in new][:1]
    assert "slow" in content


async def test_an_error_of_a_model(recorded: dict[bool, Path]) -> None:
    """An error of a model ends the agent, at once or in the middle of its stream."""
    failed = await awhat_if(recorded[False], agent, {3: raises(ConnectionError("429"))})
    assert "429" in str(failed.raised)
    broken = await awhat_if(recorded[True], lambda: agent(streaming=True), {3: cut(after=1)})
    assert "the stream was cut after 1 chunk" in str(broken.raised)


def test_text_models(tmp_path: Path) -> None:
    """A text is the answer of a model that completes a prompt."""
    WORLD.gone, path = False, tmp_path / "c.yaml"
    llm = ScriptedLLM(WORLD)
    with use_cassette(path, mode="all"):
        llm.complete("hi")
    WORLD.gone = True
    assert what_if(path, lambda: llm.complete("hi").text, {1: returns("ho")}).result == "ho"
    with pytest.raises(ConfigurationError, match="expected a text or a response for ScriptedLLM, found 7"):
        what_if(path, lambda: llm.complete("hi"), {1: returns(7)})


@pytest.mark.parametrize("streaming", [pytest.param(False, marks=pytest.mark.night), True])
async def test_faults(recorded: dict[bool, Path], streaming: bool) -> None:
    """Each call of a FunctionAgent fails in each way; it has no retry, and tells its model of a failed tool."""
    found = await afaults(lambda: agent(streaming=streaming), recorded[streaming])
    marks: dict[str, list[str]] = {}
    for cell in found.cells:
        marks.setdefault(cell.fault, []).append(cell.verdict)
    assert marks.pop("cut_stream", ["raised"]) == ["raised"]
    outside = ["raised", "new_call", "raised"]
    assert marks == {
        **dict.fromkeys(("rate_limit", "timeout", "connection_reset"), outside),
        "cut_tool_call": ["raised"],
        "malformed_tool_call": ["new_call"],
        "empty": ["silent", "new_call", "silent"],
        "tool_error": ["new_call"],
        "inject": ["new_call"],
        "note": ["new_call"],
    }


# -- The links behind an answer of a LlamaIndex agent, wherever its session was opened when it was recorded ------------


@pytest.mark.parametrize(("streaming", "inside"), [(True, True), (False, False)], ids=["in the loop", "around it"])
def test_the_links_of_an_agent(project: Path, streaming: bool, inside: bool) -> None:
    """The place comes from the model, and the hour from the tool."""
    world = World()

    def search(place: str) -> str:
        """Find a place."""
        world.reach("search")
        return f"{place} at eight"

    async def run() -> str:
        agent = FunctionAgent(llm=ScriptedLLM(world, booking), tools=[search], streaming=streaming)
        return str(await agent.run("Book a table."))

    if inside:
        asyncio.run(use_cassette("c", mode="all")(run)())
    else:
        with use_cassette("c", mode="all"):
            asyncio.run(run())
    world.gone = True
    found = why(run, "c")
    assert [(edge.source, edge.target, edge.way) for edge in found.links] == [
        (1, 3, "data"),
        (2, 3, "data"),
        (1, 2, "data"),
    ]
    assert found.flow.into(2)[0].at == ("arguments.place",)
    assert [edge.source for edge in why(run, "c", text="at eight").links] == [2]
    assert world.trespasses == []


# -- Edits of prompts and tools of LlamaIndex's agents that stand in a request are noticed by the replay ---------------


@pytest.mark.parametrize("streaming", [pytest.param(False, marks=pytest.mark.night), True], ids=["awaited", "streamed"])
def test_what_stands_in_a_request_is_noticed(streaming: bool, tmp_path: Path) -> None:
    """Each edit of a prompt, or of a tool, that reaches a request is noticed, also in a stream."""
    program = '''
from llama_index.core.agent.workflow import FunctionAgent

PROMPT = "You book tables. Never book twice."

def search(place: str, hour: int = 8) -> str:
    """Find a place."""
    return place

async def answer():
    agent = FunctionAgent(llm=llm, tools=[search], system_prompt=PROMPT, streaming=STREAMING)
    return str(await agent.run("Book a table."))
'''

    def booking(messages: Sequence[ChatMessage], _: Sequence[str]) -> Reply:
        """Search, and say so."""
        return "Booked." if any(message.role == "tool" for message in messages) else [("search", {"place": "Luigi"})]

    given = {"llm": ScriptedLLM(World(), booking), "STREAMING": streaming}
    recorded_edit(program, given, tmp_path / "a.yaml")
    kinds = ("prompts",) if streaming else ("prompts", "tools", "schemas")
    found = noticed(program, given, tmp_path / "a.yaml", kinds)
    assert [one for one, is_noticed in found.items() if not is_noticed] == []
    assert len(found) >= (4 if streaming else 10)


# -- Other orders of the parallel steps of a workflow ------------------------------------------------------------------


class Parallel(Workflow):
    """Asks in three steps at once; a racy one sums up in the order in which they are done."""

    def __init__(self, llm: ScriptedLLM, *, is_racy: bool) -> None:
        super().__init__(timeout=20)
        self.llm = llm
        self.is_racy = is_racy

    @step
    async def begin(self, ctx: Context, _: StartEvent) -> Part | None:
        """Send the parts."""
        for number in range(3):
            ctx.send_event(Part(number=number))
        return None

    @step(num_workers=3)
    async def work(self, ev: Part) -> Done:
        """Do a part."""
        return Done(number=ev.number, said=(await self.llm.acomplete(f"Part {ev.number}")).text)

    @step
    async def end(self, ctx: Context, ev: Done) -> StopEvent | None:
        """Put the parts together."""
        parts = ctx.collect_events(ev, [Done] * 3)
        if parts is None:
            return None
        said = [part.said for part in parts]
        return StopEvent(result=(await self.llm.acomplete(f"Sum up {said if self.is_racy else sorted(said)}")).text)


@pytest.mark.parametrize("is_racy", [True, False])
def test_parallel_steps_are_answered_in_every_order(tmp_path: Path, is_racy: bool) -> None:
    """A workflow that sums up in the order of the answers is found out; one that sorts them passes."""
    world, path = World(), tmp_path / "run.yaml"

    async def program() -> Any:
        return await Parallel(ScriptedLLM(world), is_racy=is_racy).run()

    with use_cassette(path, mode="all"):
        asyncio.run(program())
    found = orders(program, path)
    assert (found.orders, found.is_exhaustive, found.failing) == (6, True, 5 * is_racy)


def test_another_request_is_no_other_outcome(tmp_path: Path) -> None:
    """An agent that sends results of tools in the order in which they came makes another request, and no worse one."""

    async def look(number: int) -> str:
        """Look."""
        return f"{number}: {(await ScriptedLLM(world).acomplete(f'part {number}')).text}"

    def script(messages: Any, _: Any) -> Reply:
        return "done" if len(messages) > 2 else [("look", {"number": number}) for number in range(2)]

    async def program() -> str:
        agent = FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=look)], llm=ScriptedLLM(world, script))
        return str(await agent.run("Look around"))

    world, path = World(), tmp_path / "run.yaml"
    with use_cassette(path, mode="all"):
        asyncio.run(program())
    found = orders(program, path)
    assert (found.failing, found.asking) == (1, 1)
    assert "1 of all 2 possible orders change a request" in str(found)
    assert "give another result" not in str(found)


# -- LlamaIndex's own evaluators judge runs: what their LLM says is recorded, and then replayed ------------------------


@pytest.fixture
def _loop() -> Iterator[None]:
    """The event loop of this thread, which LlamaIndex uses and leaves open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("_loop")
@pytest.mark.parametrize(("says", "passes"), [("YES", True), ("NO", False)])
def test_an_evaluator_of_llamaindex(tmp_path: Path, says: str, passes: bool) -> None:
    """An evaluator reads what was found, its LLM is asked once, and the gate is offline from then on."""

    class Judge(CustomLLM):
        """Says the same about all runs, and counts them."""

        says: str
        asked: list[str] = []  # noqa: RUF012 - a field of a model

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="scripted-judge")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            self.asked.append(prompt)
            return CompletionResponse(text=self.says)

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError

    @boundary("retrieval")
    def find(question: str) -> list[str]:
        """Find what is known."""
        return ["Dune is on shelf 3"]

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        find("Where is Dune?")
    llm = Judge(says=says)
    faithful = judged(FaithfulnessEvaluator(llm=llm))

    def score() -> Any:
        result = check_run(run_of(tmp_path / "run.yaml"), [faithful])
        assert result.has_failed is not passes
        return result.judged[0].scores

    with recording_judges():
        assert score() == (("FaithfulnessEvaluator", passes),)
    assert len(llm.asked) == 1
    assert "shelf 3" in llm.asked[0]
    assert score() == (("FaithfulnessEvaluator", passes),)
    assert len(llm.asked) == 1


# -- Coverage of workflows: the steps that never ran, and the types of events that never came --------------------------


class Look(Event):
    title: str


class Refuse(Event):
    reason: str


class Library(Workflow):
    @step
    async def begin(self, event: StartEvent) -> Look | Refuse:
        title = event.get("title")
        return Look(title=title) if title else Refuse(reason="no title")

    @step
    async def look(self, event: Look) -> StopEvent:
        return StopEvent(result=f"{event.title} is there")

    @step
    async def refuse(self, event: Refuse) -> StopEvent:
        return StopEvent(result=event.reason)


@pytest.mark.parametrize("drawn", [Library, Library()], ids=["class", "object"])
async def test_steps_and_events(tmp_path: Path, drawn: Any) -> None:
    """Coverage names exactly the step that never ran and the event that never came, until a run has both."""
    found = Coverage()
    found.hold_against(drawn)
    for title, never in (("Dune", ["refuse"]), ("", [])):
        with use_cassette(tmp_path / "run.yaml", mode="all"):
            await Library().run(title=title)
        found.add(open_cassette(tmp_path / "run.yaml"))
        assert found.never["nodes"] == never
        assert found.never["events"] == [name.capitalize() for name in never]
    assert (found.percent, found.unknown) == (100, [])
    assert {each["name"]: each["count"] for each in found.to_dict()["events"]} == {
        "Look": 1,
        "Refuse": 1,
        "StartEvent": 2,
        "StopEvent": 2,
    }


async def test_events_that_share_a_step(tmp_path: Path) -> None:
    """Which of the events of one step came is told by an observed run, which names them, and by no other."""

    class Shared(Workflow):
        @step
        async def begin(self, event: StartEvent) -> Look | Refuse:
            return Look(title="Dune")

        @step
        async def end(self, event: Look | Refuse) -> StopEvent:
            return StopEvent(result="done")

    async def covered(workflow: type[Workflow], *paths: Path) -> Coverage:
        """Return what recordings cover of a workflow."""
        found = Coverage()
        found.hold_against(workflow)
        for path in paths:
            found.add(open_cassette(path))
        return found

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        await Shared().run()
    found = await covered(Shared, tmp_path / "run.yaml")
    assert (found.unknown, found.never["events"], found.percent) == (["Look", "Refuse"], [], 100)
    with TapeEventHandler(tmp_path / "observed.yaml"):
        await Shared().run()
    observed = await covered(Shared, tmp_path / "observed.yaml")
    assert {each["name"]: each["count"] for each in observed.to_dict()["events"]}["Look"] == 1
    assert (observed.unknown, observed.never["events"], observed.percent) == ([], ["Refuse"], 83.3)


async def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command takes a workflow as a graph, and refuses what nobody can draw."""
    monkeypatch.setitem(sys.modules, "library_app", SimpleNamespace(flow=Library, other=object()))
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        await Library().run(title="Dune")
    assert run(["check", "--only", "coverage", str(tmp_path), "--graph", "library_app:flow", "--fail-under", "90"]) == 1
    shown = capsys.readouterr().out
    assert "nodes that never ran: refuse" in shown
    assert "events that never came: Refuse" in shown
    assert run(["check", "--only", "coverage", str(tmp_path), "--graph", "library_app:other"]) == 2
    assert "no installed integration can draw it" in capsys.readouterr().err
    with pytest.raises(ConfigurationError):
        Coverage().hold_against(object())
