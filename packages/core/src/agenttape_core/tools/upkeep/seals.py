"""Seals: what the stable part of a cassette was, record by record, when somebody vouched for it.

A seal is of the text without the volatile block, so to record an unchanged run anew does not break it, and no cassette
changes by being sealed.
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

FILE = "agenttape-seals.json"
"""The file of seals; it belongs into git, beside `pyproject.toml`."""
HEADER = "header"
_LABEL = re.compile(r'(?:\{")?(interaction|step|keep)(?:": ?|: )(\d+)')
_DIGITS = 32

Seal = Mapping[str, str]
"""The hash of each part of a cassette by its name: `header`, `interaction 3`, `step 4`."""


class _Seals(BaseModel):
    version: Literal[1]
    seals: dict[str, Seal]


def seal_of(path: Path) -> Seal:
    """Return the seal of a cassette.

    Args:
        path: A local file.

    Raises:
        CassetteError: If there is none, or it cannot be unpacked.
    """
    return {name: sha256(text.encode()).hexdigest()[:_DIGITS] for name, text in _parts(path)}


def _parts(path: Path) -> Iterator[tuple[str, str]]:
    header, *records = stable_text(path).split("\n" if file_kind(path).layout == "jsonl" else "\n---\n")
    yield HEADER, header.strip()
    for number, text in enumerate(filter(str.strip, records), 1):
        label = _LABEL.match(text)
        yield " ".join(label.groups()) if label is not None else f"record {number}", text.removesuffix("...\n").strip()


def broken(sealed: Seal, found: Seal) -> list[str]:
    """Return what is no longer as it was sealed, in words.

    Args:
        sealed: The seal.
        found: That of the cassette as it is.
    """
    changed = [f"{name} was changed" for name in found if name in sealed and sealed[name] != found[name]]
    added = [f"{name} was added" for name in found if name not in sealed]
    return [*changed, *added, *(f"{name} is gone" for name in sealed if name not in found)]


def read_seals(file: Path) -> dict[str, Seal]:
    """Return the seals of a file by the paths of their cassettes, from its folder; none if there is no file.

    Args:
        file: The file.

    Raises:
        ConfigurationError: If it isn't a file of seals.
    """
    if not file.is_file():
        return {}
    try:
        return dict(_Seals.model_validate_json(file.read_bytes()).seals)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(
            f"{file} isn't a file of seals: {where and f'{where}: '}{first['msg']}\n"
            "  restore it from version control, or delete it and seal the cassettes anew"
        ) from None


def write_seals(file: Path, seals: Mapping[str, Seal]) -> None:
    """Write a file of seals, sorted by path, so that its changes can be reviewed.

    Args:
        file: The file.
        seals: The seals by path.
    """
    text = _Seals(version=1, seals=dict(sorted(seals.items()))).model_dump_json(indent=1)
    file.write_text(f"{text}\n", encoding="utf-8", newline="\n")
