"""What holds for every run of a program of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...kit.databases import closed_databases


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close the connections of memories."""
    with closed_databases():
        yield
