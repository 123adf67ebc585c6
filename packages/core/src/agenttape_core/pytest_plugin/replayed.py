"""Marks of tests that are run as programs, with their cassettes or their code changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # imported by those who change something
    from agenttape_core.lifecycle.variation import Variation

REPLAYED: pytest.StashKey[Variation] = pytest.StashKey()
"""Of a test that is run as a program: the replay of this run."""

LOOKED_AT: pytest.StashKey[Mapping[str, Mapping[str, Any]]] = pytest.StashKey()
"""Of a test that has ended: the experiments that look at it by their functions, with their options."""

KEEPS_SESSIONS: pytest.StashKey[bool] = pytest.StashKey()
"""Of the configuration of a run: whether the sessions of each test are kept until it has been reported."""
