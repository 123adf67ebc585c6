"""What holds for every test: nothing is timed, and no setting of the machine gets in."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("agenttape", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agenttape")


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove `AGENTTAPE_*` from the environment."""
    for variable in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        monkeypatch.delenv(variable)
