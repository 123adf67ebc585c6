"""Files: opening, writing and recovering cassettes. The format is docs/design/0001-cassette-format.md.

A module is imported when something of it is: a command that shows a cassette needs few of them.
"""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.format.assembly import Retaken
    from agenttape_core.format.limits import (
        MAX_DEPTH,
        MAX_FILE_BYTES,
        MAX_INT_DIGITS,
        MAX_RECORD_BYTES,
        MAX_VALUES,
        MIN_ASSET_BYTES,
    )
    from agenttape_core.storage.cassette import Cassette, cassette_of, open_cassette
    from agenttape_core.storage.file_kind import is_cassette, read_cassette
    from agenttape_core.storage.journal import Carried, Journal
    from agenttape_core.storage.listing import Stored, create_once, list_files, read_ahead
    from agenttape_core.storage.location import CassetteUrl, Location, below, location_of
    from agenttape_core.storage.lock import real_location, recording_process
    from agenttape_core.storage.names import (
        SNAPSHOT,
        SUFFIXES,
        cassette_path,
        derived_path,
        files_below,
        in_file_name,
        in_its_format,
        is_derived,
        is_pending,
        may_be_cassette,
        pending_path,
        stem_of,
        waits_for,
        with_infix,
    )
    from agenttape_core.storage.recovery import (
        LeftOver,
        is_replaceable,
        left_over,
        leftover_journals,
        put_aside,
        recover,
        target_of,
    )
    from agenttape_core.storage.writer import convert, pieces_of, write_cassette

__all__ = [
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "MAX_INT_DIGITS",
    "MAX_RECORD_BYTES",
    "MAX_VALUES",
    "MIN_ASSET_BYTES",
    "SNAPSHOT",
    "SUFFIXES",
    "Carried",
    "Cassette",
    "CassetteUrl",
    "Journal",
    "LeftOver",
    "Location",
    "Retaken",
    "Stored",
    "below",
    "cassette_of",
    "cassette_path",
    "convert",
    "create_once",
    "derived_path",
    "files_below",
    "in_file_name",
    "in_its_format",
    "is_cassette",
    "is_derived",
    "is_pending",
    "is_replaceable",
    "left_over",
    "leftover_journals",
    "list_files",
    "location_of",
    "may_be_cassette",
    "open_cassette",
    "pending_path",
    "pieces_of",
    "put_aside",
    "read_ahead",
    "read_cassette",
    "real_location",
    "recording_process",
    "recover",
    "stem_of",
    "target_of",
    "waits_for",
    "with_infix",
    "write_cassette",
]

__getattr__ = late_names(
    __name__,
    {
        "agenttape_core.format.assembly": ("Retaken",),
        "agenttape_core.format.limits": (
            "MAX_DEPTH",
            "MAX_FILE_BYTES",
            "MAX_INT_DIGITS",
            "MAX_RECORD_BYTES",
            "MAX_VALUES",
            "MIN_ASSET_BYTES",
        ),
        ".cassette": ("Cassette", "cassette_of", "open_cassette"),
        ".file_kind": ("is_cassette", "read_cassette"),
        ".journal": ("Carried", "Journal"),
        ".listing": ("Stored", "create_once", "list_files", "read_ahead"),
        ".location": ("CassetteUrl", "Location", "below", "location_of"),
        ".lock": ("real_location", "recording_process"),
        ".names": (
            "SNAPSHOT",
            "SUFFIXES",
            "cassette_path",
            "derived_path",
            "in_file_name",
            "is_derived",
            "in_its_format",
            "files_below",
            "is_pending",
            "may_be_cassette",
            "pending_path",
            "stem_of",
            "waits_for",
            "with_infix",
        ),
        ".recovery": (
            "LeftOver",
            "is_replaceable",
            "left_over",
            "leftover_journals",
            "put_aside",
            "recover",
            "target_of",
        ),
        ".writer": ("convert", "pieces_of", "write_cassette"),
    },
)
