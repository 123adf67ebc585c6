"""What is known to be harmless is not redacted again, and nothing else is taken for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttape_core.redaction import Redactor, Rule

MESSAGE = {"role": "user", "content": "When does the first flight to Rome leave?"}


def _seen(*values: Any, **options: Any) -> Redactor:
    redactor = Redactor("k", **options)
    for value in values:
        redactor.value(value)
    return redactor


def test_a_message_that_was_harmless_is_plain() -> None:
    """It needs no redaction once its names are known, for all redactors without something of their own to look for."""
    message = {"role": "user", "content": "When does the last flight to Oslo leave?"}
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


WORDS = st.sampled_from([
    "password", "PASSWORD", "KEY", "the", "is", "ENV", "set", "login", "hunter", "hunt?er", "user,password",
    "bob,hunter", "DBPASS", "JSON", ",", "?", "(", ")", ".", "secret", "phrase", "abandon", "AKIA",
    "abcdefghijklmnopqrstuvwx", "\n", "\n\n",
])  # fmt: skip


@given(st.lists(WORDS, max_size=6).map(" ".join))
@example("ConversationSummaryHandlers are words of code")
@example("AKIAABCDEFGHIJKLMNOP")
def test_a_quick_look_at_words_finds_what_a_search_finds(text: str) -> None:
    """Among words alone nothing is missed: after a command, in a table, in a long word."""
    assert Redactor("k").text(text) == Redactor("k", off=("nothing",)).text(text)


def test_words_alone_are_not_searched(redactor: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of words is recognized by a quick look; one with anything else is searched."""
    texts = ["The first of the flights to Rome leaves at nine.", "password: hunter2"]
    searched: list[str] = []
    spans = redactor.spans
    monkeypatch.setattr(redactor, "spans", lambda text, **options: searched.append(text) or spans(text, **options))
    assert "hunter2" not in str(redactor.value([{"content": text} for text in texts]))
    assert [text for text in searched if text != "content"] == ["password: hunter2"]  # the key may be known already
