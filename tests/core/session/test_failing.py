"""What becomes of a session whose run fails: a miss, an error, an interruption, trouble on the way in or out."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from agenttape_core import Mode, open_cassette, recover, use_cassette
from agenttape_core.errors import (
    CassetteError,
    CassetteFormatError,
    CassetteMissError,
    CassetteNotFoundError,
    CassetteWriteError,
    ConfigurationError,
    shown_path,
)
from agenttape_core.integration import current_session
from agenttape_core.lifecycle.entry_points import integrations
from agenttape_core.storage import leftover_journals

from .world import CASSETTE, World, ask, entries, files, is_unlocked, reaches_out, record

# -- misses and the latch --------------------------------------------------------------------------------------


def test_miss_explains_itself(world: World) -> None:
    """A miss names the call, the nearest recording, only what differs, and how to record it."""
    with use_cassette("c", mode="once"):
        world.tool("search", query="flights to Paris", limit=3)
    with pytest.raises(CassetteMissError) as caught, use_cassette("c") as session:
        world.tool("search", query="flights to Rome", limit=3)
    command = f"pytest {shlex.quote(os.environ['PYTEST_CURRENT_TEST'].rpartition(' ')[0])}"
    assert str(caught.value).splitlines() == [
        "search was called with a request that isn't in the cassette",
        "",
        f"  cassette  {CASSETTE} (1 call, replaying)",
        "  call      tool search",
        "  closest   call 1, made at the same point; query differs:",
        "              - flights to Paris",
        "              + flights to Rome",
        "",
        "  Did you mean to change this?",
        f"    yes, record only what changed:  AGENTTAPE_MODE=update {command}",
        f"    yes, record everything again:   AGENTTAPE_MODE=record {command}",
        "    no:                             undo the change; the traceback shows the line that made this call",
    ]
    assert session.report.missed == (f"{caught.value.summary} (at {caught.value.address})",)


def test_miss_with_the_mode_in_code(world: World) -> None:
    """Where the mode stands in code, an environment variable would not help: the place is named instead."""
    record(world, "a")
    frame = inspect.currentframe()
    assert frame is not None
    with pytest.raises(CassetteMissError) as caught:
        line = frame.f_lineno + 1
        with use_cassette("c", mode="none"):
            ask(world, "new")
    assert f'mode="record" at {__file__}:{line}' in str(caught.value)


def test_command_with_a_secret(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that is shown never holds a secret of the command line."""
    record(world, "a")
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python", "run.py", "--city", "Paris"])
    with pytest.raises(CassetteMissError, match=r"AGENTTAPE_MODE=record python run.py --city Paris"), use_cassette("c"):
        ask(world, "new")
    monkeypatch.setattr(sys, "orig_argv", ["python", "run.py", "--key", "sk-proj-" + "a1B2" * 12])
    with pytest.raises(CassetteMissError, match="AGENTTAPE_MODE=record <your command>"), use_cassette("c"):
        ask(world, "new")


def test_first_of_several_misses(world: World) -> None:
    """The first miss is the cause; a later one that gets through carries a note of it."""
    record(world, "a")
    with pytest.raises(CassetteMissError, match="tool second") as caught, use_cassette("c"):
        try:
            ask(world, "first")
        except CassetteMissError:
            ask(world, "second")
    assert any("tool first" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("is_async", [False, True])
def test_miss_in_a_task_group(world: World, is_async: bool) -> None:
    """A miss inside of a task group comes out of the session as itself, and shows the group as its cause."""
    record(world, "a")

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(world.atool("new", tool="new"))

    async def run_inside() -> None:
        async with use_cassette("c"):
            await run()

    with pytest.raises(CassetteMissError) as caught:
        if is_async:
            asyncio.run(run_inside())
        else:
            use_cassette("c")(lambda: asyncio.run(run()))()
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert "TaskGroup" in "".join(traceback.format_exception(caught.value))


def test_miss_of_a_generator_that_is_closed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A session in a generator raises its miss when that is closed; of one that is collected it goes to stderr."""
    record(world, "a")

    def program() -> Iterator[int]:
        with use_cassette("c"):
            with suppress(BaseException):
                ask(world, "new")
            yield 1

    closed, collected = program(), program()
    assert next(closed) == next(collected) == 1
    with pytest.raises(CassetteMissError):
        closed.close()
    hook, sys.unraisablehook = sys.unraisablehook, sys.__unraisablehook__
    try:
        del collected
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert "CassetteMissError: new was called with a request" in capsys.readouterr().err


def test_unreadable_recording_does_not_hide_the_miss(world: World) -> None:
    """A miss whose nearest recording cannot be read is a miss, which says so."""
    record(world, "a")
    CASSETTE.write_text(CASSETTE.read_text().replace("request:", "requeste:"))
    with pytest.raises(CassetteMissError, match=r"closest   unknown: .*c\.yaml:\d+"), use_cassette("c"):
        ask(world, "new")


# -- when the run fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [ValueError, KeyboardInterrupt, asyncio.CancelledError])
def test_failed_recording_is_put_aside(world: World, end: type[BaseException]) -> None:
    """A run that fails overwrites nothing; what it recorded is kept, and the exception says how to get it back."""
    before = record(world, "a")
    with pytest.raises(end) as caught, use_cassette("c", mode="all"):
        ask(world, "b", "c")
        raise end
    assert CASSETTE.read_bytes() == before
    (journal,) = leftover_journals(CASSETTE)
    (note,) = caught.value.__notes__
    assert note.endswith("recorded so far:  agenttape cassette recover cassettes/c.yaml")
    recovered = recover(journal)
    assert (recovered.name, entries(recovered)) == ("c.recovered.yaml", ["b", "c"])
    assert is_unlocked()


def test_failed_first_recording(world: World) -> None:
    """Without a cassette there is none afterwards; a replay says that there is something to recover."""
    with pytest.raises(ValueError, match="x"), use_cassette("c", mode="once"):
        ask(world, "a")
        raise ValueError("x")
    assert not CASSETTE.exists()
    (journal,) = leftover_journals(CASSETTE)
    with pytest.raises(CassetteNotFoundError, match="recover") as caught, use_cassette("c"):
        pass
    assert shown_path(journal) in str(caught.value)
    assert recover(journal).resolve() == CASSETTE.resolve()
    with use_cassette("c"):
        assert ask(world, "a") == ["a 1"]


def test_nothing_is_kept_of_nothing(world: World) -> None:
    """A run that fails before anything happened leaves no journal."""
    with pytest.raises(ValueError, match="x"), use_cassette("c", mode="once"):
        raise ValueError("x")
    assert files() == []


def test_kept_all_the_same(world: World) -> None:
    """With `on_error="keep"` what was recorded becomes the cassette."""
    record(world, "a")
    with pytest.raises(ValueError, match="x"), use_cassette("c", mode="all", on_error="keep"):
        ask(world, "b")
        raise ValueError("x")
    assert entries() == ["b"]
    assert files() == ["c.yaml"]


def test_swallowed_failure_while_recording(world: World) -> None:
    """A recording in which something of ours was swallowed is not a cassette."""
    with pytest.raises(CassetteMissError), use_cassette("c", mode="once", replay_only={"b"}):
        ask(world, "a")
        with suppress(CassetteMissError):
            ask(world, "b")
    assert not CASSETTE.exists()
    assert len(leftover_journals(CASSETTE)) == 1


def test_cassette_that_cannot_be_written(world: World) -> None:
    """When the file cannot be replaced the error says where the recording is, and the lock is released."""
    record(world, "a")
    with pytest.raises(CassetteWriteError) as caught, use_cassette("c", mode="all"):
        ask(world, "b")
        CASSETTE.unlink()
        CASSETTE.mkdir()
    (journal,) = leftover_journals(CASSETTE)
    assert journal.name in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    CASSETTE.rmdir()
    recover(journal)
    assert (entries(), is_unlocked()) == (["b"], True)


def test_success_clears_up(world: World) -> None:
    """The next recording that succeeds removes what an earlier one left."""
    with pytest.raises(ValueError, match="x"), use_cassette("c", mode="once"):
        ask(world, "a")
        raise ValueError("x")
    record(world, "a")
    assert files() == ["c.yaml"]


# -- ways out --------------------------------------------------------------------------------------------------


def nothing_is_left() -> bool:
    """Whether there is no session, guard or frozen clock in force."""
    clock_goes = len({time.time_ns() for _ in range(1000)}) > 1
    return current_session() is None and reaches_out() and clock_goes


def test_integration_that_fails_to_connect(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure on entry undoes all that was done: no lock, no journal, no guard, and the next session works."""

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot connect")

    before = integrations._open  # tracebacks of other tests may hold contexts of replays, which keeps them connected
    with monkeypatch.context() as patch:
        patch.setattr(type(integrations), "connect", broken)
        with pytest.raises(RuntimeError, match="cannot connect"):
            use_cassette("c", mode="once").__enter__()
    assert files() == []
    assert nothing_is_left()
    assert integrations._open == before
    record(world, "a")


def test_guard_that_is_not_valid(world: World) -> None:
    """So does an option that is only understood at the end of the entry."""
    record(world, "a")
    with pytest.raises(ConfigurationError, match="https"):
        use_cassette("c", allow_hosts={"https://api.openai.com/v1"}).__enter__()
    assert nothing_is_left()


@pytest.mark.parametrize("end", [None, ValueError, KeyboardInterrupt])
def test_integration_that_fails_to_disconnect(
    world: World, monkeypatch: pytest.MonkeyPatch, end: type[BaseException] | None
) -> None:
    """A failure on exit is raised, but masks no interruption and leaves neither lock nor guard behind."""
    expected: Any = KeyboardInterrupt if end is KeyboardInterrupt else RuntimeError
    real = integrations.disconnect

    def disconnect() -> None:
        real()
        raise RuntimeError("cannot disconnect")

    with monkeypatch.context() as patch:
        patch.setattr(integrations, "disconnect", disconnect)
        with pytest.raises(expected) as caught, use_cassette("c", mode="once"):
            ask(world, "a")
            if end is not None:
                raise end
    assert nothing_is_left()
    if end is None:
        assert "recover" in caught.value.__notes__[0]
    assert len(leftover_journals(CASSETTE)) == 1
    assert is_unlocked()


def test_kept_recording_that_cannot_be_read(world: World) -> None:
    """When an old recording that is to stay cannot be read, nothing is overwritten and the new ones are kept."""
    record(world, "a", "b")
    mangled = CASSETTE.read_text().replace("name: b\n", "name: b\nsurprise: 1\n", 1)
    CASSETTE.write_text(mangled)
    with pytest.raises(CassetteFormatError) as caught, use_cassette("c", mode="new_episodes"):
        ask(world, "new")
    assert CASSETTE.read_text() == mangled
    (journal,) = leftover_journals(CASSETTE)
    assert shown_path(journal) in caught.value.__notes__[0]
    assert entries(recover(journal)) == ["new"]


def test_unreadable_cassette(world: World) -> None:
    """A mangled cassette is refused on entry, and stays as it is, in every mode that would need it."""
    record(world, "a")
    CASSETTE.write_text("agenttape: [\n")
    for mode in set(Mode) - {Mode.RECORD}:
        with pytest.raises(CassetteError), use_cassette("c", mode=mode):
            pass
    assert CASSETTE.read_text() == "agenttape: [\n"
    assert files() == ["c.yaml"]
    assert nothing_is_left()


async def test_cancelled_on_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while the files are read leaves no journal and no lock."""
    reading, go, entered = threading.Event(), threading.Event(), []
    real = open_cassette

    def slow(path: Any) -> Any:
        reading.set()
        go.wait(10)
        return real(path)

    async def run() -> None:
        async with use_cassette("c", mode="once"):
            entered.append("c")

    with monkeypatch.context() as patch:
        patch.setattr("agenttape_core.lifecycle.open_session.open_cassette", slow)
        task = asyncio.create_task(run())
        await asyncio.to_thread(reading.wait, 10)
        task.cancel()
        await asyncio.sleep(0)  # the task hears of it while its thread still reads
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.get_running_loop().shutdown_default_executor()
    assert entered == []
    assert files() == []
