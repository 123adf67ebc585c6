"""What holds for every test: nothing is timed, and no setting of the machine gets in."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("agenttape", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agenttape")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests that draw at random draw more."""
    group = parser.getgroup("agenttape's own tests")
    group.addoption("--fuzz-files", type=int, default=10_000, metavar="N", help="damage so many cassettes")
    group.addoption("--kills", type=int, default=200, metavar="N", help="kill so many recording processes")


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove `AGENTTAPE_*` from the environment."""
    for variable in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        monkeypatch.delenv(variable)
