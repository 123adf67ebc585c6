"""Each miss gives only advice that helps for its cause."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError

YES = "yes, record only what changed"
AGAIN = "record everything again"
IGNORE = 'ignore=["arguments.prompt"]'
OUTSIDE = "drawn outside the session"
NEW = "new in every run"
FREEZE = "or freeze it"
INSIDE = "build it inside a function"
SORT = "sorted(the_set)"
SEED = "PYTHONHASHSEED="
ROUND = "round(the_number, 6)"
ALL = (YES, AGAIN, IGNORE, OUTSIDE, NEW, FREEZE, INSIDE, SORT, SEED, ROUND)


def causes() -> dict[str, tuple[Any, Any, set[str]]]:
    """Return what is recorded, what is asked and the advice. In a function: a global's dates would be a module's."""
    return {
        "another word": ("Fly to Paris", "Fly to Rome", {YES, AGAIN}),
        "a token": ("4f1a09c2", "97bb01e4", {IGNORE, NEW, FREEZE}),
        "a random number": (0.4417263, 0.9917263, {IGNORE, NEW, FREEZE}),
        "a reading of a clock": (1700000000.25, 1700000001.5, {IGNORE, NEW, FREEZE}),
        "a number computed elsewhere": (0.12345678901, 0.12345678902, {IGNORE, ROUND}),
        "a setting": (0.5, 0.7, {YES, AGAIN}),
        "a date that you may have edited": ("On 2019-05-01", "On 2019-05-02", {YES, AGAIN, IGNORE, NEW, INSIDE}),
        "a moment": ("2019-05-01T10:00:00.123", "2019-05-02T10:00:00.456", {IGNORE, OUTSIDE, INSIDE}),
        "the order of a set": ("red, blue", "blue, red", {SORT, SEED, YES, AGAIN}),
    }


@boundary("chat")
def ask(prompt: Any) -> str:
    """Answer."""
    return "answer"


def missed(path: Path, recorded: Any, asked: Any) -> str:
    """Return the message of a miss."""
    with use_cassette(path, mode="record"):
        ask(recorded)
    with pytest.raises(CassetteMissError) as caught, use_cassette(path):
        ask(asked)
    return str(caught.value)


@pytest.mark.parametrize("cause", causes())
def test_a_miss_gives_only_advice_that_helps(cause: str, tmp_path: Path) -> None:
    """Each cause has its own advice, and no other cause's."""
    recorded, asked, advice = causes()[cause]
    message = missed(tmp_path / "c.yaml", recorded, asked)
    assert {text for text in ALL if text in message} == advice


def test_todays_date_is_not_taken_for_an_edit(tmp_path: Path) -> None:
    """A replay's clock shows the day of the recording, so today's date comes from outside the session."""
    message = missed(tmp_path / "c.yaml", "On 2019-05-01", f"On {time.strftime('%Y-%m-%d')}")
    assert {text for text in ALL if text in message} == {IGNORE, OUTSIDE, INSIDE}


def test_another_order_may_be_yours(tmp_path: Path) -> None:
    """Recording again helps only if you changed the order yourself, so the miss asks."""
    message = missed(tmp_path / "c.yaml", ["b", "a"], ["a", "b"])
    assert "Did you change the order yourself?" in message
    assert "Did you mean to change this?" not in message
