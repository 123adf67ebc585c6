"""Literals and long runs are found where a plain search from the left finds them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction.detection.views import LONG, Normal, View, holds, places, places_among

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
    for literal in (b"password", b"net use ", b"zip "):
        assert [*places_among(view.low, literal, view.windows)] == [*places(view.low, literal)]
