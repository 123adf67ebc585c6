"""Combine the records of a journal with the records of an earlier cassette into a new cassette."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_core.format.records import AnyRecord, with_timings
from agenttape_core.format.written_steps import WrittenStep
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Header, Interaction, Step, StepTiming, Timing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from agenttape_core.format.journal_text import Line

_KEPT = -1  # the source of records that stay from an earlier cassette
_CARRIED = 1  # the source of records that a session carries over from the cassette it replays


class Retaken(NamedTuple):
    """The part that the interactions of an earlier cassette have in a run that adds to it.

    Args:
        orders: The place in this run of each that was replayed, by its number.
        inside: The number, in this run, of the call that each was made inside, if it was.
        remade: The number, in this run, of the call that replaces it, for each that was live and made again.
    """

    orders: Mapping[int, tuple[Any, ...]] = {}
    inside: Mapping[int, int] = {}
    remade: Mapping[int, int] = {}


def assemble(
    header: Header,
    keep: Sequence[Interaction | Step],
    lines: Iterable[Line[AnyRecord]],
    standing_for: Mapping[int, int] | None = None,
    retaken: Retaken | None = None,
) -> tuple[Header, list[AnyRecord]]:
    """Sort, renumber and re-parent.

    New records come after the kept ones. But a run whose steps are among both was taken once more. If it made new
    calls, its new recording replaces the old one, together with the interactions that it no longer made. If it made
    none, the old steps stay.

    The header's timings are from `keep`, the unchanged records that come first, by their old numbers. `standing_for`
    has numbers that name parents of new records, with the old numbers of the records they mean; `retaken` is the part
    that the kept records have in the new ones.
    """
    old = header.volatile
    kept = [
        _Entry(item, (old.steps if isinstance(item, Step) else old.timings).get(item.number), _KEPT) for item in keep
    ]
    new = sorted((_of_line(line) for line in without_begun(lines)), key=_key)
    if retaken is not None:
        kept, new = _replaced([_with_part(entry, retaken) for entry in kept], new, retaken.remade)
        kept, new = _merged(kept, new)
    numbers = _numbered([*kept, *new], standing_for or {})
    assembling = _Assembling(numbers)
    for entry in (*kept, *new):
        assembling.add(entry)
    return with_timings(header, assembling.timings, assembling.step_timings), assembling.records


def without_begun(lines: Iterable[Line[AnyRecord]]) -> list[Line[AnyRecord]]:
    """Return the lines without the beginnings of interactions and steps that have ended since."""
    lines = list(lines)
    if any(line.has_begun for line in lines):
        last = {line.record.number: place for place, line in enumerate(lines) if _is_own(line)}
        lines = [line for place, line in enumerate(lines) if not line.has_begun or last[line.record.number] == place]
    if not any(_is_open(line.record) for line in lines):
        return lines
    ended = {
        _step_key(line) for line in lines if not isinstance(line.record, Interaction) and line.record.status != "open"
    }
    return [line for line in lines if not (_is_open(line.record) and _step_key(line) in ended)]


def _is_own(line: Line[AnyRecord]) -> bool:
    return isinstance(line.record, Interaction) and not line.source


def _is_open(record: AnyRecord) -> bool:
    return not isinstance(record, Interaction) and record.status == "open"


def _step_key(line: Line[AnyRecord]) -> tuple[Any, str]:
    return sort_key(line.order), line.record.address


class _Entry(NamedTuple):
    """A record of a cassette that is made."""

    record: AnyRecord  # the interaction or step, with the numbers that it has where it comes from
    timing: Timing | StepTiming | None  # when it happened, if that is known
    source: int = 0  # the cassette that they are of, as in `Line`: a number means another interaction in each
    inside: int = 0  # the call that it lies inside, as in `Line`
    order: Sequence[Any] | None = None  # its place in the order; `None` for a kept record with no part in this run

    @property
    def root(self) -> str:
        """The address of the outermost run around it."""
        return self.record.address.partition("/")[0]


def _of_line(line: Line[AnyRecord]) -> _Entry:
    return _Entry(line.record, line.timing, line.source, line.inside, line.order)


def _key(entry: _Entry) -> tuple[int, Any]:
    return sort_key(entry.order or ())


def _with_part(entry: _Entry, retaken: Retaken) -> _Entry:
    if not isinstance(entry.record, Interaction):
        return entry
    number = entry.record.number
    return entry._replace(order=retaken.orders.get(number), inside=retaken.inside.get(number, 0))


def _replaced(kept: list[_Entry], new: list[_Entry], remade: Mapping[int, int]) -> tuple[list[_Entry], list[_Entry]]:
    """Return the kept records, with each call that was made again in place of the old one, and the remaining new ones.

    So a call that lies inside another one comes after it.
    """
    by_number = {
        entry.record.number: entry for entry in new if not entry.source and isinstance(entry.record, Interaction)
    }
    taken = set(remade.values())

    def now(entry: _Entry) -> _Entry:
        is_remade = isinstance(entry.record, Interaction) and entry.record.number in remade
        return by_number[remade[entry.record.number]] if is_remade else entry

    def is_left(entry: _Entry) -> bool:
        return not isinstance(entry.record, Interaction) or bool(entry.source) or entry.record.number not in taken

    return [now(entry) for entry in kept], [entry for entry in new if is_left(entry)]


def _merged(kept: list[_Entry], new: list[_Entry]) -> tuple[list[_Entry], list[_Entry]]:
    """Return the records that come first, with each repeated run in its place, and the remaining new ones."""
    taken = _roots(kept) & _roots(new)
    anew = {entry.root for entry in new if entry.root in taken and isinstance(entry.record, Interaction)}
    added = [entry for entry in new if isinstance(entry.record, Interaction) or entry.root not in taken - anew]
    runs = {root: _as_now(kept, added, root) for root in anew}
    first: list[_Entry] = []
    for entry in kept:
        if entry.root not in anew:
            first.append(entry)
        else:
            first += runs.pop(entry.root, ())
    return first, [entry for entry in added if entry.root not in anew]


def _roots(entries: Collection[_Entry]) -> set[str]:
    """Return the outermost runs that have steps."""
    return {entry.root for entry in entries if not isinstance(entry.record, Interaction)} - {""}


def _as_now(kept: Sequence[_Entry], new: Sequence[_Entry], root: str) -> list[_Entry]:
    """Return a run that was repeated: its kept and its new records, in their present order."""
    placed = list(_placed(entry for entry in kept if entry.root == root and isinstance(entry.record, Interaction)))
    return sorted((*placed, *(entry for entry in new if entry.root == root)), key=_key)


def _placed(kept: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield interactions with a place each: one that this run did not ask for stays behind the one before it."""
    order: Sequence[Any] = ()
    for entry in kept:
        order = entry.order if entry.order is not None else order
        yield entry._replace(order=order)


def _numbered(entries: Iterable[_Entry], standing_for: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """Return the new numbers of interactions by their source and their number there.

    `standing_for` has numbers of parents that aren't entries, with the numbers that they refer to: of records carried
    over or kept.
    """
    own = [(entry.source, entry.record.number) for entry in entries if isinstance(entry.record, Interaction)]
    numbers = {key: number for number, key in enumerate(own, start=1)}
    for named, meant in standing_for.items():
        found = numbers.get((_CARRIED, meant), numbers.get((_KEPT, meant)))
        if found is not None:
            numbers[0, named] = found
    return numbers


class _Assembling:
    """Records that follow each other, numbered from 1: the interactions and the steps each for themselves.

    `numbers` are by their source and their number there.
    """

    def __init__(self, numbers: Mapping[tuple[int, int], int]) -> None:
        self.records: list[AnyRecord] = []
        self.timings: dict[int, Timing] = {}
        self.step_timings: dict[int, StepTiming] = {}
        self._numbers = numbers
        self._steps = 0

    def add(self, entry: _Entry) -> None:
        """Add an entry; its parent is another one from the same source, unless it lies inside a call of this run."""
        record, timing, source, inside, _ = entry
        if not isinstance(record, Interaction):
            self._steps += 1
            self.records.append(_numbered_step(record, self._steps))
            if isinstance(timing, StepTiming):
                self.step_timings[self._steps] = timing
            return
        number, parent = self._numbers[source, record.number], self._numbers.get((0, inside))
        if parent is None and record.parent is not None:
            parent = self._numbers.get((source, record.parent))
        self.records.append(record.model_copy(update={"number": number, "parent": parent}))
        if isinstance(timing, Timing):
            self.timings[number] = timing


def _numbered_step(step: Step | WrittenStep, number: int) -> Step | WrittenStep:
    return step.model_copy(update={"number": number}) if isinstance(step, Step) else step.numbered(number)


def sort_key(value: Any) -> tuple[int, Any]:
    """Return a key by which orders of any shape compare: numbers before strings before lists."""
    if isinstance(value, (list, tuple)):
        return 2, tuple([(0, item) if type(item) is int else sort_key(item) for item in value])
    return (1, value) if isinstance(value, str) else (0, value)
