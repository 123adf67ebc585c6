"""The stable text of a cassette: without the facts that differ between two recordings of the same run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agenttape_core.errors import CassetteFormatError
from agenttape_core.storage.files import file_kind, read_bytes

_VOLATILE = re.compile(r"^volatile:\n(?:[ \t].*\n|\n)*", re.MULTILINE)


def stable_text(path: Path) -> str:
    """Return the unpacked text of a cassette without the volatile block of its header.

    Two recordings of an unchanged run give the same.

    Args:
        path: A cassette file of either layout, packed or not.

    Raises:
        CassetteError: If there is none, or it cannot be unpacked, or isn't a text of such a layout.
    """
    try:
        text = read_bytes(path).decode()
        if file_kind(path).layout == "jsonl":
            header, _, records = text.partition("\n")
            fields = dict(json.loads(header))
            fields.pop("volatile", None)
            return f"{json.dumps(fields)}\n{records}"
    except (ValueError, TypeError, RecursionError) as error:
        raise CassetteFormatError(path, f"this is not the text of a cassette: {error}") from None
    header, mark, records = text.partition("\n---\n")
    return _VOLATILE.sub("", f"{header}\n", count=1) + mark.lstrip("\n") + records
