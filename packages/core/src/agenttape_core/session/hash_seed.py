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
    """Return lines on what to do about a request that differs from its recording in the order of its parts."""
    lines = ["if the order is that of a set, sort it before you iterate:  sorted(the_set)"]
    if recorded is None:
        return [*lines, f"or record and replay with one hash seed, such as {HASH_SEED}=0; this recording names none"]
    if recorded == hash_seed():
        return [
            *lines,
            "the hash seed is that of the recording: sets of objects go by addresses, which no seed decides",
        ]
    command = "pytest" if "PYTEST_CURRENT_TEST" in os.environ else "<your command>"
    return [*lines, f"or start the process with the hash seed of the recording:  {HASH_SEED}={recorded} {command}"]
