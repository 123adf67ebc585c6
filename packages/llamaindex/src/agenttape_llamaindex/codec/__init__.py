"""LlamaIndex's objects as plain data and back, typed and lossless, and streams as responses and back."""

from __future__ import annotations

import agenttape_llamaindex_early
from agenttape_core.integration import TypeCodec, register_codecs
from agenttape_core.integration.codecs import HTTP, VECTORS
from agenttape_llamaindex.codec import blocks, messages, responses, streams
from agenttape_llamaindex.codec.streams import CHATS, TEXTS

CODECS: tuple[TypeCodec, ...] = (
    messages.CODEC,
    *responses.CODECS,
    *streams.CODECS,
    blocks.CODEC,
    *VECTORS,
    *HTTP,
)
"""The codecs to put before those for Python's own types."""

register_codecs(CODECS)  # here and not where sessions connect: a handler or a stand-in may be used without any
agenttape_llamaindex_early.register()  # as its entry point does, which a folder of sources does not have

__all__ = ["CHATS", "CODECS", "TEXTS"]
