"""From one kind of cassette file to another, without loss."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agenttape_core.errors import CassetteWriteError
from agenttape_core.storage.cassette import Cassette, open_cassette
from agenttape_core.storage.files import file_kind
from agenttape_core.storage.location import Location, location_of
from agenttape_core.storage.lock import WriterLock
from agenttape_core.storage.stores import exists
from agenttape_core.storage.working import prepare_beside, real_location
from agenttape_core.storage.writer import write_cassette

if TYPE_CHECKING:
    from pathlib import Path


def convert(source: Cassette | Path | str, target: Path | str, *, overwrite: bool = False) -> Location:
    """Write the same cassette once more, in the layout and packing that the suffix of the target says.

    Header, timings, records and assets are the same. A file that AgentTape wrote is byte for byte the same when it is
    converted there and back. The source is left as it is.

    Args:
        source: A cassette, open or as a path or a URL.
        target: The path or the URL to write.
        overwrite: Whether to replace a cassette that is there already.

    Returns:
        The path or URL that was written.

    Raises:
        CassetteError: The source cannot be read, or the target cannot be written, is being recorded, or is there.
        ConfigurationError: A suffix is not known, or needs a module that is not installed.
    """
    written = real_location(location_of(target))
    file_kind(written)
    cassette = source if isinstance(source, Cassette) else open_cassette(source)
    prepare_beside(written)
    lock = WriterLock(written, f"{os.getpid()} conversion")
    try:
        if not overwrite and exists(written):
            remedy = "pass overwrite=True to replace it (--overwrite in a shell), or name another target"
            raise CassetteWriteError(written, "there is a cassette already", remedy=remedy)
        write_cassette(written, cassette.header, list(cassette.records()))
    finally:
        lock.release()
    return written
