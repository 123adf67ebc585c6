"""The end of a command that a test ran."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """How a command ended.

    Args:
        code: Its exit code.
        out: The text on the standard output.
        err: The text on the standard error.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as data."""
        return json.loads(self.out)
