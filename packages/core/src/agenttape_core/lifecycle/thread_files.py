"""Files in which integrations keep the values of threads: core finds them, and the integration reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from agenttape_core.errors import CassetteFormatError
from agenttape_core.lifecycle.entry_points import installed_names, load_integration
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain

_SQLITE = b"SQLite format 3\0"
_OURS, _AT = b"ATSV", 68  # SQLite's `application_id` of such files, and its offset in them


class Stored(NamedTuple):
    """The values stored together in a file of threads.

    Args:
        place: What it is called: `thread 42, checkpoint 1f0...`.
        plain: It, as plain data.
    """

    place: str
    plain: Plain


ReadThreads = Callable[[Path], Iterator[Stored]]
"""Yields all that a file of threads holds. Raises AgentTapeError if a part of it cannot be read."""
_readers: list[ReadThreads] = []


def register_thread_files(read: ReadThreads) -> None:
    """Register what reads files of threads; an integration does so when it is imported."""
    _readers[:] = [read]


def is_thread_file(path: Path) -> bool:
    """Return True for a file in which an integration keeps threads, by its first bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(_AT + len(_OURS))
    except OSError:
        return False
    return head.startswith(_SQLITE) and head.endswith(_OURS)


def stored_in(path: Path) -> Iterator[Stored]:
    """Yield all that a file of threads holds. Raises `AgentTapeError` if no integration can read it."""
    for framework in sorted(installed_names()):
        if not _readers:
            load_integration(framework)
    if not _readers:
        raise CassetteFormatError(path, "no installed integration reads it", remedy="pip install agenttape-langgraph")
    yield from _readers[0](path)
