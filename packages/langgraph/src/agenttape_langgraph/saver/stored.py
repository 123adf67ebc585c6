"""The content of a file of `TapeSaver` as plain data, for those who search it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langgraph.checkpoint.serde import jsonplus

from agenttape_core.integration import value_codec
from agenttape_core.integration.patching import Stored
from agenttape_langgraph.saver.tape_saver import TapeSaver


def stored_values(path: Path) -> Iterator[Stored]:
    """Yield the values of each checkpoint of a file, with its metadata and pending writes, the newest first.

    No class is imported and no object made that LangGraph does not know as safe: the file may be a stranger's. Objects
    of other classes are returned as the values that they were built from. Raises `CassetteError` if it cannot be read,
    and `UnreadableValueError` if it is encrypted.
    """
    codec, serde = value_codec(lenient=True), jsonplus.JsonPlusSerializer(allowed_msgpack_modules=None)
    with TapeSaver(path, serde=serde, read_only=True) as saver, _quiet():
        for found in saver.list(None):
            at = found.config["configurable"]
            values = {
                "thread_id": at["thread_id"],
                "channel_values": found.checkpoint["channel_values"],
                "metadata": found.metadata,
                "writes": [{channel: value} for _, channel, value in found.pending_writes or ()],
            }
            yield Stored(f"thread {at['thread_id']}, checkpoint {at['checkpoint_id']}", codec.encode(values))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the serialiser from advising to allow the classes of which it makes no objects: none is wanted."""
    logger = logging.getLogger(jsonplus.__name__)
    logger.addFilter(_is_no_advice)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_advice)


def _is_no_advice(record: logging.LogRecord) -> bool:
    return "allowed_msgpack_modules" not in str(record.msg)
