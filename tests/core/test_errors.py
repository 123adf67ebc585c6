"""Exceptions: what they do besides carrying a message."""

from __future__ import annotations

import pytest

from agenttape_core.errors import CassetteMissError
from agenttape_core.integration import register_result_attribute


def test_halt_among_results_raises_itself() -> None:
    """A framework that reads a registered attribute of a gathered halt gets the halt raised, and no other error."""
    halt = CassetteMissError("no recording")
    assert getattr(halt, "verdicts", None) is None
    register_result_attribute("verdicts")
    with pytest.raises(CassetteMissError) as raised:
        halt.verdicts  # noqa: B018 - which raises
    assert raised.value is halt
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        halt.other  # noqa: B018
