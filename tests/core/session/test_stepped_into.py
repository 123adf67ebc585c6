"""A recorded tool is stepped into: its code runs, and the calls that it makes are replayed and compared."""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, returns, use_cassette
from agenttape_core.errors import (
    CassetteMissError,
    NetworkBlockedError,
    UnrecordableValueError,
    UnusedInteractionsError,
)
from agenttape_core.integration.cassettes import deriving
from agenttape_core.session.report import side_effects_skipped

RAN: list[str] = []
"""The calls whose code really ran."""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RAN.clear()


@boundary("chat")
def model(prompt: str) -> str:
    """Answer a prompt."""
    RAN.append(prompt)
    return f"answer to {prompt}"


@boundary("tool")
def expert(question: str, prompt: str = "be brief") -> str:
    """Ask a model, with a prompt that is no part of the request."""
    RAN.append("expert")
    return model(f"{PROMPTS.get('expert', prompt)}: {question}")


@boundary("tool")
def add(first: int, second: int) -> int:
    """Call nothing."""
    RAN.append("add")
    return first + second


@boundary("tool")
def report(text: str) -> str:
    """Ask a model, and write what it says."""
    RAN.append("report")
    said = model(text)
    Path("report.md").write_text(said, encoding="utf-8")
    return said


PROMPTS: dict[str, str] = {}
"""The prompts that a test has edited."""


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return what edits the prompt of a tool."""
    return lambda name, prompt: monkeypatch.setitem(PROMPTS, name, prompt)


def recorded(work: Callable[[], Any], name: str = "c") -> Any:
    """Record what a function does, and forget what ran."""
    with use_cassette(name, mode="all"):
        result = work()
    RAN.clear()
    return result


# -- the decision ------------------------------------------------------------------------------------------------------


def test_code_runs_and_calls_inside_are_replayed() -> None:
    """A tool that only calls a model runs on replay; the model does not; both are in the report."""
    result = recorded(lambda: expert("why?"))
    with use_cassette("c") as session:
        assert expert("why?") == result
    assert RAN == ["expert"]
    assert [
        (call_record.kind, call_record.name, call_record.number) for call_record in session.report.stepped_into
    ] == [("tool", "expert", 1)]
    assert [call_record.kind for call_record in session.report.replayed] == ["chat"]
    assert str(session.report) == "1 replayed, 0 recorded, 1 stepped into"
    assert session.report.not_run == ()


def test_changed_call_inside_is_a_miss(edited: Callable[[str, str], None]) -> None:
    """An edited prompt inside a tool is a miss at its place; so is a changed argument at the tool itself."""
    recorded(lambda: expert("why?"))
    edited("expert", "be a pirate")
    with pytest.raises(CassetteMissError, match=r"chat model at expert/model.*"), use_cassette("c"):
        expert("why?")
    with pytest.raises(CassetteMissError, match="expert was called with a request"), use_cassette("c"):
        expert("how?")


def test_call_that_is_no_longer_made_is_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that no longer makes one of its calls leaves it unused; a replayed one does not."""
    recorded(lambda: expert("why?"))
    monkeypatch.setattr(f"{__name__}.model", lambda _: "nothing was asked")
    with pytest.raises(UnusedInteractionsError, match="1 of the 2"), use_cassette("c"):
        expert("why?")
    with use_cassette("c", replay_only={"expert"}):
        expert("why?")


def test_what_is_replayed_and_why() -> None:
    """A tool that acted, and one that calls nothing, are replayed, and the report says why."""

    def work() -> list[Any]:
        return [add(1, 2), report("sum"), expert("why?")]

    result = recorded(work)
    Path("report.md").unlink()
    with use_cassette("c") as session:
        assert work() == result
    assert RAN == ["expert"]
    assert not Path("report.md").exists()
    assert [str(tool) for tool in session.report.not_run] == [
        "add (calls nothing that is recorded)",
        "report (wrote report.md)",
    ]
    with use_cassette("c") as other:  # tools that run beside each other may be called in any order
        assert [expert("why?"), report("sum"), add(1, 2)] == result[::-1]
    assert other.report.not_run == session.report.not_run


def test_through_by_name() -> None:
    """A tool that is named is stepped into whatever it did; frozen wins over that, and so does live."""
    recorded(lambda: report("sum"))
    with use_cassette("c", step_into={"report"}) as session:
        report("sum")
    assert RAN == ["report"]
    assert Path("report.md").exists()
    with use_cassette("c", step_into={"report"}, replay_only={"tool"}) as session:
        report("sum")
    assert RAN == ["report"]
    assert [str(tool) for tool in session.report.not_run] == ["report (replay-only)"]
    with use_cassette("c", step_into={"report"}, live={"report"}) as session:
        report("sum")
    assert (len(session.report.recorded), len(session.report.stepped_into)) == (1, 0)


def test_nested_tools_are_decided_on_one_by_one() -> None:
    """A tool inside a tool is stepped into or replayed by what it did itself."""

    @boundary("tool")
    def chief(question: str) -> str:
        return f"{expert(question)} and {report(question)}"

    result = recorded(lambda: chief("why?"))
    with use_cassette("c") as session:
        assert chief("why?") == result
    assert RAN == ["expert"]
    assert [call_record.name for call_record in session.report.stepped_into] == ["chief", "expert"]


@pytest.mark.parametrize("options", [{}, {"live": {"chat"}}, {"step_into": {"tool"}}])
def test_reaches_nothing(options: dict[str, Any]) -> None:
    """Code that runs on replay connects nowhere, not even beside a live call, nor in a tool that is named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connects: list[bool] = []

        @boundary("tool")
        def curious(question: str) -> str:
            if connects:
                socket.create_connection(server.getsockname()).close()
            return model(question)

        recorded(lambda: curious("why?"))
        connects.append(True)
        with pytest.raises(NetworkBlockedError), use_cassette("c", **options, on_unused="ignore"):
            curious("why?")


# -- the shapes --------------------------------------------------------------------------------------------------------


@boundary("tool")
async def aexpert(question: str) -> str:
    """Ask a model."""
    RAN.append("aexpert")
    await asyncio.sleep(0)
    return model(question)


@boundary("tool")
def words(question: str) -> Iterator[str]:
    """Stream the words of a model."""
    RAN.append("words")
    yield from model(question).split()


@boundary("tool")
async def awords(question: str) -> AsyncIterator[str]:
    """Stream the words of a model."""
    RAN.append("awords")
    for word in model(question).split():
        yield word


def test_every_shape() -> None:
    """Coroutines, generators and async generators are stepped into like functions."""

    async def every() -> list[Any]:
        return [await aexpert("a"), list(words("b")), [word async for word in awords("c")]]

    result = recorded(lambda: asyncio.run(every()))
    with use_cassette("c") as session:
        assert asyncio.run(every()) == result
    assert RAN == ["aexpert", "words", "awords"]
    assert [call_record.name for call_record in session.report.stepped_into] == RAN
    assert len(session.report.replayed) == 3


def test_error_of_the_code() -> None:
    """A tool that raised raises again, because its code does."""

    @boundary("tool")
    def failing(question: str) -> str:
        raise LookupError(model(question))

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode), pytest.raises(LookupError, match="answer to why"):
            failing("why?")


# -- the world inside --------------------------------------------------------------------------------------------------


@boundary("tool")
def worldly(name: str) -> list[Any]:
    """Draw all that is frozen, sleep, and ask a model about it."""
    drawn: list[Any] = [time.time(), uuid.uuid4(), uuid.uuid1(), random.random(), random.Random().random()]
    time.sleep(0.001)
    drawn.append(datetime.now(UTC))
    model(f"{name} {drawn}")
    return drawn


def test_world_is_the_same_again() -> None:
    """Clock, ids and random numbers in the code are those of its recording; no two recordings have the same ids."""
    before = time.time()
    first = recorded(lambda: worldly("a"))
    assert before <= first[0] <= time.time()
    assert first[5].timestamp() > first[0]
    with use_cassette("c"):
        assert worldly("a") == first
    second = recorded(lambda: worldly("a"))
    assert not {str(value) for value in first} & {str(value) for value in second}


def test_each_call_has_a_world_of_its_own() -> None:
    """Parallel tools have clocks and ids of their own, whichever is faster; a sleep in one is not one in the other."""

    @boundary("tool")
    async def sleepy(name: str, seconds: float) -> list[Any]:
        await asyncio.sleep(seconds)
        drawn = [time.time(), uuid.uuid4()]
        model(f"{name} {drawn}")
        return drawn

    async def both(*seconds: float) -> list[Any]:
        return await asyncio.gather(*(sleepy(str(number), each) for number, each in enumerate(seconds)))

    (one, two) = result = recorded(lambda: asyncio.run(both(0.02, 0.001)))
    assert one[1] != two[1]
    with use_cassette("c"):
        assert asyncio.run(both(0.02, 0.001)) == result


def test_world_is_real_after_an_act() -> None:
    """From its first act on, the code of a tool has the real clock: what it does outside may depend on it."""

    @boundary("tool")
    def writing(name: str) -> list[float]:
        standing = [time.time(), time.time()]
        Path(name).write_text("x", encoding="utf-8")
        return [*standing, time.time()]

    with use_cassette("c", mode="once"):
        before, still, after = writing("a.txt")
    assert before == still
    assert after > still


# -- what is written ---------------------------------------------------------------------------------------------------


@boundary("tool")
def longer(question: str) -> str:
    """Ask a model as often as a test wants it."""
    return " ".join(model(f"{question} {number}") for number in range(int(PROMPTS.get("times", "1"))))


def test_new_episodes_record_inside_a_tool(edited: Callable[[str, str], None]) -> None:
    """A new call inside is added below the recorded tool, whose outcome is the new one; then it replays."""
    recorded(lambda: longer("why?"))
    edited("times", "2")
    with use_cassette("c", mode="new_episodes") as session:
        result = longer("why?")
    assert str(session.report) == "1 replayed, 1 recorded, 1 stepped into"
    tool, *inside = open_cassette("cassettes/c.yaml").interactions()
    assert tool.outcome.value == result == "answer to why? 0 answer to why? 1"
    assert [(item.name, item.parent) for item in inside] == [("model", tool.number), ("model", tool.number)]
    with use_cassette("c") as session:
        assert longer("why?") == result
    assert str(session.report) == "2 replayed, 0 recorded, 1 stepped into"


def test_nothing_new_leaves_the_file_alone() -> None:
    """A tool that is stepped into isn't written again if its outcome is the recorded one."""
    recorded(lambda: worldly("a"))
    before = Path("cassettes/c.yaml").read_bytes()
    with use_cassette("c", mode="new_episodes"):
        worldly("a")
    assert Path("cassettes/c.yaml").read_bytes() == before


def test_derived_cassette_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live model inside a tool changes what the tool returns; the derived cassette holds that, and replays."""
    recorded(lambda: worldly("a") and expert("why?"))
    real = model.__wrapped__
    monkeypatch.setattr(f"{__name__}.model", boundary("chat", name="model")(lambda prompt: real(prompt).upper()))
    with use_cassette("c", live={"chat"}) as session:
        drawn = worldly("a")
        result = expert("why?")
    assert result == "ANSWER TO BE BRIEF: WHY?"
    assert len(session.report.recorded) == 2
    with use_cassette("cassettes/c.derived.yaml") as session:
        assert worldly("a") == drawn
        assert expert("why?") == result
    assert [call_record.name for call_record in session.report.stepped_into] == ["worldly", "expert"]


@pytest.mark.parametrize(
    "options",
    [{"mode": "all", "replay_only": {"chat"}}, {"live": {"tool"}}, {"mode": "new_episodes", "live": {"tool"}}],
)
def test_replayed_calls_inside_an_executed_tool_stay_inside(options: dict[str, Any]) -> None:
    """A tool that is executed while the calls inside it are replayed has them inside it in what is written."""
    result = recorded(lambda: longer("why?"))
    with use_cassette("c", **options) as session:
        assert longer("why?") == result
    written = Path(str(session.written))
    (tool, chat) = open_cassette(written).interactions()
    assert (tool.name, chat.name, chat.parent) == ("longer", "model", tool.number)
    with use_cassette(written) as session:
        assert longer("why?") == result
    assert str(session.report) == "1 replayed, 0 recorded, 1 stepped into"


def test_divergence_inside_a_tool() -> None:
    """An edited answer of a call inside a tool is replayed there, and the tool returns what follows from it."""
    recorded(lambda: expert("why?"))
    (tool, chat) = open_cassette("cassettes/c.yaml").interactions()
    with deriving("c", changes={chat.number: returns("because")}, to="d"):
        assert expert("why?") == "because"
    assert next(iter(open_cassette("cassettes/d.yaml").interactions())).outcome.value == "because"
    with deriving("c", changes={tool.number: returns("because")}, to="e"):
        assert expert("why?") == "because"
    assert RAN == ["expert"]


def test_each_reason_is_named_once() -> None:
    """The line about tools that were not run names those of one reason together, and keeps reasons apart."""
    unseen, act = "(its side effects weren't observed)", "(wrote b.txt, removed a.txt, 2 more)"
    tools = [f"find {unseen}", f"book {act}", f"look {unseen}", "and 2 more"]
    would = "(would have written b.txt, removed a.txt, 2 more)"
    assert side_effects_skipped(tools) == f"side effects skipped: find, look {unseen}; book {would}; and 2 more"
    assert side_effects_skipped(tools[:1]) == f"side effects skipped: find {unseen}"


# ruff: noqa: D103 - what is no test says by its name what it is


class Table:
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows


@boundary("chat")
def complete(prompt: str) -> str:
    return f"{prompt}!"


@boundary("tool")
def load(n: int) -> Table:
    return Table([n, complete("more")])


@boundary("tool")
async def aload(n: int) -> Table:
    return Table([n])


def test_its_code_runs_in_a_replay(tmp_path: Path) -> None:
    """The program gets a real value, and the calls inside are replayed."""
    for mode in ("all", "none", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode, step_into={"load", "aload"}) as cassette:
            assert load(3).rows == [3, "more!"]
            assert asyncio.run(aload(4)).rows == [4]
    assert [call_record.kind for call_record in cassette.report.stepped_into] == ["tool", "tool"]
    assert [call_record.kind for call_record in cassette.report.replayed] == ["chat"]


def test_recording_again_changes_nothing(tmp_path: Path) -> None:
    """The text that stands for the value has no address of memory in it."""
    texts = []
    for _ in range(2):
        with use_cassette(tmp_path / "run.yaml", mode="all", step_into={"tool"}):
            load(3)
        texts.append([line for line in (tmp_path / "run.yaml").read_text().splitlines() if "0x" in line])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 1


@pytest.mark.parametrize("options", [{}, {"step_into": {"aload"}}, {"step_into": {"load"}, "replay_only": {"load"}}])
def test_all_others_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    """A replay has no value to give for them."""
    with (
        pytest.raises((UnrecordableValueError, CassetteMissError)),
        use_cassette(tmp_path / "run.yaml", mode="all", **options),
    ):
        load(3)
