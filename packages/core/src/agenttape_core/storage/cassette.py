"""An opened cassette: indexed right away, parsed on demand."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from agenttape_core.errors import CassetteFormatError, CassetteVersionError
from agenttape_core.format import limits
from agenttape_core.format.layout import row_from_dict
from agenttape_core.format.layout_yaml import YamlLayout
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.records import (
    ASSET,
    HEAD,
    delta_from_dict,
    has_assets,
    header_from_dict,
    ids_from_list,
    interaction_from_dict,
    outcome_from_dict,
    step_from_dict,
    with_timings,
)
from agenttape_core.format.timings import load_step_timings, load_timings
from agenttape_core.format.volatile_values import Stamps
from agenttape_core.format.written_steps import CARRIED
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.locks import Lock, cached_property
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FORMAT_VERSION, Header, IndexRow, Interaction, Outcome, Plain, Step
from agenttape_core.storage.files import (
    BROKEN,
    CONFLICT,
    FOREIGN,
    NO_CASSETTE,
    choose_side,
    file_kind,
    read_bytes,
    unpacked_bytes,
)
from agenttape_core.storage.location import location_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agenttape_core.format.continuation import Delta
    from agenttape_core.format.layout import Layout, Span
    from agenttape_core.storage.asset_files import AssetFolder
    from agenttape_core.storage.location import Location


T = TypeVar("T")

_RESOLVED = 64
"""The number of resolved requests that are kept, so that reading in file order follows each continuation once."""


class Cassette:
    """An opened file, read-only; its content is a snapshot of the moment it was opened.

    The assets of a local cassette are read together with their interaction, those of a remote one right away: a replay
    keeps the network closed.

    Records are checked when they're read; a bad one raises `CassetteFormatError` with its line. Values inside
    the requests of different interactions may be the same objects: treat them as read-only. Thread-safe.

    Args:
        path: The file, or its URL.
        data: Its unpacked bytes.
        attached: Whether assets are put back; if not, the references to them remain.

    Raises:
        CassetteVersionError: It is of a newer format.
        CassetteFormatError: It is cut off or malformed.
    """

    def __init__(self, path: Location, data: bytes, *, attached: bool = True) -> None:
        self.path = path
        self._attached = attached
        # A checkout may have changed the ends of lines; in neither layout can a raw CR be part of a value.
        self._data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
        self._layout = layout_of(file_kind(path).layout)
        version = version_of(self._data)
        if version is not None and version > FORMAT_VERSION:
            self._refuse_version(version)
        try:
            self._header_span, spans = _spans_of(self._data, self._layout)
        except Malformed as error:
            self._refuse(error, 0)
        self._step_spans = self._layout.steps(self._data, spans)
        steps = set(self._step_spans)
        self._spans = [span for span in spans if span not in steps] if steps else spans
        self._assets: AssetFolder | None = None
        self._shows_lost = False
        self._stamps: Stamps | None = None
        self.preface, self._timings, self._step_timings = self._parse_preface()
        self.entries: Sequence[IndexRow] = self._index()
        self._positions = {entry.number: position for position, entry in enumerate(self.entries)}
        self._resolved: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = Lock()

    preface: Header
    """The header without its timings, which are parsed on first use of `header`."""

    @property
    def version(self) -> int:
        """The version of the format that the file is written in."""
        version = version_of(self._data)
        assert version is not None, "a header that was checked begins with it"
        return version

    @property
    def has_stamps(self) -> bool:
        """True if the stamps of its records are in the volatile block."""
        return self._stamps is not None

    @cached_property
    def header(self) -> Header:
        """The whole header.

        Raises:
            CassetteFormatError: The timings are malformed.
        """
        try:
            steps = load_step_timings(self._step_timings) if self._step_timings else {}
            return with_timings(self.preface, load_timings(self._timings), steps)
        except Malformed as error:
            self._refuse(Malformed(error.problem), self._header_span[0])

    def outcome(self, number: int) -> Outcome:
        """Return the outcome of one interaction; the rest of its record isn't parsed.

        Args:
            number: The number of the interaction.

        Raises:
            CassetteFormatError: The record is malformed.
            KeyError: There's no such interaction.
        """
        span = self._spans[self._positions[number]]
        try:
            written = self._layout.outcome(self._data, span)
            if self._stamps is not None or self._assets is not None:
                written = self._whole(written)
            return outcome_from_dict(written)
        except Malformed as error:
            self._refuse(error, span[0])

    def ids(self, number: int) -> list[str]:
        """The run-specific ids of one request, in order of first appearance. Raises as `outcome` does."""
        span = self._spans[self._positions[number]]
        try:
            ids = ids_from_list(self._layout.ids(self._data, span))
            return ids if self._stamps is None else ids_from_list(self._stamps.filled(ids))
        except Malformed as error:
            self._refuse(error, span[0])

    def interaction(self, number: int) -> Interaction:
        """One whole interaction, with the request that it continues filled in. Raises as `outcome` does."""
        record = self._record(number)
        request = self._request(number, record)
        messages = request.get("messages")
        own = {**request, "messages": list(messages)} if isinstance(messages, list) else request
        try:
            return interaction_from_dict({**record, "outcome": self._whole(record.get("outcome"))}, own)
        except Malformed as error:
            self._refuse(error, self._spans[self._positions[number]][0])

    def interactions(self) -> Iterator[Interaction]:
        """All interactions in the order of the file, one at a time."""
        return (self.interaction(entry.number) for entry in self.entries)

    def outermost_steps(self) -> Iterator[Step]:
        """The steps that no other is around, in the order of the file. Raises as `steps` does."""
        last = 0
        for span in self._step_spans:
            if "/" not in self._step_address(span):
                step = self._step(span, after=last)
                last = step.number
                yield step

    def steps(self) -> Iterator[Step]:
        """All steps in the order of the file, one at a time.

        Raises:
            CassetteFormatError: A step is malformed, or their numbers do not grow.
        """
        last = 0
        for span in self._step_spans:
            step = self._step(span, after=last)
            last = step.number
            yield step

    def has_step(self, kind: str, /) -> bool:
        """Return whether there is a step of a kind; steps are parsed only where the file has the word at all.

        Args:
            kind: One of the words that steps have for their kind, in ASCII letters, so that no layout escapes it.

        Raises:
            CassetteFormatError: As of `steps`.
        """
        return kind.encode() in self._data and any(step.kind == kind for step in self.steps())

    def step_addresses(self) -> Sequence[str]:
        """Return the address of each step, in the order of the file. Raises as `steps` does."""
        return [self._step_address(span) for span in self._step_spans]

    def step(self, number: int) -> Step:
        """One step. Raises as `steps` does, and `KeyError` if there is none of that number."""
        return self._step(self._step_places[number], after=number - 1)

    @cached_property
    def _step_places(self) -> dict[int, Span]:
        return {step.number: span for step, span in zip(self.steps(), self._step_spans, strict=True)}

    def records(self) -> Iterator[Interaction | Step]:
        """All interactions and steps in the order of the file, one at a time. Raises as `outcome` and `steps` do."""
        return self._in_order(self.interactions(), self.steps())

    def rows(self) -> Iterator[IndexRow | Step]:
        """Yield an index row or the step for each record, in the order of the file. Raises as `steps` does."""
        return self._in_order(iter(self.entries), self.steps())

    def _in_order(self, interactions: Iterator[T], steps: Iterator[Step]) -> Iterator[T | Step]:
        starts = [*(span[0] for span in self._spans), *(span[0] for span in self._step_spans)]
        for place in sorted(range(len(starts)), key=starts.__getitem__):
            yield next(interactions) if place < len(self._spans) else next(steps)

    def written(self, number: int) -> bytes:
        """The stored record of an interaction, and its stamps, without its first keys: the index has them."""
        span = self._spans[self._positions[number]]
        stamps = self._stamps.of(number).encode() if self._stamps is not None else b""
        return self._data[self._layout.after_head(self._data, span) : span[1]] + stamps

    def line_of(self, number: int) -> int:
        """Return the line of the unpacked file, 1-based, where the record of an interaction begins."""
        return self._line_at(self._spans[self._positions[number]])

    def line_of_step(self, number: int) -> int:
        """Return the line where a step begins. Raises as `step` does."""
        return self._line_at(self._step_places[number])

    def _line_at(self, span: Span) -> int:
        before = self._data[: span[0]]
        begins = span[0] + (4 if self._data.startswith(b"---\n", span[0]) else 0)  # the key, not the line above it
        return before.count(b"\n") + (begins > span[0]) + 1

    def fidelity_note(self, number: int) -> str:
        """Return the reason why an interaction is not exact; empty for an exact one. Raises as `outcome` does."""
        if not (self._has_marks and self._layout.may_be_marked(self._data, self._spans[self._positions[number]])):
            return ""
        found = self.interaction(number)
        return found.fidelity_note or found.fidelity if found.fidelity != "exact" else ""

    @cached_property
    def _has_marks(self) -> bool:
        """True if any interaction may be marked as not exact."""
        return self._layout.may_be_marked(self._data, (0, len(self._data)))

    def metadata(self, number: int, key: str) -> Plain:
        """Return an entry of the metadata of an interaction; `None` if there is none. Raises as `outcome` does.

        Args:
            number: The number of the interaction.
            key: The key, in ASCII letters, so that no layout escapes it: a record without it is not parsed.
        """
        if self._data.find(key.encode(), *self._spans[self._positions[number]]) == -1:
            return None
        found = self._record(number).get("metadata")
        return found.get(key) if isinstance(found, dict) else None

    def _step(self, span: Span, *, after: int) -> Step:
        try:
            record = self._layout.record(self._data[slice(*span)])
            carried = {key: record[key] for key in CARRIED if key in record}
            return step_from_dict({**record, **self._whole(carried)}, after=after)
        except Malformed as error:
            self._refuse(error, span[0])

    def _step_address(self, span: Span) -> str:
        try:
            return self._layout.step_address(self._data, span)
        except Malformed as error:
            self._refuse(error, span[0])

    def _record(self, number: int) -> dict[str, Any]:
        position = self._positions[number]
        span = self._spans[position]
        try:
            record = self._named(self._layout.record(self._data[slice(*span)]))
            indexed = row_from_dict(record) == self.entries[position]
        except Malformed as error:
            self._refuse(error, span[0])
        if not indexed:  # the index reads no further than these keys
            problem = f"a record begins with {', '.join(map('`{}`'.format, HEAD))}, then perhaps `parent`"
            self._refuse(Malformed(problem), span[0])
        return record

    def _named(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record with the stamps among its first keys and its ids."""
        if self._stamps is None:
            return record
        named: dict[str, Any] = {
            key: self._stamps.filled(record[key]) for key in ("fingerprint", "ids") if key in record
        }
        return {**record, **named}

    def _request(self, number: int, record: dict[str, Any]) -> dict[str, Any]:
        """Follow the chain down to a known request, then build up again; references only go backwards."""
        chain: list[tuple[int, Delta]] = []
        at, current = number, record
        with self._lock:
            while at not in self._resolved:
                delta = self._delta(at, current)
                chain.append((at, delta))
                if delta.continues is None:
                    break
                at = delta.continues
                current = {} if at in self._resolved else self._record(at)
            request = self._resolved.get(at, {})
            for at, delta in reversed(chain):
                request = self._apply(at, request, delta)
                self._resolved[at] = request
                if len(self._resolved) > _RESOLVED:
                    self._resolved.popitem(last=False)
            return request

    def _delta(self, number: int, record: dict[str, Any]) -> Delta:
        try:
            delta = delta_from_dict(record, number, self._positions)
            return delta._replace(request=self._whole(delta.request))
        except Malformed as error:
            self._refuse(error, self._spans[self._positions[number]][0])

    def _apply(self, number: int, base: dict[str, Any], delta: Delta) -> dict[str, Any]:
        if delta.continues is None:
            return delta.request
        from agenttape_core.format.continuation import resolve  # most replays read no request

        try:
            return resolve(base, delta)
        except Malformed as error:
            self._refuse(error, self._spans[self._positions[number]][0])

    def _refuse_version(self, version: int) -> NoReturn:
        raise CassetteVersionError(
            self.path,
            f"the cassette is of format {version}, and this version of AgentTape reads formats up to {FORMAT_VERSION}",
            remedy="upgrade: pip install --upgrade agenttape-core",
            line=1,
        )

    def _parse_preface(self) -> tuple[Header, str, str]:
        span = self._header_span
        try:
            preface = _read_preface(self._layout, self._data[slice(*span)])
            self._stamps = preface.stamps
            if self._attached and preface.has_assets and self._may_refer_to_assets():
                from agenttape_core.storage.asset_files import reader_of_assets

                self._assets = reader_of_assets(self.path)
        except Malformed as error:
            self._refuse(error, span[0])
        return preface.header, preface.timings, preface.step_timings

    def _may_refer_to_assets(self) -> bool:
        return ASSET.encode() in self._data or b"\\" + b"u0024" in self._data  # or a hand has escaped the sign

    def _whole(self, part: Any) -> Any:
        """A request or an outcome with its stamps and assets where they were."""
        part = self._stamps.filled(part) if self._stamps is not None else part
        if self._assets is None or not isinstance(part, dict):
            return part
        from agenttape_core.format.assets import attach

        return attach(part, self._assets.read, shows_lost=self._shows_lost)

    def show_lost(self) -> Cassette:
        """Let a sentence replace each asset that is missing or changed from now on, and return this.

        For commands that show a cassette to a person: one lost asset hides one value. What replays, checks or validates
        must not call it.
        """
        self._shows_lost = True
        return self

    def _index(self) -> Sequence[IndexRow]:
        data, read, last, entries = self._data, self._layout.row, 0, []
        for span in self._spans:
            try:
                entry = read(data, span)
                if self._stamps is not None and entry.fingerprint.startswith("${"):
                    entry = entry._replace(fingerprint=str(self._stamps.text(entry.fingerprint)))
            except Malformed as error:
                self._refuse(error, span[0])
            if entry.number <= last:
                problem = f"`interaction: {entry.number}` after {last}: numbers must grow"
                self._refuse(Malformed(problem), span[0])
            last = entry.number
            entries.append(entry)
        return tuple(entries)

    def _refuse(self, error: Malformed, offset: int) -> NoReturn:
        line = self._data.count(b"\n", 0, offset) + error.line + 1
        remedy = {CONFLICT: choose_side(self.path), FOREIGN: NO_CASSETTE}.get(error.problem, BROKEN)
        raise CassetteFormatError(self.path, error.problem, remedy=remedy, line=line) from None


def open_cassette(path: Path | str) -> Cassette:
    """Open a cassette: read and index it, parse its header, parse no record.

    Args:
        path: A `.yaml`, `.yml` or `.jsonl` file, optionally with `.gz` or `.zst`, or the URL of one.

    Raises:
        CassetteNotFoundError: There's no file.
        CassetteVersionError: It is of a newer format.
        CassetteFormatError: It is cut off or malformed; the error has the line.
        ConfigurationError: The suffix is not known, or the URL needs a module that is not installed.
    """
    location = location_of(path)
    return Cassette(location, read_bytes(location))


def cassette_of(location: Location, stored: bytes) -> Cassette:
    """Return the cassette that bytes are which were read already, such as by `read_ahead`.

    Args:
        location: Its file or URL.
        stored: Its bytes, packed if its name ends so.

    Raises:
        CassetteError: As `open_cassette` does.
        ConfigurationError: Likewise.
    """
    return Cassette(location, unpacked_bytes(location, stored))


# The header of a cassette in its stored form, apart from the texts in it that most readers never need parsed.


class _Preface(NamedTuple):
    """A header in its parts."""

    header: Header  # the header without times
    timings: str  # the times of interactions, in their stored form
    step_timings: str  # the times of steps, in their stored form
    stamps: Stamps | None  # the stamps of the records, if they are in the header
    has_assets: bool  # whether records have assets beside the file


def _read_preface(layout: Layout, written: bytes) -> _Preface:
    """Read the header of a cassette."""
    fields, timings = layout.header(written)
    volatile = fields.get("volatile")
    steps = stamps = ""
    if isinstance(volatile, dict):  # texts are taken out of it, as a layout takes out the timings of interactions
        steps = volatile.pop("steps") if isinstance(volatile.get("steps"), str) else ""
        stamps = volatile.pop("stamps") if isinstance(volatile.get("stamps"), str) else ""
    return _Preface(header_from_dict(fields), timings, steps, Stamps(stamps) if stamps else None, has_assets(fields))


def layout_of(name: str) -> Layout:
    """Return a layout by its name: `yaml` or `jsonl`."""
    if name == "yaml":
        return YamlLayout()
    from agenttape_core.format.layout_jsonl import JsonlLayout

    return JsonlLayout()


# The parts of the file of a cassette: its version, and where its header and its records stand. Nothing is parsed.

_VERSION = re.compile(
    rb'(?:\xef\xbb\xbf)?(?:---[ \t]*\n)?(?:agenttape: ([0-9]{1,9})[ \t]*\n|\{"agenttape":([0-9]{1,9})[,}])'
)
"""The beginning of a cassette of any version."""
_CONFLICT = b"<<<<<<< "
_FOREIGN = Lazy(
    rb'(?:---[ \t]*\n)?(?:(?!agenttape:)[A-Za-z_"][^\n:]*:[ \t\n]|\{"(?!agenttape":(?!"))[^"\n]*":|- |[<%\[]|#!)'
    rb"|[^\n]{0,999}\x00"
)
"""The beginning of a file of another kind: YAML or JSON with another first key, the plan of a fleet, a script, a page,
bytes of no text."""


def version_of(data: bytes) -> int | None:
    """Return the version of the format that a cassette is written in; `None` if the bytes do not begin as one.

    `data` is the beginning of the file, or more of it.
    """
    match = _VERSION.match(data)
    return int(match[1] or match[2]) if match else None


def _spans_of(data: bytes, layout: Layout) -> tuple[Span, list[Span]]:
    """Find the header of a cassette, and its records."""
    conflict = 0 if data.startswith(_CONFLICT) else data.find(b"\n" + _CONFLICT) + 1
    if data.startswith(_CONFLICT, conflict):
        raise Malformed(CONFLICT, data.count(b"\n", 0, conflict))
    if not data or data.isspace():
        raise Malformed("the file is empty")
    try:
        end = layout.check_end(data)
    except Malformed:
        if _FOREIGN.match(data):
            raise Malformed(FOREIGN) from None
        raise
    header, *records = layout.spans(data, end)
    large = [start for start, end in (header, *records) if end - start > limits.MAX_RECORD_BYTES]
    if large:
        problem = f"a record is larger than the limit of {limits.MAX_RECORD_BYTES} bytes"
        raise Malformed(problem, data.count(b"\n", 0, large[0]))
    return header, records
