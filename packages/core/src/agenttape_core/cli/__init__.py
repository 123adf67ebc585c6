"""The `agenttape` command, which needs the extra `cli`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

EXTRA = "the command agenttape needs click and rich\n  pip install 'agenttape-core[cli]'"
_SELDOM = (50_000, 20, 100)
"""The thresholds of collections: a command keeps its data until it ends, and most of it isn't garbage."""


def broken_by(error: ImportError) -> str:
    """Return the message for a command that can't be imported."""
    reason = f"{type(error).__name__}: {error}"
    return f"AgentTape's installation is broken: {reason}\n  pip install --force-reinstall 'agenttape-core[cli]'"


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process."""
    try:
        from agenttape_core.cli.app import run
        from agenttape_core.cli.hash_seed import AnotherSeedError, begin_anew, is_of_the_command
    except ImportError as missing:
        is_extra = (missing.name or "").partition(".")[0] in {"click", "rich"}
        sys.stderr.write(f"{EXTRA if is_extra else f'agenttape: {broken_by(missing)}'}\n")
        sys.exit(2)
    if args is None:
        is_of_the_command()
    usual = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        sys.exit(run(args))
    except AnotherSeedError as another:
        begin_anew(another.seed, sys.argv[1:])
    finally:
        gc.set_threshold(*usual)
