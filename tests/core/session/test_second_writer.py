"""A cassette has one writer at a time: others are refused, and may begin when it has ended or died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteLockedError, CassetteWriteError, SessionStateError
from agenttape_core.schema import Header
from agenttape_core.storage import Journal, leftover_journals, recover
from agenttape_core.storage.lock import holder

from .world import CASSETTE, World, entries, files, fork, in_threads, record, status_of

# Python 3.12 warns of forks in processes with threads, and some of other tests may be about to end.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
MODES = pytest.mark.parametrize("mode", ["all", "new_episodes"])
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@MODES
def test_a_second_session_is_refused_until_the_first_has_ended(world: World, mode: str) -> None:
    """In the same thread, nested; the error says who has it and what to do, and the first one is not disturbed."""
    with use_cassette("c", mode="all"):
        world.tool("a")
        refused = pytest.raises(CassetteLockedError, match=rf"process {os.getpid()}\) is recording.*\n.*wait until")
        with refused, use_cassette("c", mode=mode):
            pytest.fail("it was entered")
        world.tool("b")

    with use_cassette("c", mode=mode):
        world.tool("a")
    assert files() == ["c.yaml"]


def test_another_name_of_the_same_file_is_refused_too(world: World, project: Path) -> None:
    """A symbolic link and a relative path lead to the same lock."""
    record(world, "a")
    Path("link.yaml").symlink_to(CASSETTE)
    with use_cassette("c", mode="all"):
        for name in ("link.yaml", project / "cassettes" / ".." / CASSETTE):
            with pytest.raises(CassetteLockedError), use_cassette(name, mode="all"):
                pytest.fail("it was entered")


def test_another_thread_is_refused(world: World) -> None:
    """Of many threads that begin at once, exactly one may record at any time, and no file is left over."""
    inside = threading.Lock()
    start = threading.Barrier(6)
    is_alone: list[bool] = []

    def work(_: int) -> None:
        start.wait()
        for _ in range(15):
            try:
                with use_cassette("c", mode="all"):
                    is_alone.append(inside.acquire(blocking=False))
                    world.tool("a")
                    inside.release()
            except CassetteLockedError:
                pass

    in_threads(work, range(6))
    assert is_alone
    assert all(is_alone)
    assert files() == ["c.yaml"]
    assert entries() == ["a"]


OTHER = """
import sys
from agenttape_core import use_cassette
with use_cassette("c", mode="all"):
    print("recording", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def another_process() -> Iterator[subprocess.Popen[str]]:
    """A process that records until its input ends; it has begun."""
    command = [sys.executable, "-c", OTHER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "recording\n"
        yield other
        other.kill()


@pytest.mark.process
def test_another_process_is_refused(world: World, another_process: subprocess.Popen[str]) -> None:
    """While a process records, others are refused; after it has ended, they may."""
    refused = pytest.raises(CassetteLockedError, match=f"process {another_process.pid}")
    with refused, use_cassette("c", mode="all"):
        pytest.fail("it was entered")
    another_process.communicate()
    assert record(world, "a")
    assert files() == ["c.yaml"]


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs a signal that ends a process at once")
def test_the_lock_of_a_dead_process_is_free(world: World, another_process: subprocess.Popen[str]) -> None:
    """What a killed process leaves neither blocks nor stays, though its file still names it."""
    another_process.send_signal(signal.SIGKILL)
    another_process.communicate()
    (lock,) = Path("cassettes").glob(".*.lock")
    assert str(another_process.pid) in lock.read_text()
    assert holder(CASSETTE.absolute()) is None
    record(world, "a")
    assert [path.name for path in Path("cassettes").iterdir()] == ["c.yaml"]


def test_who_only_asks_for_the_holder_refuses_nobody(project: Path) -> None:
    """To look for leftovers takes the lock for a moment; a writer has the patience to wait for that."""
    target = project / "tape.yaml"
    lock = project / ".tape.yaml.lock"
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            holder(target)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(50):
            lock.write_text("999999999 of a process that died")
            Journal(target, Header(name="x")).commit(Header(name="x"))
    finally:
        done.set()
        asking.join()


def test_a_session_that_has_just_begun_is_no_leftover(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for leftovers at the moment when a session begins does not take its journal for one."""
    target = CASSETTE.absolute()
    listed = Path.iterdir
    begun: list[Journal] = []

    def begin_first(folder: Path) -> Iterator[Path]:
        begun.extend([Journal(target, Header(name="x"))] if not begun else [])
        return listed(folder)

    record(world, "a")
    monkeypatch.setattr(Path, "iterdir", begin_first)
    found = leftover_journals(target)
    monkeypatch.undo()

    assert len(begun) == 1
    assert begun[0].path.exists()
    assert found == []
    begun[0].abandon(keep=False)


def test_a_file_system_without_locks_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That nobody can lock is not taken for somebody's lock."""
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(CassetteWriteError, match="Operation not supported"), use_cassette("c", mode="all"):
        pytest.fail("it was entered")


def is_refused(action: Callable[[], object]) -> bool:
    """Whether an action is refused because it is done in a fork."""
    try:
        action()
    except SessionStateError as error:
        return "forked" in str(error)
    return False


@pytest.mark.process
@forks
def test_a_fork_does_not_write_to_the_journal_of_its_parent(world: World) -> None:
    """Two processes would each count the lines alone; the fork is refused, and its parent records on."""
    with use_cassette("c", mode="all"):
        world.tool("a")
        assert status_of(fork(lambda: is_refused(lambda: world.tool("in the fork")))) == 1
        world.tool("b")
    assert entries() == ["a", "b"]


@pytest.mark.process
@forks
def test_a_fork_that_leaves_the_session_leaves_everything_to_its_parent(world: World) -> None:
    """The journal and the lock of the parent outlive the end of the session in the fork."""
    session = use_cassette("c", mode="all")
    session.__enter__()
    world.tool("a")
    assert status_of(fork(lambda: is_refused(lambda: session.__exit__(None, None, None)))) == 0
    with pytest.raises(CassetteLockedError), use_cassette("c", mode="all"):
        pytest.fail("it was entered")
    session.__exit__(None, None, None)
    assert entries() == ["a"]


@pytest.mark.process
@forks
def test_the_fork_of_a_dead_process_does_not_hold_its_lock(world: World) -> None:
    """A server that a recording has forked lives on; the next recording may begin, and the journal is recovered."""
    reader, writer = os.pipe()
    recording = os.fork()
    if recording == 0:
        try:
            use_cassette("c", mode="all").__enter__()
            world.tool("a")
            if os.fork() == 0:
                os.write(writer, f"{os.getpid()}\n".encode())  # it runs only now, and so has let go of what it got
                signal.pause()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(99)
    os.waitpid(recording, 0)
    server = int(os.read(reader, 100))
    try:
        (left,) = leftover_journals(CASSETTE.absolute())
        assert recover(left) == CASSETTE.absolute()
        assert len(list(open_cassette(CASSETTE).interactions())) == 1
        record(world, "b")
        assert entries() == ["b"]
    finally:
        os.kill(server, signal.SIGKILL)
        os.close(reader)
        os.close(writer)
