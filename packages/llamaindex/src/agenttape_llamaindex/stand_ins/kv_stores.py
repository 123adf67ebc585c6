"""The stand-in for key-value stores, and so for the document and index stores over them."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from llama_index.core.storage.kvstore.types import BaseKVStore

from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.stand_ins.methods import recorded_methods, remembered
from agenttape_llamaindex.stores import KEY_VALUE_READS, KEY_VALUE_WRITES, MEMORY


class ReplayKVStore(StandIn, BaseKVStore):
    """A key-value store that returns the recorded values, and takes the recorded writes.

    A document store or an index store is made of it: `KVDocumentStore(ReplayKVStore(cassette))`.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a key-value store, or none of that one.
    """

    _recorded: RecordedPart

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        methods = {**KEY_VALUE_READS, **KEY_VALUE_WRITES}
        self._recorded = recorded_methods(cassette, frozenset({MEMORY.kind}), methods, name, **options)

    get, aget = remembered(KEY_VALUE_READS, "get")
    get_all, aget_all = remembered(KEY_VALUE_READS, "get_all")
    put, aput = remembered(KEY_VALUE_WRITES, "put")
    put_all, aput_all = remembered(KEY_VALUE_WRITES, "put_all")
    delete, adelete = remembered(KEY_VALUE_WRITES, "delete")
