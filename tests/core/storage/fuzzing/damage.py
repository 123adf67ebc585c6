"""Damage to cassettes, derived from a number: the same number gives the same file."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agenttape_core.storage.cassette import layout_of

Place = tuple[Any, Any]
"""A collection, and the key or index of one of its items."""


class Parts(NamedTuple):
    """A cassette to damage: its text in one layout, and its header and records as they are stored."""

    layout: str
    text: bytes
    records: list[dict[str, Any]]


_TYPES = [
    *("os:system", "builtins:eval", "subprocess:Popen", "builtins:SystemExit", "builtins:type", "sys:modules", ":", ""),
]
_PATHS = [
    "../../etc/passwd",
    "/etc/passwd",
    "~/.ssh/id_rsa",
    "C:\\Windows\\win.ini",
    "\\\\server\\share",
    "file:///etc/passwd",
    "http://127.0.0.1/",
    "a\x00b",
    "." * 300,
]
_ASSET = {"file": "0" * 64, "bytes": 17_008, "as": "base64"}
_TAGGED: list[Any] = [
    *({"$asset": {**_ASSET, "file": path}} for path in [*_PATHS, "0" * 64 + ".png", "f" * 64 + "/.."]),
    {"$asset": {**_ASSET, "bytes": 10**12}},
    {"$asset": {**_ASSET, "bytes": -1}},
    {"$asset": {"plain": {"$asset": {"plain": None}}}},
    *({"$model": {"type": name, "fields": {}}} for name in _TYPES),
    *({"$dataclass": {"type": name, "fields": {"count": 1}}} for name in _TYPES),
    *({"$enum": [name, "RED"]} for name in _TYPES),
    *({"$url": {"type": name, "url": "/etc/passwd"}} for name in _TYPES),
    *({"$error": {"type": name, "message": "m"}} for name in _TYPES),
    *({"$datetime": {"at": "2026-01-02T03:04:05", "zone": zone}} for zone in [*_PATHS, "os.path", "No/Where", "UTC"]),
    {"$fraction": "1e999999999"},
    {"$decimal": "1e999999999"},
    {"$set": [{"$decimal": "1e999999999"}]},
    {"$dict": [[{"$dict": []}, 1]]},
    {"$pattern": {"pattern": "(" * 5_000, "flags": 0}},
    {"$pattern": {"pattern": "(?:a{0,65535}){0,65535}" * 50, "flags": 1 << 40}},
    {"$numpy": {"dtype": "<U500000000", "values": ["a"]}},
    {"$numpy": {"dtype": "|O", "shape": [1], "bytes": "AAAAAAAAAAA="}},
    {"$numpy": {"dtype": "<i8", "shape": [0, 10**18], "values": []}},
    {"$str": "\\x \\q \\N{none}"},
    {"$float": "1_0"},
    {"$range": [0, 10**30, 1]},
    {"$array": ["b", [10**9]]},
    {"$deque": {"items": [1], "maxlen": -1}},
    {"$timedelta": [10**12, 0, 0]},
    {"$mapping": {"type": "Counter", "items": [["a", {"$dict": []}]]}},
    {"$defaultdict": {"factory": "eval", "items": []}},
    {"$complex": ["nan", "x"]},
    {"$unheard": 1},
    {"$": 1},
]
_DEEP = json.loads("[" * 200 + "]" * 200)
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**4299, 0.5, -0.0, 1e308, float("nan")),
    *("", " ", "null", "- x", "a: b", "<<", "!!python/object:os.system", "🙂", "\ufeff", "\ud800", "x" * 100_000),
    *_PATHS,
    *_TYPES,
    *([], {}, [None], [[]], {"": ""}, {"$tuple": 1}, _DEEP, {"a": _DEEP}, ["x"] * 2_000),
    *_TAGGED,
]
TOKENS: list[bytes] = [
    *(b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\n", b"\r", b"\r\n", b"\t", b" ", b"\x85", b"\xe2\x80\xa8"),
    *(b"\xef\xbb\xbf", b"---\n", b"\n---\n", b"\n...\n", b"...", b'\n{"end":true}\n', b"<<<<<<< ", b"%YAML 1.1\n"),
    *(b"{", b"}", b"[", b"]", b'"', b"'", b": ", b"- ", b"? ", b"|", b"|2-\n", b">", b"#", b"&a ", b"*a", b"&a [*a]"),
    *(b"!!python/name:os.system ", b"!!python/object/apply:os.system ['true']", b"!!binary ", b"<<: *a\n", b"<<: {}\n"),
    *(b"\\ud800", b"\\", b"1e999", b"-1", b"9" * 40, b"9" * 5_000, b"0x1F", b"1_000", b".inf", b"NaN", b"null", b"~"),
    *(b"interaction: 1\n", b'"interaction":1,', b"continues: 0\n", b"continues: -5\n", b"keep: 99999999999999999999\n"),
    *(b'"continues":9,', b"agenttape: 3\n", b"agenttape: 1\n", b"parent: 1\n", b"request: {}\n", b"outcome:\n"),
    *(b"[" * 300, b"{a: " * 300, b"- " * 300, b"x" * 70_000, b"../../etc/passwd"),
]
LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(ord("b"), ord("j"))
)


def damaged(source: random.Random, parts: Parts) -> bytes:
    """The text of a cassette with some damage done to it."""
    text = _restored(source, parts) if source.random() < 0.55 else parts.text
    if text is parts.text or source.random() < 0.15:
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            text = source.choice(_TEXTUAL)(source, text)
    if source.random() < 0.03:
        text = text.replace(b"\n", b"\r\n")
    return text


def in_turn(parts: Parts) -> Iterator[bytes]:
    """The damage that is not left to chance: each odd value as an answer, and each key of a record missing."""
    for value in VALUES:
        records = copy.deepcopy(parts.records)
        answer = {"status": "streamed", "chunks": [value]} if value in _TAGGED[::2] else {"value": value}
        for record in records:
            if "outcome" in record:
                record["outcome"] = {"status": "returned", **answer}
        yield _written(records, parts.layout, as_usual=True)
    for place, record in enumerate(parts.records):
        for key, inner in [(key, None) for key in record] + [(k, i) for k in record for i in _keys(record[k])]:
            records = copy.deepcopy(parts.records)
            del (records[place] if inner is None else records[place][key])[inner or key]
            yield _written(records, parts.layout, as_usual=True)


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def damaged_pack(source: random.Random, packed: bytes) -> bytes:
    """A packed file with a byte or its end missing or changed."""
    at = source.randrange(len(packed))
    how = source.randrange(4)
    if how == 0:
        return packed[:at]
    if how == 1:
        return packed[:at] + bytes([source.randrange(256)]) + packed[at + 1 :]
    if how == 2:
        return packed + source.choice((packed, b"\x00", gzip.compress(b"...\n", mtime=0)))
    return packed[:at] + packed[at + 1 :]


# -- in the values ---------------------------------------------------------------------------------------------


def _restored(source: random.Random, parts: Parts) -> bytes:
    """The records with values of the wrong sort, written again."""
    records = copy.deepcopy(parts.records)
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        source.choice(_STRUCTURAL)(source, records)
    return _written(records, parts.layout, as_usual=source.random() < 0.7)


def _written(records: list[Any], layout: str, *, as_usual: bool) -> bytes:
    """The text of records; in YAML, JSON is a way to write it that is not the usual one."""
    if as_usual:
        # The records may no longer be what a writer can be given.
        with contextlib.suppress(Exception):
            return b"".join(layout_of(layout).dump(records[0], records[1:]))
    lines = [json.dumps(record, separators=(",", ":")).encode() for record in records]
    return b"\n".join([*lines, b'{"end":true}\n']) if layout == "jsonl" else b"\n---\n".join(lines) + b"\n...\n"


def _places(value: Any) -> Iterator[Place]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


def _place(source: random.Random, records: list[Any]) -> Place:
    """A place in a random record: most often among the recorded values, which may be anything."""
    record = source.choice(records)
    if not isinstance(record, (dict, list)) or not record:
        return records, source.randrange(len(records))
    values = list(_values(record))
    if values and source.random() < 0.6:
        return source.choice(values)
    if source.random() < 0.25:
        return record, source.choice(list(record) if isinstance(record, dict) else range(len(record)))
    return source.choice(list(_places(record)))


def _values(record: Any) -> Iterator[Place]:
    """The places that hold recorded values, or are inside of one."""
    for key in ("request", "outcome"):
        part = record.get(key) if isinstance(record, dict) else None
        if isinstance(part, dict):
            for name in ("value", "chunks") if key == "outcome" else part:
                if name in part:
                    yield part, name
                    if isinstance(part[name], (dict, list)):
                        yield from _places(part[name])


def _another_value(source: random.Random, records: list[Any]) -> None:
    collection, key = _place(source, records)
    collection[key] = copy.deepcopy(source.choice(VALUES))


def _a_value_of_another_place(source: random.Random, records: list[Any]) -> None:
    collection, key = _place(source, records)
    other, at = _place(source, records)
    collection[key] = copy.deepcopy(other[at])


def _a_value_less(source: random.Random, records: list[Any]) -> None:
    collection, key = _place(source, records)
    if collection is not records or len(records) > 1:
        del collection[key]


def _another_key(source: random.Random, records: list[Any]) -> None:
    collection, key = _place(source, records)
    if isinstance(collection, dict):
        collection[source.choice(("$asset", "$tuple", "$$x", "unknown", "", "messages", "parent"))] = collection[key]


def _another_reference(source: random.Random, records: list[Any]) -> None:
    """Continuations and parents that lead nowhere, forward, to themselves or in circles."""
    record = source.choice(records)
    if isinstance(record, dict):
        key = source.choice(("interaction", "parent", "continues", "keep", "without", "agenttape"))
        record[key] = source.choice((-1, 0, 1, 2, 3, 5, 6, 10**9, 10**10, 10**25, "1", 1.0, True, [], ["messages"]))


def _a_record_twice(source: random.Random, records: list[Any]) -> None:
    records.insert(source.randrange(len(records) + 1), copy.deepcopy(source.choice(records)))


def _a_value_nested(source: random.Random, records: list[Any]) -> None:
    collection, key = _place(source, records)
    for _ in range(source.choice((1, 5, 110, 125, 130))):
        inner = collection[key]
        collection[key] = [inner] if source.random() < 0.5 else {source.choice(("a", "$tuple")): inner}


_STRUCTURAL: list[Callable[[random.Random, list[Any]], None]] = [
    _another_value,
    _another_value,
    _another_value,
    _a_value_of_another_place,
    _a_value_less,
    _another_key,
    _another_reference,
    _another_reference,
    _a_record_twice,
    _a_value_nested,
]


# -- in the text -----------------------------------------------------------------------------------------------


def _another_byte(source: random.Random, text: bytes) -> bytes:
    at = source.randrange(len(text) + 1)
    return text[:at] + bytes([source.randrange(256)]) + text[at + 1 :]


def _another_bit(source: random.Random, text: bytes) -> bytes:
    at = source.randrange(len(text) or 1)
    return text[:at] + bytes([(text[at] if text else 0) ^ 1 << source.randrange(8)]) + text[at + 1 :]


def _cut(source: random.Random, text: bytes) -> bytes:
    return text[: source.randrange(len(text) + 1)]


def _a_piece_less(source: random.Random, text: bytes) -> bytes:
    at = source.randrange(len(text) + 1)
    return text[:at] + text[at + source.randint(1, 60) :]


def _a_piece_twice(source: random.Random, text: bytes) -> bytes:
    at, size = source.randrange(len(text) + 1), source.randint(1, 60)
    return text[: at + size] + text[at:]


def _a_token_more(source: random.Random, text: bytes) -> bytes:
    at = source.randrange(len(text) + 1)
    return text[:at] + source.choice(TOKENS) + text[at + source.choice((0, 0, 1, 10)) :]


def _a_token_at_a_border(source: random.Random, text: bytes) -> bytes:
    """Where it is most likely to mean something: after a space, a colon, a comma or the end of a line."""
    borders = [at + 1 for at, byte in enumerate(text) if byte in b" :,\n[{"] or [0]
    at = source.choice(borders)
    return text[:at] + source.choice(TOKENS) + text[at:]


def _other_pieces(source: random.Random, text: bytes) -> bytes:
    """Lines or documents: one twice, one less, two exchanged, all reversed, or shuffled."""
    mark = source.choice((b"\n", b"\n---\n"))
    pieces = text.split(mark)
    one, other = source.randrange(len(pieces)), source.randrange(len(pieces))
    how = source.randrange(5)
    if how == 0:
        pieces.insert(other, pieces[one])
    elif how == 1:
        del pieces[one]
    elif how == 2:
        pieces[one], pieces[other] = pieces[other], pieces[one]
    elif how == 3:
        pieces.reverse()
    else:
        source.shuffle(pieces)
    return mark.join(pieces)


def _other_encoding(source: random.Random, text: bytes) -> bytes:
    whole = text.decode(errors="replace")
    how = source.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"))
    return whole.encode(how, "replace")


def _laughs(source: random.Random, text: bytes) -> bytes:
    at = text.find(b"\n") + 1
    return text[:at] + LAUGHS + text[at:] if source.random() < 0.5 else LAUGHS + text


_TEXTUAL: list[Callable[[random.Random, bytes], bytes]] = [
    _another_byte,
    _another_byte,
    _another_bit,
    _another_bit,
    _cut,
    _a_piece_less,
    _a_piece_twice,
    _a_token_more,
    _a_token_more,
    _a_token_at_a_border,
    _a_token_at_a_border,
    _a_token_at_a_border,
    _other_pieces,
    _other_pieces,
    _other_encoding,
    _laughs,
]
