"""A handler does the same work for each turn of an agent, however long its conversation is."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.tools import FunctionTool
from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from agenttape_core import open_cassette, recover, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_llamaindex import TapeEventHandler, context_at, steps_of
from agenttape_llamaindex.workflows.reading import recorded_runs

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .scripted import Reply, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


def look(city: str) -> str:
    """Look."""
    return f"{city}: {'rain ' * 20}"


async def agent(turns: int) -> None:
    """An agent that calls its tool in each turn, and keeps all of it in its state."""

    def script(messages: Any, _: Any) -> Reply:
        seen = sum(message.role == "tool" for message in messages)
        return [("look", {"city": f"city {seen:02}"})] if seen < turns else "done"

    await FunctionAgent(tools=[look], llm=ScriptedLLM(World(), script)).run("Look around", max_iterations=turns + 2)


def test_a_turn_costs_the_same(tmp_path: Path) -> None:
    """Later turns take as many calls and bytes as earlier ones, and each message is dumped a few times at most.

    An event that comes in each turn is no change of a later one, of whose conversation all would be gone.
    """

    class Work:
        """Counts the calls of functions of ours."""

        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, frame: FrameType, event: str, _arg: object) -> None:
            """Count a call."""
            self.calls += event == "call" and "/agenttape_" in frame.f_code.co_filename

    def observed(turns: int, folder: Path) -> tuple[int, int, int]:
        """Return the calls of ours in an observed run, the bytes of the file, and the messages that were dumped."""
        path, work, dumped, real = folder / f"{turns}.jsonl", Work(), 0, ChatMessage.model_dump

        def model_dump(self: ChatMessage, **options: Any) -> Any:
            nonlocal dumped
            dumped += 1
            return real(self, **options)

        with pytest.MonkeyPatch.context() as patch, TapeEventHandler(path) as handler:
            patch.setattr(ChatMessage, "model_dump", model_dump)
            before = sys.getprofile()
            sys.setprofile(work)
            try:
                asyncio.run(agent(turns))
            finally:
                sys.setprofile(before)
        assert handler.errors == []
        return work.calls, path.stat().st_size, dumped

    _, few, more, many = (observed(turns, tmp_path) for turns in (1, 2, 6, 14))  # the first does what is done once
    for what in range(2):
        assert (many[what] - more[what]) / 8 < 1.02 * (more[what] - few[what]) / 4
    assert (many[2] - more[2]) / 8 == (more[2] - few[2]) / 4 < 12
    assert "$gone" not in (tmp_path / "14.jsonl").read_text()


async def test_a_turn_without_steps(tmp_path: Path) -> None:
    """An observation without steps has a fraction of the bytes, replays as ever, and says why it has no steps."""
    whole, path = tmp_path / "whole.jsonl", tmp_path / "order.jsonl"
    for kept in (True, False):
        with observing(whole if kept else path, steps=kept):
            await agent(4)
    assert path.stat().st_size < 0.6 * whole.stat().st_size
    with use_cassette(path) as session:
        await agent(4)
    assert session.report.unused == ()
    for reader in (steps_of, lambda cassette: context_at(cassette, FunctionAgent(llm=MockLLM()))):
        with pytest.raises(ConfigurationError, match="steps=False"):
            reader(path)


def test_what_arrived_stands_with_the_next_tick(tmp_path: Path) -> None:
    """A turn has a record for each step that ended, and the ticks that are read are all there, numbered in a row."""
    with TapeEventHandler(tmp_path / "seen.jsonl"):
        asyncio.run(agent(3))
    ticks = [step for step in open_cassette(tmp_path / "seen.jsonl").steps() if step.kind == "checkpoint"]
    (run,) = recorded_runs(tmp_path / "seen.jsonl")
    assert len(ticks) < 6 * 3 + 6 or version("llama-index-workflows") == "2.26.0"  # that one has ticks of no step
    assert [tick.seq for tick in run.ticks] == [*range(len(run.ticks))]
    assert len(run.ticks) > 10 * 3


class Count(Event):
    """Goes round, and is changed in place."""

    number: int
    seen: list[int]


async def test_an_event_that_changes_is_written_again(tmp_path: Path) -> None:
    """An event that a step changes in place, and passes on, stands in each tick as it was then."""

    class Rounds(Workflow):
        """Returns the event that it was given, with other contents."""

        @step
        async def begin(self, event: StartEvent) -> Count:
            return Count(number=0, seen=[])

        @step
        async def count(self, event: Count) -> Count | StopEvent:
            if event.number == 3:
                return StopEvent(result=event.seen)
            event.number += 1
            event.seen.append(event.number)
            return event

    with observing(tmp_path / "seen.jsonl"):
        assert await Rounds().run() == [1, 2, 3]
    counts = [one.outputs[0].fields for one in steps_of(tmp_path / "seen.jsonl") if one.name == "count"]
    assert [(fields.get("number"), fields.get("seen")) for fields in counts[:3]] == [
        (1, [1]),
        (2, [1, 2]),
        (3, [1, 2, 3]),
    ]
    resumed = context_at(tmp_path / "seen.jsonl", workflow := Rounds(), step=3)
    assert await workflow.run(ctx=resumed) == [1, 2, 3]


def test_steps_of_older_recordings(tmp_path: Path) -> None:
    """A cassette in which ticks hold their events, and no references to them, is read as ever."""
    older: list[dict[str, Any]] = [
        {"agenttape": 1, "name": "older"},
        {"kind": "checkpoint", "name": "StartEvent", "data": {"tick": "add_event", "seq": 1, "outside": True, "value": {
            "$to": {"event": {"__is_pydantic": True, "value": {"_data": {"city": "Oslo"}}, "qualified_name": "m.Start"}}
        }}},
        {"kind": "checkpoint", "name": "one", "data": {"tick": "step_result", "seq": 2, "value": {
            "$to": {"event": None, "result": []}}, "published": [{"event": "m.Seen", "value": {
            "$to": {"__is_pydantic": True, "value": {"number": 1}, "qualified_name": "m.Seen"}}}]}},
    ]  # fmt: skip

    header, *steps = older
    lines = [header, *({"step": n, "address": "W.run", **one} for n, one in enumerate(steps, 1)), {"end": True}]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (tmp_path / "older.jsonl").write_text(text)
    first, second = steps_of(tmp_path / "older.jsonl")
    assert first.outputs[0].fields == {"city": "Oslo"}
    assert [(event.name, event.fields) for event in second.published] == [("Seen", {"number": 1})]


async def test_a_run_that_died_can_be_stepped_through(tmp_path: Path) -> None:
    """The journal has each step that had ended, and the run goes on from the last one."""

    def script(messages: Any, _: Any) -> Reply:
        seen = sum(message.role == "tool" for message in messages)
        return [("note", {"number": seen})] if seen < 5 else f"done after {seen}"

    def made(note: Any) -> FunctionAgent:
        return FunctionAgent(tools=[FunctionTool.from_defaults(note, name="note")], llm=ScriptedLLM(World(), script))

    def dies(number: int) -> str:
        """Note."""
        if number == 3:  # what a process that is killed here leaves behind
            (journal,) = tmp_path.glob(".seen.jsonl.*.journal")
            shutil.copy(journal, tmp_path / ".died.jsonl.1-00000000.journal")
        return f"{number} noted"

    with TapeEventHandler(tmp_path / "seen.jsonl"):
        await made(dies).run("Note")
    died = recover(tmp_path / ".died.jsonl.1-00000000.journal")
    whole, half = ([step.name for step in steps_of(path)] for path in (tmp_path / "seen.jsonl", died))
    assert whole[: len(half)] == half
    assert half.count("call_tool") == 3
    agent = made(lambda number: f"{number} noted")
    assert str(await agent.run(ctx=context_at(died, agent))).startswith("done after 5")
