"""Requests in canonical form, and the fingerprint of what they ask.

The recipe, which `docs/fingerprint.md` spells out for other implementations:

1. The body of a request is plain data, already redacted. Each of its top-level values is one *part*; of a top-level
   list, each item is a part of its own.
2. A part is written as JSON: ASCII, keys sorted, no white space. In that text every run-specific id (a UUID or a word
   of 32 hex digits) is replaced by `<id>`, and remembered.
3. A part contributes the line `key digest n n n`: the top-level key (with `[]` for an item of a list), the SHA-256 of
   the text, and for each remembered id its number in order of first appearance in the *whole* request.
4. The fingerprint is the first 32 hex digits of the SHA-256 of the kind and these lines, by sorted key.

Numbering the ids over the whole request keeps apart "the same id twice" and "two ids", while each part can be
digested once and looked up for ever after: agents send the same messages again on every call.
"""

from __future__ import annotations

import json
import marshal
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from agenttape_core.matching.ids import RUN_SPECIFIC_ID
from agenttape_core.schema import Plain

_CACHED_PARTS = 8192
_KEYABLE = (str, int, float, bool, list, dict, tuple, bytes, type(None))


def canonical_json(plain: Plain) -> str:
    """Return the one JSON text of plain data: ASCII, keys sorted, no white space; `1`, `1.0` and `true` differ."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Keyed(NamedTuple):
    """A part of a request that is costly to build, with a cheap key that stands for its exact content."""

    key: Hashable
    """Different whenever the part is."""
    source: Any
    """What the part is built of."""
    build: Callable[[Any], Plain]
    """Builds the part as plain data of its source; called once per distinct key."""


@dataclass(frozen=True, slots=True)
class Part:
    """One canonicalised part: its redacted plain data, its digest, and the run-specific ids inside it."""

    plain: Plain
    digest: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A request in canonical form: what is asked, free of where and when.

    Args:
        kind: The kind of boundary.
        name: The name of the boundary; not part of the fingerprint.
        fingerprint: The hash of what is asked; see the module docstring.
        ids: The run-specific ids of the request in order of first appearance.
        parts: The parts by top-level key; a list where the value is a list.
    """

    kind: str
    name: str
    fingerprint: str
    ids: tuple[str, ...]
    parts: Mapping[str, Part | list[Part]]

    @property
    def body(self) -> dict[str, Plain]:
        """The redacted request as plain data."""
        return {
            key: [item.plain for item in part] if isinstance(part, list) else part.plain
            for key, part in self.parts.items()
        }


class Canonicaliser:
    """Puts requests into canonical form, and remembers the parts it has seen. Thread-safe.

    Args:
        plain: Makes plain, redacted data of a value; called once per distinct part.
    """

    def __init__(self, plain: Callable[[Any], Plain]) -> None:
        self._plain = plain
        self._cache: OrderedDict[Hashable, Part] = OrderedDict()
        self._lock = Lock()

    def question(self, kind: str, name: str, body: Mapping[str, Any], ids: tuple[str, ...] = ()) -> Question:
        """Return the canonical form of a request.

        Args:
            kind: The kind of boundary.
            name: The name of the boundary.
            body: The request. Values may be `Keyed`, also as items of a list.
            ids: Run-specific ids that belong to the call but are not part of what is asked.

        Raises:
            UnrecordableValueError: If a value cannot be written as plain data.
        """
        parts = {
            key: [self._part(key, item) for item in body[key]]
            if isinstance(body[key], list)
            else self._part(key, body[key])
            for key in sorted(body)
        }
        numbers: dict[str, int] = {}
        fingerprint = sha256("\n".join(_lines(kind, parts, numbers)).encode()).hexdigest()[:32]
        return Question(kind, name, fingerprint, (*numbers, *ids), parts)

    def _part(self, name: str, value: Any) -> Part:
        keyed = type(value) is Keyed
        content = value.key if keyed else _content_key(value)
        key = (name, content, keyed)
        part = self._cache.get(key) if content is not None else None
        if part is None:
            built = value.build(value.source) if keyed else value
            # The name goes along, because it may say that its value is a secret.
            (plain,) = self._plain({name: built}).values()
            part = _digest(plain)
            if content is not None:
                self._remember(key, part)
        return part

    def _remember(self, key: Hashable, part: Part) -> None:
        with self._lock:
            self._cache[key] = part
            if len(self._cache) > _CACHED_PARTS:
                self._cache.popitem(last=False)


def _content_key(value: Any) -> bytes | None:
    """Return bytes that are equal only for equal builtin values, or nothing for other values.

    Version 2 of the marshal format is used because later ones encode shared references, which differ between equal
    values: https://docs.python.org/3/library/marshal.html.
    """
    if not isinstance(value, _KEYABLE):
        return None
    try:
        return marshal.dumps(value, 2)
    except ValueError:
        return None


def _digest(plain: Plain) -> Part:
    text = canonical_json(plain)
    ids = tuple(RUN_SPECIFIC_ID.findall(text))
    if ids:
        text = RUN_SPECIFIC_ID.sub("<id>", text)
    return Part(plain, sha256(text.encode()).hexdigest(), ids)


def _lines(kind: str, parts: Mapping[str, Part | list[Part]], numbers: dict[str, int]) -> list[str]:
    lines = [kind]
    for key, part in parts.items():
        if isinstance(part, Part):
            lines.append(_line(key, part, numbers))
        else:
            key = f"{key}[]"  # noqa: PLW2901 - the key of an item says that it is one
            lines.append(key)
            lines += [f"{key} {item.digest}" if not item.ids else _line(key, item, numbers) for item in part]
    return lines


def _line(key: str, part: Part, numbers: dict[str, int]) -> str:
    return " ".join([key, part.digest, *(str(numbers.setdefault(item, len(numbers))) for item in part.ids)])
