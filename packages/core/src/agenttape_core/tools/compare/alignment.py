"""The alignment of the records of two cassettes: by address first, then by fingerprint, then by the shape of addresses.

Records are not read for it: ten thousand of them are ten thousand small rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from agenttape_core.schema import MODEL_KINDS, IndexRow

_COUNT = re.compile(r"#\d+$")
_SUPERSTEP = re.compile(r"(?<=@)-?\d+")
_ROOT_BRANCH = re.compile(r"^([^/~]*)~1(?=/|$)")


class StepRow(IndexRow):
    """A step, without its content; its fingerprint is empty, because it has no request."""

    __slots__ = ()


def is_same_place(first: str, other: str) -> bool:
    """Return whether two addresses are the same, of a run that a session recorded or a handler observed.

    A session knows that a run is in another task than the one that began it, such as that of a workflow; a handler not.
    """
    return first == other or _rooted(first) == _rooted(other)


def _rooted(address: str) -> str:
    return _ROOT_BRANCH.sub(r"\1", address)


def _exact(row: IndexRow) -> Hashable:
    return type(row), row.kind, row.name, row.address, row.fingerprint


def _wherever_begun(row: IndexRow) -> Hashable:
    """Ignore the branch of the outermost run: see `is_same_place`."""
    return type(row), row.kind, row.name, _rooted(row.address), row.fingerprint


def _among_siblings(row: IndexRow) -> Hashable:
    """Ignore the count of equal siblings: one more of them shifts those after it."""
    return type(row), row.kind, row.name, _COUNT.sub("", row.address), row.fingerprint


def _at_address(row: IndexRow) -> Hashable:
    return type(row), row.kind, row.address


def _request(row: IndexRow) -> Hashable:
    return type(row), row.kind, row.fingerprint


def _shifted(row: IndexRow) -> Hashable:
    """Ignore supersteps: a run that is one step longer has the same places one step later."""
    return type(row), row.kind, row.name, _SUPERSTEP.sub("", row.address)


def _whatever_model(row: IndexRow) -> Hashable:
    """Ignore the class of what is called: another model at the same place is the counterpart of the recorded one."""
    around, _, leaf = row.address.rpartition("/")
    return type(row), row.kind, around, _ordinal(leaf)


def _ordinal(leaf: str) -> str:
    count = _COUNT.search(leaf)
    return count[0] if count is not None else ""


def _whatever_model_shifted(row: IndexRow) -> Hashable:
    around, _, _ = row.address.rpartition("/")
    return type(row), row.kind, _SUPERSTEP.sub("", around)


_KEYS: Sequence[Callable[[IndexRow], Hashable]] = (
    _exact,
    _wherever_begun,
    _among_siblings,
    _at_address,
    _request,
    _shifted,
    _whatever_model,
    _whatever_model_shifted,
)
"""The keys that make two records counterparts, the strongest first."""


_OF_MODELS = (_whatever_model, _whatever_model_shifted)


def _are_models(first: IndexRow, other: IndexRow) -> bool:
    """Return whether two calls are of models of different classes: other calls at one place are different ones."""
    return first.kind in MODEL_KINDS and first.name != other.name


def aligned(first: Sequence[IndexRow], other: Sequence[IndexRow]) -> Iterator[tuple[IndexRow | None, IndexRow | None]]:
    """Yield each row of both with its counterpart, or with None, in the order of the files.

    A row that only one file has keeps its place. Where the orders of both files cross, that of the first counts.
    """
    partners = _partners(first, other)
    taken = set(partners.values())
    done = -1
    for index, row in enumerate(first):
        partner = partners.get(index)
        if partner is not None and partner > done:
            yield from ((None, other[n]) for n in range(done + 1, partner) if n not in taken)
            done = partner
        yield row, other[partner] if partner is not None else None
    yield from ((None, other[n]) for n in range(done + 1, len(other)) if n not in taken)


def _partners(first: Sequence[IndexRow], other: Sequence[IndexRow]) -> dict[int, int]:
    """Pair the rows off, the n-th of a key with the n-th. Rows that a stronger key has paired stay paired."""
    partners: dict[int, int] = {}
    left, right = list(range(len(first))), list(range(len(other)))
    for key in _KEYS:
        waiting: dict[Hashable, list[int]] = {}
        for index in reversed(right):
            waiting.setdefault(key(other[index]), []).append(index)
        found = {index: stack.pop() for index in left if (stack := waiting.get(key(first[index])))}
        if key is _request:  # steps have no request to be found by
            found = {index: partner for index, partner in found.items() if first[index].fingerprint}
        if key in _OF_MODELS:
            found = {index: partner for index, partner in found.items() if _are_models(first[index], other[partner])}
        partners |= found
        left, right = _without(left, found), _without(right, found.values())
    return partners


def _without(indices: list[int], found: Iterable[int]) -> list[int]:
    gone = set(found)
    return [index for index in indices if index not in gone] if gone else indices
