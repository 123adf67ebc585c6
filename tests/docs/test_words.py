"""The English of pages and docstrings: patterns of a translation only become fewer."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_no_budget_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern is found at most as often as its budget in `docs/words.toml` allows."""
    monkeypatch.syspath_prepend(DOCS)
    for name in ("english", "words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert import_module("words").exceeded() == []
