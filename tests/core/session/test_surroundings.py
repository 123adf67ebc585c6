"""What surrounds a session: the guard, what is frozen, how secrets are replaced, and what takes part in it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import Rule, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError, NetworkBlockedError
from agenttape_core.integration import (
    Boundary,
    StepEvent,
    current_session,
    intercept,
    record_step,
    register_address_reader,
    taking_part,
)
from agenttape_core.session import miss

from ...kit.installed import install
from .world import CASSETTE, World, call, reaches_out, record

if TYPE_CHECKING:
    from pathlib import Path


# -- what surrounds a session ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_guard(world: World) -> None:
    """A replay is offline and says so; a recording is not."""
    record(world, "a")
    with pytest.raises(NetworkBlockedError), use_cassette("c", on_unused="ignore") as session:
        socket.create_connection(("127.0.0.1", 9))
    assert "127.0.0.1" in session.report.blocked[0]
    with use_cassette("c", on_unused="ignore", allow_hosts={"loopback"}):
        assert reaches_out()
    for mode in ("all", "new_episodes"):
        with use_cassette("c", on_unused="ignore", mode=mode):
            assert reaches_out()
    assert reaches_out()


def test_time_is_real_inside_a_boundary(world: World) -> None:
    """What is executed for real lives in real time and draws none of the run's ids; around it, all is frozen."""
    with use_cassette("c", mode="once"):
        before, first = time.time(), uuid.uuid4()
        inside, drawn_inside = call("now", lambda: (time.time(), uuid.uuid4()))
        after, second = time.time(), uuid.uuid4()
    assert after == before < inside
    with use_cassette("c"):
        assert (time.time(), uuid.uuid4()) == (before, first)
        assert call("now", world.tool) == (inside, drawn_inside)
        assert (time.time(), uuid.uuid4()) == (after, second)


def test_unknown_freeze() -> None:
    """What cannot be frozen is refused."""
    with (
        pytest.raises(ConfigurationError, match=r"freeze='weather'.*'clock', 'clock:ticking', 'uuid'.* or 'env'"),
        use_cassette("c", mode="once", freeze={"weather"}),
    ):
        pass


# -- redaction -------------------------------------------------------------------------------------------------

SECRET = "sk-proj-" + "Zx9" * 14


def test_rules(world: World) -> None:
    """A rule of the user's own must be there at the replay too; not when everything is recorded anew."""
    rule = Rule("employee", pattern=r"E-\d+")
    with use_cassette("c", mode="once", redact=[rule]):
        call("t", lambda: "E-123", who="E-123")
    assert "E-123" not in CASSETTE.read_text()
    with pytest.raises(ConfigurationError, match=r"redaction rules \['employee'\], which this session does not have"):
        use_cassette("c").__enter__()
    with use_cassette("c", redact=[rule]):
        assert call("t", world.tool, who="E-123") == "E-123"
    with pytest.raises(ConfigurationError, match="employee"):
        use_cassette("c", mode="all", replay_only={"t"}).__enter__()
    with use_cassette("c", mode="all"):
        call("t", lambda: "E-123", who="E-123")
    assert "E-123" in CASSETTE.read_text()


def test_no_redaction(world: World) -> None:
    """Without redaction everything is kept as it is, and can be replayed."""
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, redact=False):  # type: ignore[arg-type]
            call("t", lambda: SECRET, key=SECRET)
    assert SECRET in CASSETTE.read_text()


def test_key_in_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is held in the environment is not in the file, and is needed to replay."""
    monkeypatch.setenv("AGENTTAPE_REDACTION_KEY", "ab" * 32)
    with use_cassette("c", mode="once"):
        call("t", lambda: "x", key=SECRET)
    assert open_cassette(CASSETTE).header.redaction.key is None
    assert "ab" * 32 not in CASSETTE.read_text()
    with use_cassette("c"):
        call("t", world.tool, key=SECRET)
    monkeypatch.delenv("AGENTTAPE_REDACTION_KEY")
    with pytest.raises(ConfigurationError, match="set AGENTTAPE_REDACTION_KEY"):
        use_cassette("c").__enter__()
    with use_cassette("c", mode="all"):
        call("t", lambda: "x", key=SECRET)
    assert open_cassette(CASSETTE).header.redaction.key is not None


def test_key_that_moves_to_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cassette with a key of its own keeps it in a replay; recorded anew it takes the one of the environment."""
    with use_cassette("c", mode="once"):
        call("t", lambda: "x", key=SECRET)
    monkeypatch.setenv("AGENTTAPE_REDACTION_KEY", "ab" * 32)
    with use_cassette("c"):
        call("t", world.tool, key=SECRET)
    with use_cassette("c", mode="new_episodes"):
        call("t", world.tool, key=SECRET)
        call("t", lambda: "y", key=SECRET, n=2)
    with use_cassette("c", mode="all", replay_only={"t"}, on_unused="ignore"):
        call("t", world.tool, key=SECRET)
        call("t", world.tool, key=SECRET, n=2)
    with use_cassette("c"):
        call("t", world.tool, key=SECRET)
        call("t", world.tool, key=SECRET, n=2)
    with use_cassette("c", mode="all"):
        call("t", lambda: "x", key=SECRET)
    assert open_cassette(CASSETTE).header.redaction.key is None


def test_key_stays_when_recorded_anew(world: World) -> None:
    """Recording anew keeps the key, so that equal secrets keep their pseudonyms in the diff."""
    keys = []
    for _ in range(2):
        record(world, "a")
        keys.append(open_cassette(CASSETTE).header.redaction.key)
    assert keys[0] == keys[1] is not None


LONG = "a text of more than a hundred characters " * 3


def test_inside_of_what_takes_part(tmp_path: Path) -> None:
    """A session is automatic inside of what takes part in it, in threads and tasks that inherit, and nowhere else."""
    with use_cassette(tmp_path / "a.yaml", mode="all", auto=False) as session:
        assert not session.auto
        with taking_part(session):
            assert session.auto
            with use_cassette(tmp_path / "b.yaml", mode="all", auto=False) as inner:
                assert not inner.auto
                with taking_part(inner):
                    assert inner.auto
                    assert session.auto

            async def ask() -> bool:
                return session.auto

            assert asyncio.run(ask())
            seen: list[bool] = []
            thread = threading.Thread(target=lambda: seen.append(session.auto))
            thread.start()
            thread.join()
            assert seen == [False]
        assert not session.auto


def test_an_address_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A miss says what an integration calls the place, where one has words for it."""
    monkeypatch.setattr(miss, "_readers", [])
    register_address_reader(lambda address: "the second room" if address.endswith("#2") else None)
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all") as session:
        intercept(session.cross(Boundary("call"), "ask", {"n": 1}), lambda: "answer")
    with pytest.raises(CassetteMissError) as missed, use_cassette(path) as session:
        intercept(session.cross(Boundary("call"), "ask", {"n": 1}), lambda: "answer")
        session.cross(Boundary("call"), "ask", {"n": 2})
    assert " in the second room\n" in str(missed.value)


def test_texts_that_interactions_hold(tmp_path: Path) -> None:
    """A step refers to long texts of interactions instead of repeating them; the rest doesn't change."""
    path = tmp_path / "c.yaml"
    output = {"said": [LONG, "short", LONG + "?"]}
    with use_cassette(path, mode="all") as session:
        assert current_session() is session
        session.ledger.refer_to_texts()
        intercept(session.cross(Boundary("call"), "ask", {"n": 1}), lambda: {"answer": [LONG, "short"]})
        for repeats in (True, False):
            place = session.root.child("node")
            event = StepEvent("node", "n", place.address, place.order, perf_counter(), output=output, repeats=repeats)
            record_step(session, event)
    named, whole = [step.output for step in open_cassette(path).steps()]
    assert named == {"said": [{"$ref": {"at": "ask", "chars": len(LONG)}}, "short", LONG + "?"]}
    assert whole == output


REPORTS = """
import threading

def begin(stop, seen):
    def report():
        seen.append(current())
        while not stop.wait(60):
            pass

    from agenttape_core.scheduling.participants import current_participant as current
    thread = threading.Thread(target=report)
    thread.start()
    return thread
"""


@pytest.mark.parametrize(("module", "takes_part"), [("posthog.consumer", False), ("posthog_other.consumer", True)])
def test_threads_of_telemetry_have_no_turn(tmp_path: Path, module: str, takes_part: bool) -> None:
    """A thread of telemetry runs as it likes: the program's threads don't wait for a turn that it has."""
    consumer: Any = install(tmp_path, module.partition(".")[0].replace("_", "-"), module, REPORTS)

    def program() -> list[object]:
        stop, seen = threading.Event(), list[object]()
        reporting = consumer.begin(stop, seen)
        for _ in range(3):
            working = threading.Thread(target=lambda: None)
            working.start()
            working.join()
        stop.set()
        reporting.join()
        return seen

    for mode in ("record", "replay"):
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            seen = program()
        assert [each is not None for each in seen] == [takes_part]
        assert not session.report.nondeterminism
