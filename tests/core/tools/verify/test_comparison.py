"""Where two replays differ: every difference is found, none is invented, and each is named by its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.experiments.verify.comparison import Output, places
from agenttape_core.redaction import Redactor, new_key

REDACTOR = Redactor(new_key())
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc$"), inner, max_size=3),
    max_leaves=8,
)


def produced(**parts: Any) -> Output:
    """Return what a replay produced: nothing but what is named."""
    return Output(**{"outcome": "returned", "failed": False, "stdout": "", "stderr": "", "files": {}, **parts})


def whats(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names of the places where two replays differ."""
    return [place.what for place in places(produced(**first), produced(**other), REDACTOR)]


@given(PLAIN, PLAIN)
def test_every_difference_of_values_is_found(first: Any, other: Any) -> None:
    """Two return values differ in some place exactly if their JSON texts do, the order of keys included."""
    found = whats({"value": first}, {"value": other})
    assert bool(found) == (json.dumps(first) != json.dumps(other))
    assert len(set(found)) == len(found)


@given(st.text(), st.text())
def test_every_difference_of_texts_is_found(first: str, other: str) -> None:
    """Two outputs differ in exactly one line exactly if they are not equal."""
    assert len(whats({"stdout": first}, {"stdout": other})) == (first != other)


@pytest.mark.parametrize(
    ("first", "other", "what"),
    [
        ({"value": {"items": [1, 2]}}, {"value": {"items": [1, 3]}}, "return value at $.items[1]"),
        ({"value": {"$tuple": [{"a": 1}]}}, {"value": {"$tuple": [{"a": True}]}}, "return value at $[0].a"),
        ({"value": [1]}, {"value": [1.0]}, "return value at $[0]"),
        ({"value": {"a": 1, "b": 2}}, {"value": {"b": 2, "a": 1}}, "order of keys in the return value at $"),
        ({"stdout": "a\nb\n"}, {"stdout": "a\nc\n"}, "stdout, line 2"),
        ({"stderr": "a\n"}, {"stderr": "a\r\n"}, "stderr, line 1"),
        ({"stdout": "\udcff"}, {"stdout": "\udcfe"}, "stdout, line 1"),
        ({"outcome": "returned"}, {"outcome": "raised ValueError: no"}, "outcome"),
        ({"calls": {"a/b": ["tool x", "1"]}}, {"calls": {"a/b": ["tool y", "1"]}}, "call at a/b"),
        ({"calls": {"a/b": ["tool x", "1"]}}, {"calls": {"a/b": ["tool x", "2"]}}, "call at a/b"),
        ({"calls": {}}, {"calls": {"a": ["tool x", "1"]}}, "call at a"),
        ({"order": [["a", "b"]]}, {"order": [["b", "a"]]}, "order of calls"),
        ({"files": {"a": "1\n2"}}, {"files": {"a": "1\n3"}}, "file a, line 2"),
        ({"files": {"a": ""}}, {"files": {"b": ""}}, "file a"),
        ({"sessions": {"unused of c.yaml": ""}}, {"sessions": {"unused of c.yaml": "1 x"}}, "unused of c.yaml"),
    ],
)
def test_places_are_named(first: dict[str, Any], other: dict[str, Any], what: str) -> None:
    """A difference is named by where it is."""
    assert whats(first, other)[0] == what


def test_the_first_comes_first() -> None:
    """What a run comes to first is named first: a call before the value that was made of it, and before the output."""
    first = {"calls": {"a": ["x", "1"]}, "value": 1, "stdout": "1"}
    other = {"calls": {"a": ["y", "1"]}, "value": 2, "stdout": "2"}
    assert whats(first, other) == ["call at a", "return value at $", "stdout, line 1"]


def test_a_miss_is_shown_in_full() -> None:
    """Beside a replay that returned, the whole explanation of the one that raised stands, line by line."""
    raised = "raised CassetteMissError: no recording\n  differs   q\n  to fix    record it anew"
    (place,) = places(produced(), produced(outcome=raised), REDACTOR)
    assert (place.first, place.other) == ("returned", raised)


def test_a_long_list_is_cut() -> None:
    """A list that differs in a thousand items does not make a report of a thousand places."""
    assert len(whats({"value": [0] * 1000}, {"value": [1] * 1000})) == 20


def test_a_difference_that_is_redacted() -> None:
    """Texts that differ only where redaction hides it are still different."""
    same = Redactor(new_key())
    masked = same.text("token: " + "-".join(["sk", "proj", "Zq8" * 16]))
    assert len(places(produced(value=-0.0), produced(value=0.0), same)) == 1
    assert "sk-proj" not in masked
