"""`verify`: sound functions are the same in each replay, broken ones are named with their cause."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import agenttape_core
from agenttape_core import open_cassette, use_cassette, verify
from agenttape_core.errors import ConfigurationError, SessionStateError, VerificationError
from agenttape_core.experiments.verify import FACTORS
from agenttape_core.experiments.verify.environment import available, locales
from agenttape_core.results import Verification

from . import agents

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("project")]


def causes(verification: Verification) -> dict[str, str]:
    """Return the name of the cause of each difference, by its place."""
    return {difference.what: difference.cause.name for difference in verification.differences}


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the folders of replays are made in."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# -- sound -----------------------------------------------------------------------------------------------------


def test_a_sound_function(project: Path) -> None:
    """What only uses what is recorded and frozen is the same in every environment, and nothing is recorded or left."""
    with use_cassette("sound", mode="once"):
        agents.sound()
    Path("notes.txt").unlink()
    before = sorted(path.name for path in project.rglob("*"))
    ended: list[None] = []
    verification = verify(agents.sound, "sound", runs=3, on_run=lambda: ended.append(None))
    assert verification.ok, str(verification)
    assert len(ended) == 3
    assert [run.same for run in verification.runs] == [True, True, True]
    assert {run.environment.hash_seed for run in verification.runs} == {0, 1, 2}
    assert {len(values) for values in verification.varied.values()} <= {3, len(locales())}
    assert verification.raise_if_different() is verification
    assert str(verification).startswith("tests.core.tools.verify.agents:sound is the same in 3 replays: it returned")
    assert sorted(path.name for path in project.rglob("*")) == before


@pytest.mark.night
async def test_parallel_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order in which parallel branches happen to be replayed is no difference; a loop may be running already."""
    monkeypatch.setenv("PYTHONHASHSEED", "7" if sys.flags.hash_randomization else "0")
    async with use_cassette("parallel", mode="once"):
        await agents.parallel()
    verification = verify(agents.parallel, "parallel", runs=2)
    assert verification.ok
    assert verification.varied["hash_seed"][0] == open_cassette("cassettes/parallel.yaml").header.volatile.hash_seed


def test_a_function_that_opens_its_own_cassette() -> None:
    """Its mode and what is live are overruled, and its relative path is found from the project."""
    agents.opens_its_own()
    recorded = Path("tapes/own.yaml").read_bytes()
    assert verify(agents.opens_its_own, runs=2).ok
    assert Path("tapes/own.yaml").read_bytes() == recorded


@pytest.mark.parametrize("generator", [pytest.param(agents.stream, marks=pytest.mark.night), agents.chunks])
def test_generators_are_read(generator: Any) -> None:
    """A generator is read to its end inside the session, and the options are those of the session."""

    async def collected() -> list[str]:
        return [item async for item in agents.stream()]

    with use_cassette("stream", mode="once"):
        asyncio.run(collected())
    assert verify(generator, "stream", runs=2, on_unused="ignore").ok


@pytest.mark.night
def test_the_same_exception() -> None:
    """A function that raises the same in each replay is the same, and the report says what it raises."""
    with pytest.raises(ValueError, match="no such city"), use_cassette("raises", mode="all", on_error="keep"):
        agents.raises()
    verification = verify(agents.raises, "raises", runs=2)
    assert verification.ok
    assert "it raised ValueError: no such city" in str(verification)


@pytest.mark.night
def test_a_function_without_calls_fails() -> None:
    """A function whose replays make no call fails: there is nothing that a replay could change."""
    verification = verify(agents.asks_nothing, runs=2)
    assert not verification.ok
    assert "it made no recorded call, so there is nothing to verify" in str(verification)


def test_a_script(project: Path) -> None:
    """A function of the script that is running is found by its file, and what guards the script does not run again."""
    script = (
        "from agenttape_core import boundary, use_cassette, verify\n"
        "@boundary('tool')\n"
        "def look():\n"
        "    return 1\n"
        "def agent():\n"
        "    with use_cassette('script', mode='once'):\n"
        "        return look()\n"
        "if __name__ == '__main__':\n"
        "    agent()\n"
        "    print(verify(agent, runs=2).ok)\n"
    )
    Path("script.py").write_text(script, encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


# -- broken ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verification(tmp_path_factory: pytest.TempPathFactory) -> Verification:
    """What is found of a function that is broken in every way."""
    cassette = tmp_path_factory.mktemp("broken") / "broken.yaml"
    with pytest.MonkeyPatch.context() as patch, use_cassette(cassette, mode="once"):
        patch.chdir(tmp_path_factory.mktemp("recording"))
        agents.broken()
    return verify(agents.broken, cassette, runs=2, vary=FACTORS)


def test_each_cause_is_found(verification: Verification) -> None:
    """Each part of the environment that got in is named at its place, and so is what differs without any of them."""
    found = {what: name for what, name in causes(verification).items() if name != "hash seed"}
    assert found == {
        "return value at $.zone": "time zone",
        **({"return value at $.locale": "locale"} if len(locales()) > 1 else {}),
        "return value at $.folder": "working directory",
        "return value at $.switch": "thread switching",
        "return value at $.object": "memory address",
        "return value at $.random": "nothing varied",
        "stdout, line 1": "terminal width",
    }


@pytest.mark.night
def test_what_a_process_remembers_is_found() -> None:
    """Memory and earlier replays are varied, and what depends on them, or on a clock of its own, is named."""
    found = verify(agents.remembers, runs=2, vary={"memory", "earlier_replays"})
    assert (found.varied["memory"], found.varied["earlier_replays"]) == ((0, 1), (0, 2))
    named = causes(found)
    # What measures coverage moves objects by itself.
    assert named.pop("return value at $.handlers") == "memory address" or sys.gettrace() is not None
    assert named == {
        "return value at $.made": "nothing varied",
        "return value at $.seen": "earlier replays in the process",
    }


@pytest.mark.night
def test_races_are_found() -> None:
    """Schedules are varied, and what depends on who is faster is named."""
    found = causes(verify(agents.races, runs=3, vary={"schedule"}))  # on a busy machine, anything may seem the cause
    assert found.keys() == {f"return value at $.{what}" for what in ("answers", "conversations", "cancelled")}


def test_all_that_is_produced_is_compared(verification: Verification) -> None:
    """Calls in another order, other files, other lines in a file, other keys and other output are differences."""
    found = {what for what, name in causes(verification).items() if name == "hash seed"}
    assert found >= {
        "order of calls",
        "order of keys in the return value at $.answers",
        "return value at $.set[0]",
        "stderr, line 1",
        "file drinks, line 2",
        *(f"file {seeded}" for seeded in ("coffee", "water")),
    }


def test_the_report(verification: Verification) -> None:
    """The report names the first difference, and what to do; it can be raised, and holds no secret of the function."""
    assert verification.first is not None
    assert (verification.first.what, verification.first.runs) == ("order of calls", (1, 2))
    with pytest.raises(VerificationError, match=r"sort before you iterate") as raised:
        verification.raise_if_different()
    assert str(raised.value) == str(verification)
    (shown,) = [difference for difference in verification.differences if difference.what == "stderr, line 1"]
    assert "[REDACTED:" in shown.first
    assert agents.SECRET not in repr(verification)


def test_a_request_that_depends_on_the_hash_seed() -> None:
    """A miss in one replay is reported with what was asked otherwise, and with the cause."""
    # Recorded in the order of the first replay, so that this one works.
    command = [sys.executable, "-S", "-c", f"print(*set({agents.TEA}))"]
    ordered = subprocess.run(command, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True).stdout
    with use_cassette("order", mode="once"):
        agents.ask("search", words=ordered.split())
    verification = verify(agents.asks_in_another_order, "order", runs=2, vary={"hash_seed"})
    assert causes(verification)["outcome"] == "hash seed"
    assert verification.first is not None
    assert verification.first.first == "returned"
    assert "search was called with a request" in verification.first.other
    assert "only the order changed" in verification.first.other
    assert "AGENTTAPE_MODE=record <your command>" in verification.first.other
    assert verification.failure is None


@pytest.mark.night
def test_an_object_without_a_codec() -> None:
    """A return value that only has a repr is compared by it, and its address is named as the cause."""
    found = causes(verify(agents.returns_an_object, runs=4, vary={"memory"}))
    assert found == {"return value at $": "memory address"}


# -- replays that fail -----------------------------------------------------------------------------------------


def test_a_crash() -> None:
    """A child that dies is a failure that says how."""
    verification = verify(agents.crashes, runs=2)
    assert verification.failure == "was killed by SIGKILL without a result"
    assert not verification.ok
    assert "cannot be replayed" in str(verification)


def test_no_end(project: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that does not end in time is killed, and says so; no process and no folder is left."""
    pipe = project / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("TELL_ON", str(pipe))
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert verify(agents.hangs, runs=2, timeout=2).failure == "had not ended after 2 s"
    while os.read(reading, 16):  # up to its end: a `BlockingIOError`, if a child still held the pipe open
        pass
    os.close(reading)
    assert list(temporary.iterdir()) == []


def test_a_miss() -> None:
    """A replay that asks for what was not recorded fails, and the report explains the miss."""
    with use_cassette("sound", mode="once"):
        agents.ask("other")
    failure = verify(agents.sound, "sound", runs=2, vary={"hash_seed"}).failure
    assert failure is not None
    assert "CassetteMissError: search was called with a request" in failure


@pytest.mark.usefixtures("interruptible")
def test_interrupted(project: Path) -> None:
    """Ctrl-C ends all children, with no process and no folder left."""
    pipe, log = project / "pipe", project / "folder"
    log.mkdir()
    os.mkfifo(pipe)
    program = (
        "from tests.core.tools.verify import agents; from agenttape_core import verify; "
        "verify(agents.hangs, runs=2, jobs=2)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[4]),
        "TELL_ON": str(pipe),
        "TMPDIR": str(log),
    }
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, cwd=project)
    with pipe.open("rb") as channel:
        assert channel.read(2) == b"xx"
        parent.send_signal(signal.SIGINT)
        assert channel.read() == b""  # its end: no child holds the pipe open any more
    assert b"KeyboardInterrupt" in parent.communicate()[1]
    assert list(log.iterdir()) == []


# -- wrong inputs ----------------------------------------------------------------------------------------------


def inner() -> Any:
    """Return a function that no child can import."""

    def nested() -> None: ...

    return nested


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((lambda: 1,), {}, "it is a lambda"),
        ((inner(),), {}, "it is defined inside a function"),
        ((partial(agents.raises),), {}, "it is an object"),
        ((agents.Plain().method,), {}, "holds something else"),
        ((7,), {}, "expected a function or its name, found int"),
        (("agents",), {}, 'expected "module:function" or "file.py:function", found \'agents\''),
        (("a.py::test",), {}, 'expected "module:function" or "file.py:function", found \'a.py::test\''),
        (("nowhere.py:f",), {}, "there is no file nowhere.py"),
        ((agents.raises,), {"runs": 1}, "at least 2"),
        ((agents.raises,), {"timeout": 0}, "positive timeout"),
        ((agents.raises,), {"jobs": 0}, "positive timeout and jobs"),
        ((agents.raises,), {"vary": "hash_seed"}, "expected a collection of hash_seed"),
        ((agents.raises,), {"vary": {"weather"}}, "found 'weather'"),
        ((agents.raises,), {"on_unused": "ignore"}, "on_unused is for the cassette to open, and none was given"),
        ((agents.raises, "c"), {"mode": "once"}, "mode cannot be chosen"),
        ((agents.raises, "c"), {"unsued": "ignore"}, "unexpected keyword argument 'unsued'"),
        ((agents.raises, "c"), {"redact": [agenttape_core.Rule("r", literal="x")]}, "cannot be handed to a child"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    """What cannot be verified is refused before any process is started, with what to do."""
    with pytest.raises(ConfigurationError) as refused:
        verify(*arguments, **options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        pytest.param("tests.core.tools.verify.agents:missing", "is not a function", marks=pytest.mark.night),
    ],
)
def test_what_a_child_cannot_load(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that the child does not find is an error that says why."""
    monkeypatch.syspath_prepend(Path(__file__).parents[4])
    with pytest.raises(ConfigurationError, match="cannot load") as refused:
        verify(name, runs=2)
    assert message in str(refused.value)


def test_inside_a_session() -> None:
    """Inside a session no process may be started, so it says to move out."""
    with use_cassette("open", mode="once"), pytest.raises(SessionStateError, match="outside of the block"):
        verify(agents.raises)


def test_what_is_not_varied_keeps_its_first_value(project: Path) -> None:
    """Of a factor that is not named only the first value is taken; the working directory is then the project's."""
    choices = available({"hash_seed"}, 3)
    assert list(choices["hash_seed"]) == [0, 1, 2]
    assert choices["working_directory"] == [str(project)]
    assert [len(choices[factor]) for factor in choices] == [3, 1, 1, 1, 1, 1]
