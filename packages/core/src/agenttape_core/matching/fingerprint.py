"""Requests in canonical form, and their fingerprints.

The recipe, which `docs/fingerprint.md` spells out for other implementations:

1. The body of a request is plain data, already redacted. Each of its top-level values is one *part*; each item of a
  top-level list is a separate part.
2. A part is written as JSON: ASCII, keys sorted, no white space. In that text a pseudonym in URL form
  (`%5BREDACTED%3Akind%3Adigest%5D`) is put into brackets, and every run-specific id (a UUID or a word of 32 hex digits)
  is replaced by `<id>`, and remembered.
3. A part contributes the line `key digest n n n`: the top-level key (with `[]` for an item of a list), the SHA-256 of
   the text, and for each remembered id its number in order of first appearance in the *whole* request.
   What the session ignores (`ignored_paths.py`) is left out before the text is written; a part that is ignored whole
   contributes no line.
4. The fingerprint is the first 32 hex digits of the SHA-256 of the kind and these lines, by sorted key.

Numbering the ids over the whole request keeps apart "the same id twice" and "two ids", while each part can be
digested once and looked up for ever after: agents send the same messages again on every call.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.matching.canonical_text import canonical_bytes
from agenttape_core.matching.ignored_paths import NOTHING, Ignored, Paths, below, ignores, stripped
from agenttape_core.matching.run_ids import RUN_SPECIFIC_ID
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain

_CACHED_PARTS = 8192
_IN_URL_MARK = b"%5BREDACTED%3A"
_IN_URL = Lazy(rb"%5BREDACTED%3A([a-z0-9_-]{1,32})%3A([0-9a-f]{8})%5D")
"""A pseudonym in URL form, which a program may have put into a URL, or taken from one."""
_KEYABLE = (str, int, float, bool, list, dict, tuple, bytes, type(None))


class KeyedItems(NamedTuple):
    """The items of a list in a request that are costly to build, each with a cheap key that represents its content."""

    keys: Sequence[Hashable]
    """One for each item, different whenever the item is; `None` for one without a cheap key, which is always built."""
    sources: Sequence[Any]
    """The values that the items are built of."""
    build: Callable[[Any], Plain]
    """Builds an item as plain data of its source; called once per distinct key."""

    def built(self) -> list[Plain]:
        """Return all items as plain data."""
        return [*map(self.build, self.sources)]


class Part(NamedTuple):
    """One canonicalised part: its redacted plain data, its digest, and the run-specific ids inside it."""

    plain: Plain
    digest: str  # empty for an item that is ignored
    ids: tuple[str, ...]
    line: str
    """Its line for the fingerprint; empty if it is ignored, or has ids, which are numbered separately in each
    request."""


class CanonicalRequest(NamedTuple):
    """A request in canonical form: free of where and when it was made."""

    kind: str  # the kind of boundary
    name: str  # the name of the boundary; not part of the fingerprint
    fingerprint: str  # the hash of the request; see the module docstring
    # The run-specific ids of the request in order of first appearance, then those around the call, then those that
    # belong to the call only.
    ids: tuple[str, ...]
    parts: Mapping[str, Part | list[Part]]  # the parts by top-level key; a list where the value is a list
    extra: int = 0  # how many of the ids belong to the call only
    around: int = 0  # how many stand around the call

    @property
    def ids_in_it(self) -> tuple[str, ...]:
        """The ids that are part of the request."""
        return self.ids[: len(self.ids) - self.around - self.extra]

    @property
    def ids_around(self) -> tuple[str, ...]:
        """The ids around the call."""
        return self.ids[len(self.ids) - self.around - self.extra : len(self.ids) - self.extra]

    @property
    def own_ids(self) -> tuple[str, ...]:
        """The ids that belong to the call only."""
        return self.ids[len(self.ids) - self.extra :]

    @property
    def body(self) -> dict[str, Plain]:
        """The redacted request as plain data."""
        return {
            key: [item.plain for item in part] if isinstance(part, list) else part.plain
            for key, part in self.parts.items()
        }


class Canonicaliser:
    """Puts requests into canonical form, and remembers the parts it has seen. Thread-safe.

    `plain` makes plain, redacted data, once per distinct part, and `plain_items` of several values under one name,
    which is quicker; `on_new` is called with the JSON of each new part, in ASCII.
    """

    def __init__(
        self,
        plain: Callable[[Any], Plain],
        ignored: Ignored = NOTHING,
        plain_items: Callable[[str, Sequence[Any]], list[Plain]] | None = None,
        on_new: Callable[[bytes], object] | None = None,
    ) -> None:
        self._plain = plain
        self._plain_items = plain_items or self._one_by_one
        self.ignored = ignored
        self._on_new = on_new
        self._cache: OrderedDict[Hashable, Part] = OrderedDict()
        self._memories: dict[Hashable, OrderedDict[Hashable, Part]] = {}
        """Cached parts of items with keys, by the name of their list and the ignored paths in it."""

    def request(
        self, kind: str, name: str, body: Mapping[str, Any], ids: tuple[str, ...] = (), around: tuple[str, ...] = ()
    ) -> CanonicalRequest:
        """Return the canonical form of a request.

        `ids` are run-specific and belong to the call, but aren't part of the request; `around` are further ids around
        the call. Raises `UnrecordableValueError` if a value cannot be written as plain data.
        """
        paths = self.ignored.paths
        parts: dict[str, Part | list[Part]] = {}
        for name_of_part in sorted(body):
            value = body[name_of_part]
            rest = below(paths, name_of_part) if paths else ()
            if type(value) is KeyedItems:
                parts[name_of_part] = self._keyed(name_of_part, value, rest)
            elif isinstance(value, list):
                below_it = [_below_item(rest, n) for n in range(len(value))] if rest else [()] * len(value)
                keys = [_key(f"{name_of_part}[]", *item) for item in zip(value, below_it, strict=True)]
                parts[name_of_part] = self._parts(f"{name_of_part}[]", value, keys, below_it)
            else:
                key = _key(name_of_part, value, rest)
                part = self._cache.get(key) if key is not None else None
                parts[name_of_part] = part or self._parts(name_of_part, [value], [key], [rest])[0]
        return _request(kind, name, parts, self.ignored, ids=ids, around=around)

    def _keyed(self, name: str, items: KeyedItems, ignored: Paths) -> list[Part]:
        """Return the parts of items with keys. A conversation has many of them, nearly all of which were seen."""
        memory = self._memories.get((name, ignored))
        if memory is None:
            memory = self._memories.setdefault((name, ignored), OrderedDict())
        found = [*map(memory.get, items.keys)]  # nothing is remembered by the key `None`
        if None not in found:
            return cast("list[Part]", found)
        new = [n for n, part in enumerate(found) if part is None]
        built = [items.build(items.sources[n]) for n in new]
        paths = [_below_item(ignored, n) if ignored else () for n in new]
        parts = self._made(f"{name}[]", built, [items.keys[n] for n in new], paths, memory)
        for n, part in zip(new, parts, strict=True):
            found[n] = part
        return cast("list[Part]", found)

    def _parts(self, name: str, values: Sequence[Any], keys: Sequence[Hashable], paths: Sequence[Paths]) -> list[Part]:
        """Return the parts of values with their keys: the cached ones, and all others, built in one go."""
        found = [*map(self._cache.get, keys)]
        new = [n for n, part in enumerate(found) if part is None]
        if new:
            made = self._made(
                name, [values[n] for n in new], [keys[n] for n in new], [paths[n] for n in new], self._cache
            )
            for n, part in zip(new, made, strict=True):
                found[n] = part
        return cast("list[Part]", found)

    def _made(
        self,
        name: str,
        values: list[Any],
        keys: Sequence[Hashable],
        paths: Sequence[Paths],
        memory: OrderedDict[Hashable, Part],
    ) -> list[Part]:
        """Make parts that were not seen, and remember them by their keys."""
        key_of_all = name.removesuffix("[]")
        plain = self._plain_items(key_of_all, values)
        made = [_digest(name, item, below, self._on_new) for item, below in zip(plain, paths, strict=True)]
        for key, part in zip(keys, made, strict=True):  # without a lock: Python does each of these steps as a whole
            if key is not None:
                memory[key] = part
                if len(memory) > _CACHED_PARTS:
                    memory.popitem(last=False)
        return made

    def _one_by_one(self, name: str, values: Sequence[Any]) -> list[Plain]:
        # The name goes along, because it may say that its value is a secret.
        return [plain for value in values for plain in self._plain({name: value}).values()]


def _key(name: str, value: Any, paths: Paths) -> Hashable:
    """Return the cache key of a part, or `None` if it has no key for its content."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return (name, value, kind, paths)
    content = _content_key(value)
    return None if content is None else (name, content, bytes, paths)


def _content_key(value: Any) -> bytes | None:
    """Return bytes that are equal only for equal builtin values, or `None` for other values.

    Version 2 of the marshal format is used because later ones encode shared references, which differ between equal
    values: https://docs.python.org/3/library/marshal.html.
    """
    if not isinstance(value, _KEYABLE):
        return None
    try:
        return marshal.dumps(value, 2)
    except ValueError:
        return None


def recorded_request(kind: str, name: str, request: Mapping[str, Plain], ignored: Ignored) -> CanonicalRequest:
    """Return the canonical form of a recorded request: it is plain and redacted already."""
    parts: dict[str, Part | list[Part]] = {}
    for key in sorted(request):
        value, rest = request[key], below(ignored.paths, key)
        if isinstance(value, list):
            parts[key] = [_digest(f"{key}[]", item, _below_item(rest, n)) for n, item in enumerate(value)]
        else:
            parts[key] = _digest(key, value, rest)
    return _request(kind, name, parts, ignored)


def _below_item(paths: Paths, index: int) -> Paths:
    return paths if ignores(paths) else below(paths, index)


def _request(
    kind: str,
    name: str,
    parts: Mapping[str, Part | list[Part]],
    ignored: Ignored,
    *,
    ids: tuple[str, ...] = (),
    around: tuple[str, ...] = (),
) -> CanonicalRequest:
    numbers: dict[str, int] = {}
    compared = parts
    if ignored.paths:
        compared = {key: part for key, part in parts.items() if not ignores(below(ignored.paths, key))}
    lines = [kind]
    for key, part in compared.items():
        if isinstance(part, Part):
            lines.append(part.line or _line(key, part, numbers))
        else:
            lines.append(f"{key}[]")
            of_items = [item.line for item in part]
            if "" in of_items:
                of_items = [item.line or _line(f"{key}[]", item, numbers) for item in part if item.digest]
            lines += of_items
    fingerprint = sha256("\n".join(lines).encode()).hexdigest()[:32]
    return CanonicalRequest(kind, name, fingerprint, (*numbers, *around, *ids), parts, len(ids), len(around))


def _digest(key: str, plain: Plain, paths: Paths = (), on_new: Callable[[bytes], object] | None = None) -> Part:
    if paths and ignores(paths):
        return Part(plain, "", (), "")
    written, may_hold_id = canonical_bytes(stripped(plain, paths) if paths else plain)
    if on_new is not None:
        on_new(written)
    if b"%" in written and _IN_URL_MARK in written:
        written = _IN_URL.sub(rb"[REDACTED:\1:\2]", written)
    ids = tuple(RUN_SPECIFIC_ID.findall(written.decode())) if may_hold_id else ()
    if ids:
        written = RUN_SPECIFIC_ID.sub("<id>", written.decode()).encode()
    digest = sha256(written).hexdigest()
    return Part(plain, digest, ids, "" if ids else f"{key} {digest}")


def _line(key: str, part: Part, numbers: dict[str, int]) -> str:
    return " ".join([key, part.digest, *(str(numbers.setdefault(item, len(numbers))) for item in part.ids)])
