"""Checksums of the stable parts of a cassette, record by record, in a file for git.

The volatile block is left out, so a new recording of an unchanged run has the same checksums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from agenttape_core.errors import ConfigurationError
from agenttape_core.storage.files import file_kind
from agenttape_core.storage.stable import stable_text

FILE = "agenttape-checksums.json"  # the file of checksums; it belongs into git, next to `pyproject.toml`
HEADER = "header"
_LABEL = re.compile(r'(?:\{")?(interaction|step|keep)(?:": ?|: )(\d+)')
_DIGITS = 32

Checksums = Mapping[str, str]  # the hash of each part of a cassette by its name: `header`, `interaction 3`, `step 4`


class _File(BaseModel):
    version: Literal[1]
    checksums: dict[str, Checksums]


def checksums_of(path: Path) -> Checksums:
    """Return the checksums of a cassette. Raises `CassetteError` if there is none, or it cannot be unpacked."""
    return {name: sha256(text.encode()).hexdigest()[:_DIGITS] for name, text in _parts(path)}


def _parts(path: Path) -> Iterator[tuple[str, str]]:
    header, *records = stable_text(path).split("\n" if file_kind(path).layout == "jsonl" else "\n---\n")
    yield HEADER, header.strip()
    for number, text in enumerate(filter(str.strip, records), 1):
        label = _LABEL.match(text)
        yield " ".join(label.groups()) if label is not None else f"record {number}", text.removesuffix("...\n").strip()


def broken(recorded: Checksums, found: Checksums) -> list[str]:
    """Return the parts of a cassette that changed, in words."""
    changed = [f"{name} was changed" for name in found if name in recorded and recorded[name] != found[name]]
    added = [f"{name} was added" for name in found if name not in recorded]
    return [*changed, *added, *(f"{name} is gone" for name in recorded if name not in found)]


def read_checksums(file: Path) -> dict[str, Checksums]:
    """Return the checksums in a file by the paths of their cassettes, from its folder; none if the file doesn't exist.

    Raises `ConfigurationError` if it isn't a file of checksums.
    """
    if not file.is_file():
        return {}
    try:
        return dict(_File.model_validate_json(file.read_bytes()).checksums)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(
            f"{file} isn't a file of checksums: {where and f'{where}: '}{first['msg']}\n"
            "  restore it from version control, or delete it and run: agenttape cassette checksum"
        ) from None


def write_checksums(file: Path, checksums: Mapping[str, Checksums]) -> None:
    """Write a file of checksums, sorted by path, so that its changes can be reviewed."""
    text = _File(version=1, checksums=dict(sorted(checksums.items()))).model_dump_json(indent=1)
    file.write_text(f"{text}\n", encoding="utf-8", newline="\n")
