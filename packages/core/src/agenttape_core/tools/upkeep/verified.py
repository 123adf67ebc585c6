"""The moments at which cassettes were last verified against the real services: `.agenttape/verified.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError

FOLDER = ".agenttape"  # the folder of what can be made again, below the root of a project; git ignores it
_FILE = "verified.json"


def own_folder(root: Path) -> Path:
    """Return the folder of what can be made again, made so that git ignores it."""
    folder = root / FOLDER
    if not (folder / ".gitignore").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def note_verified(root: Path, cassettes: Iterable[str], now: datetime) -> None:
    """Note that cassettes are as a recording made now would be."""
    file = own_folder(root) / _FILE
    moments = {**_read(file), **dict.fromkeys(cassettes, now.isoformat(timespec="seconds"))}
    file.write_text(json.dumps(dict(sorted(moments.items())), indent=2) + "\n", encoding="utf-8")


def verified_in(start: Path) -> Mapping[Path, datetime]:
    """Return when cassettes were last verified, by their full paths.

    The nearest file at or above `start` counts. Raises `ConfigurationError` if the file cannot be read.
    """
    for root in (start, *start.parents):
        file = root / FOLDER / _FILE
        if file.is_file():
            return {root / path: datetime.fromisoformat(moment) for path, moment in _read(file).items()}
    return {}


def _read(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        return {str(path): datetime.fromisoformat(moment).isoformat() for path, moment in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error}\n  delete it: pytest --cassette-lab=live makes it again"
        ) from None
