"""The example's model service, running."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.weather_agent.server import OpenAILoopback

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAILoopback]:
    """A running server that speaks Chat Completions and answers differently every time."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with import_module("weather_agent.server").OpenAILoopback() as server:
        yield server
