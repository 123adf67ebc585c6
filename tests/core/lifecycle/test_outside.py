"""Connections that no boundary covers are named when they are recorded, and so is a package that is not installed."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import boundary, record_call, use_cassette
from agenttape_core.errors import MissingIntegrationError, NetworkBlockedError, UnrecordedConnectionWarning
from agenttape_core.integration import taking_part
from agenttape_core.lifecycle import entry_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core import Session

pytestmark = pytest.mark.usefixtures("project")

HERE = Path(__file__).name


@pytest.fixture
def address() -> Iterator[Any]:
    """A service."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def connect(address: Any) -> None:
    """Reach out, on the line after the first."""
    socket.create_connection(address).close()


def recorded(run: Callable[[Session], object]) -> None:
    """Record a run."""
    with use_cassette("c", mode="once") as session:
        run(session)


# -- outside every boundary ------------------------------------------------------------------------------------


def test_what_no_boundary_covers_is_named(address: Any) -> None:
    """The session ends with a warning of file and line, each once, and of what can be done."""
    line = f"reached 127.0.0.1 at {HERE}:{connect.__code__.co_firstlineno + 2}"

    def run(session: Session) -> None:
        record_call("call", connect, address)  # covered
        connect(address)
        connect(address)
        runs.append(session)

    runs: list[Session] = []
    with pytest.warns(UnrecordedConnectionWarning) as caught:
        recorded(run)
    cassette = runs[0]
    assert cassette.report.uncovered == (line,)
    assert str(cassette.report) == f"0 replayed, 1 recorded, 1 reached outside every boundary\n  {line}"
    message = str(caught[0].message)
    assert line in message
    assert "http = true in [tool.agenttape]" in message
    assert "@boundary" in message


def test_threads_and_tasks_of_the_session_count_and_others_do_not(address: Any) -> None:
    """A thread that was there before has nothing to do with it; a pool that was there before works for who asks."""

    async def in_thread(address: Any) -> None:
        """Reach out from a thread of an event loop."""
        await asyncio.to_thread(connect, address)

    begin, done = threading.Event(), threading.Event()

    def beside() -> None:
        begin.wait()
        connect(address)
        done.set()

    older = threading.Thread(target=beside)
    older.start()
    pool = ThreadPoolExecutor(1)
    pool.submit(int).result()

    def run(session: Session) -> None:
        begin.set()
        done.wait()
        assert session.report.uncovered == ()
        new = threading.Thread(target=connect, args=(address,))
        for way in (
            lambda: pool.submit(connect, address).result(),
            lambda: asyncio.run(in_thread(address)),
            lambda: (new.start(), new.join()),
        ):
            way()
            assert len(session.report.uncovered) == 1
            session.report._uncovered.clear()

    recorded(run)
    pool.shutdown()
    older.join()


def test_neither_a_replay_nor_what_is_live_is_warned_of(address: Any) -> None:
    """A connection of a boundary that is executed is covered."""
    tool = boundary("tool")(connect)
    with use_cassette("c", mode="once"):
        tool(list(address))
    with use_cassette("c") as cassette:
        tool(list(address))
    with use_cassette("c", live={"tool"}) as live:
        tool(list(address))
    assert cassette.report.uncovered == live.report.uncovered == ()


def test_what_a_replay_will_not_refuse_is_not_named(address: Any) -> None:
    """Hosts of `allow_hosts` stay open in a replay."""
    with use_cassette("c", mode="once", allow_hosts={"loopback"}) as session:
        connect(address)
        record_call("call", len, "x")
    assert session.report.uncovered == ()
    with pytest.raises(NetworkBlockedError), use_cassette("c"):  # which does not name them
        connect(address)


def test_where_only_taped_objects_take_part_nothing_else_is_named(address: Any) -> None:
    """The user has left out on purpose what is not taped; but what runs inside of what is taped takes part."""
    with use_cassette("c", mode="once", auto=False) as session:
        connect(address)
        assert session.report.uncovered == ()
        with taking_part(session):
            connect(address)
        assert len(session.report.uncovered) == 1
        session.report._uncovered.clear()


def test_http_is_no_remedy_where_it_is_recorded(address: Any) -> None:
    """The cassette may say that it was recorded with HTTP; what else is reached goes through no HTTP client."""
    with use_cassette("c", mode="once", http=True):
        record_call("call", len, "x")
    with pytest.warns(UnrecordedConnectionWarning) as caught, use_cassette("c", mode="new_episodes") as session:
        connect(address)
    assert session.http
    assert "http=True" not in str(caught[0].message)


# -- a package that is not installed ---------------------------------------------------------------------------


@pytest.fixture
def without_integrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core alone, and one framework that is imported."""
    framework = types.ModuleType("langchain_core")
    framework.__file__ = "/x/site-packages/langchain_core/__init__.py"
    monkeypatch.setattr(entry_points, "_installed", lambda _group: ())
    for module in ("langgraph", "llama_index.core", "workflows"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "langchain_core", framework)


@pytest.mark.usefixtures("without_integrations")
def test_an_empty_recording_of_a_framework_that_nothing_records_is_an_error() -> None:
    """It names what to install, and writes nothing."""
    with (
        pytest.raises(MissingIntegrationError, match="langchain_core is imported") as caught,
        use_cassette("c", mode="all"),
    ):
        pass
    assert "pip install agenttape-langchain" in str(caught.value)
    assert not Path("cassettes/c.yaml").exists()


@pytest.mark.usefixtures("without_integrations")
def test_a_recording_with_a_call_and_a_failing_one_are_as_ever() -> None:
    """The error is about a recording without a call that went well otherwise."""
    with use_cassette("c", mode="once"):
        record_call("call", len, "x")
    with pytest.raises(ZeroDivisionError), use_cassette("d", mode="once"):
        _ = 1 / 0
    with use_cassette("e", mode="once", auto=False):
        pass


def test_an_empty_recording_is_allowed_where_all_is_installed() -> None:
    """Nothing is missing then."""
    with use_cassette("c", mode="once"):
        pass
    assert Path("cassettes/c.yaml").exists()


@pytest.mark.usefixtures("without_integrations")
def test_a_framework_is_told_from_a_module_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the project may be called like one."""
    monkeypatch.setitem(sys.modules, "langchain_core", types.ModuleType("langchain_core"))
    own = types.ModuleType("workflows")
    own.__file__ = str(Path("workflows.py").absolute())
    monkeypatch.setitem(sys.modules, "workflows", own)
    with use_cassette("c", mode="once"):
        pass
    assert Path("cassettes/c.yaml").exists()
