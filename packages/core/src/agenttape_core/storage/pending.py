"""The files of a recording that waits for review: itself, its assets and its snapshots."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from agenttape_core.storage.asset_files import assets_of
from agenttape_core.storage.names import SNAPSHOT, pending_path, stem_of


def snapshots_of(cassette: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the snapshots that wait for review with a recording, each with the file whose place it would take.

    `cassette` is the one whose place the recording would take.
    """
    stem = stem_of(cassette)
    start = f"{stem}.pending."
    for path in sorted(cassette.parent.iterdir()) if cassette.parent.is_dir() else ():
        if path.name.startswith(start) and path.name.endswith(SNAPSHOT):
            yield path, path.with_name(f"{stem}.{path.name.removeprefix(start)}")


def remove_pending(cassette: Path) -> None:
    """Remove the recording that waits for review beside a cassette, with all that belongs to it, if there is one."""
    pending = pending_path(cassette)
    if not pending.exists():
        return
    for snapshot, _ in list(snapshots_of(cassette)):
        snapshot.unlink(missing_ok=True)
    pending.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(assets_of(pending))
