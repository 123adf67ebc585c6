"""A folder for temporary files that other users can reach: root runs some programs as another user."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path


def shared_folder() -> Path:
    """Return the folder of temporary files, or `/tmp` if only its owner can enter it."""
    folder = Path(tempfile.gettempdir()).resolve()
    can_be_entered = all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))
    return folder if can_be_entered else Path("/tmp")
