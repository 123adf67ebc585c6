"""The comparison of two cassettes, record by record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, get_args

from agenttape_core.lifecycle.project import this_project
from agenttape_core.locks import cached_property
from agenttape_core.matching import Difference, Ignored
from agenttape_core.schema import GAP, MODEL_KINDS, IndexRow, Plain, Step
from agenttape_core.storage import Cassette, Location, open_cassette
from agenttape_core.tools.compare.sameness import (
    Counterparts,
    interaction_differences,
    plain_differences,
    step_differences,
)

__all__ = ["Compared", "Comparison", "State", "compare_cassettes", "named_cassette"]


def named_cassette(cassette: str | Location | Cassette) -> Cassette:
    """Return the opened cassette of a name. Raises `CassetteError`, or `ConfigurationError` for a malformed name."""
    if isinstance(cassette, Cassette):
        return cassette
    project = this_project()
    return open_cassette(project.recording(cassette, project.settings().cassette_dir))


# -- The alignment of the records of two cassettes: by address first, then by fingerprint, then by shape.


_COUNT = re.compile(r"#\d+$")
_SUPERSTEP = re.compile(r"(?<=@)-?\d+")
_ROOT_BRANCH = re.compile(r"^([^/~]*)~1(?=/|$)")


class StepRow(IndexRow):
    """A step, without its content; its fingerprint is empty, because it has no request."""

    __slots__ = ()


def is_same_place(first: str, other: str) -> bool:
    """Return whether two addresses are the same, of a run that a session recorded or a handler observed.

    A session sees that a run is in another task than the one that began it, such as a workflow's; a handler doesn't.
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
    """Ignore the class of the called object: another model at the same place is the counterpart of the recorded one."""
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

    A row that only one file has keeps its place. If the orders of both files cross, the first file's counts.
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


State = Literal["same", "changed", "moved", "only in first", "only in other"]
"""The state of a record: `moved` is the same at another address, `changed` differs, whatever its address."""

_SHOWN = 40
_ENDS = {"step": frozenset({"output", "status", "error", "data"}), "interaction": frozenset({"outcome", "acts"})}
"""The parts of a record that tell how it ended."""
_PLACES = 8
_FIRST = 8
"""The number of records at the start in which an observer's note of its blind spots is found, since it is written
first."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One interaction or step of two cassettes.

    Args:
        what: `interaction`, `step`, or `header` for a fact about the run that the header holds.
        state: Its state.
        kind: Its kind.
        name: Its name.
        address: Its address in the first cassette; in the other one if only that has it.
        first: Its number in the first cassette; None if only the other one has it.
        other: Its number in the other cassette; None if only the first one has it.
        other_address: Its address in the other cassette, if it is a different one.
        differences: The places where it differs, with texts cut down to the words that differ: `recorded` is of the
            first cassette, `asked` of the other one.
        refused: The answer to a call that only one of them has, and that left the recorded world; `None` for any other.
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
    refused: Plain = None

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
            **({} if self.refused is None else {"refused": self.refused}),
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.state:<14}{self.place}", *self._lines()])

    @property
    def is_consequence(self) -> bool:
        """True for a record that differs only in its end, and so perhaps because of another one in it."""
        parts = {re.split(r"[.\[]", found.path, maxsplit=1)[0] for found in self.differences}
        return self.state == "changed" and parts <= _ENDS.get(self.what, frozenset())

    @property
    def place(self) -> str:
        """The record, on one line."""
        if self.what == "header":
            return f"header {self.name}"
        numbers = " / ".join("-" if number is None else str(number) for number in (self.first, self.other))
        at = self.address if self.other_address is None else f"{self.address} → {self.other_address}"
        return f"{self.what} {numbers}  {self.kind} {self.name} at {at}"

    def _lines(self) -> Iterator[str]:
        if self.refused is not None:
            yield f"    refused: no recording; answered {self.refused!r}"
        for found in self.differences[:_PLACES]:
            yield f"    {found.path}"
            yield f"      first  {found.recorded}"
            yield f"      other  {found.asked}"
        if len(self.differences) > _PLACES:
            yield f"    … and {len(self.differences) - _PLACES} more places"


class Comparison:
    """The comparison of two cassettes, which are read record by record while it is iterated over.

    It is true if anything differs. It holds only numbers and addresses, so that long cassettes can be compared; all
    texts in it were redacted when they were recorded.

    Args:
        first: The first cassette.
        other: The other one.
        ignored: Paths in requests, outcomes, inputs and outputs to ignore.
        steps: Whether to compare steps as well.
    """

    def __init__(self, first: Cassette, other: Cassette, ignored: Ignored, *, steps: bool = True) -> None:
        self.first = first
        self.other = other
        self._ignored = ignored
        self._steps = steps

    def __iter__(self) -> Iterator[Compared]:
        """Yield all that is compared, in the order of the run: facts of the header, then interactions and steps."""
        keys = self.first.preface.redaction.key, self.other.preface.redaction.key
        ids = Counterparts(pseudonyms=keys[0] != keys[1])
        yield from self._facts(ids)
        for first, other in self._pairs:
            if not self._is_unseen(first, other):
                yield self._compared(first, other, ids)

    @property
    def changes(self) -> Iterator[Compared]:
        """The differing records, in the order of the run."""
        return (compared for compared in self if compared.state != "same")

    @cached_property
    def first_divergence(self) -> Compared | None:
        """The first difference; None if there is none. No record after it is read.

        A step or a call that differs because of a record in it is passed over in favour of that record.
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
        """True if only ids and pseudonyms differ, and correspond to each other."""
        return self.first_divergence is None

    def __bool__(self) -> bool:
        return not self.identical

    @cached_property
    def counts(self) -> dict[State, int]:
        """The number of interactions and steps in each state."""
        found = Counter(compared.state for compared in self if compared.what != "header")
        return {state: found[state] for state in get_args(State)}

    def to_dict(self, *, same: bool = False) -> dict[str, Any]:
        """Return the comparison as plain data.

        Args:
            same: Whether to list equal records as well.
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
            limit: The number of changes to show; None for all.
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
    def _is_half_observed(self) -> bool:
        """True if one run was observed by a handler and the other recorded by a session: they see other steps."""
        return self._steps and _was_observed(self.first) != _was_observed(self.other)

    def _is_unseen(self, first: IndexRow | None, other: IndexRow | None) -> bool:
        """Return whether a record is a step that only an observer, or only a session, can see."""
        return self._is_half_observed and (
            (first is None and isinstance(other, StepRow)) or (other is None and isinstance(first, StepRow))
        )

    @cached_property
    def _pairs(self) -> list[tuple[IndexRow | None, IndexRow | None]]:
        return list(aligned(*(_rows(cassette, steps=self._steps) for cassette in (self.first, self.other))))

    def _facts(self, ids: Counterparts) -> Iterator[Compared]:
        for name, read in _FACTS:
            facts = read(self.first), read(self.other)
            if None in facts:
                continue  # not every recording knows its input
            found = tuple(plain_differences(name, *facts, ids, self._ignored))
            if any(fact not in (None, [], {}) for fact in facts):
                yield Compared("header", "changed" if found else "same", "header", name, "", differences=found)

    def _compared(self, first: IndexRow | None, other: IndexRow | None, ids: Counterparts) -> Compared:
        row = first or other
        assert row is not None
        if first is None or other is None:
            state: State = "only in first" if other is None else "only in other"
            refused = self._refused(self.first if other is None else self.other, row)
            return replace(_of(row, state, first, other), refused=refused)
        found = self._differences(first, other, ids)
        if found:
            return _of(row, "changed", first, other, tuple(found))
        return _of(row, "same" if is_same_place(first.address, other.address) else "moved", first, other)

    @staticmethod
    def _refused(cassette: Cassette, row: IndexRow) -> Plain:
        """Return the answer to a call that left the recorded world; `None` if it did not."""
        if isinstance(row, StepRow) or row.kind in MODEL_KINDS:  # a model is never answered in its place
            return None
        outcome = cassette.interaction(row.number).outcome
        return outcome.value if outcome.status == "refused" else None

    def _differences(self, first: IndexRow, other: IndexRow, ids: Counterparts) -> list[Difference]:
        if isinstance(first, StepRow):
            steps = self.first.step(first.number), self.other.step(other.number)
            return step_differences(*steps, ids, self._ignored)
        # Records that are written alike need not be parsed: where one continues another request, equal fingerprints
        # say that the whole requests are equal.
        if first[1:5] == other[1:5] and self.first.written(first.number) == self.other.written(other.number):
            return []
        both = self.first.interaction(first.number), self.other.interaction(other.number)
        return interaction_differences(*both, ids, self._ignored)


def _of(
    row: IndexRow,
    state: State,
    first: IndexRow | None,
    other: IndexRow | None,
    differences: tuple[Difference, ...] = (),
) -> Compared:
    moved = other is not None and not is_same_place(other.address, row.address)
    return Compared(
        "step" if isinstance(row, StepRow) else "interaction",
        state,
        row.kind,
        row.name,
        row.address,
        first.number if first is not None else None,
        other.number if other is not None else None,
        other.address if other is not None and moved else None,
        differences,
    )


def _rows(cassette: Cassette, *, steps: bool) -> list[IndexRow]:
    return [
        StepRow(row.number, row.kind, row.name, row.address, "") if isinstance(row, Step) else row
        for row in (cassette.rows() if steps else cassette.entries)
    ]


def _was_observed(cassette: Cassette) -> bool:
    """Return whether a handler observed a run: it notes which calls it cannot see."""
    return any(isinstance(row, Step) and row.kind == GAP for row in islice(cassette.rows(), _FIRST))


def _input(cassette: Cassette) -> Plain:
    return cassette.preface.input


def _environment(cassette: Cassette) -> Plain:
    return cassette.preface.freeze.environment


_FACTS = (("input", _input), ("environment", _environment))
"""The facts about the run in the header. Seeds, keys, versions and times belong to the recording."""


def compare_cassettes(
    first: str | Location | Cassette,
    other: str | Location | Cassette,
    *,
    ignore: Collection[str] = (),
    steps: bool = True,
) -> Comparison:
    """Compare two cassettes: the records of two runs of the same program.

    Interactions and steps are aligned by address first, then by fingerprint, then by the address without supersteps: a
    run that is one step longer has its calls one step later. Last, calls of one kind at one place are counterparts, of
    whatever class the model is. Ids are equal if their places correspond everywhere; so are pseudonyms, unless both
    cassettes have the same key. Times are not compared.

    Args:
        first: A cassette, its path, or its bare name in the project's folder.
        other: The cassette to compare with it.
        ignore: Paths in requests, outcomes, inputs and outputs to ignore, as in `use_cassette`.
        steps: Whether to compare steps as well. If one run was observed by a callback handler, which sees other steps
            than a session, only those steps are compared that both have.

    Raises:
        CassetteError: If the cassette doesn't exist, or can't be read. A malformed record raises when it is reached.
        ConfigurationError: If `ignore` holds something other than paths.
    """
    return Comparison(named_cassette(first), named_cassette(other), Ignored.of(ignore), steps=steps)
