"""Compress and decompress bytes.

Small pieces of messages are mostly the same words, so both ways of packing use a dictionary of such words. The
dictionary is part of the format: a file is read with the one that it was packed with. It may never change; another one
gets another number.
"""

from __future__ import annotations

import importlib
import threading
import zlib
from functools import cache
from typing import Any

from agenttape_core.errors import UnreadableValueError
from agenttape_langgraph.saver.splitting import Piece

PLAIN, ZLIB, ZSTD = 0, 1, 2
"""The ways to pack a piece. The third needs the extra `zstd`, also for reading."""

LIMIT = 1 << 30
"""The most bytes that a piece may unpack to; SQLite itself stores no more in one place."""

_WORTH_IT = 64
_ZSTD_LEVEL, _ZLIB_LEVEL, _ZLIB_LEVEL_OF_LARGE = 1, 6, 1
"""Higher levels make at most a tenth of a file less, and take three times as long."""
_LARGE = 1 << 14
_WORDS = (
    b"\x94\xbdlangchain_core.messages.human\xacHumanMessage\x94\xbclangchain_core.messages.tool\xabToolMessage"
    b"\xa6status\xa7success\xa8artifact\xc0\xactool_call_id\xa5call_"
    b"\x94\xbelangchain_core.messages.system\xadSystemMessage\x94\xbalangchain_core.messages.ai\xa9AIMessage"
    b"\x89\xa7content\xa0\xb1additional_kwargs\x80\xb1response_metadata\x83\xaamodel_name\xaemodel_provider"
    b"\xadfinish_reason\xa4stop\xaatool_calls\xb2system_fingerprint\xa4type\xa2ai\xa4name\xc0\xa2id\xd9*lc_run--"
    b"\xaatool_calls\x91\x84\xa4name\xa4args\x81\xa2id\xa5call_\xa4type\xa9tool_call\xb2invalid_tool_calls\x90"
    b"\xaeusage_metadata\x83\xacinput_tokens\xadoutput_tokens\xactotal_tokens\xb3input_token_details\xaacache_read"
    b"\xb4output_token_details\xa9reasoning\xb3model_validate_json\xa4text\xa7message"
    b"\xa4type\xa5human\xa4type\xa4tool\xa4type\xa6system"
    b"\xa6source\xa4loop\xa5input\xa6update\xa4step\xa7parents\x80\xa6run_id\xa9thread_id"
    b"\xa1v\x04\xa2ts\xd9 2026-01-01T00:00:00.000000+00:00\xa2id\xd9$1f0"
    b"\xaechannel_values\xb0channel_versions\xadversions_seen\xa9__input__\x80\xa9__start__\x81\xa8messages"
    b"\xacbranch:to:model\xacbranch:to:tools\xacbranch:to:agent\xb0updated_channels\xadpending_sends\x90"
    b"\xd9100000000000000000000000000000001.0000000000000000\xd9100000000000000000000000000000002.0000000000000000"
)


@cache
def _zstandard() -> Any:
    """Return the module of the extra `zstd` with our dictionary, or `None` if it is not installed."""
    try:
        module = importlib.import_module("zstandard")
    except ImportError:
        return None
    return module, module.ZstdCompressionDict(_WORDS, dict_type=module.DICT_TYPE_RAWCONTENT)


class _Coders(threading.local):
    """The coders of one thread: the objects of zstandard may not be shared between threads."""

    def __init__(self) -> None:
        module, words = _zstandard()
        options = {"write_checksum": False, "write_dict_id": False}
        self.pack = module.ZstdCompressor(level=_ZSTD_LEVEL, dict_data=words, **options).compress
        self.unpack = module.ZstdDecompressor(dict_data=words).decompress
        self.size = module.frame_content_size


@cache
def _coders() -> _Coders:
    return _Coders()


def pack(data: Piece) -> tuple[int, Piece]:
    """Return a way of packing, and the packed bytes. Bytes that would not get smaller don't change."""
    if len(data) < _WORTH_IT:
        return PLAIN, data
    if _zstandard() is None:
        level = _ZLIB_LEVEL if len(data) < _LARGE else _ZLIB_LEVEL_OF_LARGE
        packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=_WORDS)
        packed, packing = packer.compress(data) + packer.flush(), ZLIB
    else:
        packed, packing = _coders().pack(data), ZSTD
    return (packing, packed) if len(packed) < len(data) else (PLAIN, data)


def unpack(packing: int, data: bytes, limit: int = LIMIT) -> bytes:
    """Return the bytes that were packed.

    Raises:
        UnreadableValueError: They were packed with the extra `zstd`, which is not installed here.
        ValueError: They are damaged, or unpack to more than the limit.
    """
    if packing != ZSTD:
        if packing == PLAIN:
            return data
        if packing == ZLIB:
            return _inflate(data, limit)
        raise ValueError(f"unknown packing {packing}")
    loaded = _zstandard()
    if loaded is None:
        raise UnreadableValueError(
            "packed with zstandard", "this process has no zstandard: pip install 'agenttape-langgraph[zstd]'"
        )
    try:
        coders = _coders()
        if coders.size(data) > limit:
            raise ValueError(f"it unpacks to more than {limit} bytes")
        unpacked: bytes = coders.unpack(data, limit)
    except loaded[0].ZstdError as error:
        raise ValueError(str(error)) from error
    return unpacked


def _inflate(data: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, zdict=_WORDS)
    try:
        unpacked = unpacker.decompress(data, limit)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {limit} bytes")
    return unpacked
