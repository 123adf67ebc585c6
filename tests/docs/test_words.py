"""The English of pages and docstrings: patterns of a translation only become fewer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def words() -> Iterator[Any]:
    """The script of `make words`, which reads all pages and docstrings once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        for name in ("english", "words"):
            patch.delitem(sys.modules, name, raising=False)
        yield import_module("words")


def test_no_budget_is_exceeded(words: Any) -> None:
    """Each pattern is found at most as often as its budget in `docs/words.toml` allows."""
    assert words.exceeded() == []


def test_every_goal_is_reached(words: Any) -> None:
    """Pages, docstrings, the command, pytest's options, `use_cassette` and messages are as `make words` wants them."""
    assert words.missed() == []
