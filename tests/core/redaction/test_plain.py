"""What is known to be harmless is not redacted again, and nothing else is taken for it."""

from __future__ import annotations

from typing import Any

import pytest

from agenttape_core.redaction import Redactor, Rule
from agenttape_core.redaction.detection.runs import may_be_key
from agenttape_core.redaction.detection.views import Normal, View

MESSAGE = {"role": "user", "content": "When does the first flight to Rome leave?"}


def _seen(*values: Any, **options: Any) -> Redactor:
    redactor = Redactor("k", **options)
    for value in values:
        redactor.value(value)
    return redactor


def test_a_message_that_was_harmless_is_plain() -> None:
    """It's known after it was redacted once, to all redactors without something of their own to look for."""
    message = {"role": "user", "content": "When does the last flight to Oslo leave?"}
    assert not Redactor("k").is_plain(message)
    assert _seen(message).is_plain(dict(message))
    assert Redactor("another").is_plain(message)
    assert not Redactor("k", rules=[Rule("flight", pattern="flight")]).is_plain(message)
    assert not Redactor("k", forms=False).is_plain(message)
    assert not Redactor("k", enabled=False).is_plain(message)


def test_a_place_is_found_in_what_others_know_as_harmless() -> None:
    """A text with a folder is harmless where that's none of the run, and is replaced where it is."""
    message = {"role": "user", "content": "The maps are in /srv/maps/rome."}
    assert _seen(message).text(message["content"]) == message["content"]
    here = Redactor("k", places={"cwd": "/srv/maps"})
    assert not here.is_plain(message)
    assert "/srv/maps" not in here.text(message["content"])


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "password: hunter2"},
        {"role": "user", "password": MESSAGE["content"]},
        {"name": "X-Api-Key", "value": MESSAGE["content"]},
        {"role": "user", "content": "caf\u00e9"},
        {"role": "user", "content": None},
        {"content": MESSAGE["content"]},
        {"$str": MESSAGE["content"]},
        MESSAGE["content"],
        [MESSAGE],
    ],
)
def test_what_may_change_is_not_plain(value: Any) -> None:
    """A secret, a name that makes one of a known text, other types and what may be a tag are redacted as ever."""
    assert not _seen(MESSAGE, value).is_plain(value)


@pytest.mark.parametrize("text", ["ConversationSummaryHandler", "z" * 30, "test_a_message_of_words_is_plain"])
def test_words_of_code_are_no_keys(text: str) -> None:
    """A long run without the literal of a key needs no search."""
    assert not may_be_key(View(Normal(text)), 0)


@pytest.mark.parametrize("text", ["ghp_" + "a1" * 18, "AKIA" + "B2" * 8, "cGFzc3dvcmQ6IGh1bnRlcjI"])
def test_runs_of_keys_are_searched(text: str) -> None:
    """Keys, and base64 of text, are looked at."""
    assert may_be_key(View(Normal(text)), 0)
