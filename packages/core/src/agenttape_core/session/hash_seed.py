"""The hash seed of a process, which decides the order of its sets of texts.

Python draws it when it starts, and does not tell which one it drew: only one given in `PYTHONHASHSEED` is known.
https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED
"""

from __future__ import annotations

import os
import sys

from agenttape_core.schema import HASH_SEED

_LARGEST = 4_294_967_295


def hash_seed() -> int | None:
    """Return the hash seed of this process; `None` if it is not known."""
    text = os.environ.get(HASH_SEED, "")
    if sys.flags.ignore_environment or not (text.isascii() and text.isdigit()) or int(text) > _LARGEST:
        return None
    seed = int(text)
    return seed if bool(seed) == bool(sys.flags.hash_randomization) else None  # else it was set later


def advice(recorded: int | None) -> list[str]:
    """Return lines on what to do about a request that differs from its recording in the order of a set."""
    lines = ["sort it before you iterate:  sorted(the_set)"]
    command = "pytest" if "PYTEST_CURRENT_TEST" in os.environ else "<your command>"
    if recorded is None:
        return [*lines, f"record and replay with one hash seed:  {HASH_SEED}=0 {command}"]
    if recorded == hash_seed():  # sets of objects go by addresses, which no seed decides
        return lines
    return [*lines, f"replay with the recording's hash seed:  {HASH_SEED}={recorded} {command}"]
