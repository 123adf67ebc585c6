"""A miss is explained by the nearest recording, and only by what differs from it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.matching import Canonicaliser, CanonicalRequest, Nearest, differences, nearest
from agenttape_core.matching.difference import differing_words, likeness
from agenttape_core.schema import PYTHON_VALUES, IndexRow

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def request(kind: str, name: str, **body: Any) -> CanonicalRequest:
    """Ask something."""
    return Canonicaliser(PYTHON_VALUES.encode).request(kind, name, body)


def explained(asked: CanonicalRequest, address: str, *recorded: tuple[CanonicalRequest, str]) -> Nearest | None:
    """Explain a miss against recordings, numbered from 1."""
    rows = [IndexRow(n, q.kind, q.name, at, q.fingerprint) for n, (q, at) in enumerate(recorded, start=1)]
    return nearest(asked, address, rows, lambda number: recorded[number - 1][0].body)


def lines(near: Nearest | None) -> list[str]:
    """Return the lines that a message shows."""
    assert near is not None
    return near.lines()


def test_by_address_first() -> None:
    """What was recorded at the same place is meant, even if another recording is more alike."""
    near = explained(
        request("chat", "m", prompt="the weather in Paris"),
        "agent/m#2",
        (request("chat", "m", prompt="the weather in Rome"), "agent/m"),
        (request("chat", "m", prompt="something else"), "agent/m#2"),
    )
    assert lines(near)[0] == "closest   call 2, made at the same point; prompt differs:"


def test_by_content() -> None:
    """Without one at the same place the most similar recording is meant, of the same name if there is one."""
    near = explained(
        request("tool", "search", query="cheap flights to Rome", limit=3),
        "nowhere",
        (request("tool", "search", query="weather", limit=3), "a"),
        (request("tool", "search", query="cheap flights to Paris", limit=3), "b"),
        (request("tool", "other", query="cheap flights to Rome", limit=3, more=1), "c"),
        (request("chat", "search", query="cheap flights to Rome", limit=3), "d"),
    )
    assert lines(near) == [
        "closest   call 2, with the most similar request; query differs:",
        "            - cheap flights to Paris",
        "            + cheap flights to Rome",
    ]


def test_used_up() -> None:
    """A request whose recordings are all used says so: nothing differs."""
    asked = request("tool", "t", a=1)
    near = explained(asked, "t#2", (asked, "t"))
    assert lines(near) == ["closest   call 1, with the same request; every recording of it is already used"]


def test_an_edited_request() -> None:
    """A recorded request that reads like the asked one, but has another fingerprint, was edited by hand."""
    recorded, asked = request("tool", "t", a=1), request("tool", "t", a=2)
    near = nearest(asked, "t", [IndexRow(1, "tool", "t", "t", recorded.fingerprint)], lambda _: asked.body)
    edited = "the file was edited by hand, so its fingerprint doesn't match"
    assert lines(near)[0] == f"closest   call 1, made at the same point; {edited}"


def test_nothing_of_the_kind() -> None:
    """Another kind of boundary is never the nearest."""
    assert explained(request("tool", "t"), "t", (request("chat", "t"), "t")) is None


def test_many_places() -> None:
    """Only some of many differing places are shown, and the rest is counted."""
    asked, recorded = ({f"p{n}": sign * (n + 1) for n in range(10)} for sign in (1, -1))
    near = explained(request("chat", "m", **asked), "m", (request("chat", "m", **recorded), "m"))
    assert lines(near)[-1] == "            … and 4 more parts"


def test_only_what_differs() -> None:
    """Equal parts do not appear; what is only on one side is absent on the other; types count."""
    old = {"same": [1, {"x": "y"}], "gone": 1, "items": ["a", "b"], "n": 1, "long": {"deep": ["one two three"]}}
    new = {"same": [1, {"x": "y"}], "more": [], "items": ["a"], "n": 1.0, "long": {"deep": ["one 2 three"]}}
    assert [(d.path, d.recorded, d.asked) for d in differences(old, new)] == [
        ("more", "(absent)", "[]"),
        ("items[1]", "b", "(absent)"),
        ("n", "1", "1.0"),
        ("long.deep[0]", "one [-two-] three", "one {+2+} three"),
        ("gone", "1", "(absent)"),
    ]


@given(plain, plain)
def test_differences_are_complete(one: Any, two: Any) -> None:
    """There is a difference if and only if the canonical data differs, and the likeness is 1 only for equal data."""

    def _typed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: _typed(item) for key, item in value.items()}
        return [_typed(item) for item in value] if isinstance(value, list) else (type(value), value)

    same = _typed(one) == _typed(two)
    assert (not list(differences(one, two))) is same
    assert 0 <= likeness(one, two) <= 1


words = st.lists(st.sampled_from(["a", "b", "c", " ", "\n", "."]), max_size=12).map("".join)


@given(words, words)
def test_marks_are_true(one: str, two: str) -> None:
    """In short texts, what is marked is exactly what must change: without it both sides are the same."""

    def without(text: str, opening: str, closing: str) -> str:
        """Return a text without what is marked."""
        while opening in text:
            before, _, rest = text.partition(opening)
            text = before + rest.partition(closing)[2]
        return text

    def unmarked(text: str, opening: str, closing: str) -> str:
        """Return a text without its marks."""
        return text.replace(opening, "").replace(closing, "")

    left, right = differing_words(one, two)
    assert unmarked(left, "[-", "-]") == one.replace("\n", "⏎")
    assert unmarked(right, "{+", "+}") == two.replace("\n", "⏎")
    assert without(left, "[-", "-]") == without(right, "{+", "+}")


def prose(length: int, seed: int) -> list[str]:
    """Return many words that have little in common with those of another seed."""
    chosen = random.Random(seed)
    return [f"w{chosen.randrange(2000)}" for _ in range(length)]


@pytest.mark.parametrize("at", [0, 5000, 9999])
def test_long_texts_are_cut(at: int) -> None:
    """Of a long text only the differing words and a little around them are shown, wherever they stand."""
    text = prose(10_000, 1)
    old, new = ([*text[:at], word, *text[at + 1 :]] for word in ("Paris", "Oslo"))
    left, right = differing_words(" ".join(old), " ".join(new))
    assert "[-Paris-]" in left
    assert "{+Oslo+}" in right
    assert len(left) < 200


def test_two_edits_in_a_long_text() -> None:
    """Two changes far apart are both shown, without what lies between them."""
    old = prose(10_000, 1)
    new = [*old[:20], "Oslo", *old[21:-20], "Rome", *old[-19:]]
    left, right = differing_words(" ".join(old), " ".join(new))
    assert "Oslo" in right
    assert "Rome" in right
    assert len(left) < 300
    assert " … " in left


def test_giant_words() -> None:
    """A word without end, such as an image in base64, does not push the difference out of sight."""
    giant = "x" * 50_000
    assert "[-Paris-]" in differing_words(f"{giant} Paris {giant}", f"{giant} Oslo {giant}")[0]
    assert len(differing_words(giant + "a", giant + "b")[0]) <= 300


OPEN = {"type": "function", "function": {"name": "open_ticket", "description": "Open a ticket."}}
CLOSE = {"type": "function", "function": {"name": "close_ticket", "description": "Close a ticket."}}


@pytest.mark.parametrize(
    ("recorded", "asked", "paths"),
    [
        ([OPEN, CLOSE], [CLOSE, OPEN], ["tools (their order)"]),
        (
            [OPEN, CLOSE],
            [OPEN, {**CLOSE, "function": {**CLOSE["function"], "description": "Close it."}}],  # type: ignore[dict-item]
            ["tools[close_ticket].function.description"],
        ),
        ([OPEN], [OPEN, CLOSE], ["tools[close_ticket]"]),
        (
            [OPEN],
            [{"name": "open"}],
            ["tools[open_ticket].name", "tools[open_ticket].type", "tools[open_ticket].function"],
        ),
        ([{"name": "a.b", "x": [1]}], [{"name": "a.b", "x": [2]}], ["tools[a.b].x[0]"]),
        ([OPEN, OPEN], [OPEN], ["tools[1]"]),
        ([{"kind": "web"}], [{"kind": "code"}], ["tools[0].kind"]),
    ],
)
def test_tools_are_named(recorded: list[Any], asked: list[Any], paths: list[str]) -> None:
    """A difference in an offered tool says which tool by its name, and another order is one difference."""
    near = explained(request("chat", "M", tools=asked), "M", (request("chat", "M", tools=recorded), "M"))
    assert near is not None
    assert [part.path for part in near.found] == paths
