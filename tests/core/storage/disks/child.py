"""A process that records where there is no room, or no right, to write.

Run as `python child.py FOLDER SCENARIO...`; it ends with 0 if all is as the docstrings of the scenarios say.
`FOLDER/SCENARIO/disk` is a small file system for this scenario, unless the scenario limits the size of files instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteError, CassetteWriteError
from agenttape_core.storage import leftover_journals, recover

PICTURE = bytes(n % 251 for n in range(17_000))
KIB = 1024


@boundary("tool")
def ask(number: int, size: int = 3 * KIB) -> str:
    """Answer with a text of a size."""
    return f"{number} " + "x" * size


@boundary("tool")
def picture(number: int) -> bytes:
    """Answer with what becomes an asset."""
    return bytes([number]) + PICTURE


def numbers(path: Path | str) -> list[int]:
    """The numbers of the calls that a cassette holds, in its order; all of it can be read."""
    return [item.request["arguments"]["number"] for item in open_cassette(Path(path)).interactions()]


def old(folder: Path) -> tuple[Path, bytes]:
    """A cassette that is there before."""
    path = folder / "tape.yaml"
    with use_cassette(path, mode="once"):
        ask(0, 10)
    return path, path.read_bytes()


def failing(work: Callable[[], None]) -> CassetteWriteError:
    """Do what ends with an error."""
    try:
        work()
    except CassetteWriteError as error:
        return error
    raise AssertionError("it did not fail")


def fill(folder: Path) -> Path:
    """Leave no room."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            return path


def record(path: Path, calls: int, call: Callable[[int], Any] = ask) -> None:
    """Record some calls in a session of their own."""
    with use_cassette(path, mode="all"):
        for number in range(1, calls + 1):
            call(number)


def journal(folder: Path) -> None:
    """The journal goes to the user's folder; the call that had no room is in it; the error and the note name it."""
    path, before = old(folder)

    error = failing(lambda: record(path, 100))

    assert "No space left" in str(error), error
    (left,) = leftover_journals(path)
    assert left.is_relative_to(os.environ["XDG_STATE_HOME"]), left
    assert str(left) in str(error), error
    assert "agenttape cassette recover" in "".join(getattr(error, "__notes__", [])), "no command that recovers it"
    assert path.read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["tape.yaml"]
    recovered = recover(left, folder.parent / "recovered.yaml")
    found = numbers(recovered)
    assert found == list(range(1, len(found) + 1))
    assert len(found) > 10, found
    assert not left.parent.exists()


def swallowed(folder: Path) -> None:
    """A run that eats the error goes on, and everything is kept; the session fails all the same."""
    path, before = old(folder)

    def run() -> None:
        with use_cassette(path, mode="all"):
            for number in range(1, 41):
                try:
                    ask(number)
                except CassetteError:
                    continue

    failing(run)

    (left,) = leftover_journals(path)
    assert path.read_bytes() == before
    assert numbers(recover(left, folder.parent / "recovered.yaml")) == list(range(1, 41))


def room_again(folder: Path) -> None:
    """What was recorded elsewhere becomes the cassette when there is room at the end and errors are to be kept."""
    path, _ = old(folder)
    filler = fill(folder)

    def run() -> None:
        with use_cassette(path, mode="all", on_error="keep"):
            ask(1)

    error = failing(run)
    assert "cannot be made" in str(error), error  # not even the lock
    filler.unlink()

    def late() -> None:
        with use_cassette(path, mode="all", on_error="keep"):
            ask(1)
            filler = fill(folder)
            try:
                ask(2)
            finally:
                filler.unlink()

    failing(late)
    assert numbers(path) == [1, 2]
    assert leftover_journals(path) == []


def commit(folder: Path) -> None:
    """The journal had room, the cassette beside it has not: the old one stays, the journal is kept and named."""
    path, before = old(folder)

    error = failing(lambda: record(path, 11))

    assert "kept in" in str(error), error
    (left,) = leftover_journals(path)
    assert left.parent == folder
    assert path.read_bytes() == before
    assert {file.name for file in folder.iterdir()} == {"tape.yaml", left.name}, "half a file is left"
    assert numbers(recover(left, folder.parent / "recovered.yaml")) == list(range(1, 12))


def asset(folder: Path) -> None:
    """An asset has no room: the old cassette and its assets stay, and the journal holds the picture."""
    path, before = old(folder)

    error = failing(lambda: record(path, 2, picture))

    (left,) = leftover_journals(path)
    assert str(left) in str(error), error
    assert path.read_bytes() == before
    recovered = recover(left, folder.parent / "recovered.yaml")
    assert numbers(recovered) == [1, 2]
    with use_cassette(Path(str(recovered))):
        assert [picture(1), picture(2)] == [bytes([1]) + PICTURE, bytes([2]) + PICTURE]


def read_only(folder: Path) -> None:
    """Recording fails on entry, before anything is executed; a replay needs to write nothing."""
    path = folder / "tape.yaml"
    before = path.read_bytes()

    error = failing(lambda: record(path, 1))

    assert "cannot be made" in str(error), error
    assert "may write to" in str(error), error
    assert path.read_bytes() == before
    with use_cassette(path) as cassette:
        ask(0, 10)
    assert str(cassette.report) == "1 replayed, 0 recorded"


def limited(folder: Path) -> None:
    """Where no file may grow, memory keeps what has no room; what fits in later is written then, in its place."""
    path, before = old(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    told: list[str] = []

    def run() -> None:
        with use_cassette(path, mode="all"):
            for number in range(1, 11):
                if number == 8:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                try:
                    ask(number)
                except CassetteWriteError as error:
                    told.append(str(error))

    resource.setrlimit(resource.RLIMIT_FSIZE, (12 * KIB, hard))
    failing(run)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    (left,) = leftover_journals(path)
    assert len(told) > 1
    assert all("in memory until there is room" in text for text in told), told
    assert path.read_bytes() == before
    assert numbers(recover(left, folder.parent / "recovered.yaml")) == list(range(1, 11))


def hopeless(folder: Path) -> None:
    """What has no room to the end is told as lost, with what is kept; the old cassette stays."""
    path, before = old(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (12 * KIB, hard))
    error = failing(lambda: record(path, 10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    (left,) = leftover_journals(path)
    found = numbers(recover(left, folder.parent / "recovered.yaml"))
    assert found == list(range(1, len(found) + 1))
    assert path.read_bytes() == before
    command, lost = "".join(error.__notes__).splitlines()[-2:]
    assert command.endswith(path.name), error.__notes__
    assert lost.startswith("  lost, as no disk had space: "), error.__notes__


def requests(folder: Path) -> None:
    """A server answers, says once that there is no room, and leaves one file, which is written when there is room."""
    from tests.core.asgi.test_inbound import App, ask  # what else is here needs no server

    from agenttape_core.asgi import TapeInbound

    told: list[int] = []
    logging.getLogger("agenttape").addFilter(lambda record: bool(told.append(record.levelno)) or False)
    (folder / "filler").write_bytes(b"x" * 416 * KIB)
    tape = TapeInbound(App(), folder / "runs", patience=0.01)

    async def serve() -> None:
        for number in range(40):
            assert await ask(tape, f"{number} " + "x" * 2 * KIB)
            await tape.written()

    asyncio.run(serve())
    runs = len(list((folder / "runs").glob("*.jsonl")))
    left = [*folder.rglob(".*.journal"), *Path(os.environ["XDG_STATE_HOME"]).rglob(".*.journal")]
    assert len(left) <= 1, left
    assert told == [logging.ERROR], told
    (folder / "filler").unlink()
    asyncio.run(serve())
    assert told == [logging.ERROR, logging.WARNING], told
    assert not [*folder.rglob(".*.journal"), *Path(os.environ["XDG_STATE_HOME"]).rglob(".*.journal")]
    found = list((folder / "runs").glob("*.jsonl"))
    assert len(found) > runs + 1, (found, runs)
    assert all(list(open_cassette(path).interactions()) for path in found)


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # Python does so too; then a write beyond the limit is an `OSError`
    for name in sys.argv[2:]:
        disk = Path(sys.argv[1], name, "disk")
        disk.mkdir(parents=True, exist_ok=True)
        scenario: Callable[[Path], None] = globals()[name]
        scenario(disk)
