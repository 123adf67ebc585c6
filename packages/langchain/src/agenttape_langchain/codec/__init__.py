"""LangChain's objects as plain data and back, typed and lossless; streams as results and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import agenttape_langchain_reader
from agenttape_core.integration.codecs import HTTP, VECTORS
from agenttape_langchain.codec import graph, messages, outputs, parsed
from agenttape_langchain.codec.streams import join_chunks, join_texts, split_result, split_texts

if TYPE_CHECKING:
    from agenttape_core.integration import TypeCodec

CODECS: tuple[TypeCodec, ...] = (
    *messages.CODECS,
    *outputs.CODECS,
    *VECTORS,
    parsed.CODEC,
    *graph.CODECS,
    *HTTP,
)
"""The codecs to put before those for Python's own types: `PYTHON_VALUES.extended(CODECS)`."""

agenttape_langchain_reader.register()  # as its entry point does, for those who run from a folder of sources

__all__ = ["CODECS", "join_chunks", "join_texts", "split_result", "split_texts"]
