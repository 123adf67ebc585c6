"""A plugin of pytest for other people's suites: a cassette around each test, and the outcomes as a file.

`python -m pytest -p taped_suites` with `SUITES_OUTCOMES`, the file, and `SUITES_TAPED=1`, to tape the tests.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

_outcomes: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test. Names keep the cassettes apart from those of pytest-recording."""
    if os.environ.get("SUITES_TAPED"):
        for item in items:
            name = hashlib.sha256(item.nodeid.encode()).hexdigest()[:16]
            # Fixtures of suites count their tests.
            options = {"on_error": "keep", "on_unused": "ignore", "check_replay": False}
            item.add_marker(pytest.mark.cassette(f"taped-{name}", **options))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the outcome of a test; of several phases the worst."""
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome if not hasattr(report, "wasxfail") else "xfailed"
        if _outcomes.get(report.nodeid) != "failed":
            _outcomes[report.nodeid] = outcome


def pytest_sessionfinish() -> None:
    """Write the outcomes down."""
    Path(os.environ["SUITES_OUTCOMES"]).write_text(json.dumps(_outcomes, indent=1), encoding="utf-8")
