"""Which paths of a request do not count when it is compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Canonicaliser, Ignored, recorded_request
from agenttape_core.schema import PYTHON_VALUES

REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi", "meta": {"at": 1}}, {"role": "ai", "name": "x", "at": 2}],
    "arguments": {"now": 3, "q": [1, 2, 3], "deep": {"a": {"at": 4}}},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model", {**REQUEST, "model": None}),
        ("arguments.now", {**REQUEST, "arguments": {"q": [1, 2, 3], "deep": {"a": {"at": 4}}}}),
        ("arguments.q[1]", {**REQUEST, "arguments": {**REQUEST["arguments"], "q": [1, 3]}}),
        ("arguments.q[*]", {**REQUEST, "arguments": {**REQUEST["arguments"], "q": []}}),
        ("arguments.*.a", {**REQUEST, "arguments": {**REQUEST["arguments"], "deep": {}}}),
        ("messages[0]", {**REQUEST, "messages": REQUEST["messages"][1:]}),
        (
            "**.at",
            {
                "model": "m",
                "messages": [{"role": "user", "content": "hi", "meta": {}}, {"role": "ai", "name": "x"}],
                "arguments": {"now": 3, "q": [1, 2, 3], "deep": {"a": {}}},
            },
        ),
        ("nothing.of[3].this", REQUEST),
    ],
)
def test_paths(path: str, expected: dict[str, Any]) -> None:
    """A path leaves out exactly the places that it names, spelled as a miss prints them."""
    stripped = Ignored.of([path]).stripped(REQUEST)
    assert stripped == {key: item for key, item in expected.items() if item is not None}


def test_escapes() -> None:
    """A key with dots or brackets in it is spelled with backslashes."""
    request = {"a.b": {"c[0]": 1, "d": 2}, "a": 3}
    assert Ignored.of([r"a\.b.c\[0\]"]).stripped(request) == {"a.b": {"d": 2}, "a": 3}


@pytest.mark.parametrize("path", ["", ".", "a..b", "a.", "[0]", "a[b]", "a[", "a[0]b", "**", "a.**"])
def test_no_path(path: str) -> None:
    """What is no path, or ignores everything, is refused."""
    with pytest.raises(ConfigurationError, match="ignore="):
        Ignored.of([path])


keys = st.sampled_from("abc")
plain = st.recursive(
    st.integers(0, 2) | st.sampled_from(["x", "00000000-0000-4000-8000-00000000000a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
requests = st.dictionaries(keys, plain, max_size=3)
paths = st.lists(
    st.sampled_from(["a", "b.a", "a[0]", "a[*]", "b[*].c", "*.a", "**.c", "a.**.b", "c[1]", "a[*].*"]), max_size=3
)


@given(requests, paths)
def test_equal_to_a_request_without_it(request: dict[str, Any], spelled: list[str]) -> None:
    """Two requests have one fingerprint if and only if they are equal without what is ignored."""
    ignored = Ignored.of(spelled)
    stripped = ignored.stripped(request)
    fingerprint = Canonicaliser(PYTHON_VALUES.encode, ignored).request("tool", "t", request).fingerprint
    assert fingerprint == Canonicaliser(PYTHON_VALUES.encode).request("tool", "t", stripped).fingerprint


@given(requests, paths)
def test_recorded_and_asked_agree(request: dict[str, Any], spelled: list[str]) -> None:
    """A recorded request is fingerprinted as it was when it was asked, its ids included, and is kept whole."""
    ignored = Ignored.of(spelled)
    asked = Canonicaliser(PYTHON_VALUES.encode, ignored).request("tool", "t", request)
    recorded = recorded_request("tool", "t", asked.body, ignored)
    assert (recorded.fingerprint, recorded.ids) == (asked.fingerprint, asked.ids)
    assert asked.body == request
