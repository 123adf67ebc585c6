"""Values as bytes of the file: serialised, split, packed, and encrypted if the serialiser encrypts.

LangGraph's `EncryptedSerializer` encrypts the bytes of another serialiser, and equal values differ each time. To store
equal values once, values are split before they are encrypted, and each piece is encrypted on its own. Pieces are
identified by a keyed hash whose key is in the file, encrypted: without the user's key, not even a guess at a text of
the file can be checked.
"""

from __future__ import annotations

import importlib
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from agenttape_core.errors import UnreadableValueError
from agenttape_langgraph.saver.slots import checked, summed
from agenttape_langgraph.saver.splitting import Piece, split

_ENCRYPTED = 0x80
_BOUND = 0x40
"""The bit of a packing that shows that the checksum also covers the digest: the piece belongs to its row."""
_SUM, _WHOLE = 4, 0x2144DF1C
"""The length of a checksum; and the checksum of any bytes that end with their own, the lowest byte first."""
_DIGEST = 20
_SMALL = 64


class Typed(NamedTuple):
    """A serialised value."""

    kind: str  # the serialiser's name for the type of the bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """A serialised value that is to be stored by content: `head` + `pieces` + `tail` are its bytes."""

    kind: str  # the serialiser's name for the type of the bytes
    digest: bytes  # the digest of the whole
    head: bytes  # the first bytes if they are few: the length of a list, which changes with each item
    pieces: tuple[Piece, ...]
    digests: tuple[bytes, ...]  # the digest of each piece
    tail: bytes  # the last bytes if they are few
    typed: Typed  # the value itself


class Codec:
    """The codec of a serialiser: it makes the bytes of a file, and reads them.

    `key` is the key of digests, empty for values that are not encrypted.
    """

    def __init__(self, serde: SerializerProtocol, key: bytes = b"") -> None:
        self.serde = serde
        self._key = key
        self._cipher, self._plain = _cipher_of(serde)

    @property
    def encrypts(self) -> bool:
        """True if this class encrypts pieces, with the cipher of the serialiser."""
        return self._cipher is not None

    def dumps(self, value: Any) -> Typed:
        """Serialise a value; it is not encrypted yet if `encrypts` is true."""
        return Typed(*self._plain.dumps_typed(value))

    def loads(self, typed: Typed) -> Any:
        """Rebuild a value."""
        return self.serde.loads_typed((typed.kind, typed.data))

    def close(self, data: bytes) -> bytes:
        """Return bytes for the file: packed, then encrypted."""
        packing, packed = pack(data)
        return self._encrypted(summed(bytes((packing,)) + packed))

    def close_piece(self, piece: Piece, digest: bytes) -> bytes:
        """Return a piece for the file, bound to its digest: it need not be computed again when the piece is read."""
        packing, packed = pack(piece)
        first = bytes((packing | _BOUND,))
        found = crc32(packed, crc32(first, crc32(digest)))
        return self._encrypted(b"".join((first, packed, found.to_bytes(_SUM, "little"))))

    def _encrypted(self, plain: bytes) -> bytes:
        if self._cipher is None:
            return plain
        name, secret = self._cipher.encrypt(plain)
        word = name.encode()
        return bytes((_ENCRYPTED, len(word))) + word + secret

    def open(self, data: bytes) -> bytes:
        """Return the bytes that `close` was called with.

        Raises `UnreadableValueError` if it is encrypted but the serializer isn't, and `ValueError` if it is damaged.
        """
        return _unpacked(self._decrypted(data))

    def open_piece(self, data: bytes, digest: bytes) -> bytes:
        """Return the piece that `close_piece` was called with, or that an older version of this library closed.

        `digest` is the digest of the piece. Raises `UnreadableValueError` if it is encrypted but the serializer isn't,
        and `ValueError` if it is damaged, or another piece.
        """
        plain = self._decrypted(data) if data[0] == _ENCRYPTED else data
        packing = plain[0] ^ _BOUND
        if packing < _BOUND:
            if crc32(plain, crc32(digest)) != _WHOLE:
                raise ValueError("its checksum does not fit")
            return unpack(packing, plain[1:-_SUM])
        piece = _unpacked(plain)
        if not self.encrypts and self.digest(piece) != digest:
            raise ValueError("its digest does not fit")
        return piece

    def _decrypted(self, data: bytes) -> bytes:
        """Return bytes of the file, decrypted if they are encrypted; at least one."""
        if not data:
            raise ValueError("no bytes")
        if data[0] != _ENCRYPTED:
            return data
        name = data[2 : 2 + data[1]].decode("utf-8", "replace")
        if self._cipher is None:
            raise UnreadableValueError(
                f"encrypted with {name}",
                "open the file with the EncryptedSerializer it was written with, serde=...",
            )
        plain = self._cipher.decrypt(name, data[2 + data[1] :])
        if not plain:
            raise ValueError("no bytes")
        return plain

    def content(self, typed: Typed) -> Content:
        """Split a serialised value, and compute its digests."""
        parts = split(typed.kind, typed.data)
        head = bytes(parts.pop(0)) if len(parts) > 1 and len(parts[0]) < _SMALL else b""
        tail = bytes(parts.pop()) if len(parts) > 1 and len(parts[-1]) < _SMALL else b""
        digests = tuple(map(self.digest, parts))
        whole = self._whole(typed.kind, head, digests, tail)
        return Content(typed.kind, whole, head, tuple(parts), digests, tail, typed)

    def is_whole(self, digest: bytes, kind: str, head: bytes, digests: Sequence[bytes], tail: bytes) -> bool:
        """Return True if the bytes that were read are the written ones; encryption proves that on its own."""
        return self.encrypts or digest == self._whole(kind, head, digests, tail)

    def chain(self, content: Content, length: int) -> bytes:
        """Return the digest of the first pieces of a content, in this order."""
        return self.digest(b"chain" + b"".join(content.digests[:length]))

    def chains(self, content: Content, start: int) -> Iterator[bytes]:
        """Yield `chain` for every length above `start`; each takes the time of one piece only."""
        hashed = blake2b(b"chain" + b"".join(content.digests[:start]), digest_size=_DIGEST, key=self._key)
        for digest in content.digests[start:]:
            hashed.update(digest)
            yield hashed.copy().digest()

    def digest(self, data: Piece) -> bytes:
        """Return the digest of bytes."""
        return blake2b(data, digest_size=_DIGEST, key=self._key).digest()

    def _whole(self, kind: str, head: bytes, digests: Sequence[bytes], tail: bytes) -> bytes:
        return self.digest(b"".join((kind.encode(), b"\0", bytes((len(head), len(tail))), head, tail, *digests)))


def _unpacked(plain: bytes) -> bytes:
    content = checked(plain)
    if not content:
        raise ValueError("no bytes")
    return unpack(content[0], content[1:])


def _cipher_of(serde: SerializerProtocol) -> tuple[CipherProtocol | None, SerializerProtocol]:
    """Return the cipher of LangGraph's encrypting serialiser and the inner one, or `None` and the serialiser itself.

    The bytes of a subclass that overrides its methods are stored unchanged, like those of any other serialiser.
    """
    if isinstance(serde, EncryptedSerializer):
        kind = type(serde)
        if kind.dumps_typed is EncryptedSerializer.dumps_typed and kind.loads_typed is EncryptedSerializer.loads_typed:
            return serde.cipher, serde.serde
    return None, serde


# Compress and decompress bytes.
#
# Small pieces of messages are mostly the same words, so both ways of packing use a dictionary of such words. The
# dictionary is part of the format: a file is read with the one that it was packed with. It may never change; another
# one gets another number.

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

    Raises `UnreadableValueError` if they were packed with the extra `zstd`, which is not installed here, and
    `ValueError` if they are damaged, or unpack to more than the limit.
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
