"""Cassettes of an older format, brought to the newest that they need."""

from __future__ import annotations

import os
from pathlib import Path

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FORMAT_VERSION
from agenttape_core.storage import Cassette, Location, open_cassette, real_location, write_cassette
from agenttape_core.storage.atomic import remove_leftovers
from agenttape_core.storage.lock import WriterLock, prepare_beside
from agenttape_core.storage.writer import compose


class Migration(NamedTuple):
    """The migration of one cassette."""

    version: int  # the version of its format
    needed: int  # the version in which this AgentTape would write it: the oldest with all its features
    gets_stamps: bool = False  # whether its records hold stamps, which this AgentTape writes into the volatile block

    @property
    def is_due(self) -> bool:
        """True if the file is older than the format that this AgentTape writes."""
        return self.version < self.needed or self.gets_stamps


def migration_of(cassette: Cassette) -> Migration:
    """Return what `migrate` would do with a cassette. Raises as reading all of it does."""
    if cassette.has_stamps:
        return Migration(cassette.version, FORMAT_VERSION)
    composed = compose(cassette.path, cassette.header, list(cassette.records()))
    return Migration(cassette.version, max(cassette.version, composed.version), composed.has_stamps)


def migrate(path: Location) -> Migration:
    """Rewrite a cassette if its format is older than the one it would be written in now. Others are not touched.

    What it holds stays the same. Raises `CassetteVersionError` if it is of a newer format than is known, and
    `CassetteError` if it cannot be read or written, or it is being recorded; it doesn't change.
    """
    real = real_location(path)
    if not (found := migration_of(open_cassette(real))).is_due:
        return found
    prepare_beside(real)
    lock = WriterLock(real, f"{os.getpid()} migration")
    try:
        cassette = open_cassette(real)
        found = migration_of(cassette)
        write_cassette(real, cassette.header, list(cassette.records()))
        if isinstance(real, Path):
            remove_leftovers(real)
    finally:
        lock.release()
    return found
