"""Many texts at once: the ones without a secret are told apart quickly, and never one that has one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction import Redactor

KEY = "k"
PLACES = {"project_root": "/srv/shop/app", "home": "/home/ann"}
PIECES = st.sampled_from([
    "password", "passes", "the", "token", "key", "pin", "pw", "api", "Authorization", "value", "curl", "Basic",
    "Bearer", "identified by", "DB_PASSWORD", "\u5bc6\u7801", "sid", ":", "=", ">", "'", '"', ",", "|", "\t", "\n",
    "\r\n", " ",
    "--", "-p", "is", "was", "hunter2", "s3cr3tS3cr3t", "4711", "https://u:pw123@host", "ann@nordwind.eu", "+49",
    "\u00e9",
    "\u2014", "\u200b", "\\n", "ann%40nordwind.eu", "415-777-2671", "DE89370400440532013000", "dXNlcjpodW50ZXIy",
    "whsec_" + "A1b2C3d4E5f6G7h8I9j0K1l2", "/srv/shop/app",
    "openssl", " -k", "net use", "\\\\", "echo", "-stdin", "WIFI:",
])  # fmt: skip


def _same(texts: list[str], places: dict[str, str]) -> None:
    foreseeing = Redactor(KEY, places=places)
    foreseeing.foresee(texts)
    alone = Redactor(KEY, places=places)
    assert [foreseeing.text(text) for text in texts] == [alone.text(text) for text in texts]


def test_corpus(positives: dict[str, list[Any]], negatives: dict[str, list[Any]], lines: dict[str, list[Any]]) -> None:
    """Each text of the corpus is redacted as if it were alone, whatever it is foreseen with."""

    def _texts(plain: Any) -> list[str]:
        if isinstance(plain, dict):
            return [text for item in plain.values() for text in _texts(item)]
        if isinstance(plain, list):
            return [text for item in plain for text in _texts(item)]
        return [plain] if isinstance(plain, str) else []

    texts = [
        text
        for half in (positives, negatives, lines)
        for cases in half.values()
        for case in cases
        for text in _texts(case.plain)
    ]
    random.Random(7).shuffle(texts)
    for at in range(0, len(texts), 11):
        _same(texts[at : at + 11], {})


@given(st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=3, max_size=8), st.sampled_from([{}, PLACES]))
def test_edges(texts: list[str], places: dict[str, str]) -> None:
    """A name at the end of one text and a value at the start of the next are no pair, and hide none."""
    _same(texts, places)


WORDS = st.sampled_from([
    "password", "PASSWORD", "KEY", "the", "is", "ENV", "set", "login", "hunter", "hunt?er", "user,password",
    "bob,hunter", "DBPASS", "JSON", ",", "?", "(", ")", ".", "secret", "phrase", "abandon", "AKIA",
    "abcdefghijklmnopqrstuvwx", "\n", "\n\n",
])  # fmt: skip


@given(st.lists(st.lists(WORDS, max_size=6).map(" ".join), min_size=3, max_size=8))
def test_texts_of_words(texts: list[str]) -> None:
    """Among words alone nothing is missed that a text has by itself: after a command, in a table, in a long word."""
    _same(texts, {})


def test_nothing_is_looked_at_again(redactor: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text without anything to look at is not searched when its turn comes; one with is."""
    texts = [f"Of the {number} flights to Rome the first one leaves at nine." for number in range(9)]
    redactor.foresee([{"content": text} for text in [*texts, "password: hunter2"]])
    searched: list[str] = []
    spans = redactor.spans
    monkeypatch.setattr(redactor, "spans", lambda text, **options: searched.append(text) or spans(text, **options))
    assert redactor.value([{"content": text} for text in texts]) == [{"content": text} for text in texts]
    assert "hunter2" not in redactor.text("password: hunter2")
    assert [text for text in searched if text != "content"] == ["password: hunter2"]  # the key may be known already


def test_a_state_is_searched_at_once(redactor: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of data with many texts, those without anything to look at are not searched one by one."""
    texts = [f"Of the {number} flights to Rome the first one leaves at nine." for number in range(20)]
    state = {"input": {"messages": [{"content": text} for text in [*texts, "password: hunter2"]]}}
    searched: list[str] = []
    spans = redactor.spans
    monkeypatch.setattr(redactor, "spans", lambda text, **options: searched.append(text) or spans(text, **options))
    assert "hunter2" not in str(redactor.value(state))
    assert not set(texts) & set(searched)


def test_values_that_hold_themselves(redactor: Redactor) -> None:
    """Foreseeing comes before encoding, so it must end for what has no end."""
    looped: list[Any] = ["one", {"two": "three"}]
    looped[1]["self"] = looped
    looped.append(looped)
    redactor.foresee([looped, looped[1]])
    assert redactor.text("three") == "three"
