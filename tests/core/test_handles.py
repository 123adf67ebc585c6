"""A tool that can write to what was open before is replayed whole; one that can only print or log is stepped into."""

# ruff: noqa: SIM115, T201 - files are open before the calls, and printing is one of the things that are tried

from __future__ import annotations

import array
import asyncio
import contextlib
import csv
import functools
import gzip
import io
import logging
import mmap
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import types
import weakref
import zipfile
from contextvars import ContextVar
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

VARIABLE: ContextVar[Any] = ContextVar("handle")
DESCRIPTOR = -1
WRITE = os.write


@pytest.fixture(autouse=True)
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[contextlib.ExitStack]:
    """An empty project, and what is open in it."""
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        yield stack


@boundary("chat")
def ask(question: str) -> str:
    """Call a model."""
    return question.upper()


def pays_by(write: Callable[..., object]) -> Callable[[str], str]:
    """Return a tool that calls a model, and then does something."""

    @boundary("tool")
    def pay(question: str) -> str:
        answer: str = ask(question)
        write()
        return answer

    return pay


def judged(write: Callable[..., Any]) -> tuple[bool, list[str]]:
    """Record a tool and replay it; return whether the replay stepped into it, and the acts in its recording."""
    pay = pays_by(write)
    with use_cassette("c", mode="all"):
        pay("yes")
    with use_cassette("c") as cassette:
        assert pay("yes") == "YES"
    (tool,) = [item for item in open_cassette("cassettes/c.yaml").interactions() if item.kind == "tool"]
    return bool(cassette.report.stepped_into), [act.what for act in tool.acts or ()]


def test_a_file_that_was_open_is_not_written_to_by_a_replay(stack: contextlib.ExitStack) -> None:
    """However the code of a tool comes to the file: the replay does not step into it, and the report says why."""

    class Holder:
        """An object of the program."""

        def __init__(self, held: Any) -> None:
            self.held = held

        def write(self) -> None:
            """Write to what it holds."""
            self.held.write("x\n")

    def relay() -> Generator[None, str, None]:
        """Write what is sent to what the module holds."""
        while True:
            text = yield
            VARIABLE.get().write(text)

    def sink(file: io.TextIOBase) -> Generator[None, str, None]:
        """Write what is sent."""
        while True:
            file.write((yield))

    def ways_to_write(stack: contextlib.ExitStack) -> Iterator[tuple[str, Callable[..., object]]]:
        """Give ways to write to a file that is open."""
        log = stack.enter_context(Path("audit.log").open("a", buffering=1))
        binary = stack.enter_context(Path("binary.log").open("wb", buffering=0))
        VARIABLE.set(log)
        held, local, generator, relayed = Holder(log), threading.local(), sink(log), relay()
        local.file, handles, bound, alive = log, {"audit": [(log,)]}, log.write, weakref.ref(log)
        next(generator)
        next(relayed)
        rows, raw = csv.writer(log), Path("wrapped.log").open("wb", buffering=0)
        wrapped = stack.enter_context(io.TextIOWrapper(io.BufferedWriter(raw), write_through=True))
        packed = stack.enter_context(gzip.open("a.gz", "wb"))
        archive, pickler = stack.enter_context(zipfile.ZipFile("a.zip", "w")), pickle.Pickler(binary)
        named = stack.enter_context(tempfile.NamedTemporaryFile())
        yield "closure", lambda: log.write("x\n")
        yield "unbuffered", lambda: binary.write(b"x")
        yield "print", lambda: print("x", file=log)
        yield "bound method", lambda: bound("x\n")
        yield "partial", functools.partial(log.write, "x\n")
        yield "attribute", lambda: held.held.write("x\n")
        yield "method", held.write
        yield "dict", lambda: handles["audit"][0][0].write("x\n")
        yield "context variable", lambda: VARIABLE.get().write("x\n")
        yield "local of a thread", lambda: local.file.write("x\n")
        yield "generator", lambda: generator.send("x\n")
        yield "generator over a global", lambda: relayed.send("x\n")
        yield "weak reference", lambda: alive().write("x\n")  # type: ignore[union-attr]
        yield "csv", lambda: rows.writerow(["x"])
        yield "text over bytes", lambda: wrapped.write("x\n")
        yield "gzip", lambda: packed.write(b"x" * 99)
        yield "zip", lambda: archive.writestr(os.urandom(4).hex(), "x")
        yield "pickle", lambda: pickler.dump("x")
        yield "temporary file", lambda: named.write(b"x")

    for name, write in ways_to_write(stack):
        stepped, acts = judged(write)
        assert not stepped, name
        assert "open before" in acts[0], name
    assert Path("audit.log").read_text().count("x") == 13  # once for each way, as none was replayed


def test_the_act_names_the_file_and_no_temporary_name(stack: contextlib.ExitStack) -> None:
    """The name is that of the file; one that `tempfile` has drawn would make each recording another."""
    log = stack.enter_context(Path("audit.log").open("a"))
    named = stack.enter_context(tempfile.NamedTemporaryFile())
    assert judged(lambda: log.write("x"))[1] == ["may write to audit.log, which was open before"]
    assert judged(lambda: named.write(b"x"))[1] == ["may write to a temporary file, which was open before"]


def test_memory_that_is_mapped_from_a_file(stack: contextlib.ExitStack) -> None:
    """A map that can be written counts, and what is a view of it; one that can only be read does not."""
    Path("map").write_bytes(bytes(100))
    file = stack.enter_context(Path("map").open("r+b"))
    mapped = stack.enter_context(mmap.mmap(file.fileno(), 100))
    only_read = stack.enter_context(mmap.mmap(file.fileno(), 100, access=mmap.ACCESS_READ))
    view, below = stack.enter_context(memoryview(mapped)), mmap.mmap(file.fileno(), 100)
    file.close()
    assert not judged(lambda: mapped.write_byte(1))[0]
    assert not judged(lambda: view.__setitem__(0, 2))[0]
    assert judged(lambda: only_read[:10])[0]
    numpy = pytest.importorskip("numpy")
    array = numpy.memmap("map", dtype="u1", mode="r+", shape=(100,))
    plain, of_buffer = numpy.asarray(array)[5:], numpy.frombuffer(below, "u1")[5:]
    assert not judged(lambda: array.__setitem__(0, 2))[0]
    assert not judged(lambda: plain.__setitem__(0, 2))[0]
    assert not judged(lambda: of_buffer.__setitem__(0, 2))[0]


def test_a_bare_descriptor(stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that names `os.write`, or makes a file of a descriptor, counts; `os` beside another `write` doesn't."""
    number = os.open("low", os.O_CREAT | os.O_WRONLY)
    stack.callback(os.close, number)
    monkeypatch.setattr(f"{__name__}.DESCRIPTOR", number)
    text = io.StringIO()

    def imported() -> None:
        from os import write

        write(DESCRIPTOR, b"x")

    def renamed() -> None:
        import os as system

        system.write(DESCRIPTOR, b"x")

    def duplicated() -> None:
        with os.fdopen(os.dup(DESCRIPTOR), "w") as file:
            file.write("x")

    def wrapped() -> None:
        with io.FileIO(DESCRIPTOR, "w", closefd=False) as file:
            file.write(b"x")

    def printed() -> None:
        with open(1, "w", closefd=False) as file:
            file.write("x")

    assert not judged(lambda: os.write(DESCRIPTOR, b"x"))[0]
    assert not judged(lambda: WRITE(DESCRIPTOR, b"x"))[0]
    assert not judged(imported)[0]
    assert not judged(renamed)[0]
    assert judged(duplicated) == (False, ["wrote an open file"])
    assert judged(wrapped) == (False, ["wrote an open file"])
    assert judged(printed) == (True, [])
    assert judged(lambda: (os.environ.get("HOME"), text.write("x")))[0]
    assert Path("low").read_bytes() == b"xxxxxx"


@pytest.mark.process
def test_an_older_descriptor_that_a_tool_maps(stack: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map that writes counts, and so does attaching shared memory; one that only reads, or copies, doesn't."""
    Path("map").write_bytes(bytes(100))
    number = os.open("map", os.O_RDWR)
    stack.callback(os.close, number)
    shared = SharedMemory(create=True, size=10)
    stack.callback(shared.unlink)
    stack.callback(shared.close)

    def mapped(**options: Any) -> Callable[[], None]:
        def write() -> None:
            with mmap.mmap(number, 100, **options) as memory:
                if options.get("access") != mmap.ACCESS_READ:
                    memory[0] += 1

        return write

    def attached() -> None:
        other = SharedMemory(shared.name)
        other.buf[0] += 1
        other.close()

    def in_memory() -> None:
        with mmap.mmap(-1, 100) as memory:
            memory[0] = 1

    written = (False, ["mapped an open file for writing"])
    assert judged(mapped()) == written
    assert judged(mapped(access=mmap.ACCESS_WRITE)) == written
    assert judged(attached) == written
    assert Path("map").read_bytes()[0] == 2
    assert shared.buf[0] == 1
    assert judged(mapped(access=mmap.ACCESS_READ)) == (True, [])
    assert judged(mapped(access=mmap.ACCESS_COPY)) == (True, [])
    assert judged(in_memory) == (True, [])


@pytest.mark.process
def test_shared_memory_and_arrays(stack: contextlib.ExitStack) -> None:
    """Older shared memory counts, by its object or a view, and so does an older file to which an array is written."""
    shared, numbers = SharedMemory(create=True, size=10), array.array("B", b"x")
    stack.callback(shared.unlink)
    stack.callback(shared.close)
    file = stack.enter_context(Path("array").open("wb", buffering=0))
    assert not judged(lambda: shared.buf.__setitem__(0, shared.buf[0] + 1))[0]
    assert shared.buf[0] == 1
    assert not judged(lambda: numbers.tofile(file))[0]
    assert judged(numbers.tobytes)[0]
    numpy = pytest.importorskip("numpy")
    numpies = numpy.frombuffer(b"x", "u1")
    assert not judged(lambda: numpies.tofile(file))[0]
    assert not judged(lambda: numpies.tofile("array"))[0]
    assert Path("array").read_bytes() == b"x"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system names no descriptors")
def test_an_older_descriptor_by_its_path(stack: contextlib.ExitStack) -> None:
    """A descriptor that code opens by its path in `/dev/fd` counts as one that it opens by its number."""
    number = os.open("low", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    stack.callback(os.close, number)
    assert judged(lambda: Path(f"/dev/fd/{number}").write_text("x")) == (False, ["wrote an open file"])
    assert judged(lambda: Path("/dev/null").write_text("x")) == (True, [])
    assert Path("low").read_text() == "x"


def test_an_argument_that_is_no_part_of_the_request(stack: contextlib.ExitStack) -> None:
    """A file that is given to each call counts as one that its code names."""
    log = stack.enter_context(Path("audit.log").open("a", buffering=1))

    @boundary("tool", drop=("file",))
    def pay(question: str, file: Any) -> str:
        answer: str = ask(question)
        file.write("paid\n")
        return answer

    for mode in ("all", "none"):
        with use_cassette("c", mode=mode):
            assert pay("yes", log) == "YES"
            assert pay("yes", file=log) == "YES"
    assert Path("audit.log").read_text() == "paid\n" * 2


def test_a_handle_that_comes_between_two_calls(stack: contextlib.ExitStack) -> None:
    """A tool that had nothing to write to at its first call is looked at again at its second."""
    log, state = stack.enter_context(Path("audit.log").open("a", buffering=1)), dict[str, Any]()
    pay = pays_by(lambda: state["log"].write("paid\n") if state else None)
    for mode in ("all", "none"):
        state.clear()
        with use_cassette("c", mode=mode):
            pay("no")
            state["log"] = log
            pay("yes")
    assert Path("audit.log").read_text() == "paid\n"


def test_a_closed_file_is_nothing(stack: contextlib.ExitStack) -> None:
    """Nothing can be written to it."""
    log = Path("audit.log").open("a")
    log.close()
    assert judged(lambda: log.closed)[0]


@pytest.mark.process
def test_a_process_that_was_started_before(stack: contextlib.ExitStack) -> None:
    """What is written to its input counts, by the process, by the pipe, and in an event loop."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
    pipe = process.stdin
    assert pipe is not None
    assert not judged(lambda: process.stdin and process.stdin.write(b"x"))[0]
    assert not judged(lambda: pipe.write(b"x"))[0]
    assert judged(lambda: process.pid)[0] is False  # the same object: in doubt it is not stepped into

    async def run() -> None:
        child: Any = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE)
        writer = child.stdin
        assert writer is not None
        assert not judged(functools.partial(writer.write, b"x"))[0]
        assert not judged(lambda: child.stdin.write(b"x"))[0]
        writer.close()
        await child.wait()

    asyncio.run(run())


def test_a_stream_over_a_socket(stack: contextlib.ExitStack) -> None:
    """What `makefile` makes is seen when it sends, or counts if its buffer is full later."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    client = stack.enter_context(socket.create_connection(listener.getsockname()))
    stream = stack.enter_context(client.makefile("w"))
    assert not judged(lambda: stream.write("x" * (io.DEFAULT_BUFFER_SIZE + 1)))[0]


def test_what_stays_in_the_process_or_is_only_shown(
    stack: contextlib.ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printing, logging, memory, reading, the null device and a file without a name are no reason to replay whole."""
    logger = logging.getLogger("handles")
    handler = logging.FileHandler("program.log")
    stack.callback(handler.close)
    logger.addHandler(handler)
    stack.callback(logger.removeHandler, handler)
    text, binary = io.StringIO(), io.TextIOWrapper(io.BytesIO())
    null = stack.enter_context(Path(os.devnull).open("w"))
    unnamed = stack.enter_context(tempfile.TemporaryFile())
    read = stack.enter_context(Path(__file__).open())
    box: Any = types.SimpleNamespace(text=text)
    harmless: dict[str, Callable[..., object]] = {
        "print": lambda: print("x"),
        "stderr": lambda: print("x", file=sys.stderr),
        "stdout": lambda: sys.stdout.write("x"),
        "logging": lambda: logger.warning("x"),
        "handler": handler.flush,
        "memory": lambda: (text.write("x"), binary.write("x"), box.text.write("x")),
        "null": lambda: null.write("x"),
        "unnamed": lambda: unnamed.write(b"x"),
        "read": read.readline,
    }
    for name, write in harmless.items():
        assert judged(write) == (True, []), name
