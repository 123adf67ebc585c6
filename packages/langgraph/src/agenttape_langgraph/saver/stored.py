"""The content of a file of `TapeSaver` as plain data, for those who search it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agenttape_core.integration import Stored, value_codec
from agenttape_langgraph.saver.tape_saver import TapeSaver


def stored_values(path: Path) -> Iterator[Stored]:
    """Yield the values of each checkpoint of a file, with its metadata and pending writes, the newest first.

    No class is imported and no object made that LangGraph does not know as safe: the file may be a stranger's. Of the
    objects of other classes there are the values that they are made of.

    Args:
        path: The file.

    Raises:
        CassetteError: It cannot be read.
        UnreadableValueError: It is encrypted.
    """
    codec = value_codec(lenient=True)
    with TapeSaver(path, serde=JsonPlusSerializer(allowed_msgpack_modules=None), read_only=True) as saver:
        for found in saver.list(None):
            at = found.config["configurable"]
            values = {
                "thread_id": at["thread_id"],
                "channel_values": found.checkpoint["channel_values"],
                "metadata": found.metadata,
                "writes": [{channel: value} for _, channel, value in found.pending_writes or ()],
            }
            yield Stored(f"thread {at['thread_id']}, checkpoint {at['checkpoint_id']}", codec.encode(values))
