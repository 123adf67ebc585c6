"""The `agenttape` command, which needs the extra `cli`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

EXTRA = "the command agenttape needs click and rich\n  pip install 'agenttape-core[cli]'"

_SELDOM = (50_000, 20, 100)
"""The thresholds of collections: a verb keeps what it has read until it ends, and most of it is no garbage."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process.

    Args:
        args: The words of the command line; by default those of the process.
    """
    try:
        from agenttape_core.cli.app import run
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in {"click", "rich"}:
            raise
        sys.stderr.write(f"{EXTRA}\n")
        sys.exit(2)
    usual = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        sys.exit(run(args))
    finally:
        gc.set_threshold(*usual)
