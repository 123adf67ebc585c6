"""Write a whole cassette atomically, also to convert another one."""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Collection, Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, overload

from agenttape_core.errors import CassetteWriteError
from agenttape_core.format import limits
from agenttape_core.format.assets import detach, names_assets
from agenttape_core.format.continuation import Compactor
from agenttape_core.format.json_text import has_too_many_values
from agenttape_core.format.plain import check_plain, is_plain
from agenttape_core.format.records import AnyRecord, header_to_dict, interaction_to_dict, step_to_dict, version_of
from agenttape_core.format.volatile_values import Stamped, stamped
from agenttape_core.format.written_steps import Stored, WrittenStep
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FORMAT_VERSION, Interaction, Step
from agenttape_core.storage.asset_files import AssetFolder
from agenttape_core.storage.cassette import Cassette, layout_of, open_cassette
from agenttape_core.storage.files import file_kind, pack
from agenttape_core.storage.location import Location, location_of
from agenttape_core.storage.lock import locked, real_location
from agenttape_core.storage.stores import exists, store_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenttape_core.schema import Header


class Composed(NamedTuple):
    """A cassette in written form."""

    version: int  # the version of the format
    text: bytes  # the file, not yet packed
    assets: dict[str, bytes]  # the files beside it, by their names
    has_stamps: bool  # whether stamps were taken out of its records


def write_cassette(
    path: Location,
    header: Header,
    records: Iterable[AnyRecord],
    *,
    kept_in: Path | None = None,
    are_plain: bool = False,
) -> None:
    """Write a cassette so that a crash leaves the old file or the new one, whole.

    The same header and records give the same bytes. Large binary parts go to separate files before, and
    those that only the old cassette had are removed afterwards.

    Args:
        path: The file, or its URL; its suffix shows how it is written. Missing folders are created.
        header: The header, with the timings of the records by number.
        records: The interactions and steps in the order of the file, the numbers of either sort growing.
        kept_in: A journal that holds the same recording, named when the file cannot be written.
        are_plain: Whether all records were read from files, and are plain data for certain.

    Raises:
        CassetteWriteError: It could not be written; the old file is untouched and the error shows where the
            recording is kept.
        UnrecordableValueError: Something in it is not plain data.
        ConfigurationError: The suffix is not known.
    """
    composed = compose(path, header, records, kept_in=kept_in, are_plain=are_plain)
    store, key = store_of(path)
    kind = file_kind(path)
    folder = AssetFolder(path)
    folder.save(composed.assets, kept_in=kept_in)
    packed = pack(path, composed.text)
    if kind.packing and len(composed.text) > limits.unpacked_limit(len(packed)):
        raise _packed_too_small(path, kept_in)
    store.save(key, packed, kept_in=kept_in)
    folder.sweep(composed.assets)


def compose(
    path: Location,
    header: Header,
    records: Iterable[AnyRecord],
    *,
    kept_in: Path | None = None,
    are_plain: bool = False,
) -> Composed:
    """Return what `write_cassette` would write. Takes and raises the same, and touches no file."""
    stored, stamps = stamped(Shelf(stored_records(path, records, are_plain=are_plain)), Shelf)
    version = FORMAT_VERSION if stamps else version_of(header, stored)
    stored, assets = _detached(stored, always=version >= FORMAT_VERSION)
    version = FORMAT_VERSION if assets else version
    head = header_to_dict(header, version=version, stamps=stamps)
    return Composed(version, _text(path, head, stored, kept_in), assets, has_stamps=bool(stamps))


def pieces_of(
    path: Location, header: Header, records: Sequence[Interaction | Step], *, whole: bool = False
) -> list[bytes]:
    """Return the parts of a cassette, uncompressed, with detached assets: see `Cassette(attached=False)`.

    Args:
        path: The file, whose suffix shows how it is written.
        header: The header, with the timings of the records by number.
        records: As for `write_cassette`.
        whole: Whether each record is to be self-contained, with its stamps in it.

    Returns:
        The bytes of the header, of each record, and of the end mark.

    Raises:
        CassetteWriteError: The numbers of the records do not grow.
        UnrecordableValueError: Something in it is not plain data.
        ConfigurationError: The suffix is not known.
    """
    own = list(stored_records(path, records))
    stored, stamps = Stamped(own, "") if whole else stamped(own)
    is_second = stamps or any(map(names_assets, stored))
    version = FORMAT_VERSION if is_second else version_of(header, stored)
    head = header_to_dict(header, version=version, stamps=stamps)
    return list(layout_of(file_kind(path).layout).dump(head, stored))


def _detached(records: Collection[Stored], *, always: bool) -> tuple[Collection[Stored], dict[str, bytes]]:
    """The records without their assets; others change only if a value that looks like a reference must be escaped."""
    assets: dict[str, bytes] = {}
    changed: list[Stored] = []

    def apart(record: Stored) -> Stored:
        found = detach(record, assets)
        if found is not record:
            changed.append(found)
        return found

    detached = Shelf(map(apart, records))
    if not assets and not always:
        return records, assets
    for record in changed:
        check_plain(record, "record")
    return detached, assets


def _text(path: Location, header: dict[str, Any], records: Collection[Stored], kept_in: Path | None) -> bytes:
    whole = BytesIO()
    check_plain(header)
    kind = file_kind(path)
    is_jsonl = kind.layout == "jsonl"
    for count, piece in enumerate(layout_of(kind.layout).dump(header, records)):
        size = whole.tell() + len(piece)
        too_many = has_too_many_values(piece) if is_jsonl else piece.count(b"\n") > limits.MAX_VALUES
        if too_many or len(piece) > limits.MAX_RECORD_BYTES or size > limits.MAX_FILE_BYTES:
            raise _too_large(path, count, kept_in)
        whole.write(piece)
    return whole.getvalue()


@overload
def stored_records(
    path: Location, records: Iterable[Interaction | Step], *, are_plain: bool = False
) -> Iterator[dict[str, Any]]: ...


@overload
def stored_records(path: Location, records: Iterable[AnyRecord], *, are_plain: bool = False) -> Iterator[Stored]: ...


def stored_records(path: Location, records: Iterable[AnyRecord], *, are_plain: bool = False) -> Iterator[Stored]:
    """The stored form of the records, checked unless they're known to be plain data."""
    compactor = Compactor(checks=not are_plain)
    last = {Interaction: 0, Step: 0}
    for record in records:
        sort = Interaction if isinstance(record, Interaction) else Step
        if record.number <= last[sort]:
            problem = f"{sort.__name__.lower()} {record.number} comes after {last[sort]}: numbers must grow from 1"
            raise CassetteWriteError(path, problem, remedy="number the records in the order of the file")
        last[sort] = record.number
        if isinstance(record, Step):
            yield step_to_dict(record) if are_plain else stored_step(record)
        elif isinstance(record, WrittenStep):
            yield record
        else:
            yield stored_record(compactor, record, record.number)
            compactor.confirm()


def stored_step(step: Step) -> dict[str, Any]:
    """The stored form of one step, checked."""
    record = step_to_dict(step)
    if not is_plain(record):
        for key, value in record.items():
            check_plain(value, key, depth=2)
    return record


def stored_record(compactor: Compactor, interaction: Interaction, number: int) -> dict[str, Any]:
    """The stored form of one interaction, checked if its compactor checks.

    `compactor` finds the earlier request that this one continues; later records call it `number` once it is confirmed.
    """
    record = interaction_to_dict(interaction, compactor.add(number, interaction.request))
    if compactor.checks:
        for key, value in record.items():
            if key != "request":  # the compactor has checked what is new in it
                check_plain(value, key, depth=2)
    return record


def _packed_too_small(path: Location, kept_in: Path | None) -> CassetteWriteError:
    kept = f"; what was recorded is kept in {kept_in}" if kept_in else ""
    problem = f"it packs so well that it could not be told from an attack when it is read{kept}"
    return CassetteWriteError(path, problem, remedy="record it without .gz or .zst")


def _too_large(path: Location, number: int, kept_in: Path | None) -> CassetteWriteError:
    what = f"record {number} or the whole" if number else "the header"
    kept = f"; what was recorded is kept in {kept_in}" if kept_in else ""
    return CassetteWriteError(
        path,
        f"{what} is larger than the limit ({limits.MAX_RECORD_BYTES} bytes a record, "
        f"{limits.MAX_VALUES} values or lines a record, {limits.MAX_FILE_BYTES} bytes a cassette){kept}",
        remedy="record less in one session, or return a reference instead of large data",
    )


def convert(source: Cassette | Path | str, target: Path | str, *, overwrite: bool = False) -> Location:
    """Write the same cassette once more, in the layout and compression of the target's suffix.

    Header, timings, records and assets are the same. A file that AgentTape wrote is byte for byte the same when it is
    converted there and back. The source is unchanged.

    Args:
        source: A cassette, open or as a path or a URL.
        target: The path or the URL to write.
        overwrite: Whether to replace a cassette that is there already.

    Returns:
        The path or URL that was written.

    Raises:
        CassetteError: The source cannot be read, or the target cannot be written, is being recorded, or is there.
        ConfigurationError: A suffix is not known, or needs a module that is not installed.
    """
    written = real_location(location_of(target))
    file_kind(written)
    cassette = source if isinstance(source, Cassette) else open_cassette(source)
    with locked(written, "conversion"):
        if not overwrite and exists(written):
            remedy = "pass overwrite=True to replace it (--overwrite in a shell), or name another target"
            raise CassetteWriteError(written, "there is a cassette already", remedy=remedy)
        write_cassette(written, cassette.header, cassette.records())
    return written


# Records in less memory than their content takes.
#
# To write a cassette, all of its records are read several times, because the header comes first and describes them. As
# dicts, the records of a large cassette take several times the memory of its file. Most of their content repeats: some
# hundred records, packed together, take a tenth of it.

_AS_THEY_ARE = 2_000  # the first records aren't packed: most cassettes have no more, and are written in the least time
_TOGETHER = 200  # the number of records that are packed together, and unpacked together when one of them is read
_FASTEST = 1


class Shelf(Collection[Stored]):
    """Stored records, unpacked again at each reading, perhaps made one by one. They are not to be changed."""

    def __init__(self, records: Iterable[Stored]) -> None:
        coming = iter(records)
        self._first = list(islice(coming, _AS_THEY_ARE))
        self._packed: list[bytes | list[Stored]] = []
        self._count = len(self._first)
        while some := list(islice(coming, _TOGETHER)):
            self._count += len(some)
            self._packed.append(_packed(some))

    def __iter__(self) -> Iterator[Stored]:
        return chain(self._first, chain.from_iterable(map(_unpacked, self._packed)))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)


def _packed(records: list[Stored]) -> bytes | list[Stored]:
    """Return some records packed together, or unpacked if they can't be."""
    plain = [tuple(record) if isinstance(record, WrittenStep) else record for record in records]
    try:
        return zlib.compress(marshal.dumps(plain), _FASTEST)
    except ValueError:  # a subclass of a plain type, or nested deeply
        return records


def _unpacked(packed: bytes | list[Stored]) -> list[Stored]:
    if isinstance(packed, list):
        return packed
    plain = marshal.loads(zlib.decompress(packed))  # noqa: S302 - it was packed here
    return [WrittenStep(*record) if isinstance(record, tuple) else record for record in plain]
