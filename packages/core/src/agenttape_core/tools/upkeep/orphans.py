"""Cassettes that belong to no test, as the tests themselves show."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agenttape_core.errors import ConfigurationError

_COLLECTING = "agenttape_core.pytest_plugin.collecting"
_TOLD = 2_000
"""Characters of what pytest said that are handed on."""


def cassettes_of_no_test(tests: Sequence[str]) -> list[Path]:
    """Collect tests with pytest, in a process of their own, and return the cassettes that belong to none of them.

    Only cassettes that are named after a test are looked at: the users of any other name are not known.

    Args:
        tests: What pytest is given: files and folders.

    Raises:
        ConfigurationError: If the tests cannot be collected, so that nobody knows which there are.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        command = [sys.executable, "-m", _COLLECTING, str(found), *tests]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
        if not found.exists():
            said = f"{done.stdout}{done.stderr}".strip()[-_TOLD:]
            raise ConfigurationError(f"the tests could not be collected, so none of their cassettes is judged\n{said}")
        return [Path(path) for path in json.loads(found.read_text(encoding="utf-8"))]
