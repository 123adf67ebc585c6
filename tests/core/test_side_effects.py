"""A recorded call says what its code did outside the process by itself, and where; what only computes did nothing."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import logging
import multiprocessing
import multiprocessing.pool
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import types
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import boundary, open_cassette, record_call, use_cassette
from agenttape_core.integration import current_session, executing
from agenttape_core.integration.automatic import holding_in_memory
from agenttape_core.session.side_effects import attributing_side_effects
from agenttape_core.side_effects import INTERFACES, Interface, UnwatchedCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.schema import SideEffect

pytestmark = pytest.mark.usefixtures("project")

HERE = Path(__file__).name


@pytest.fixture
def peers() -> Iterator[tuple[socket.socket, Any]]:
    """A connection that is open before the session, and the address of its other end."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        yield client, listener.getsockname()


def acts_of(*functions: Callable[[], object]) -> list[list[str] | None]:
    """Record each function as a tool, and return what the file says that they did."""
    with use_cassette("acts", mode="all"):
        for number, function in enumerate(functions):
            boundary("tool", name=f"tool {number}")(function)()
    tools = [item for item in open_cassette("cassettes/acts.yaml").interactions() if item.kind == "tool"]
    return [None if tool.acts is None else [act.what for act in tool.acts] for tool in tools]


def acts(function: Callable[[], object]) -> list[str] | None:
    """Record one function as a tool."""
    return acts_of(function)[0]


# -- what is an act --------------------------------------------------------------------------------------------


def test_files_that_are_changed_are_side_effects() -> None:
    """Each change is named with its file, once, whatever the way in which it is done."""

    def writes() -> None:
        Path("a.md").write_text("x")
        with Path("a.md").open("a") as file:
            file.write("y")
        os.close(os.open("low", os.O_CREAT | os.O_WRONLY))
        Path("a.md").rename("b.md")
        Path("d/e").mkdir(parents=True, exist_ok=True)
        Path("d/e").mkdir(parents=True, exist_ok=True)  # does nothing
        shutil.copy("b.md", "d/e/c.md")
        shutil.rmtree("d")
        os.truncate("b.md", 0)
        Path("b.md").unlink()
        Path("b.md").unlink(missing_ok=True)  # does nothing

    assert acts(writes) == [
        *("wrote a.md", "wrote a.md", "wrote low", "renamed a.md to b.md", "made the folder d", "made the folder d/e"),
        *("wrote d/e/c.md", "changed d/e/c.md", "removed the folder d", "cut b.md", "removed b.md"),
    ]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no file system in memory")
def test_a_file_in_shared_memory_is_a_file() -> None:
    """A file that's written in /dev/shm is a side effect, as in any folder; what goes to a device isn't one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (did,) = acts_of(lambda: (Path(folder) / "log.txt").write_text("paid"))
    assert did is not None
    assert [what.startswith("wrote ") for what in did] == [True]
    assert acts(lambda: Path(os.devnull).write_text("paid")) == []


def test_an_act_names_the_line_of_the_program() -> None:
    """It is the line in the code of the call, also where a library or a thread of it acts."""

    def writes() -> None:
        shutil.copyfile(__file__, "copy")

    def starts() -> None:
        thread = threading.Thread(target=lambda: Path("thread").touch())
        thread.start()
        thread.join()

    line = writes.__code__.co_firstlineno
    with use_cassette("acts", mode="all") as cassette:
        boundary("tool")(writes)()
        boundary("tool")(starts)()
    places = [act.at for item in cassette.interactions for act in item.acts or ()]
    assert places == [f"{HERE}:{line + 1}", f"{HERE}:{line + 4}"]


def test_connections_are_acts_also_those_that_were_open(peers: tuple[socket.socket, Any]) -> None:
    """The other end is named; a connection of an event loop counts, and that it wakes itself does not."""
    client, address = peers

    def connects() -> None:
        socket.create_connection(("localhost", address[1])).close()

    def sends() -> None:
        client.sendall(b"x")

    def loops() -> None:
        async def connect() -> None:
            _, writer = await asyncio.open_connection(*address)
            writer.close()
            await writer.wait_closed()

        asyncio.run(connect())

    def idles() -> None:
        asyncio.run(asyncio.sleep(0))

    reached = ["reached 127.0.0.1"]
    assert acts_of(connects, sends, loops, idles) == [reached, reached, reached, []]


def test_an_answer_of_a_server_in_this_process_is_no_act(peers: tuple[socket.socket, Any]) -> None:
    """Only the side that has connected reaches out."""

    def serves() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            record_call("chat", lambda: client.connect(listener.getsockname()))  # not the tool's
            with closing(listener.accept()[0]) as accepted:
                accepted.sendall(b"x")

    assert acts(serves) == []


@pytest.mark.process
def test_processes_are_side_effects() -> None:
    """The program is named, never its arguments."""

    def starts() -> None:
        subprocess.run([sys.executable, "-c", "'sk-secret'"], check=True)

    assert acts(starts) == [f"started {Path(sys.executable).name}"]


def test_a_database_in_a_file_is_an_act_and_one_in_memory_is_none() -> None:
    """Its writes cannot be seen, so to open it is the act; a call that may use one from before cannot be judged."""
    old = sqlite3.connect("old.db")

    def opens() -> None:
        sqlite3.connect("new.db").close()

    def in_memory() -> None:
        sqlite3.connect(":memory:").close()

    def uses() -> None:
        old.execute("select 1")

    unsure = "may use a database of sqlite3 that was open before"
    assert acts_of(opens, in_memory, uses) == [["opened the database new.db"], [], [unsure]]
    old.close()


def test_temporary_names_do_not_get_into_the_recording() -> None:
    """They differ in each run; a file without a name is no act."""

    def writes() -> None:
        with tempfile.NamedTemporaryFile(), tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile():
            Path(folder, "x").write_text("x")

    assert "tmp" not in " ".join(acts(writes) or ["tmp"])


def test_what_only_computes_does_nothing(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading, printing, logging, importing and the null device are no acts."""
    sys.modules.pop("colorsys", None)

    def computes() -> None:
        import colorsys

        sys.stdout.write(f"{colorsys.__name__} {Path(__file__).stat().st_size}")
        logging.getLogger(__name__).warning("done")
        Path(__file__).read_text()
        Path(os.devnull).write_text("x")
        threading.Thread(target=int).start()

    assert acts(computes) == []


# -- whose act it is -------------------------------------------------------------------------------------------


def test_an_act_belongs_to_the_innermost_call(peers: tuple[socket.socket, Any]) -> None:
    """A model's connection is not its tool's, and a model has no acts; a tool around a tool that acted has none."""

    @boundary("chat")
    def model() -> str:
        socket.create_connection(peers[1]).close()
        return "hello"

    @boundary("tool")
    def inner() -> None:
        Path("inner").touch()

    @boundary("tool")
    def outer() -> str:
        inner()
        return model()

    with use_cassette("acts", mode="all") as cassette:
        outer()
    found = {item.name: item.acts and [act.what for act in item.acts] for item in cassette.interactions}
    assert found == {"inner": ["wrote inner"], "outer": [], "model": None}


def test_concurrent_calls_do_not_share_side_effects() -> None:
    """Each task has its own."""

    @boundary("tool")
    async def writes(name: str) -> None:
        await asyncio.sleep(0)
        await asyncio.to_thread(Path(name).touch)

    async def both() -> None:
        await asyncio.gather(writes("a"), writes("b"))

    with use_cassette("acts", mode="all") as cassette:
        asyncio.run(both())
    found = {item.request["arguments"]["name"]: [act.what for act in item.acts or ()] for item in cassette.interactions}
    assert found == {"a": ["wrote a"], "b": ["wrote b"]}


def test_the_file_holds_acts_without_secrets_and_not_too_many() -> None:
    """They are redacted like all else; of many the first are named, and the number of the rest."""
    key = "sk-proj-" + "a1B2c3D4" * 5

    def writes() -> None:
        for number in range(30):
            Path(f"{number} {key}").touch()

    with use_cassette("acts.jsonl", mode="all"):
        boundary("tool")(writes)()
    text = Path("acts.jsonl").read_text()
    found = open_cassette("acts.jsonl").interaction(1).acts
    assert key not in text
    assert found is not None
    assert [len(found), found[-1].what] == [21, "and 10 more"]


def test_a_replay_watches_nothing_and_keeps_what_was_recorded() -> None:
    """A replayed call has the acts of its recording; no method of sockets is wrapped for them."""
    tool = boundary("tool")(functools.partial(Path("a").write_text, "x"))
    with use_cassette("acts", mode="once"):
        tool()
    before = Path("cassettes/acts.yaml").read_bytes()
    with use_cassette("acts", mode="once") as cassette:
        tool()
        assert not cassette.watches_side_effects
    assert cassette.interactions[0].acts
    assert Path("cassettes/acts.yaml").read_bytes() == before


def test_an_act_can_be_refused_before_it_happens() -> None:
    """What watches a call is called with each act of it first; also where nothing is recorded."""

    @boundary("tool")
    def writes() -> bool:
        session_call = executing()
        assert session_call is not None

        def refuse(act: SideEffect) -> None:
            raise PermissionError(act.what)

        session_call.side_effects.on_side_effect = refuse
        with pytest.raises(PermissionError, match="wrote a"):
            Path("a").touch()
        session_call.side_effects.on_side_effect = None
        assert not session_call.side_effects
        Path("b").touch()
        return bool(session_call.side_effects)

    with use_cassette("acts", mode="all"):
        assert writes()
    with use_cassette("acts", live={"writes"}) as cassette, attributing_side_effects():
        assert writes()
        assert cassette is current_session()
    assert not Path("a").exists()


# -- what cannot be watched ------------------------------------------------------------------------------------


@pytest.fixture
def psycopg(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A package of that name, installed and loaded."""
    module = types.ModuleType("psycopg")
    module.__file__ = "/x/site-packages/psycopg/__init__.py"
    exec("class Connection: pass\ndef connect(): return Connection()", module.__dict__)
    monkeypatch.setitem(sys.modules, "psycopg", module)
    monkeypatch.setattr(f"{__name__}.CLIENT", module)
    return module


CLIENT: Any = None


class Repository:
    """A class of the program."""

    def __init__(self) -> None:
        self.cached = functools.cache(self.rows)

    def rows(self) -> object:
        """Look into the database."""
        return CLIENT.connect()


def innocent() -> object:
    """Compute something."""
    return str({"psycopg": [current_session()]})


class Holder:
    """An object of the program that has what it was given."""

    def __init__(self, value: object) -> None:
        self.held = {"value": [(value,)]}


def test_a_client_that_cannot_be_watched_is_found_where_the_code_names_it(psycopg: types.ModuleType) -> None:
    """By a global, an import, a closure, an attribute, a default, a wrapper and a class of the program; not else."""

    def by_class() -> object:
        """Use a class."""
        return Repository().rows()

    def by_import() -> None:
        """Import it."""
        from psycopg import connect

        connect()

    def by_another() -> object:
        """Call another function."""
        return by_import()

    def by_global() -> None:
        """Name the package, which is a global of this module."""
        CLIENT.connect()

    def codes_near(connection: object) -> Iterator[Any]:
        """Give code in every relation to a client."""
        repository = Repository()

        def by_closure() -> object:
            return connection

        def by_default(given: Any = connection) -> object:
            return given

        yield from (by_global, by_import, by_another, by_class, by_closure, by_default, Holder(connection))
        yield from (repository.rows, repository.cached, Holder(repository), functools.partial(by_global))
        yield functools.wraps(by_import)(shutil.copy)

    unseen = UnwatchedCode()
    for code in codes_near(psycopg.connect()):
        assert unseen.by(code, opened_database=False).startswith("uses psycopg, which cannot be watched"), code
    assert unseen.by(innocent, opened_database=False) == ""


def test_a_call_near_such_a_client_says_so(psycopg: types.ModuleType) -> None:
    """It may have done anything, so it is not recorded as one that did nothing."""

    def asks() -> None:
        str(psycopg)

    assert acts_of(asks, lambda: 1) == [
        ["uses psycopg, which cannot be watched: its connections are made by C code"],
        [],
    ]


def found_by(code: Any, *, is_automatic: bool = True) -> bool:
    """Return whether a client that cannot be watched is met from code."""
    return "cannot be watched" in UnwatchedCode().by(code, opened_database=False, is_automatic=is_automatic)


def test_boundaries_are_not_looked_into(psycopg: types.ModuleType) -> None:
    """A function under `@boundary` and an object with such methods record what they do; going past one counts."""

    class Desk:
        """A class of the program with a boundary that holds a client."""

        def __init__(self) -> None:
            self.connection = CLIENT.connect()
            self.city = "Paris"

        @boundary("retrieval")
        def search(self) -> object:
            """Look into the database."""
            return self.connection

        def drop(self) -> object:
            """Reach the database past the boundary."""
            return self.connection

        @boundary("tool")
        def ask(self) -> str:
            """Use the database in the code of the call itself."""
            return type(self.connection).__name__

    class Opened(Desk):
        """One that reaches out without being named."""

        def __enter__(self) -> object:
            return self.connection

    desk, opened, connect = Desk(), Opened(), boundary("retrieval")(psycopg.connect)
    drop = desk.drop

    innocent = (lambda: connect(), lambda: desk.search(), lambda: (desk.search(), desk.city))  # noqa: PLW0108
    assert [found_by(code) for code in innocent] == [False] * 3
    past = (lambda: desk.connection, lambda: desk.drop(), lambda: drop(), lambda: opened.search(), desk.drop)  # noqa: PLW0108
    assert [found_by(code) for code in past] == [True] * 5
    with use_cassette("acts", mode="all") as cassette:
        desk.ask()
    assert [act.what for act in cassette.interactions[0].acts or ()] == [
        "uses psycopg, which cannot be watched: its connections are made by C code"
    ]


def test_objects_of_an_interface_are_not_looked_into(psycopg: types.ModuleType) -> None:
    """While its objects are boundaries, what they hold is no act of whoever calls the methods of the interface."""

    class Shelf:
        """The interface of a framework."""

        def find(self) -> object:
            """Search."""

    class Rows(Shelf):
        """A store over a client."""

        def __init__(self) -> None:
            self.connection = CLIENT.connect()

        def find(self) -> object:
            """Search."""
            return self.connection

    rows = Rows()

    def finds() -> object:
        return rows.find()

    assert found_by(finds)
    shelves = Interface(Shelf, lambda _, is_automatic: is_automatic)
    INTERFACES[Shelf] = [shelves]
    assert not found_by(finds)
    assert found_by(finds, is_automatic=False)
    assert found_by(lambda: (rows.find(), rows.connection))
    assert found_by(lambda: Rows().find())
    del INTERFACES[Shelf]
    with holding_in_memory(Rows):
        assert not found_by(finds, is_automatic=False)
    with holding_in_memory(Shelf):
        assert found_by(finds)


def test_packages_that_mostly_compute_count_by_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """To count the processors, or to compute a table, reaches nothing; a queue, a C library and a written table do."""
    polars: Any = types.ModuleType("polars")
    polars.__file__ = "/x/site-packages/polars/__init__.py"
    exec("class DataFrame: pass\ndef scan_csv(path): pass", polars.__dict__)
    monkeypatch.setitem(sys.modules, "polars", polars)
    frame, scan, context = polars.DataFrame(), polars.scan_csv, multiprocessing.get_context("spawn")

    def computes() -> object:
        return polars.DataFrame, frame.sum(), multiprocessing.cpu_count(), ctypes.sizeof, threads, context

    with multiprocessing.pool.ThreadPool(1) as threads, closing(multiprocessing.SimpleQueue()) as queue:
        assert not found_by(computes)
        reaching = (lambda: frame.write_parquet("x"), lambda: scan, lambda: queue, lambda: ctypes.CDLL)
        assert [found_by(code) for code in reaching] == [True] * 4
