"""Numbers of sockets and pipes that are older than a session lead nowhere in a replay, and are named in a recording."""

from __future__ import annotations

import asyncio
import io
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from os import write as os_write
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import NetworkBlockedError

from .world import look

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


def started(**options: Any) -> subprocess.Popen[Any]:
    """A process that returns each line."""
    return subprocess.Popen(
        [sys.executable, "-S", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


@pytest.fixture
def older() -> Iterator[subprocess.Popen[bytes]]:
    """Such a process, which has returned a line and is asked for another one."""
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"before\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"before\n"
        yield process
        process.kill()


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


SENDS: dict[str, Callable[[int], object]] = {
    "write": lambda number: os.write(number, b"x"),
    "writev": lambda number: os.writev(number, [b"x"]),
    "sendfile": sent_file,
    "splice": spliced,
}
RECEIPTS: dict[str, Callable[[int], object]] = {
    "read": lambda number: os.read(number, 1),
    "readv": lambda number: os.readv(number, [bytearray(1)]),
    "splice from it": lambda number: os.splice(number, 1, 1),
}


@pytest.mark.parametrize("way", SENDS.values(), ids=SENDS)
def test_nothing_is_sent_by_the_number_of_an_older_socket(
    ends: tuple[socket.socket, socket.socket], way: Callable[[int], object]
) -> None:
    """It's refused like a send by the socket."""
    with (
        pytest.raises(NetworkBlockedError, match="send on the open connection to 127"),
        use_cassette("c", on_unused="ignore"),
    ):
        way(ends[0].fileno())
    assert ends[1].recv(9) == b""


@pytest.mark.parametrize("way", RECEIPTS.values(), ids=RECEIPTS)
def test_nothing_is_received_by_the_number_of_an_older_socket(
    ends: tuple[socket.socket, socket.socket], way: Callable[[int], object]
) -> None:
    """It's refused like a receipt by the socket."""
    ends[1].sendall(b"x")
    with (
        pytest.raises(NetworkBlockedError, match="receive from the open connection to 127"),
        use_cassette("c", on_unused="ignore"),
    ):
        way(ends[0].fileno())


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


def copied(number: int) -> io.BufferedWriter:
    """Another object for a number."""
    return io.BufferedWriter(io.FileIO(number, "w", closefd=False))


PIPES: dict[str, Callable[[subprocess.Popen[Any]], object]] = {
    "a buffered write": lambda process: process.stdin and process.stdin.write(b"x\n"),
    "lines": lambda process: process.stdin and process.stdin.writelines([b"x\n"]),
    "its number": lambda process: process.stdin and os.write(process.stdin.fileno(), b"x\n"),
    "another object": lambda process: process.stdin and copied(process.stdin.fileno()).write(b"x\n"),
    "text": lambda process: process.stdin and io.TextIOWrapper(copied(process.stdin.fileno())).write("x\n"),
    "all that it says": lambda process: process.communicate(b"x\n"),
    "a line": lambda process: process.stdout and process.stdout.readline(),
    "its answer": lambda process: process.stdout and os.read(process.stdout.fileno(), 9),
    "the rest": lambda process: process.stdout and process.stdout.read(),
}


@pytest.mark.parametrize("way", PIPES.values(), ids=PIPES)
def test_nothing_is_exchanged_with_an_older_process(
    older: subprocess.Popen[bytes], way: Callable[[subprocess.Popen[Any]], object]
) -> None:
    """Neither by the streams of its object nor by their numbers; afterwards it's usable again."""
    with (
        pytest.raises(NetworkBlockedError, match="process that is older than the session") as caught,
        use_cassette("c", on_unused="ignore"),
    ):
        way(older)
    assert "decorate the function that does" in str(caught.value)
    assert older.stdin is not None
    assert older.stdout is not None
    older.stdin.write(b"after\n")
    older.stdin.flush()
    assert older.stdout.readline() == b"after\n"


def test_nothing_is_written_as_text_to_an_older_process() -> None:
    """What a replay refuses isn't left in a buffer, to be written after the block."""
    with started(text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with pytest.raises(NetworkBlockedError, match="send to a process"), use_cassette("c", on_unused="ignore"):
            print("in the block", file=process.stdin)
        print("after", file=process.stdin, flush=True)
        assert process.stdout.readline() == "after\n"
        process.kill()


def test_a_thread_beside_the_session_reads_on(older: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The log of a server comes at any time; a thread that the program starts in the block gets nothing."""

    def suppressed(way: Callable[[], object]) -> None:
        """Do something whose refusal is only seen at the end of the session."""
        with suppress(NetworkBlockedError):
            way()

    stdin, stdout = older.stdin, older.stdout
    assert stdin is not None
    assert stdout is not None
    asked, lines = threading.Event(), []

    def pump() -> None:
        asked.wait()
        lines.append(stdout.readline())

    thread = threading.Thread(target=pump)
    thread.start()
    stdin.write(b"log\n")
    stdin.flush()
    with use_cassette("c") as session:
        look("Paris")
        asked.set()
        thread.join()
    assert (lines, session.report.blocked) == ([b"log\n"], ())
    with pytest.raises(NetworkBlockedError, match="receive from"), use_cassette("c", on_unused="ignore"):
        thread = threading.Thread(target=lambda: suppressed(stdout.readline))
        thread.start()
        thread.join()


def test_the_end_of_an_older_process_is_nothing(older: subprocess.Popen[bytes]) -> None:
    """It may end at any time; a reader that doesn't wait gets nothing, either."""
    assert older.stdout is not None
    with use_cassette("c") as session:
        look("Paris")
        os.set_blocking(older.stdout.fileno(), False)
        assert older.stdout.read() is None
        os.set_blocking(older.stdout.fileno(), True)
        assert older.stdin is not None
        older.stdin.close()
        assert older.wait() == 0
        assert older.stdout.read() == b""
    assert session.report.blocked == ()


def test_an_older_process_is_used_where_processes_are_allowed(older: subprocess.Popen[bytes]) -> None:
    """They're the user's business then."""
    assert older.stdin is not None
    assert older.stdout is not None
    with use_cassette("c", allow_hosts={"subprocess"}):
        look("Paris")
        older.stdin.write(b"x\n")
        older.stdin.flush()
        assert older.stdout.readline() == b"x\n"


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_a_recording_names_what_it_exchanges_with_an_older_process(older: subprocess.Popen[bytes]) -> None:
    """Nothing of it is recorded, and a replay will refuse it."""
    assert older.stdin is not None
    assert older.stdout is not None
    with use_cassette("c", mode="all") as session:
        look("Paris")
        older.stdin.write(b"x\n")
        older.stdin.flush()
        os.read(older.stdout.fileno(), 9)
    lines = [line.partition(" at ")[0] for line in session.report.uncovered]
    assert set(lines) == {"reached a process that is older than the session"}


def test_a_tool_that_writes_to_an_older_process_is_served(older: subprocess.Popen[bytes]) -> None:
    """It would write again if its code ran."""
    assert older.stdin is not None
    assert older.stdout is not None

    @boundary("tool")
    def tell(line: bytes) -> int:
        assert older.stdin is not None
        return os.write(older.stdin.fileno(), line)

    for mode in ("all", "none"):
        with use_cassette("told", mode=mode):
            assert tell(b"x\n") == 2
    older.stdin.write(b"after\n")
    older.stdin.flush()
    assert older.stdout.readline() + older.stdout.readline() == b"x\nafter\n"


@pytest.mark.parametrize("way", ["write", "read"])
def test_nothing_is_exchanged_with_an_older_process_of_a_loop(way: str, tmp_path: Path) -> None:
    """Its streams end, and the session fails."""
    os.mkfifo(tmp_path / "pipe")

    async def program() -> None:
        pipe = asyncio.subprocess.PIPE
        words = ("cat",) if way == "write" else ("cat", str(tmp_path / "pipe"))
        process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
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


def by_name(older: subprocess.Popen[bytes], folder: Path) -> object:
    """Write with a function that was imported by name."""
    return older.stdin and os_write(older.stdin.fileno(), b"x\n")


def by_a_named_pipe(older: subprocess.Popen[bytes], folder: Path) -> object:
    """Read from another process by a named pipe that is opened in the block."""
    return (folder / "pipe").read_text()


def from_a_buffer(older: subprocess.Popen[bytes], folder: Path) -> object:
    """Read what came before the session."""
    return older.stdout and older.stdout.readline()


@pytest.mark.parametrize("way", [by_name, by_a_named_pipe, from_a_buffer])
def test_limits(
    older: subprocess.Popen[bytes], tmp_path: Path, way: Callable[[subprocess.Popen[bytes], Path], object]
) -> None:
    """The page of the guard says that these aren't seen."""
    assert older.stdin is not None
    assert older.stdout is not None
    older.stdin.write(b"one\ntwo\n")
    older.stdin.flush()
    select.select([older.stdout], [], [])
    assert older.stdout.peek(8) in (b"one\ntwo\n", b"one\n")  # type: ignore[attr-defined]
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
    with pytest.raises(NetworkBlockedError, match="send to a process"), use_cassette("c", on_unused="ignore"):
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
        thread = threading.Thread(target=writer.write, args=(b"x",))
        thread.start()
        thread.join()
        assert reader.read(9) == b"x"
        one, two = os.pipe()
        os.write(two, b"y")
        assert os.read(one, 9) == b"y"
        os.write(log.fileno(), b"z")
        os.close(one)
        os.close(two)
    assert session.report.blocked == ()
    assert (tmp_path / "log").read_bytes() == b"z"


def test_a_process_reports_by_the_pipes_that_it_was_given(tmp_path: Path) -> None:
    """Those to whoever started it, and its standard streams, are its own."""
    inherited = dedent("""
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
    """)

    reads, writes = os.pipe()
    with os.fdopen(reads, "rb", 0) as reader:
        words = [sys.executable, "-c", inherited, str(writes)]
        ended = subprocess.run(words, cwd=tmp_path, pass_fds=[writes], capture_output=True, text=True, check=False)
        os.close(writes)
        assert (ended.stderr, ended.stdout) == ("", "copied 0")
        assert reader.read(99) == b"given "


def test_files_cost_nothing_without_such_a_pipe(tmp_path: Path) -> None:
    """Their methods are wrapped only in a session that has one, and are the real ones afterwards."""
    wrapped = dedent("""
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
    """)

    words = [sys.executable, "-c", wrapped]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.stderr, ended.stdout) == ("", "True False True True True\n")
