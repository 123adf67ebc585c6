"""Files of older versions are read, and gone on with."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from agenttape_core.errors import CassetteFormatError
from agenttape_langgraph import TapeSaver
from agenttape_langgraph.saver.schema import VERSION

from .threads import counts, growing, place, put_thread

GOLDEN = Path(__file__).parents[2] / "golden" / "savers"
ZLIB = growing(4, "another conversation, in turn {}, about something else than the first one")
THREADS = {"zstd": growing(3), "zlib": ZLIB, "encrypted": growing(2)}
"""What was put into each golden file: packed with zstandard, without it, and encrypted."""


@pytest.fixture(params=range(1, VERSION + 1))
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the file of each version that was ever written."""
    return shutil.copy(GOLDEN / f"v{request.param}.sqlite", tmp_path / "saver.sqlite")


def serde_of(thread: str) -> Any:
    """Return the serialiser of a golden thread; `None` for the default one."""
    return EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if thread == "encrypted" else None


def states(saver: TapeSaver, thread: str) -> list[dict[str, Any]]:
    """Return the values of each checkpoint of a thread, the oldest first."""
    return [found.checkpoint["channel_values"] for found in saver.list(place(thread))][::-1]


@pytest.mark.parametrize("thread", THREADS)
def test_files_of_every_version_are_read(thread: str, golden: Path) -> None:
    """Each version that was ever written is read, whole and without being changed, however it is packed."""
    before = golden.read_bytes()
    with TapeSaver(golden, serde=serde_of(thread), read_only=True) as saver:
        assert states(saver, thread) == THREADS[thread]
        latest = saver.get_tuple(place(thread))
        assert latest is not None
        assert latest.pending_writes == [
            (f"task-{len(THREADS[thread]) - 1}", "messages", THREADS[thread][-1]["messages"])
        ]
    assert golden.read_bytes() == before


@pytest.mark.parametrize("thread", THREADS)
def test_a_file_of_an_older_version_is_gone_on_with(thread: str, golden: Path) -> None:
    """A thread of an older file goes on: it shares its pieces with new values, is copied, and deleted wholly."""
    before = counts(golden, "contents", "pieces")
    with TapeSaver(golden, serde=serde_of(thread)) as saver:
        put_thread(saver, THREADS[thread], "again")
        assert counts(golden, "contents", "pieces") == before
        longer = growing(6) if thread != "zlib" else [*ZLIB, {**ZLIB[-1], "step": 4, "more": ["and on it goes"] * 30}]
        put_thread(saver, longer, "longer")
        saver.copy_thread("longer", "copy")
        for name in ("longer", "copy"):
            assert states(saver, name) == longer
        assert counts(golden, "pieces")["pieces"] > before["pieces"]
    with TapeSaver(golden, serde=serde_of(thread)) as saver:
        assert [states(saver, name) for name in (thread, "again")] == [THREADS[thread]] * 2
        for name in (*THREADS, "again", "longer", "copy"):
            saver.delete_thread(name)
    assert set(counts(golden, "checkpoints", "writes", "contents", "links", "pieces", "uses").values()) == {0}


@pytest.mark.parametrize("thread", ["zstd", "zlib"])
def test_a_piece_of_an_older_version_is_proved(thread: str, golden: Path) -> None:
    """A piece in the place of another one is found in files of every version."""
    with closing(sqlite3.connect(golden)) as connection:
        connection.executescript(
            "UPDATE pieces SET data = (SELECT o.data FROM pieces o WHERE o.id <> pieces.id"
            " AND substr(o.data, 1, 1) = substr(pieces.data, 1, 1) ORDER BY o.id LIMIT 1)"
        )
    with TapeSaver(golden) as saver, pytest.raises(CassetteFormatError, match="does not fit"):
        states(saver, thread)
