"""A process that collects tests and runs none: `python -m agenttape_core.pytest_plugin.collecting FILE [TEST]...`.

It writes the cassettes that belong to no test to FILE, as a JSON list, and no file if a test can't be collected.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agenttape_core.pytest_plugin import orphans

_KNOWN = "ignore::pytest.PytestAssertRewriteWarning"
"""The warning that this package is imported before pytest, which many projects turn into an error."""


class _Collected:
    """The collected tests, and the cassettes that belong to none."""

    def __init__(self) -> None:
        self.orphans: list[str] = []
        self._deselected: list[pytest.Item] = []

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected += items

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        found = orphans.find([*session.items, *self._deselected], session.config)
        self.orphans = [str(session.config.rootpath / path) for path in found]


def main(target: str, *tests: str) -> int:
    """Collect tests."""
    collected = _Collected()
    options = ["--collect-only", "--quiet", "-p", "no:cacheprovider", "-W", _KNOWN]
    code = pytest.main([*options, *tests], plugins=[collected])
    if code == pytest.ExitCode.OK:
        Path(target).write_text(json.dumps(collected.orphans), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
