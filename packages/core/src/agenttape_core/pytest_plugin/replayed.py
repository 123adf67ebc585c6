"""Marks of tests that are run as programs, with their cassettes or their code changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # imported by those who change something
    from agenttape_core.lifecycle.variation import Variation

REPLAYED: pytest.StashKey[Variation] = pytest.StashKey()  # the replay of this run, for a test that runs as a program

LOOKED_AT: pytest.StashKey[Mapping[str, Mapping[str, Any]]] = pytest.StashKey()
"""The experiments on a test that has ended, by their functions, with their options."""

HAS_FAILED: pytest.StashKey[bool] = pytest.StashKey()  # true if a test has failed before experiments look at it

KEEPS_SESSIONS: pytest.StashKey[bool] = pytest.StashKey()
"""True if the sessions of each test are kept until it has been reported."""

AGAIN: pytest.StashKey[bool] = pytest.StashKey()
"""True if a test is run again. Other sessions that it opens only replay then."""
