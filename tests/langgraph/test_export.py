"""A production thread is exported into one file, without its secrets, and is replayed from it without the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from agenttape_core import open_cassette
from agenttape_core.errors import CassetteError, CassetteFormatError, ConfigurationError
from agenttape_langchain import TapeCallbackHandler
from agenttape_langgraph import (
    TapeSaver,
    aexport_thread,
    export_thread,
    open_export,
    replay_thread,
    steps_of,
    time_travel,
)

from .fakes import World
from .time_travel.threads import approval

MAIL = "anna.schmidt" + "@" + "acme-mail.com"
KEY = "sk-proj-" + "Zx9" * 12
CONFIG: Any = {"configurable": {"thread_id": "42"}}


def run(world: World, saver: Any, path: Path) -> None:
    """Two threads in production, one of which waits for a human in between; both hold secrets."""
    graph = approval(world).compile(checkpointer=saver)
    with TapeCallbackHandler(path) as handler:
        for thread in ("42", "7"):
            config: Any = {"callbacks": [handler], "configurable": {"thread_id": thread}}
            graph.invoke({"log": [f"mail {MAIL} with {KEY} from thread-{thread}"]}, config)
            graph.invoke(Command(resume=f"Paris, {MAIL}"), config)


@pytest.fixture(params=["memory", "sqlite", "tape"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A saver as production has one."""
    if request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "production.sqlite")) as found:
            yield found
    elif request.param == "tape":
        with TapeSaver(tmp_path / "production.sqlite") as found:
            yield found
    else:
        yield InMemorySaver()


def test_thread_is_replayed_elsewhere(world: World, saver: Any, tmp_path: Path) -> None:
    """One file is enough to look at the thread, to replay it and to fork it, with the world gone."""

    def states(graph: Any, config: Any = CONFIG) -> list[Any]:
        """The states of a thread, without times and ids."""
        return [(state.values, state.next, state.metadata["step"]) for state in graph.get_state_history(config)]

    run(world, saver, tmp_path / "runs.jsonl")
    exported = export_thread(saver, CONFIG, tmp_path / "runs.jsonl", tmp_path / "incident.sqlite")
    recorded = states(approval(world).compile(checkpointer=saver))
    world.gone = True
    with open_export(exported) as export:
        graph = approval(world).compile(checkpointer=export.saver)
        told = states(graph, export.config)
        assert [state[1:] for state in told] == [state[1:] for state in recorded]
        assert told[0][0]["log"][1:2] == recorded[0][0]["log"][1:2]
        replayed = replay_thread(export.cassette, graph)
        assert replayed.values == told[0][0]
        assert len(steps_of(export.cassette)) == 9
        last = open_cassette(export.cassette).entries[-1].number
        fork = time_travel(export.cassette, graph, answers={last: "goodbye"}, live=False)
        assert fork.values["log"][-1] == "thank: goodbye"
    assert not export.cassette.exists()


def test_nothing_secret_is_exported(world: World, saver: Any, tmp_path: Path) -> None:
    """No secret of the thread and nothing of other threads is in the file; equal secrets have equal pseudonyms."""
    run(world, saver, tmp_path / "runs.yaml")
    exported = export_thread(saver, CONFIG, tmp_path / "runs.yaml", tmp_path / "incident.sqlite")
    data = exported.read_bytes()
    assert MAIL.encode() not in data
    assert KEY.encode() not in data
    assert b"thread-7" not in data
    with open_export(exported, folder=tmp_path / "here") as export:
        first = next(iter(open_cassette(export.cassette).interactions()))
        asked = first.request["messages"][0]["content"]
        state = export.saver.get_tuple(export.config)
        assert state is not None
        assert state.checkpoint["channel_values"]["log"][0] in asked
        assert "redacted-email-" in asked
    assert (tmp_path / "here" / "cassette.jsonl").exists()


async def test_asynchronous_saver(world: World, tmp_path: Path) -> None:
    """A saver with asynchronous methods only is exported, too."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "production.sqlite")) as saver:
        graph = approval(world).compile(checkpointer=saver)
        with TapeCallbackHandler(tmp_path / "runs.yaml") as handler:
            await graph.ainvoke({"log": ["hello"]}, {**CONFIG, "callbacks": [handler]})
        exported = await aexport_thread(saver, CONFIG, tmp_path / "runs.yaml", tmp_path / "incident.sqlite")
    world.gone = True
    with open_export(exported) as export:
        waiting = approval(world).compile(checkpointer=export.saver).get_state(export.config, subgraphs=True)
        assert [one.value["question"] for one in waiting.interrupts] == ["where to?"]
        assert (
            replay_thread(export.cassette, approval(world).compile()).interrupts[0].value == waiting.interrupts[0].value
        )


def test_what_cannot_be_exported(world: World, tmp_path: Path) -> None:
    """An unknown thread, a file that is there, and a file that is no export are refused; nothing is left behind."""
    saver = InMemorySaver()
    run(world, saver, tmp_path / "runs.yaml")
    path = tmp_path / "incident.sqlite"
    with pytest.raises(ConfigurationError, match="holds the threads '42', '7'"):
        export_thread(saver, {"configurable": {"thread_id": "nobody"}}, tmp_path / "runs.yaml", path)
    with pytest.raises(ConfigurationError, match="has no thread '42'"):
        export_thread(InMemorySaver(), CONFIG, tmp_path / "runs.yaml", path)
    with pytest.raises(ConfigurationError, match="saver=None: expected a checkpointer"):
        export_thread(approval(world).compile().checkpointer, CONFIG, tmp_path / "runs.yaml", path)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="expected one with a thread_id"):
        export_thread(saver, {}, tmp_path / "runs.yaml", path)
    assert not path.exists()
    export_thread(saver, CONFIG, tmp_path / "runs.yaml", path)
    with pytest.raises(ConfigurationError, match="exists already"):
        export_thread(saver, CONFIG, tmp_path / "runs.yaml", path)
    TapeSaver(tmp_path / "plain.sqlite").close()
    with pytest.raises(CassetteFormatError, match="not an export of a thread"):
        open_export(tmp_path / "plain.sqlite")
    with pytest.raises(CassetteError):
        open_export(tmp_path / "nowhere.sqlite")
