"""`use_cassette`: what each mode and option does to the calls and to the file, in all its shapes."""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
import uuid
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Mode, open_cassette, use_cassette
from agenttape_core.errors import (
    CassetteMissError,
    CassetteNotFoundError,
    ConfigurationError,
    UnusedInteractionsError,
    UnusedInteractionsWarning,
)
from agenttape_core.integration import current_session

from ..session.world import CASSETTE, World, ask, call, entries, files, record

pytestmark = pytest.mark.usefixtures("project")


# -- modes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "replay", Mode.REPLAY])
def test_replay_serves_everything(world: World, mode: Any) -> None:
    """In a replay each call gets its recorded answer, nothing is executed, and the file stays as it is."""
    before = record(world, "a", "b")
    with use_cassette("c", mode=mode) as session:
        assert ask(world, "b", "a") == ["b 2", "a 1"]
    assert world.reached == ["a", "b"]
    assert str(session.report) == "2 replayed, 0 recorded"
    assert (session.mode, session.path, len(session.interactions)) == (Mode.REPLAY, CASSETTE, 2)
    assert CASSETTE.read_bytes() == before
    assert files() == ["c.yaml"]


def test_replay_without_a_cassette(project: Path) -> None:
    """A replay of nothing fails on entry with the command that records it, and leaves no trace."""
    with pytest.raises(CassetteNotFoundError, match=r"AGENTTAPE_MODE=once pytest \S+test_replay_without_a_cassette"):
        use_cassette("c").__enter__()
    assert list(project.iterdir()) == []
    assert current_session() is None


def test_once(world: World) -> None:
    """Without a cassette everything is recorded; with one it is a replay and nothing else."""
    for _ in range(2):
        with use_cassette("c", mode="once"):
            assert ask(world, "a", "b") == ["a 1", "b 2"]
    with pytest.raises(CassetteMissError), use_cassette("c", mode="once"):
        ask(world, "new")
    assert world.reached == ["a", "b"]


def test_new_episodes(world: World) -> None:
    """What is recorded is replayed, the rest is executed and added; nothing is removed, nothing is judged."""
    record(world, "a", "b")
    with use_cassette("c", mode="new_episodes") as session:
        assert ask(world, "a", "new") == ["a 1", "new 3"]
    assert str(session.report) == "1 replayed, 1 recorded, 1 unused"
    assert entries() == ["a", "b", "new"]
    before = CASSETTE.read_bytes()
    with use_cassette("c", mode="new_episodes"):
        ask(world, "a", "b", "new")
    assert CASSETTE.read_bytes() == before


@pytest.mark.parametrize("mode", ["all", "record"])
def test_all(world: World, mode: Any) -> None:
    """Everything is executed, and takes the place of what was there."""
    record(world, "a", "b")
    with use_cassette("c", mode=mode) as session:
        assert ask(world, "a", "new") == ["a 3", "new 4"]
        assert [i.name for i in session.interactions] == ["a", "new"]
    assert entries() == ["a", "new"]
    assert [i.outcome.value for i in session.interactions] == ["a 3", "new 4"]


def test_recording_nothing(world: World) -> None:
    """A recording in which nothing happened is a cassette too: its replay must find nothing to do."""
    with use_cassette("c", mode="once"):
        pass
    assert entries() == []
    with pytest.raises(CassetteMissError, match="isn't in the cassette"), use_cassette("c"):
        ask(world, "a")


def test_same_run_same_file(world: World) -> None:
    """Recording an unchanged run again changes nothing outside the volatile block of the header."""

    def run() -> str:
        with use_cassette("c", mode="all"):
            call("t", lambda: "same", secret="hunter2", at=str(uuid.uuid4()))
            call("t", lambda: [1, 2], n=2)
        header, *records = CASSETTE.read_text().split("\n---\n")
        return "\n---\n".join([header.partition("volatile:")[0], *records])

    assert run() == run()


# -- live and frozen -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("live", [{"b"}, ("b",), ["b"]])
@pytest.mark.parametrize("mode", ["none", "once"])
def test_live(world: World, mode: Any, live: Any) -> None:
    """What is live is executed in a replay; a derived cassette says what happened, the original is untouched."""
    before = record(world, "a", "b")
    with use_cassette("c", mode=mode, live=live) as session:
        assert ask(world, "a", "b") == ["a 1", "b 3"]
    assert str(session.report) == "1 replayed, 1 recorded"
    assert CASSETTE.read_bytes() == before
    assert files() == ["c.derived.yaml", "c.yaml"]
    derived = open_cassette("cassettes/c.derived.yaml")
    assert derived.header.derived_from == "c.yaml"
    assert [(i.name, i.outcome.value) for i in derived.interactions()] == [("a", "a 1"), ("b", "b 3")]
    with use_cassette("cassettes/c.derived.yaml"):
        assert ask(world, "a", "b") == ["a 1", "b 3"]


@pytest.mark.parametrize(
    ("on_error", "is_kept"), [({}, True), ({"on_error": "keep"}, True), ({"on_error": "discard"}, False)]
)
def test_live_is_kept_when_the_block_fails(world: World, on_error: Any, is_kept: bool) -> None:
    """What a failed run with something live did says why, so it is kept, and the error says where."""
    before = record(world, "a", "b")
    with pytest.raises(ZeroDivisionError) as caught, use_cassette("c", live={"b"}, to="mine", **on_error):
        assert ask(world, "a", "b") == ["a 1", "b 3"]
        raise ZeroDivisionError
    assert CASSETTE.read_bytes() == before
    assert files() == (["c.yaml", "mine.yaml"] if is_kept else ["c.yaml"])
    said = ["AgentTape: cassettes/mine.yaml keeps what this run did"] if is_kept else []
    assert getattr(caught.value, "__notes__", []) == said


@pytest.mark.parametrize("mode", ["record", "add", "update"])
def test_a_recording_derives_nothing(mode: Any) -> None:
    """A file for the derived cassette is refused where none is written; `once` derives as soon as it replays."""
    with pytest.raises(ConfigurationError, match=rf"to='mine': .*\n  mode='{mode}' records to the cassette itself"):
        use_cassette("c", mode=mode, live={"b"}, to="mine")
    use_cassette("c", mode="once", live={"b"}, to="mine")


def test_live_kind_that_never_happens(world: World) -> None:
    """When nothing live was asked there is nothing to derive."""
    record(world, "a")
    with use_cassette("c", live={"chat"}):
        ask(world, "a")
    assert files() == ["c.yaml"]


def test_live_is_judged_too(world: World) -> None:
    """Live recordings are unused by intent, others are not."""
    record(world, "a", "b")
    with use_cassette("c", live={"b"}):
        ask(world, "a")
    with pytest.raises(UnusedInteractionsError, match=r"1 of the 2 .*\n.* tool a at a"), use_cassette("c", live={"b"}):
        ask(world, "b")


def test_live_in_new_episodes(world: World) -> None:
    """What is executed anew by intent takes the place of its old recording, so that the cassette replays."""
    record(world, "a", "b", "c")
    with use_cassette("c", mode="new_episodes", live={"b", "c"}):
        assert ask(world, "a", "b") == ["a 1", "b 4"]
    with use_cassette("c"):
        assert ask(world, "a", "b", "c") == ["a 1", "b 4", "c 3"]


@pytest.mark.parametrize("mode", ["none", "once", "new_episodes", "update", "all"])
@pytest.mark.parametrize("live", [set(), {"tool"}, {"b"}])
def test_frozen(world: World, mode: Any, live: set[str]) -> None:
    """What is frozen is never executed, in any mode and whatever is live: it is replayed, or it is a miss."""
    record(world, "a", "b")
    with use_cassette("c", mode=mode, replay_only={"b"}, live=live, on_unused="ignore"):
        assert world.tool("b", tool="b") == "b 2"
    with (
        pytest.raises(CassetteMissError, match=r"isn't in the cassette \(it is replay-only\)"),
        use_cassette("c", mode=mode, replay_only={"b"}, live=live),
    ):
        world.tool("b", tool="new")
    assert world.reached == ["a", "b"]


def test_frozen_without_a_cassette(world: World) -> None:
    """Also where there is nothing to replay."""
    with pytest.raises(CassetteMissError, match="replay-only"), use_cassette("c", mode="once", replay_only={"tool"}):
        ask(world, "a")
    assert world.reached == []


def test_frozen_while_recording(world: World) -> None:
    """A recording with something frozen keeps what was replayed, beside what was executed."""
    record(world, "a", "b")
    with use_cassette("c", mode="all", replay_only={"b"}):
        assert ask(world, "a", "b") == ["a 3", "b 2"]
    with use_cassette("c"):
        assert ask(world, "a", "b") == ["a 3", "b 2"]


def test_frozen_is_judged(world: World) -> None:
    """A frozen recording is expected to be asked for, also when its kind is live."""
    record(world, "a", "b")
    with (
        pytest.raises(UnusedInteractionsError, match="1 of the 2"),
        use_cassette("c", live={"tool"}, replay_only={"b"}),
    ):
        ask(world, "a")


# -- sequences and leftovers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_repeat", "expected"),
    [("last", ["t 1", "t 2", "t 2", "t 2"]), ("cycle", ["t 1", "t 2", "t 1", "t 2"])],
)
def test_exhausted(world: World, on_repeat: Any, expected: list[str]) -> None:
    """Equal requests have a sequence of answers; what comes after its end is chosen."""
    with use_cassette("c", mode="once"):
        assert [world.tool("t") for _ in range(2)] == expected[:2]
    with use_cassette("c", on_repeat=on_repeat) as session:
        assert [world.tool("t") for _ in range(4)] == expected
    assert [call_record.match_rule for call_record in session.report.replayed] == [
        "exact",
        "exact",
        "repeated",
        "repeated",
    ]


def test_exhausted_fails_by_default(world: World) -> None:
    """Asking once more than recorded is a miss that says so."""
    record(world, "a")
    with pytest.raises(CassetteMissError) as caught, use_cassette("c"):
        ask(world, "a", "a")
    assert "a was called again with a request that was recorded only once" in caught.value.summary
    assert "every recording of it is already used" in str(caught.value)


def test_unused_fails(world: World) -> None:
    """A replay that does not ask for everything fails, and names what it did not ask for."""
    record(world, "a", "b", "b")
    with pytest.raises(UnusedInteractionsError) as caught, use_cassette("c") as session:
        ask(world, "b")
    command = f"AGENTTAPE_MODE=record pytest {shlex.quote(os.environ['PYTEST_CURRENT_TEST'].rpartition(' ')[0])}"
    assert str(caught.value).splitlines() == [
        f"The run made 1 of the 3 recorded calls in {CASSETTE}. Not made:",
        "     1  tool a at a",
        "     3  tool b at b#2",
        "  last call made: 2, tool b",
        "",
        "  Did the program stop early? Then this is the bug.",
        f"    it should make fewer calls now:    {command}",
        '    several tests share the cassette:  use_cassette(..., on_unused="ignore")',
    ]
    assert [call_record.name for call_record in session.report.unused] == ["a", "b"]


def test_unused_warns(world: World) -> None:
    """Or it warns, at the block."""
    record(world, "a")
    with pytest.warns(UnusedInteractionsWarning, match="0 of the 1") as caught, use_cassette("c", on_unused="warn"):
        pass
    assert caught[0].filename == __file__


def test_failed_run_is_not_judged(world: World) -> None:
    """Of two errors the first is the cause: a run that failed is not blamed for what it did not get to."""
    record(world, "a")
    with pytest.raises(ZeroDivisionError), use_cassette("c"):
        raise ZeroDivisionError


# -- shapes ----------------------------------------------------------------------------------------------------


def test_decorator(world: World) -> None:
    """Each call of a decorated function is a use of its own, from its start; the function keeps its name."""

    @use_cassette("c", mode="once")
    def run(name: str, *, times: int = 1) -> list[str]:
        """Run."""
        return ask(world, *[name] * times)

    assert (run.__name__, run.__doc__) == ("run", "Run.")
    assert run("a", times=2) == run("a", times=2) == ["a 1", "a 2"]
    with pytest.raises(CassetteMissError):
        run("b")
    assert current_session() is None


async def test_async_decorator(world: World) -> None:
    """So it is for coroutine functions, also several at once."""

    @use_cassette("c", mode="once", on_unused="ignore")
    async def run() -> str:
        return await world.atool("a")

    assert inspect.iscoroutinefunction(run)
    assert await run() == "a 1"
    assert await asyncio.gather(run(), run()) == ["a 1", "a 1"]
    assert world.reached == ["a"]


async def test_async_context_manager(world: World) -> None:
    """The async form does the same as the plain one, and either replays what the other recorded."""
    async with use_cassette("c", mode="once") as session:
        assert current_session() is session
        answer = await world.atool("a")
    with use_cassette("c"):
        assert world.tool("a") == answer
    with pytest.raises(UnusedInteractionsError):
        async with use_cassette("c"):
            pass
    with pytest.raises(CassetteMissError):
        async with use_cassette("c"):
            await world.atool("a", new=True)
    assert current_session() is None


def test_generators_are_refused() -> None:
    """A generator's body runs in pieces, so it cannot be decorated."""

    def generator() -> Any:
        yield

    async def agenerator() -> Any:
        yield

    for function in (generator, agenerator):
        with pytest.raises(ConfigurationError, match=rf"the generator \S*{function.__name__}"):
            use_cassette("c")(function)


@pytest.mark.parametrize("option", ["live", "replay_only", "step_into", "freeze", "allow_hosts", "tags"])
def test_bare_strings(option: str) -> None:
    """A string where a collection belongs is a mistake, and is refused as one."""
    with pytest.raises(ConfigurationError, match=f"{option}='tool' is a bare string; expected a collection"):
        use_cassette("c", **{option: "tool"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("mode", "nope", "'nope' isn't a mode"),
        ("on_unused", "never", "on_unused='never'"),
        ("on_repeat", "first", "on_repeat='first'"),
        ("on_error", "ignore", "on_error='ignore'"),
        ("match_on", "url", "match_on='url'"),
        ("ignore", ["a["], r"ignore='a\[' is not a path"),
        ("accept", {"yes"}, "accept"),
        ("redact", ["rule"], r"agenttape_core\.Rule"),
        *(("redact", wrong, r"agenttape_core\.Rule") for wrong in ("yes", None, 1)),
    ],
)
def test_wrong_values(option: str, value: Any, message: str) -> None:
    """An option with a value that it can't have is refused on entry, and the message shows the value."""
    with pytest.raises(ConfigurationError, match=message):
        use_cassette("c", **{"mode": "once", option: value}).__enter__()


def test_leaving_the_folder_meanwhile(world: World, project: Path) -> None:
    """A run that changes the working directory still writes where it began."""
    with use_cassette("c", mode="once"):
        (project / "other").mkdir()
        os.chdir(project / "other")
        ask(world, "a")
    assert entries(project / CASSETTE) == ["a"]


def test_tags_and_header(world: World) -> None:
    """The header says what the recording is."""
    with use_cassette("c", mode="once", tags=["smoke", "paris"]):
        ask(world, "a")
    header = open_cassette(CASSETTE).header
    assert (header.name, header.tags, header.derived_from) == ("c", ["smoke", "paris"], None)
    assert header.volatile.packages["agenttape-core"]
    assert header.volatile.clock is not None


def test_report(world: World) -> None:
    """The report names each interaction with its place, and how it was found."""
    record(world, "a", "b")
    with use_cassette("c") as session:
        ask(world, "b", "a")
        assert session.report.unused == ()
    assert [str(call_record) for call_record in session.report.replayed] == [
        "   2  tool b at b (exact)",
        "   1  tool a at a (exact)",
    ]
    with pytest.raises(CassetteMissError), use_cassette("c", on_unused="ignore") as session:
        ask(world, "a", "c")
    assert str(session.report) == "1 replayed, 0 recorded, 1 unused, 1 missed"


@pytest.mark.parametrize("wrong", ["", ".", "..", "/", None, 42, len])
def test_no_name(wrong: Any) -> None:
    """What names no file is refused with our own error."""
    with pytest.raises(ConfigurationError, match="name or the path"), use_cassette(wrong, mode="once"):
        pass
