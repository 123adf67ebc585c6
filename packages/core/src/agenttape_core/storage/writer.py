"""Writing a whole cassette at once, atomically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_core.errors import CassetteWriteError
from agenttape_core.storage import limits
from agenttape_core.storage.atomic import real_path, replace_file
from agenttape_core.storage.cassette import LAYOUTS
from agenttape_core.storage.continuation import Compactor
from agenttape_core.storage.files import file_kind, pack
from agenttape_core.storage.plain import check_plain
from agenttape_core.storage.records import header_to_dict, interaction_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agenttape_core.schema import Header, Interaction


def write_cassette(
    path: Path, header: Header, interactions: Sequence[Interaction], *, kept_in: Path | None = None
) -> None:
    """Write a cassette so that a crash leaves the old file or the new one, whole.

    The same header and interactions give the same bytes.

    Args:
        path: The file; its suffix says how it is written. Missing folders are created.
        header: The header, with the timings of the interactions by number.
        interactions: The interactions, their numbers growing.
        kept_in: A journal that holds the same recording, named when the file cannot be written.

    Raises:
        CassetteWriteError: It could not be written; the old file is untouched and the error says where the
            recording is kept.
        UnrecordableValueError: Something in it is not plain data.
        ConfigurationError: The suffix is not known.
    """
    layout = LAYOUTS[file_kind(path).layout]
    pieces: list[bytes] = []
    size = 0
    stored_header = header_to_dict(header)
    check_plain(stored_header)
    for piece in layout.dump(stored_header, stored_records(path, interactions)):
        size += len(piece)
        if len(piece) > limits.MAX_RECORD_BYTES or size > limits.MAX_FILE_BYTES:
            raise _too_large(path, len(pieces), kept_in)
        pieces.append(piece)
    replace_file(real_path(path), pack(path, b"".join(pieces)), kept_in=kept_in)


def stored_records(path: Path, interactions: Sequence[Interaction]) -> Iterator[dict[str, Any]]:
    """The interactions as they are stored, checked."""
    compactor = Compactor()
    last = 0
    for interaction in interactions:
        if interaction.number <= last:
            problem = f"interaction {interaction.number} comes after {last}: numbers must grow from 1"
            raise CassetteWriteError(path, problem, remedy="number the interactions in the order of the file")
        last = interaction.number
        yield stored_record(compactor, interaction, last)
        compactor.confirm()


def stored_record(compactor: Compactor, interaction: Interaction, number: int) -> dict[str, Any]:
    """One interaction as it is stored, checked; `number` is what later records call it once it is confirmed."""
    record = interaction_to_dict(interaction, compactor.add(number, interaction.request))
    for key, value in record.items():
        if key != "request":  # the compactor has checked what is new in it
            check_plain(value, key, depth=2)
    return record


def _too_large(path: Path, number: int, kept_in: Path | None) -> CassetteWriteError:
    what = f"record {number} or the whole" if number else "the header"
    kept = f"; what was recorded is kept in {kept_in}" if kept_in else ""
    return CassetteWriteError(
        path,
        f"{what} is larger than the limit ({limits.MAX_RECORD_BYTES} bytes a record, "
        f"{limits.MAX_FILE_BYTES} a cassette){kept}",
        remedy="record less in one session, or return a reference instead of large data",
    )
