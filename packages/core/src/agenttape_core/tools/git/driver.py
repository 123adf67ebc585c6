"""The drivers that git runs for cassettes: a text to compare them by, and a merge record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from agenttape_core.errors import AgentTapeError
from agenttape_core.format.continuation import Compactor
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.redaction.pseudonyms import ANY_PSEUDONYM
from agenttape_core.schema import Header, Interaction, Plain, Step, StepTiming, Timing, Volatile
from agenttape_core.schema.plain import leaves
from agenttape_core.storage import Cassette, pieces_of, read_cassette
from agenttape_core.storage.files import file_kind, pack
from agenttape_core.storage.writer import stored_record, stored_step
from agenttape_core.tools.git.parsed import text_of_records
from agenttape_core.tools.reading.messages import joined

# -- Merge three versions of a cassette, record by record, by the address of each in the run.


Record = Interaction | Step
Key = tuple[str, str, int]  # the identity of a record in its cassette: its sort, its address, and its ordinal there

Content = tuple[str, Key | None]

_FIELDS = ("name", "derived_from", "origin", "tags", "input", "freeze", "redaction", "ignore")


@dataclass(frozen=True, slots=True)
class Slot:
    """One place of a merged cassette."""

    ours: Record | None  # the record there, or our side's if the two disagree; `None` if a side has none
    theirs: Record | None = None  # the record of their side, if the two disagree
    why: str = ""  # the reason why you have to choose; empty if there is no conflict

    @property
    def records(self) -> list[Record]:
        """The records of both sides."""
        return [record for record in (self.ours, self.theirs) if record is not None]


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging three versions of a cassette."""

    header: Header  # its header, with the timings of its records
    slots: Sequence[Slot]  # its places, in the order of the file, their records numbered

    @property
    def conflicts(self) -> list[Slot]:
        """The places at which a person has to choose."""
        return [slot for slot in self.slots if slot.why]


class _Side:
    """One version of a cassette, by the keys of its records."""

    def __init__(self, cassette: Cassette | None) -> None:
        self.header = cassette.header if cassette is not None else None
        self.records: dict[Key, Record] = {}
        self.keys: dict[int, Key] = {}
        self.contents: dict[Key, Content] = {}
        counts = Counter[tuple[str, str]]()
        for record in cassette.records() if cassette is not None else ():
            place = (_sort(record), record.address)
            key = (*place, counts[place])
            counts[place] += 1
            self.records[key] = record
            if isinstance(record, Interaction):
                self.keys[record.number] = key
            self.contents[key] = (record.model_dump_json(exclude={"number", "parent"}), self.parent(record))

    def parent(self, record: Record) -> Key | None:
        return self.keys.get(record.parent or 0) if isinstance(record, Interaction) else None

    def content(self, key: Key) -> Content | None:
        """Return all that counts of a record: which one was executing, and not its number."""
        return self.contents.get(key)

    def timing(self, record: Record) -> Timing | StepTiming | None:
        volatile = self.header.volatile if self.header is not None else Volatile()
        return (volatile.steps if isinstance(record, Step) else volatile.timings).get(record.number)


def merged(base: Cassette | None, ours: Cassette, theirs: Cassette) -> Merged | None:
    """Merge two versions of a cassette that were made of a third.

    A record that one side changed, added or removed is taken from there. If both did, in different ways, you have to
    choose; even if a record of one side was made with a text that the other side's recording no longer has, since such
    a run never happened. Returns `None` if the headers exclude a merge. Raises `CassetteFormatError` if a record is
    malformed.
    """
    sides = _Side(base), _Side(ours), _Side(theirs)
    header = _merged_header(*(side.header for side in sides))
    if header is None or _mixes_pseudonyms(*sides):
        return None
    slots = {key: _slot(key, *sides) for key in _order(sides[1], sides[2])}
    for key, why in _outdated(slots, *sides):
        slots[key] = Slot(sides[1].records.get(key), sides[2].records.get(key), why)
    return _numbered(header, slots, *sides[1:])


def _slot(key: Key, base: _Side, ours: _Side, theirs: _Side) -> Slot:
    before, our, their = base.content(key), ours.content(key), theirs.content(key)
    if their in {our, before}:
        return Slot(ours.records.get(key))
    if our == before:
        return Slot(theirs.records.get(key))
    return Slot(ours.records.get(key), theirs.records.get(key), "both sides changed it")


def _order(ours: _Side, theirs: _Side) -> list[Key]:
    """Return the keys of both sides: ours, and each that only theirs has behind the one it stands behind there."""
    after: dict[Key | None, list[Key]] = {}
    before: Key | None = None
    for key in theirs.records:
        if key in ours.records:
            before = key
        else:
            after.setdefault(before, []).append(key)
    order = [*after.get(None, ())]
    for key in ours.records:
        order += [key, *after.get(key, ())]
    return order


def _outdated(slots: Mapping[Key, Slot], base: _Side, ours: _Side, theirs: _Side) -> Iterator[tuple[Key, str]]:
    """Yield the records of either side that were asked with words which the other side's recording does not have."""
    for side, other in ((ours, theirs), (theirs, ours)):
        gone = {
            word: key
            for key in base.records
            if other.content(key) != base.content(key) == side.content(key)
            for word in _words(base.records[key]) - _words(other.records.get(key))
        }
        for key, record in side.records.items():
            is_new = side.content(key) != base.content(key)
            if not is_new or not gone or not isinstance(record, Interaction) or slots[key].why:
                continue
            word = next((word for word in _texts(record.request) if word in gone), None)
            if word is not None:
                yield key, f"it was asked with what {gone[word][1]} came to, which the other side changed"


def _words(record: Record | None) -> set[str]:
    """Return the texts that a call came to, which later calls may be asked with, and that it was not asked with."""
    if not isinstance(record, Interaction):
        return set()
    return _texts(joined(record.outcome)).keys() - _texts(record.request).keys()


def _texts(value: Plain) -> dict[str, None]:
    return dict.fromkeys(leaf for leaf in leaves(value) if isinstance(leaf, str))


def _numbered(header: Header, slots: Mapping[Key, Slot], ours: _Side, theirs: _Side) -> Merged:
    """Number the records again, and file their times under the new numbers."""
    counts = Counter[str]()
    numbers: dict[Key, int] = {}
    for key, slot in slots.items():
        if slot.records:
            counts[key[0]] += 1
            numbers[key] = counts[key[0]]
    timings: dict[int, Timing] = {}
    steps: dict[int, StepTiming] = {}
    placed = []
    for key, number in numbers.items():
        slot = slots[key]
        side = ours if slot.ours is not None and slot.ours is ours.records.get(key) else theirs
        timing = side.timing(slot.records[0])
        if isinstance(timing, Timing):
            timings[number] = timing
        elif timing is not None:
            steps[number] = timing
        our = _renumbered(slot.ours, side, numbers, number)
        placed.append(replace(slot, ours=our, theirs=_renumbered(slot.theirs, theirs, numbers, number)))
    volatile = header.volatile.model_copy(update={"timings": timings, "steps": steps})
    return Merged(header.model_copy(update={"volatile": volatile}), placed)


def _renumbered(record: Record | None, side: _Side, numbers: Mapping[Key, int], number: int) -> Record | None:
    if record is None or isinstance(record, Step):
        return record.model_copy(update={"number": number}) if record is not None else None
    parent = side.parent(record)
    return record.model_copy(update={"number": number, "parent": numbers.get(parent) if parent is not None else None})


def _merged_header(base: Header | None, ours: Header | None, theirs: Header | None) -> Header | None:
    """Merge the facts about the recording: volatile ones come from the side that was recorded later."""
    assert ours is not None, "only the version that both were made of may be missing"
    assert theirs is not None, "likewise"
    fields: dict[str, Any] = {}
    for name in _FIELDS:
        before, our, their = (getattr(header, name, None) for header in (base, ours, theirs))
        if our != their and before not in (our, their):
            return None
        fields[name] = their if our == before else our
    told = [header.volatile.model_copy(update={"timings": {}, "steps": {}}) for header in (ours, theirs)]
    known = base.volatile.model_copy(update={"timings": {}, "steps": {}}) if base is not None else None
    later = max(told, key=lambda volatile: volatile.created)
    volatile = told[1] if told[0] == known else told[0] if told[1] == known else later
    return ours.model_copy(update={**fields, "volatile": volatile})


def _mixes_pseudonyms(base: _Side, ours: _Side, theirs: _Side) -> bool:
    """Return True if equal secrets would have different pseudonyms: the sides made theirs with different keys."""
    headers = [side.header for side in (base, ours, theirs) if side.header is not None]
    keys = {header.redaction.key for header in headers}
    return len(keys) > 1 and any(ANY_PSEUDONYM.search(str(side.records)) for side in (ours, theirs))


def _sort(record: Record) -> str:
    return "step" if isinstance(record, Step) else "interaction"


CLEAN, CONFLICTS, UNABLE = 0, 1, 3


def merge_files(base: Path, ours: Path, theirs: Path, *, marker: int, name: str) -> tuple[int, str]:
    """Merge three files as git's merge drivers do: into ours.

    `base` is empty if both sides added the file; the result is written to `ours`, and `marker` is the length of
    conflict markers. The suffix of `name`, the path in the repository, determines the format. Returns `CLEAN`;
    `CONFLICTS`, if the file has markers in it; or `UNABLE`, if it's unchanged; and what to tell the user.
    """
    try:
        target = Path(name)
        result = merged(_read(base, "the common version") if base.stat().st_size else None,
                        _read(ours, "our version"), _read(theirs, "their version"))  # fmt: skip
        if result is None:
            return UNABLE, f"{name}: the two recordings don't fit together; take one side, or record it again"
        data = _conflicting(target, result, marker) if result.conflicts else _whole(target, result)
    except AgentTapeError as error:
        return UNABLE, f"{name}: not merged by record: {error}"
    ours.write_bytes(data)
    return (CONFLICTS, _told(name, result)) if result.conflicts else (CLEAN, "")


def _read(path: Path, called: str) -> Cassette:
    with path.open("rb") as stream:
        return read_cassette(stream, name=called, attached=False)


def _whole(target: Path, result: Merged) -> bytes:
    """Return the file of a merge without conflicts, after it was read once."""
    text = b"".join(pieces_of(target, result.header, [record for slot in result.slots for record in slot.records]))
    for _ in Cassette(target, text, attached=False).records():
        pass
    return pack(target, text)


def _conflicting(target: Path, result: Merged, marker: int) -> bytes:
    """Return a file in which both sides stand, each record whole: with one of them removed it is a cassette again."""
    head, *_, end = pieces_of(target, result.header, [slot.records[0] for slot in result.slots], whole=True)
    pieces = [head]
    for slot in result.slots:
        if slot.why:
            pieces += [_marked(b"<", marker, b" ours"), _alone(target, slot.ours), _marked(b"=", marker)]
            pieces += [_alone(target, slot.theirs), _marked(b">", marker, b" theirs")]
        else:
            pieces.append(_alone(target, slot.ours))
    return b"".join([*pieces, end])


def _marked(sign: bytes, length: int, label: bytes = b"") -> bytes:
    return sign * length + label + b"\n"


def _alone(target: Path, record: Record | None) -> bytes:
    """Return a record that doesn't continue another one, so that none is lost with its side."""
    return pieces_of(target, Header(name=""), [record], whole=True)[1] if record is not None else b""


def _told(name: str, result: Merged) -> str:
    lines = [f"{name}: {len(result.conflicts)} of {len(result.slots)} records in conflict"]
    lines += [f"  {slot.records[0].kind} {slot.records[0].address}: {slot.why}" for slot in result.conflicts]
    layout = "" if file_kind(Path(name)).packing is None else ", unpacked"
    lines.append(f"  both sides are in the file{layout}; take one: git checkout --ours {quote(name)}, or --theirs")
    lines.append(
        "  and record what it lacks: pytest --rerecord=changed (or all of it: AGENTTAPE_MODE=record pytest ...)"
    )
    return "\n".join(lines)


# -- A cassette as a text whose differences are the ones that you want to see.


def diffable(path: Path) -> bytes:
    """Return the text of a cassette for `git diff`: unpacked, streams joined, without numbers and times.

    Git may have copied the file to another name. If it can't be read as a cassette, returns its content.
    """
    try:
        with path.open("rb") as stream:
            return "".join(_text_of(read_cassette(stream, attached=False))).encode()
    except (AgentTapeError, RecursionError):
        return path.read_bytes()


def _text_of(cassette: Cassette) -> Iterator[str]:
    header = cassette.header.model_copy(update={"volatile": Volatile(packages=cassette.header.volatile.packages)})
    yield dump_mapping(header.model_dump(mode="json", exclude_defaults=True))
    yield from text_of_records(list(_stored(cassette)))


def _stored(cassette: Cassette) -> Iterator[dict[str, Any]]:
    """Yield the records as they would be stored."""
    compactor = Compactor()
    for record in cassette.records():
        if isinstance(record, Interaction):
            yield stored_record(compactor, record, record.number)
            compactor.confirm()
        else:
            yield stored_step(record)
