"""The file: opening, refusals and their messages."""

from __future__ import annotations

import gc
import os
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from agenttape_core.errors import (
    AgentTapeError,
    CassetteError,
    CassetteFormatError,
    CassetteLockedError,
    CassetteNotFoundError,
    CassetteVersionError,
    CassetteWriteError,
    ConfigurationError,
    SessionStateError,
    UnreadableValueError,
)
from agenttape_langgraph import TapeSaver
from agenttape_langgraph.saver import Database, encoding
from agenttape_langgraph.saver.schema import STEPS, VERSION, found_version

from ...kit.shared_folder import shared_folder
from .threads import checkpoint, counts, growing, place, put_thread


def edited(path: Path, statement: str) -> None:
    """Change a file behind its back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statement)


@pytest.fixture
def filled(path: Path) -> Path:
    """A file with a thread."""
    with TapeSaver(path) as saver:
        put_thread(saver, growing(10))
    return path


def test_closed_it_is_one_file_and_opens_again(filled: Path) -> None:
    """After closing nothing lies beside the file, and a new saver or the same one goes on with it."""
    assert [file.name for file in filled.parent.iterdir()] == [filled.name]
    saver = TapeSaver(filled)
    assert len(list(saver.list(None))) == 10
    saver.close()
    saver.close()
    with pytest.raises(SessionStateError, match="closed"):
        saver.get_tuple(place())
    with saver:
        assert saver.get_tuple(place()) is not None
    saver.close()


async def test_it_is_an_async_context_manager(path: Path) -> None:
    """`async with` opens and closes it."""
    async with TapeSaver(path) as saver:
        await saver.aput(place(), checkpoint(1, {}), {}, {})
    with pytest.raises(SessionStateError):
        await saver.aget_tuple(place())


def test_one_that_nobody_closes_closes_itself(path: Path) -> None:
    """A saver that is forgotten leaves nothing beside its file."""
    saver = TapeSaver(path)
    put_thread(saver, growing(1))
    del saver
    gc.collect()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"---\nformat: 2\n" * 100, CassetteFormatError, "expected an SQLite database"),
        (b"SQLite format 3\0" + b"\xff" * 5000, CassetteError, "saver.sqlite"),
        (b"x", CassetteFormatError, "expected an SQLite database"),
    ],
)
def test_what_is_no_database_is_refused(content: bytes, error: type[Exception], words: str, path: Path) -> None:
    """A file of something else is refused by name, and left as it is."""
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(error, match=words):
        TapeSaver(path)
    assert path.read_bytes() == content


def test_a_file_of_another_saver_is_refused(tmp_path: Path) -> None:
    """A database of LangGraph's own saver is refused with its name, and left as it is."""
    with SqliteSaver.from_conn_string(str(tmp_path / "theirs.sqlite")) as theirs:
        theirs.setup()
    before = (tmp_path / "theirs.sqlite").read_bytes()
    with pytest.raises(CassetteFormatError, match="SqliteSaver"):
        TapeSaver(tmp_path / "theirs.sqlite")
    assert (tmp_path / "theirs.sqlite").read_bytes() == before
    edited(tmp_path / "other.sqlite", "CREATE TABLE customers (id)")
    with pytest.raises(CassetteFormatError, match="something else"):
        TapeSaver(tmp_path / "other.sqlite")


def test_a_newer_version_is_refused(filled: Path) -> None:
    """A file of the future is refused with both versions and the remedy, and left as it is."""
    edited(filled, f"PRAGMA user_version = {VERSION + 1}")
    before = filled.read_bytes()
    with pytest.raises(
        CassetteVersionError, match=rf"version {VERSION + 1}[\s\S]*up to {VERSION}[\s\S]*pip install --upgrade"
    ):
        TapeSaver(filled)
    assert filled.read_bytes() == before
    assert len(STEPS) == VERSION


def test_damage_gives_our_errors_or_nothing(filled: Path) -> None:
    """However a file is damaged, it is refused with an error of ours, or the states that are read are those written."""
    whole = filled.read_bytes()
    with TapeSaver(filled) as saver:
        right = [(it.checkpoint, it.metadata) for it in saver.list(None)]
    draw, outcomes = random.Random(1), {"refused": 0, "read": 0}
    for number in range(150):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[draw.randrange(len(data)) :]
        else:
            for _ in range(draw.choice((1, 8, 64))):
                data[draw.randrange(len(data))] = draw.randrange(256)
        filled.write_bytes(data)
        try:
            with TapeSaver(filled) as saver:
                found = [(it.checkpoint, it.metadata) for it in saver.list(place())]
                assert all(it in right for it in found)
            outcomes["read"] += 1
        except AgentTapeError:
            outcomes["refused"] += 1
        for beside in filled.parent.glob(f"{filled.name}-*"):
            beside.unlink()
    assert min(outcomes.values()) > 5


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pieces SET data = zeroblob(length(data)) WHERE id = 2",
        "UPDATE pieces SET data = (SELECT data FROM pieces WHERE id = 1) WHERE id = 2",
        "UPDATE pieces SET data = 'text'",
        "UPDATE pieces SET data = x'80'",
        "UPDATE pieces SET digest = id",
        "DELETE FROM pieces WHERE id = 2",
        "DELETE FROM contents",
        "UPDATE contents SET last = last - 1 WHERE id = 3",
        "UPDATE links SET previous = id",
        "UPDATE links SET previous = NULL",
        "UPDATE checkpoints SET slots = x'ff'",
        "UPDATE checkpoints SET slots = x'00'",
        "UPDATE checkpoints SET slots = x''",
        "UPDATE checkpoints SET body = x''",
        "UPDATE checkpoints SET body = 'text'",
        "UPDATE checkpoints SET metadata = x'07ff'",
        "UPDATE writes SET slot = x'0004'",
        "UPDATE writes SET slot = (SELECT slot FROM writes LIMIT 1) || slot",
        "DROP TABLE links",
    ],
)
def test_rows_that_do_not_fit_are_refused(damage: str, filled: Path) -> None:
    """Rows that were changed behind its back give an error of ours that names the file, never another state."""
    edited(filled, damage)
    with TapeSaver(filled) as saver, pytest.raises(CassetteFormatError, match=r"saver\.sqlite"):
        list(saver.list(None))


def test_a_piece_does_not_unfold_without_end(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed piece that unpacks to more than the limit is refused."""

    def _zlib(data: bytes) -> bytes:
        import zlib

        packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=encoding._WORDS)
        return packer.compress(data) + packer.flush()

    for packed in (encoding.pack(b"\0" * 5_000_000), (encoding.ZLIB, _zlib(b"\0" * 5_000_000))):
        assert encoding.unpack(*packed) == b"\0" * 5_000_000
        with pytest.raises(ValueError, match="more than 1000000 bytes"):
            encoding.unpack(*packed, limit=1_000_000)


@pytest.fixture
def without_zstandard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which the extra is not installed."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    encoding._zstandard.cache_clear()
    yield
    encoding._zstandard.cache_clear()


def test_a_file_of_the_extra_names_it(filled: Path, without_zstandard: None) -> None:
    """Without zstandard, the error about a file that needs it names the extra."""
    with TapeSaver(filled) as saver, pytest.raises(UnreadableValueError, match=r"agenttape-langgraph\[zstd\]"):
        saver.get_tuple(place())
    assert issubclass(UnreadableValueError, AgentTapeError)


def test_a_file_without_the_extra_is_packed_too(
    tmp_path: Path, without_zstandard: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was written without zstandard is small as well, and read with it."""
    other, values = tmp_path / "zlib.sqlite", {"it": ["word " * 99] * 99}
    with TapeSaver(other) as saver:
        saver.put(place(), checkpoint(1, values), {}, {})
    assert other.stat().st_size < 120_000
    monkeypatch.undo()
    encoding._zstandard.cache_clear()
    with TapeSaver(other) as saver:
        assert saver.get_tuple(place()).checkpoint["channel_values"] == values  # type: ignore[union-attr]


def test_a_file_that_another_process_is_making_is_not_foreign(path: Path) -> None:
    """A new file whose tables appear while it is opened is seen as empty or as ours, not as another saver's."""
    made: list[TapeSaver] = []
    path.parent.mkdir(parents=True, exist_ok=True)

    def make(statement: str) -> None:
        if "sqlite_master" in statement and not made:
            made.append(TapeSaver(path))

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.set_trace_callback(make)
        assert found_version(path, connection) == 0
        made[0].close()
        assert found_version(path, connection) == VERSION


def test_reading_only(filled: Path) -> None:
    """Opened for reading, everything is read, every change is refused, and the file stays as it is; none is made."""
    before = filled.read_bytes()
    with TapeSaver(filled, read_only=True) as saver:
        assert len(list(saver.list(None))) == 10
        for change in (
            lambda: saver.put(place(), checkpoint(1, {}), {}, {}),
            lambda: saver.put_writes(place("1", "x"), [("a", 1)], "t"),
            lambda: saver.delete_thread("1"),
            lambda: saver.prune(["1"]),
        ):
            with pytest.raises(CassetteWriteError, match="reading only"):
                change()
    assert filled.read_bytes() == before
    with pytest.raises(CassetteNotFoundError):
        TapeSaver(filled.with_name("none.sqlite"), read_only=True)
    assert not filled.with_name("none.sqlite").exists()


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """A folder that every user can reach; the test doesn't run as root, who may do everything."""
    with tempfile.TemporaryDirectory(prefix="agenttape-", dir=shared_folder()) as name:
        folder = Path(name)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(folder, 65534, -1)
            os.seteuid(65534)
        yield folder
        if is_root:
            os.seteuid(0)
        folder.chmod(0o777)


def test_a_file_that_may_only_be_read_is_read(folder_of_nobody: Path) -> None:
    """A file without the permission to write, in a folder without it, is opened for reading by itself."""
    file = folder_of_nobody / "saver.sqlite"
    with TapeSaver(file) as saver:
        put_thread(saver, growing(10))
    file.chmod(0o444)
    folder_of_nobody.chmod(0o555)
    with TapeSaver(file) as saver:
        assert len(list(saver.list(None))) == 10
        with pytest.raises(CassetteWriteError, match="reading only"):
            saver.delete_thread("1")
    with pytest.raises(CassetteWriteError, match="cannot be opened"):
        TapeSaver(folder_of_nobody / "new.sqlite")


def test_a_reader_does_not_wait_for_a_writer_and_a_second_writer_does(filled: Path) -> None:
    """While a transaction writes, others read the state before; a second writer gives up with an error of ours."""
    with TapeSaver(filled) as one, TapeSaver(filled) as reader, closing(Database(filled, patience=0.05)) as second:
        with one.database.writing() as connection:
            connection.execute("DELETE FROM checkpoints")
            assert len(list(reader.list(None))) == 10
            with pytest.raises(CassetteLockedError, match="another process"), second.writing():
                pass
        assert list(reader.list(None)) == []


def test_deleting_does_not_wait_for_readers(filled: Path) -> None:
    """While another one reads, deletion is immediate, and the reader sees the state before; space is released later."""
    with TapeSaver(filled) as one, TapeSaver(filled) as reader:
        with reader.database.reading() as connection:
            connection.execute("SELECT count(*) FROM checkpoints").fetchone()
            one.delete_thread("1")
            assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (10,)
        assert list(reader.list(None)) == []
        one.delete_thread("nobody")
    assert filled.stat().st_size < 140_000


def test_a_transaction_that_fails_changes_nothing(filled: Path) -> None:
    """Writes of a block that raised are rolled back."""
    with TapeSaver(filled) as saver:
        with pytest.raises(RuntimeError, match="stop"), saver.database.writing() as connection:
            connection.execute("DELETE FROM checkpoints")
            raise RuntimeError("stop")
        assert len(list(saver.list(None))) == 10


def test_a_part_keeps_tables_of_its_own(filled: Path) -> None:
    """Another part of the library has versioned tables in the same file, and no deletion touches them."""
    first, second = "CREATE TABLE travel_notes (it TEXT);\n", "ALTER TABLE travel_notes ADD COLUMN more TEXT;\n"
    with TapeSaver(filled) as saver:
        saver.database.add_part("travel", [first])
        saver.database.add_part("travel", [first])
        with saver.database.writing() as connection:
            connection.execute("INSERT INTO travel_notes VALUES ('kept')")
        saver.database.add_part("travel", [first, second])
        saver.delete_thread("1")
        with saver.database.reading() as connection:
            assert connection.execute("SELECT it, more FROM travel_notes").fetchall() == [("kept", None)]
        with pytest.raises(CassetteVersionError, match="part 'travel' has version 2"):
            saver.database.add_part("travel", [first])
    assert counts(filled, "travel_notes", "checkpoints") == {"travel_notes": 1, "checkpoints": 0}


@pytest.mark.parametrize(
    "call",
    [
        lambda saver: saver.prune(["1"], strategy="some"),
        lambda saver: saver.prune("1"),
        lambda saver: saver.delete_for_runs("run"),
        lambda _: TapeSaver(":memory:", inner="no saver"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(call: Any, saver: TapeSaver) -> None:
    """An unknown strategy, a single id for a list, and an inner object that is no saver are refused."""
    with pytest.raises(ConfigurationError, match="expected"):
        call(saver)


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    """The error names the path if a file is in the way of the folder, or a folder in the way of the file."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(CassetteWriteError, match="folder cannot be made"):
        TapeSaver(tmp_path / "file" / "a.sqlite")
    with pytest.raises(CassetteWriteError, match="cannot be opened"):
        TapeSaver(tmp_path)


def test_listing_while_deleting(filled: Path) -> None:
    """A listing that goes on while others change the file leaves out deleted checkpoints, and blocks nobody."""
    with TapeSaver(filled) as saver:
        listing = saver.list(None)
        next(listing)
        saver.put(place("2"), checkpoint(1, {}), {}, {})
        saver.delete_thread("1")
        assert len(list(listing)) <= 15
        assert [found.config["configurable"]["thread_id"] for found in saver.list(None)] == ["2"]
