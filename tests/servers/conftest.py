"""What servers and clients of other makers leave behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Collect what was left open while warnings of it are ignored: it would fail whatever test comes later."""
    yield
    gc.collect()
