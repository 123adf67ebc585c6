"""Every kind of tool is recorded, and replayed without running."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from uuid import UUID

import pytest
from langchain.tools import InjectedToolCallId
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, Tool, ToolException, tool
from langgraph.types import Command
from pydantic import BaseModel, ValidationError

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordableValueError
from agenttape_langchain import tape

from ..kit.replaying import Twice
from .fakes import NativeChat, StreamingChat, World


class Place(BaseModel):
    """Arguments and results of a tool."""

    city: str
    population: int = 0


@dataclass
class Point:
    """A plain dataclass."""

    x: int
    tags: tuple[str, ...]


class Mood(Enum):
    """An enumeration."""

    GOOD = "good"


def call(name: str, **args: Any) -> ToolCall:
    """The tool call of a model."""
    return ToolCall(name=name, args=args, id="call_1", type="tool_call")


class Greeting(BaseTool):
    """A tool whose class has postponed annotations, one of a name that only type checkers know."""

    name: str = "greet"
    description: str = "Greet someone."
    args_schema: type[BaseModel] = Place

    def _run(
        self,
        city: str,
        population: int,
        user: Annotated[str, InjectedToolArg],
        place: Unknown | None = None,  # type: ignore[name-defined]  # noqa: F821
    ) -> str:
        return f"{user} in {city}"


@pytest.mark.parametrize("taped", [False, True])
def test_arguments_of_postponed_annotations_are_injected(tmp_path: Path, *, taped: bool) -> None:
    """A session hides from LangChain neither which arguments are injected, nor their values."""

    def said(greet: BaseTool) -> str:
        try:
            return str(greet.invoke({"city": "Oslo", "population": 1, "user": "Bo"}))
        except TypeError as error:  # LangChain 1.4 injects none of them
            return str(error)

    plain = said(Greeting())
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode, auto=not taped):
            assert said(tape(Greeting()) if taped else Greeting()) == plain


# -- kinds of tools ------------------------------------------------------------------------------------------------


def decorated(world: World) -> BaseTool:
    @tool
    def shout(text: str, times: int = 1) -> str:
        """Say it loud."""
        return f"{text.upper() * times} {world.reach('tool')}"

    return shout


def structured(world: World) -> BaseTool:
    async def ashout(text: str, times: int = 1) -> str:
        return f"{text.upper() * times} {world.reach('async')}"

    of_function: Any = decorated(world)
    return StructuredTool.from_function(of_function.func, ashout, name="shout", description="Say it loud.")


class Shout(BaseTool):
    """A tool with a class of its own."""

    name: str = "shout"
    description: str = "Say it loud."
    world: Any

    def _run(self, text: str, times: int = 1, run_manager: Any = None) -> str:
        return f"{text.upper() * times} {self.world.reach('tool')}"


class AsyncShout(Shout):
    """One whose asynchronous method calls the other."""

    async def _arun(self, text: str, times: int = 1, run_manager: Any = None) -> str:
        return self._run(text, times)


def decorated_async(world: World) -> BaseTool:
    coroutine: Any = structured(world)
    return StructuredTool.from_function(None, coroutine.coroutine, name="shout", description="Say it loud.")


KINDS: dict[str, Callable[[World], BaseTool]] = {
    "decorated": decorated,
    "decorated async": decorated_async,
    "structured": structured,
    "class": lambda world: Shout(world=world),
    "class with both": lambda world: AsyncShout(world=world),
}


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["automatic", "taped"])
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_replays(kind: str, way: str, world: World, twice: Twice) -> None:
    """A tool's answer is replayed, sync and async, by a call, by arguments and by a tool call of a model."""
    real = KINDS[kind](world)
    shout, automatic = (real, True) if way == "automatic" else (tape(real), False)

    async def run() -> list[Any]:
        answers = [await shout.ainvoke({"text": "a"}), await shout.ainvoke(call("shout", text="b", times=2))]
        answers += [await shout.arun({"text": "c"})]
        if kind != "decorated async":
            answers += [shout.invoke({"text": "d"}), shout.invoke(call("shout", text="e")), shout.run({"text": "f"})]
        return answers

    recorded = await twice.awaited(run, auto=automatic)
    assert recorded[0] == "A 1"
    assert recorded[1] == ToolMessage("BB 2", tool_call_id="call_1", name="shout")
    assert [row.kind for row in twice.recording.interactions] == ["tool"] * len(recorded)
    assert twice.recording.interactions[0].request == {"name": "shout", "arguments": {"text": "a"}}
    assert len(twice.replay.report.replayed) == len(recorded)


def test_taped_tool_is_what_it_was(world: World) -> None:
    """A taped tool is of the same class, with the same name, schema and way of being called."""
    real = structured(world)
    taped = tape(real)
    assert isinstance(taped, StructuredTool)
    assert tape(taped) is taped
    assert (taped.name, taped.description, taped.args) == (real.name, real.description, real.args)
    assert taped.tool_call_schema.model_json_schema() == real.tool_call_schema.model_json_schema()
    assert taped.get_input_schema() == real.get_input_schema()
    assert taped.invoke({"text": "a"}) == "A 1", "outside a session it works"
    real.description = "changed"
    assert taped.description == "changed"


def test_single_argument_tool(world: World, twice: Twice) -> None:
    """The old one-string tools take their bare string."""
    old = Tool("echo", lambda text: f"{text} {world.reach('tool')}", "Echo.")
    twice(lambda: [old.run("hello"), old.invoke({"__arg1": "again"})])
    assert twice.recording.interactions[0].request["name"] == "echo"


# -- values --------------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "text": "plain",
    "nothing": None,
    "number": 3.5,
    "dict": {"a": [1, None], 2: "int key", "nested": {"t": (1, 2)}},
    "list": [1, "two", {"three": 3}],
    "tuple": (1, (2, "x")),
    "set": {1, 2},
    "bytes": b"\x00\xff",
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "date": date(2026, 1, 2),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=7),
    "path": PurePosixPath("a/b"),
    "enum": Mood.GOOD,
    "pydantic": Place(city="Paris", population=2),
    "list of pydantic": [Place(city="Paris"), Place(city="Rome")],
    "dataclass": Point(1, ("t",)),
    "document": [Document("text", metadata={"n": 1}, id="d1")],
    "message": AIMessage("said by a sub agent", id="m1"),
    "content blocks": [{"type": "text", "text": "a"}, {"type": "image", "url": "http://x"}],
    "odd text": "\x85 \u2028 \r\n \ud800 \U0001f600 - [] # : 'x'\t",
}


def test_values_keep_their_type(world: World, twice: Twice) -> None:
    """Whatever a tool returns comes back equal and of the same type."""

    @tool
    def give(what: str) -> Any:
        """Give something."""
        world.reach("tool")
        return VALUES[what]

    with twice.records():
        messages = {name: give.invoke(call("give", what=name)) for name in VALUES}
        for name in VALUES:
            give.invoke({"what": name})
    with twice.replays():
        for name, value in VALUES.items():
            assert give.invoke(call("give", what=name)) == messages[name]
            bare = give.invoke({"what": name})
            assert (type(bare), bare) == (type(value), value)


def test_content_and_artifact(world: World, twice: Twice) -> None:
    """A tool's artifact comes back beside its content."""

    @tool(response_format="content_and_artifact")
    def fetch(url: str) -> tuple[str, Any]:
        """Fetch it."""
        return f"page {world.reach('tool')}", {"raw": b"\x01", "place": Place(city=url)}

    recorded = twice(lambda: [fetch.invoke(call("fetch", url="u")), fetch.invoke({"url": "u"})])
    assert recorded[0].artifact == {"raw": b"\x01", "place": Place(city="u")}


def test_command(world: World, twice: Twice) -> None:
    """A tool that answers with a command for the graph gives the same command, with the id of the live call."""

    @tool
    def hand_over(to: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over."""
        world.reach("tool")
        return Command(
            goto=to, update={"messages": [ToolMessage("done", tool_call_id=tool_call_id)]}, graph=Command.PARENT
        )

    twice(lambda: hand_over.invoke(call("hand_over", to="b")))
    with twice.replays():
        live = hand_over.invoke({**call("hand_over", to="b"), "id": "call_other"})
    assert live.update["messages"][0].tool_call_id == "call_other"


def test_the_text_of_a_set_is_the_recorded_one(world: World, tmp_path: Path) -> None:
    """A model is shown the text that it was shown, though a set has another order in each process."""

    @tool
    def shelves(of: str) -> dict[str, Any]:
        """Find free shelves."""
        world.reach(of)
        return {"free": {8, 0}}  # written so where it was made, and `{0, 8}` where it was read

    call = ToolCall(name="shelves", args={"of": "a"}, id="c", type="tool_call")
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            assert shelves.invoke(call).content == "{'free': {8, 0}}"
            assert shelves.invoke({"of": "b"}) == {"free": {0, 8}}
    assert world.reached == ["a", "b"]


def test_complex_arguments(world: World, twice: Twice) -> None:
    """Arguments that a schema turns into objects are recorded as the model gave them."""

    @tool
    def visit(place: Place, on: date, moods: list[Mood]) -> str:
        """Visit a place."""
        return f"{place.city} {on:%Y} {moods[0].name} {world.reach('tool')}"

    asked = {"place": {"city": "Paris"}, "on": "2026-01-02", "moods": ["good"]}
    recorded = twice(lambda: visit.invoke(asked))
    assert recorded == "Paris 2026 GOOD 1"
    assert twice.recording.interactions[0].request["arguments"] == asked


def test_a_file_is_compared_by_its_content(tmp_path: Path) -> None:
    """A tool that is called with another file isn't answered with the result of the first, which is read only once."""

    @tool
    def size(file: Any) -> int:
        """Return the size of a file."""
        return len(file.read())

    def use(content: bytes) -> list[int]:
        file, text = io.BytesIO(content), io.TextIOWrapper(io.BytesIO())
        text.detach()  # the request can't have its content, nor a replay move it
        return [
            size.invoke({"file": file}),
            size.invoke({"file": file}),
            file.tell(),
            len(kind.invoke({"files": [text]})),
        ]

    @tool
    def kind(files: list[Any]) -> str:
        """Return the class of the first file."""
        return type(files[0]).__name__

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = use(b"ab")
    assert recorded[:3] == [2, 0, 2]
    with use_cassette(tmp_path / "c.yaml"):
        assert use(b"ab") == recorded
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml"):
        use(b"cd")


def test_injected_config_is_not_asked(world: World, twice: Twice) -> None:
    """Injected arguments are not part of the request: another user's config finds the same recording."""

    @tool
    def who(config: RunnableConfig) -> str:
        """Tell who asks."""
        return f"{config['configurable']['user']} {world.reach('tool')}"

    recorded = twice.record(lambda: who.invoke({}, config={"configurable": {"user": "ada"}}))
    with twice.replays():
        assert who.invoke({}, config={"configurable": {"user": "bob"}}) == recorded == "ada 1"


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handle", [True, "it is broken", lambda error: f"handled: {error}"])
def test_handled_errors(handle: Any, world: World, twice: Twice) -> None:
    """A tool's own error handler runs again on the recorded error."""

    def fail(how: str) -> str:
        """Fail."""
        raise ToolException(f"{how} {world.reach('tool')}")

    failing = StructuredTool.from_function(fail, handle_tool_error=handle)
    recorded = twice(lambda: failing.invoke(call("fail", how="badly")))
    assert twice.recording.interactions[0].outcome.status == "raised"
    assert recorded.status == "error"


class QuotaError(Exception):
    """An error with attributes and a constructor of its own."""

    def __init__(self, left: int, *, code: str) -> None:
        self.left = left
        self.code = code
        super().__init__(f"{left} left ({code})")


@pytest.mark.parametrize("error", [ValueError("bad", 3), KeyError("k"), QuotaError(2, code="Q1"), OSError(2, "gone")])
async def test_errors_are_raised_again(error: Exception, world: World, twice: Twice) -> None:
    """An error comes back as its own type, with its message, arguments and attributes."""

    @tool
    def fail() -> str:
        """Fail."""
        world.reach("tool")
        raise error

    with twice.records(), pytest.raises(type(error)):
        fail.invoke({})
    with twice.replays(), pytest.raises(type(error)) as caught:
        await fail.ainvoke({})
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert caught.value.args == error.args
    assert vars(caught.value) == vars(error)


def test_validation_is_the_frameworks_own(world: World, tmp_path: Path) -> None:
    """Arguments that do not fit are refused before the boundary, on record and on replay."""
    shout = tape(decorated(world))
    lenient = shout.model_copy(update={"handle_validation_error": "wrong arguments"})
    path = tmp_path / "tool.yaml"

    def run() -> Any:
        with pytest.raises(ValidationError):
            shout.invoke({"times": "many"})
        return lenient.invoke(call("shout", times="many"))

    with use_cassette(path, mode="all") as recording:
        recorded = run()
    assert recorded.content == "wrong arguments"
    assert recording.interactions == []
    with use_cassette(path):
        assert run() == recorded


# -- what happens inside a tool ------------------------------------------------------------------------------------


def test_called_past_its_run(world: World, tmp_path: Path) -> None:
    """The request of a taped tool that is called by hand inside another run has its own arguments."""
    inner = tape(decorated(world))

    @tool
    def twice(text: str) -> list[str]:
        """Do the work of another tool, without a run of its own."""
        return [inner._run(text=word, config={}) for word in ("one", "two")]

    path = tmp_path / "tool.yaml"
    with use_cassette(path, mode="all") as recording:
        twice.invoke({"text": "x"})
    asked = [row.request["arguments"] for row in recording.interactions if row.name == inner.name]
    assert asked == [{"text": "one"}, {"text": "two"}]


def test_model_in_a_bare_thread_of_a_tool(world: World, twice: Twice) -> None:
    """Calls that a tool makes in threads without a context are recorded inside it, too, and found there again."""
    model = NativeChat(world=world)

    @tool
    def survey(count: int) -> list[str]:
        """Ask a model several things at once, in threads without a context."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda n: model.invoke(f"question {n}").text, range(count)))

    twice(lambda: survey.invoke({"count": 2}))
    (outer,) = (row.number for row in twice.recording.interactions if row.name == "survey")
    assert [row.parent for row in twice.recording.interactions if row.name == "NativeChat"] == [outer, outer]
    assert str(twice.replay.report) == "2 replayed, 0 recorded, 1 stepped into"


@pytest.mark.parametrize("way", ["automatic", "taped"])
async def test_model_inside_a_tool(way: str, world: World, twice: Twice) -> None:
    """Calls inside a tool are recorded below it, and are asked for when it is stepped into, not when it is replayed."""
    automatic = way == "automatic"
    model, inner = NativeChat(world=world), decorated(world)
    if not automatic:
        model, inner = tape(model), tape(inner)

    @tool
    def research(topic: str) -> str:
        """Ask a model."""
        return model.invoke(topic).text + inner.invoke({"text": "x"})

    outer = research if automatic else tape(research)
    recorded = twice.record(lambda: outer.invoke({"topic": "t"}), auto=automatic)
    rows = {row.name: row for row in twice.recording.interactions}
    assert rows["research"].parent is None
    assert rows["NativeChat"].parent == rows["shout"].parent == rows["research"].number
    assert rows["NativeChat"].address.startswith(rows["research"].address + "/")
    with twice.replays(auto=automatic) as replay:
        assert await outer.ainvoke({"topic": "t"}) == recorded
    assert str(replay.report) == "2 replayed, 0 recorded, 1 stepped into"
    with twice.replays(auto=automatic, replay_only={"research"}) as replay:
        assert await outer.ainvoke({"topic": "t"}) == recorded
    assert str(replay.report) == "1 replayed, 0 recorded"


async def test_tool_that_calls_itself(world: World, twice: Twice) -> None:
    """A tool whose parts delegate to each other is recorded once; a tool that asks another is not taken for it."""

    @tool
    def leaf(n: int) -> str:
        """Count."""
        return f"leaf {n} {world.reach('tool')}"

    class Both(BaseTool):
        name: str = "both"
        description: str = "Delegates."

        def _run(self, n: int) -> str:
            return str(leaf.invoke({"n": n}))

        async def _arun(self, n: int) -> str:
            return self._run(n)

    with twice.records() as recording:
        recorded = await Both().ainvoke({"n": 1})
    assert sorted(row.name for row in recording.interactions) == ["both", "leaf"]
    with twice.replays():
        assert Both().invoke({"n": 1}) == recorded


@pytest.mark.parametrize("way", ["automatic", "taped"])
def test_bare_thread_is_replayed(way: str, world: World, twice: Twice) -> None:
    """A thread that was started without a context belongs to the only open session."""
    real = decorated(world)
    shout, automatic = (real, True) if way == "automatic" else (tape(real), False)
    model = StreamingChat(world=world) if automatic else tape(StreamingChat(world=world))
    answers: list[Any] = []

    def ask() -> None:
        thread = threading.Thread(
            target=lambda: answers.append((shout.invoke({"text": "a"}), model.invoke("hello").text))
        )
        thread.start()
        thread.join()

    twice.record(ask, auto=automatic)
    with twice.replays(auto=automatic) as replay:
        ask()
    assert answers[0] == answers[1]
    assert str(replay.report) == "2 replayed, 0 recorded"


def test_value_that_cannot_be_kept(world: World, tmp_path: Path) -> None:
    """A tool that returns what no cassette can hold fails the recording, with the type and what to do."""

    @tool
    def give() -> Any:
        """Give a lock."""
        return threading.Lock()

    with pytest.raises(UnrecordableValueError, match="lock"), use_cassette(tmp_path / "tool.yaml", mode="all"):
        give.invoke({})
    assert not (tmp_path / "tool.yaml").exists()


def test_a_replayed_tool_changes_what_it_was_given(tmp_path: Path) -> None:
    """What a tool puts into an object that it gets as it is, and not parsed, is there in a replay."""

    @tool
    def collect(rows: Any, state: Annotated[dict[str, Any], InjectedToolArg]) -> int:
        """Collect something."""
        rows.append("found")
        state["count"] = len(rows)
        return len(rows)

    seen = []
    for mode in (None, "all", "none"):
        rows: list[str] = []
        state: dict[str, Any] = {}
        with nullcontext() if mode is None else use_cassette(tmp_path / "c.yaml", mode=mode):
            assert collect.invoke({"rows": rows, "state": state}) == 1
        seen.append((rows, state))
    assert seen == [(["found"], seen[0][1])] * 3  # LangChain 1.4.7 copies the state
