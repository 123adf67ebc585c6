"""The `agenttape` command, which needs the extra `cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

EXTRA = "the command agenttape needs click and rich\n  pip install 'agenttape-core[cli]'"


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
    sys.exit(run(args))
