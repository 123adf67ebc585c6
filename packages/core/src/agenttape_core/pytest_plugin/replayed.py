"""The mark of a test that is run as a program, with its cassette changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # imported by those who change something
    from agenttape_core.tools.programs import Opening

REPLAYED: pytest.StashKey[Opening] = pytest.StashKey()
"""Of a test that is run as a program: the replay of this run."""
