"""The cassettes of a revision, as git has them, and those of the working tree."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from agenttape_core.storage import GOLDEN, SUFFIXES, Cassette, is_pending, read_cassette
from agenttape_core.tools.git.requests import Revision

Opener = Callable[[], Cassette]
"""Opens a cassette. References to its assets stay references, as git shows them."""


def cassettes_at(revision: str, paths: Sequence[str]) -> dict[str, Opener]:
    """Return the cassettes of a revision, by their paths from the current folder.

    A file whose name could be that of a cassette is one only if it can be read; opening the others raises.

    Args:
        revision: A commit, branch or tag, in git's words.
        paths: Files and folders; by default the current folder.

    Raises:
        ConfigurationError: If git does not know the revision, or this is no repository.
    """
    base = Revision(revision, "--base")
    listed = base.tell("ls-tree", "-r", "-z", "--name-only", revision, "--", *(paths or ["."]))
    return {name: _opener(base, name) for name in listed.split("\0") if _may_be(name)}


def cassettes_here(paths: Sequence[str]) -> dict[str, Opener]:
    """Return the cassettes of the working tree, by their paths from the current folder.

    Args:
        paths: Files and folders; by default the current folder.
    """

    def files() -> Iterator[Path]:
        for path in map(Path, paths or ["."]):
            yield from sorted(path.rglob("*")) if path.is_dir() else [path]

    return {file.as_posix(): _reader(file) for file in files() if _may_be(file.as_posix()) and file.is_file()}


def pairs(
    before: Mapping[str, Opener], now: Mapping[str, Opener]
) -> Iterator[tuple[str, Opener | None, Opener | None]]:
    """Yield each path with the cassette that it had and the one that it has, in the order of the paths."""
    for path in sorted({*before, *now}):
        yield path, before.get(path), now.get(path)


def _may_be(name: str) -> bool:
    hidden = any(part.startswith(".") for part in PurePosixPath(name).parts if part not in {".", ".."})
    return name.endswith(SUFFIXES) and not hidden and not name.endswith(GOLDEN) and not is_pending(name)


def _opener(base: Revision, name: str) -> Opener:
    return lambda: read_cassette(io.BytesIO(base.ask("show", f"{base.name}:./{name}")), name=name, attached=False)


def _reader(file: Path) -> Opener:
    def read() -> Cassette:
        with file.open("rb") as stream:
            return read_cassette(stream, name=file.as_posix(), attached=False)

    return read
