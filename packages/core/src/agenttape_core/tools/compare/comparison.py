"""`compare_cassettes`: two cassettes, record by record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, get_args

from agenttape_core.matching import Difference, Ignored
from agenttape_core.schema import Plain, Step
from agenttape_core.storage import Cassette, Location
from agenttape_core.tools.compare.alignment import Row, aligned
from agenttape_core.tools.compare.opening import named_cassette
from agenttape_core.tools.compare.sameness import (
    Counterparts,
    interaction_differences,
    plain_differences,
    step_differences,
)

State = Literal["same", "changed", "moved", "only in first", "only in other"]
"""What became of a record: `moved` is the same at another address, `changed` differs, wherever it stands."""

_SHOWN = 40
_PLACES = 8


@dataclass(frozen=True, slots=True)
class Compared:
    """One interaction or step of two cassettes.

    Args:
        what: `interaction`, `step`, or `header` for a fact of the run that the header holds.
        state: What became of it.
        kind: Its kind.
        name: Its name.
        address: Where it stands: in the first cassette, unless only the other has it.
        first: Its number in the first cassette; nothing if only the other has it.
        other: Its number in the other one, likewise.
        other_address: Where it stands in the other one, if that is elsewhere.
        differences: The places where it differs, texts cut down to the words that do: `recorded` is the first's,
            `asked` the other's.
    """

    what: str
    state: State
    kind: str
    name: str
    address: str
    first: int | None = None
    other: int | None = None
    other_address: str | None = None
    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "what": self.what,
            "state": self.state,
            "kind": self.kind,
            "name": self.name,
            "address": self.address,
            "first": self.first,
            "other": self.other,
            "other_address": self.other_address,
            "differences": [
                {"path": found.path, "first": found.recorded, "other": found.asked} for found in self.differences
            ],
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.state:<14}{self.place}", *self._lines()])

    @property
    def is_consequence(self) -> bool:
        """Whether it is a step that differs in nothing but how it ended, and so perhaps because of what is in it."""
        ends = {"output", "status", "error", "data"}
        parts = {re.split(r"[.\[]", found.path, maxsplit=1)[0] for found in self.differences}
        return self.what == "step" and self.state == "changed" and parts <= ends

    @property
    def place(self) -> str:
        """Which record it is, on one line."""
        if self.what == "header":
            return f"header {self.name}"
        numbers = " / ".join("-" if number is None else str(number) for number in (self.first, self.other))
        at = self.address if self.other_address is None else f"{self.address} → {self.other_address}"
        return f"{self.what} {numbers}  {self.kind} {self.name} at {at}"

    def _lines(self) -> Iterator[str]:
        for found in self.differences[:_PLACES]:
            yield f"    {found.path}"
            yield f"      first  {found.recorded}"
            yield f"      other  {found.asked}"
        if len(self.differences) > _PLACES:
            yield f"    … and {len(self.differences) - _PLACES} more places"


class Comparison:
    """Two cassettes, compared record by record while they are walked through; as often as wanted.

    It is true if anything differs. Only numbers and addresses are held, so that long cassettes can be compared; what
    it says was redacted when it was recorded.

    Args:
        first: The cassette that the other one is held against.
        other: The other one.
        ignored: What of requests, outcomes, inputs and outputs does not count.
        steps: Whether steps are compared, too.
    """

    def __init__(self, first: Cassette, other: Cassette, ignored: Ignored, *, steps: bool = True) -> None:
        self.first = first
        self.other = other
        self._ignored = ignored
        self._steps = steps

    def __iter__(self) -> Iterator[Compared]:
        """Yield all that was compared, in the order of the run: facts of the header, then interactions and steps."""
        keys = self.first.preface.redaction.key, self.other.preface.redaction.key
        ids = Counterparts(pseudonyms=keys[0] != keys[1])
        yield from self._facts(ids)
        for first, other in self._pairs:
            yield self._compared(first, other, ids)

    @property
    def changes(self) -> Iterator[Compared]:
        """What is not the same, in the order of the run."""
        return (compared for compared in self if compared.state != "same")

    @cached_property
    def first_divergence(self) -> Compared | None:
        """The first thing that is not the same; nothing if all is. No more is read than it takes to find it.

        A step that gave something else because something within it did is passed over for that.
        """
        found: Compared | None = None
        for change in self.changes:
            if found is not None and not change.address.startswith(f"{found.address}/"):
                break
            found = change
            if not found.is_consequence:
                break
        return found

    @property
    def identical(self) -> bool:
        """Whether nothing differs but ids and pseudonyms that are each other's counterpart."""
        return self.first_divergence is None

    def __bool__(self) -> bool:
        return not self.identical

    @cached_property
    def counts(self) -> dict[State, int]:
        """How many interactions and steps are in which state."""
        found = Counter(compared.state for compared in self if compared.what != "header")
        return {state: found[state] for state in get_args(State)}

    def to_dict(self, *, same: bool = False) -> dict[str, Any]:
        """Return the comparison as plain data.

        Args:
            same: Whether to list what is the same, too.
        """
        divergence = self.first_divergence
        return {
            "first": str(self.first.path),
            "other": str(self.other.path),
            "identical": self.identical,
            "counts": dict(self.counts),
            "first_divergence": divergence.to_dict() if divergence is not None else None,
            "records": [compared.to_dict() for compared in (self if same else self.changes)],
        }

    def text(self, limit: int | None = _SHOWN) -> str:
        """Return the comparison for readers.

        Args:
            limit: How many changes are shown; all of them if it is nothing.
        """
        counted = ", ".join(f"{number} {state}" for state, number in self.counts.items() if number)
        lines = [f"first  {self.first.path}", f"other  {self.other.path}", counted or "no interactions and no steps"]
        divergence = self.first_divergence
        if divergence is None:
            return "\n".join([*lines, "identical"])
        changes = [str(compared) for compared in islice(self.changes, limit)]
        states = sum(number for state, number in self.counts.items() if state != "same")
        facts = sum(compared.what == "header" for compared in islice(self, len(_FACTS)) if compared.state != "same")
        if states + facts > len(changes):
            changes.append(f"… and {states + facts - len(changes)} more")
        return "\n".join([*lines, f"the first divergence is {divergence.place}", *changes])

    __str__ = text

    @cached_property
    def _pairs(self) -> list[tuple[Row | None, Row | None]]:
        return list(aligned(*(_rows(cassette, steps=self._steps) for cassette in (self.first, self.other))))

    def _facts(self, ids: Counterparts) -> Iterator[Compared]:
        for name, read in _FACTS:
            facts = read(self.first), read(self.other)
            found = tuple(plain_differences(name, *facts, ids, self._ignored))
            if any(fact not in (None, [], {}) for fact in facts):
                yield Compared("header", "changed" if found else "same", "header", name, "", differences=found)

    def _compared(self, first: Row | None, other: Row | None, ids: Counterparts) -> Compared:
        row = first or other
        assert row is not None
        if first is None or other is None:
            state: State = "only in first" if other is None else "only in other"
            return _of(row, state, first, other)
        found = self._differences(first, other, ids)
        if found:
            return _of(row, "changed", first, other, tuple(found))
        return _of(row, "same" if first.address == other.address else "moved", first, other)

    def _differences(self, first: Row, other: Row, ids: Counterparts) -> list[Difference]:
        if first.what == "step":
            steps = self.first.step(first.number), self.other.step(other.number)
            return step_differences(*steps, ids, self._ignored)
        # What is written alike need not be read. Where it continues another request, the fingerprint speaks for it.
        if first[2:] == other[2:] and self.first.written(first.number) == self.other.written(other.number):
            return []
        both = self.first.interaction(first.number), self.other.interaction(other.number)
        return interaction_differences(*both, ids, self._ignored)


def _of(
    row: Row, state: State, first: Row | None, other: Row | None, differences: tuple[Difference, ...] = ()
) -> Compared:
    moved = other is not None and other.address != row.address
    return Compared(
        row.what,
        state,
        row.kind,
        row.name,
        row.address,
        first.number if first is not None else None,
        other.number if other is not None else None,
        other.address if other is not None and moved else None,
        differences,
    )


def _rows(cassette: Cassette, *, steps: bool) -> list[Row]:
    return [
        Row("step", row.number, row.kind, row.name, row.address)
        if isinstance(row, Step)
        else Row("interaction", row.number, row.kind, row.name, row.address, row.fingerprint)
        for row in (cassette.rows() if steps else cassette.entries)
    ]


def _input(cassette: Cassette) -> Plain:
    return cassette.preface.input


def _environment(cassette: Cassette) -> Plain:
    return cassette.preface.freeze.environment


_FACTS = (("input", _input), ("environment", _environment))
"""What the header holds of the run itself. Seeds, keys, versions and times are the recording's."""


def compare_cassettes(
    first: str | Location | Cassette,
    other: str | Location | Cassette,
    *,
    ignore: Collection[str] = (),
    steps: bool = True,
) -> Comparison:
    """Compare two cassettes: the records of a run, and those of another run of the same program.

    Interactions and steps are aligned by address first, then by fingerprint, then by an address of which the supersteps
    are left out: a run that is one step longer has its calls one step later. Ids are the same if each stands where its
    counterpart stands, and so are pseudonyms, unless both cassettes have one key. Times are not compared.

    Args:
        first: A cassette, its path, or its bare name in the project's folder.
        other: The one to hold against it.
        ignore: Paths within requests, outcomes, inputs and outputs that do not count, as in `use_cassette`.
        steps: Whether steps are compared, or interactions only, such as when one run was observed by a callback
            handler, which sees other steps than a session does.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read; a malformed record raises when it is come to.
        ConfigurationError: If what is ignored is not a path.
    """
    return Comparison(named_cassette(first), named_cassette(other), Ignored.of(ignore), steps=steps)
