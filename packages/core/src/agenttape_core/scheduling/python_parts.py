"""Private parts of Python that a session takes hold of, and what has no order if a version has changed them.

Nothing public is called when the work of a pool begins and ends. If a version of Python does that in a way that isn't
known here, a session warns of it once, does without, and each replay that threads or loops take part in names it.
"""

from __future__ import annotations

import platform
import warnings
from concurrent.futures import thread as pools
from typing import Any

UNKNOWN: dict[str, None] = {}
"""The parts of Python that are unknown in this process, and what has no order because of them, in words."""


def is_unknown(part: str, what: str, *, of: str = f"Python {platform.python_version()}") -> None:
    """Warn once that this Python, or a package, has a part of another shape than those that are known.

    Args:
        part: The part.
        what: What isn't in order without it.
        of: What has the part, with its version.
    """
    line = f"{of} has another {part} than is known: {what}"
    if line not in UNKNOWN:
        UNKNOWN[line] = None
        warnings.warn(f"{line}; a newer AgentTape may know it", RuntimeWarning, stacklevel=2)


def _work_item() -> Any:
    found = getattr(pools, "_WorkItem", None)
    begins: Any = getattr(getattr(found, "__init__", None), "__code__", None)
    runs: Any = getattr(getattr(found, "run", None), "__code__", None)
    if begins is None or runs is None:
        return None
    # `(future, fn, args, kwargs)` and `run()`; since Python 3.14 `(future, task)` and `run(ctx)`.
    is_known = begins.co_varnames[:2] == ("self", "future") and runs.co_varnames[:1] == ("self",)
    return found if is_known else None


WORK_ITEM: Any = _work_item()
"""The class of what a pool's threads run, with its future; `None` if it has an unknown shape."""
