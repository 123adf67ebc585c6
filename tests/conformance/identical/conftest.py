"""What holds for every run of a program of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...kit.databases import closed_databases

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close the connections of memories."""
    with closed_databases():
        yield
