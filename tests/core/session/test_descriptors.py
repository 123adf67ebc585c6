"""Numbers of sockets and pipes that are older than a session lead nowhere in a replay, and are named in a recording."""

from __future__ import annotations

import asyncio
import io
import os
import queue
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from os import write as os_write
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import NetworkBlockedError

from .world import OlderThread, in_thread, look, refused

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("recorded"),
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux lists the ends of pipes"),
]

ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as one,
        listener.accept()[0] as other,
    ):
        yield one, other


class Older:
    """A process that returns each line; it's older than the session.

    Args:
        options: How to start it.
    """

    def __init__(self, **options: Any) -> None:
        words = [sys.executable, "-S", "-c", ECHO]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.stdin: Any = self.process.stdin
        self.stdout: Any = self.process.stdout

    def send(self, line: Any) -> None:
        """Write something at once."""
        self.stdin.write(line)
        self.stdin.flush()

    def returns(self, line: Any) -> bool:
        """Whether it returns a line."""
        self.send(line)
        return bool(self.stdout.readline() == line)


@pytest.fixture
def older() -> Iterator[Older]:
    """Such a process, which has returned a line."""
    made = Older()
    with made.process:
        assert made.returns(b"before\n")
        yield made
        made.process.kill()


def copied(number: int) -> io.BufferedWriter:
    """Another object for a number."""
    return io.BufferedWriter(io.FileIO(number, "w", closefd=False))


def sent_file(number: int) -> None:
    """Send a file."""
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        os.sendfile(number, file.fileno(), 0, 1)


def spliced(number: int) -> None:
    """Move data from a pipe to a socket, in the kernel."""
    one, two = os.pipe()
    os.write(two, b"x")
    try:
        os.splice(one, number, 1)
    finally:
        os.close(one)
        os.close(two)


USES: dict[str, tuple[str, Callable[[int], object]]] = {
    "write": ("send on", lambda number: os.write(number, b"x")),
    "writev": ("send on", lambda number: os.writev(number, [b"x"])),
    "sendfile": ("send on", sent_file),
    "splice": ("send on", spliced),
    "read": ("receive from", lambda number: os.read(number, 1)),
    "readv": ("receive from", lambda number: os.readv(number, [bytearray(1)])),
    "splice from it": ("receive from", lambda number: os.splice(number, 1, 1)),
}


@pytest.mark.parametrize("way", USES)
def test_the_number_of_an_older_socket_is_not_used(ends: tuple[socket.socket, socket.socket], way: str) -> None:
    """It's refused like a send or a receipt by the socket."""
    use, of_number = USES[way]
    if use == "receive from":
        ends[1].sendall(b"x")
    with refused(f"{use} the open connection to 127"):
        of_number(ends[0].fileno())
    if use == "send on":
        assert ends[1].recv(9) == b""


def test_the_number_of_a_socket_is_used_where_its_host_is_allowed(ends: tuple[socket.socket, socket.socket]) -> None:
    """As the socket is."""
    with use_cassette("c", allow_hosts={"loopback"}):
        look("Paris")
        os.write(ends[0].fileno(), b"x")
    assert ends[1].recv(9) == b"x"


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_a_recording_names_what_is_sent_by_the_number_of_a_socket(ends: tuple[socket.socket, socket.socket]) -> None:
    """A replay would refuse it."""
    with use_cassette("c", mode="all") as session:
        look("Paris")
        os.write(ends[0].fileno(), b"x")
    (line,) = session.report.uncovered
    assert line.startswith("reached 127.0.0.1 at ")


PIPES: dict[str, Callable[[Older], object]] = {
    "a buffered write": lambda older: older.stdin.write(b"x\n"),
    "lines": lambda older: older.stdin.writelines([b"x\n"]),
    "its number": lambda older: os.write(older.stdin.fileno(), b"x\n"),
    "another object": lambda older: copied(older.stdin.fileno()).write(b"x\n"),
    "text": lambda older: io.TextIOWrapper(copied(older.stdin.fileno())).write("x\n"),
    "all that it says": lambda older: older.process.communicate(b"x\n"),
    "a line": lambda older: older.stdout.readline(),
    "its answer": lambda older: os.read(older.stdout.fileno(), 9),
    "the rest": lambda older: older.stdout.read(),
}


@pytest.mark.parametrize("way", PIPES.values(), ids=PIPES)
def test_nothing_is_exchanged_with_an_older_process(older: Older, way: Callable[[Older], object]) -> None:
    """Neither by the streams of its object nor by their numbers; afterwards it's usable again."""
    with refused(r"process that is older than the session(.|\n)*decorate the function that does"):
        way(older)
    assert older.returns(b"after\n")


def test_nothing_is_written_as_text_to_an_older_process() -> None:
    """What a replay refuses isn't left in a buffer, to be written after the block."""
    older = Older(text=True)
    with older.process:
        with refused("send to a process"):
            print("in the block", file=older.stdin)
        assert older.returns("after\n")
        older.process.kill()


def test_a_thread_beside_the_session_reads_on(older: Older, older_thread: OlderThread) -> None:
    """The log of a server comes at any time; a thread that the program starts in the block gets nothing."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    older.send(b"log\n")
    with use_cassette("c") as session:
        look("Paris")
        older_thread.begin(lambda: lines.put(older.stdout.readline()))
        assert lines.get() == b"log\n"
    assert session.report.blocked == ()
    with refused("receive from"), suppress(NetworkBlockedError):  # it's only seen at the end of the session
        in_thread(older.stdout.readline)


def test_the_end_of_an_older_process_is_nothing(older: Older) -> None:
    """It may end at any time; a reader that doesn't wait gets nothing, either."""
    with use_cassette("c") as session:
        look("Paris")
        os.set_blocking(older.stdout.fileno(), False)
        assert older.stdout.read() is None
        os.set_blocking(older.stdout.fileno(), True)
        older.stdin.close()
        assert older.process.wait() == 0
        assert older.stdout.read() == b""
    assert session.report.blocked == ()


def test_an_older_process_is_used_where_processes_are_allowed(older: Older) -> None:
    """They're the user's business then."""
    with use_cassette("c", allow_hosts={"subprocess"}):
        look("Paris")
        assert older.returns(b"x\n")


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_a_recording_names_what_it_exchanges_with_an_older_process(older: Older) -> None:
    """Nothing of it is recorded, and a replay will refuse it."""
    with use_cassette("c", mode="all") as session:
        look("Paris")
        older.send(b"x\n")
        os.read(older.stdout.fileno(), 9)
    lines = [line.partition(" at ")[0] for line in session.report.uncovered]
    assert set(lines) == {"reached a process that is older than the session"}


def test_a_tool_that_writes_to_an_older_process_is_served(older: Older) -> None:
    """It would write again if its code ran."""

    @boundary("tool")
    def tell(line: bytes) -> int:
        return os.write(older.stdin.fileno(), line)

    for mode in ("all", "none"):
        with use_cassette("told", mode=mode):
            assert tell(b"x\n") == 2
    older.send(b"after\n")
    assert older.stdout.readline() + older.stdout.readline() == b"x\nafter\n"


@pytest.mark.parametrize("way", ["write", "read"])
def test_nothing_is_exchanged_with_an_older_process_of_a_loop(way: str, tmp_path: Path) -> None:
    """Its streams end, and the session fails."""
    os.mkfifo(tmp_path / "pipe")

    async def program() -> None:
        pipe = asyncio.subprocess.PIPE
        words = ("cat",) if way == "write" else ("cat", str(tmp_path / "pipe"))
        process: Any = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        try:
            async with use_cassette("c", on_unused="ignore"):
                if way == "read":
                    (tmp_path / "pipe").write_text("x")  # comes out of it in the block
                    assert await process.stdout.read(9) == b""
                else:
                    process.stdin.write(b"x\n")
        finally:
            with suppress(ProcessLookupError):  # the end of its input has ended it
                process.kill()
            await process.wait()

    use = "receive from" if way == "read" else "send to"
    with pytest.raises(NetworkBlockedError, match=f"{use} a process that is older than the session"):
        asyncio.run(program())


def by_name(older: Older, folder: Path) -> object:
    """Write with a function that was imported by name."""
    return os_write(older.stdin.fileno(), b"x\n")


def by_a_named_pipe(older: Older, folder: Path) -> object:
    """Read from another process by a named pipe that is opened in the block."""
    return (folder / "pipe").read_text()


def from_a_buffer(older: Older, folder: Path) -> object:
    """Read what came before the session."""
    return older.stdout.readline()


@pytest.mark.parametrize("way", [by_name, by_a_named_pipe, from_a_buffer])
def test_limits(older: Older, tmp_path: Path, way: Callable[[Older, Path], object]) -> None:
    """The page of the guard says that these aren't seen."""
    older.send(b"one\ntwo\n")
    select.select([older.stdout], [], [])
    assert older.stdout.peek(8) in (b"one\ntwo\n", b"one\n")
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", "echo x > pipe"], cwd=tmp_path), use_cassette("c") as session:
        look("Paris")
        assert way(older, tmp_path)
        if way is not by_a_named_pipe:
            (tmp_path / "pipe").read_text()
    assert session.report.blocked == ()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_that_is_older_gets_nothing() -> None:
    """A fork is a process like others."""
    reads, writes = os.pipe()
    if not (forked := os.fork()):
        os.close(writes)
        os._exit(len(os.read(reads, 9)))
    os.close(reads)
    with refused("send to a process"):
        os.write(writes, b"x")
    os.close(writes)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0


def test_pipes_of_the_process_itself_are_used(tmp_path: Path) -> None:
    """So are those that a replay makes, files, and copies of the standard streams."""
    reads, writes = os.pipe()
    with (
        (tmp_path / "log").open("wb", buffering=0) as log,
        os.fdopen(reads, "rb", 0) as reader,
        os.fdopen(writes, "wb", 0) as writer,
        use_cassette("c") as session,
    ):
        look("Paris")
        in_thread(lambda: writer.write(b"x"))
        assert reader.read(9) == b"x"
        one, two = os.pipe()
        os.write(two, b"y")
        assert os.read(one, 9) == b"y"
        os.write(log.fileno(), b"z")
        os.close(one)
        os.close(two)
    assert session.report.blocked == ()
    assert (tmp_path / "log").read_bytes() == b"z"


def printed(folder: Path, program: str, *words: str, **options: Any) -> str:
    """Return what a program prints that fails in nothing."""
    command = [sys.executable, "-c", dedent(program), *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **options)
    assert ended.stderr == ""
    return ended.stdout


def test_a_process_reports_by_the_pipes_that_it_was_given(tmp_path: Path) -> None:
    """Those to whoever started it, and its standard streams, are its own."""
    inherited = """
        import os, sys
        from agenttape_core import boundary, use_cassette

        look = boundary("tool")(len)
        with use_cassette("inherited", mode="all"):
            look("abc")
        given, copied = int(sys.argv[1]), os.dup(1)
        with use_cassette("inherited") as session:
            look("abc")
            os.write(given, b"given ")
            os.fdopen(copied, "w").write("copied ")
            sys.stdout.write(str(len(session.report.blocked)))
    """
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb", 0) as reader:
        assert printed(tmp_path, inherited, str(writes), pass_fds=[writes]) == "copied 0"
        os.close(writes)
        assert reader.read(99) == b"given "


def test_files_cost_nothing_without_such_a_pipe(tmp_path: Path) -> None:
    """Their methods are wrapped only in a session that has one, and are the real ones afterwards."""
    wrapped = """
        import io, os, subprocess, sys
        from agenttape_core import boundary, use_cassette

        look = boundary("tool")(len)
        real = vars(io.FileIO)["write"]
        with use_cassette("wrapped", mode="all"):
            look("abc")
            found = [vars(io.FileIO)["write"] is real]
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
            with use_cassette("wrapped"):
                look("abc")
                found.append(vars(io.FileIO)["write"] is real)
            found += [vars(io.FileIO)["write"] is real, not hasattr(os.write, "__wrapped__")]
        with use_cassette("wrapped"):
            look("abc")
            found.append(vars(io.FileIO)["write"] is real)
        print(*found)
    """
    assert printed(tmp_path, wrapped) == "True False True True True\n"
