"""Literals and long runs are found where a plain search from the left finds them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction.detection.names import FIRST_WORDS, LAST_WORDS
from agenttape_core.redaction.detection.views import LONG, VOCABULARY, Normal, View, holds, places
from agenttape_core.redaction.scanner import TABLES

FEW = st.text("ab", max_size=30).map(str.encode)


@given(FEW, st.text("ab", min_size=1, max_size=4).map(str.encode))
def test_places(text: bytes, literal: bytes) -> None:
    """Each place is there, in order, overlapping ones included."""
    found = [at for at in range(len(text)) if text.startswith(literal, at)]
    assert list(places(text, literal)) == found
    assert holds(text, literal) == bool(found)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "B7", "_-"]), st.integers(0, 2 * LONG), st.sampled_from(["", " ", "."])))
)
def test_long_runs(parts: list[tuple[str, int, str]]) -> None:
    """The start of each run of token characters that is long enough is there, in order."""
    text = "".join(letter * count + end for letter, count, end in parts)
    found = [run.start() for run in re.finditer(rf"[\w-]{{{LONG},}}", text, re.ASCII)]
    assert View(Normal(text)).long_runs == found


@given(
    st.lists(st.sampled_from(["password:", "x", "y" * 900, "net use", "\\n", "(", "zip -P"]), max_size=60),
    st.booleans(),
)
def test_windows(parts: list[str], has_blanks: bool) -> None:
    """A literal is found in a long text wherever it is, also across the border of two windows."""
    text = (" " if has_blanks else ".").join(parts * 3)
    view = View(Normal(text))
    for literal, word in ((b"password", b"password"), (b"net use ", b"net"), (b"zip ", b"zip")):
        met = [each for meant in view.met for each in meant if each.word == word]
        assert sorted({at for each in met for at in each.places(view.low, literal)}) == [*places(view.low, literal)]


@pytest.mark.parametrize("form", ["{}", "db{}", "x_{}", "-{}", "{}2", "{}_", "x{}s", "{}s", "OLD{}"])
def test_quick_look_at_a_word(form: str) -> None:
    """The quick look at a new word loses no meaning that a reader has for it, in any case and compound."""
    words = {word.encode() for word in LAST_WORDS | FIRST_WORDS if word.isascii()}
    words |= {word for row in TABLES.rows for word, _ in row.words if not word.isdigit()}
    for cased in {cased for word in words for cased in (word, word.upper(), word.title(), word.swapcase())}:
        written = form.encode().replace(b"{}", cased)
        meant = [(written, at, meaning) for at, read in enumerate(VOCABULARY.readers) if (meaning := read(written))]
        assert VOCABULARY.among([written]) == meant
