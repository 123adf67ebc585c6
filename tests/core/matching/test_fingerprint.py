"""The canonical form of a request: what makes two requests the same, and what keeps them apart."""

from __future__ import annotations

import json
import marshal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.matching import RUN_SPECIFIC_ID, Canonicaliser, CanonicalRequest, KeyedItems, canonical_json
from agenttape_core.matching.canonical_text import canonical_bytes
from agenttape_core.schema import PYTHON_VALUES, Plain

A, B = "3f2b8c1e-9a4d-4c7b-8e5f-0a1b2c3d4e5f", "77777777-9a4d-4c7b-8e5f-0a1b2c3d4e5f"
HEX = "0123456789abcdef0123456789abcdef"

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.uuids().map(str)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
keys = st.text("abcdefg_", min_size=1, max_size=4)
bodies = st.dictionaries(keys, values, max_size=4)


def asked(body: dict[str, Any], kind: str = "chat", canonicaliser: Canonicaliser | None = None) -> CanonicalRequest:
    """Ask a question, of somebody who has never been asked before unless told otherwise."""
    return (canonicaliser or Canonicaliser(PYTHON_VALUES.encode)).request(kind, "name", body)


def find_ids(value: Any) -> list[str]:
    """Return the UUIDs that stand alone in data."""
    if isinstance(value, dict):
        return [found for item in value.values() for found in find_ids(item)]
    if isinstance(value, list):
        return [found for item in value for found in find_ids(item)]
    return [value] if isinstance(value, str) and len(value) == len(A) and value.count("-") == A.count("-") else []


@given(bodies)
def test_key_order(body: dict[str, Any]) -> None:
    """The order of keys, at any depth, is not part of what is asked."""

    def shuffled(value: Any) -> Any:
        """Return equal data with the keys of every dict in the opposite order."""
        if isinstance(value, dict):
            return {key: shuffled(item) for key, item in reversed(value.items())}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    assert asked(shuffled(body)).fingerprint == asked(body).fingerprint


@given(bodies)
def test_ids_are_run_specific(body: dict[str, Any]) -> None:
    """The same request with the ids of another run is the same question, and gives up those ids in the same order."""

    def with_other_ids(value: Any, suffix: str) -> Any:
        """Return data with each UUID replaced by another one of its own."""
        text = json.dumps(value)
        for found in {str(item) for item in find_ids(value)}:
            text = text.replace(found, str(uuid.uuid5(uuid.NAMESPACE_DNS, found + suffix)))
        return json.loads(text)

    other = with_other_ids(body, "other")
    one, two = asked(body), asked(other)
    assert two.fingerprint == one.fingerprint
    assert [str(uuid.uuid5(uuid.NAMESPACE_DNS, found + "other")) for found in one.ids] == list(two.ids)


@given(bodies, bodies)
def test_different_questions(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Two requests without ids have one fingerprint only if their JSON is the same."""
    if find_ids(one) or find_ids(two):
        return
    same = canonical_json(PYTHON_VALUES.encode(one)) == canonical_json(PYTHON_VALUES.encode(two))
    assert (asked(one).fingerprint == asked(two).fingerprint) is same


@given(st.lists(bodies, max_size=3))
def test_cache_changes_nothing(requests: list[dict[str, Any]]) -> None:
    """Who has seen parts of a request before gives the same answer as who has not."""
    experienced = Canonicaliser(PYTHON_VALUES.encode)
    for body in [*requests, *requests]:
        assert asked(body, canonicaliser=experienced) == asked(body)


@pytest.mark.parametrize(
    ("one", "other"),
    [*((1, other) for other in (1.0, True, "1", "1.0", None, [1], {"1": 1}, -1, (1,), 10**30)), (0.0, -0.0)],
)
def test_types_differ(one: object, other: object) -> None:
    """Values that Python calls equal, and those that look alike, are different questions, cached or not."""
    shared = Canonicaliser(PYTHON_VALUES.encode)
    assert asked({"n": one}, canonicaliser=shared).fingerprint != asked({"n": other}, canonicaliser=shared).fingerprint
    nested = [asked({"n": {"x": [value]}}, canonicaliser=shared).fingerprint for value in (one, other)]
    assert nested[0] != nested[1]


def test_what_else_tells_questions_apart() -> None:
    """The kind, the names of the parts and the place of an item are part of what is asked; the name is not."""
    fingerprints = [
        asked({"a": "x"}).fingerprint,
        asked({"a": "x"}, kind="tool").fingerprint,
        asked({"b": "x"}).fingerprint,
        asked({"a": ["x"]}).fingerprint,
        asked({"a": []}).fingerprint,
        asked({}).fingerprint,
        asked({"a": ["x", "y"]}).fingerprint,
        asked({"a": ["y", "x"]}).fingerprint,
        asked({"a": [["x", "y"]]}).fingerprint,
    ]
    assert len(set(fingerprints)) == len(fingerprints)
    named = [Canonicaliser(PYTHON_VALUES.encode).request("chat", name, {"a": "x"}) for name in ("one", "two")]
    assert named[0].fingerprint == named[1].fingerprint


def test_one_id_twice_is_not_two_ids() -> None:
    """Which ids are the same is part of the question, also across the parts of a request."""
    once = {"a": A, "b": [f"see {A}", B]}
    twice = {"a": A, "b": [f"see {B}", B]}
    assert asked(once).fingerprint != asked(twice).fingerprint
    assert asked(once).fingerprint == asked({"a": B, "b": [f"see {B}", A]}).fingerprint
    assert asked(once).ids == (A, B)


@pytest.mark.parametrize(
    "before", ["", " ", "\n", "\t", "\r\n", "é", "→", "𝄞", '"', "\\", "(", "id=", "a\u2028", "\x00"]
)
@pytest.mark.parametrize("found", [A, A.upper(), HEX])
def test_ids_inside_text(before: str, found: str) -> None:
    """An id is found wherever a word can begin, also where JSON writes the character before it with letters."""
    question = asked({"prompt": f"{before}{found}\nend"})
    assert question.ids == (found,)
    assert question.fingerprint == asked({"prompt": f"{before}{B}\nend"}).fingerprint


@pytest.mark.parametrize("text", [f"x{A}", f"{A}0", HEX.upper(), HEX[:-1], f"{HEX}a", "lc_run--1", "call_abc123"])
def test_no_ids(text: str) -> None:
    """What is only part of a word, or of another form, is content."""
    assert asked({"prompt": text}).ids == ()


def test_ids_in_keys() -> None:
    """An id may be a key."""
    assert asked({"a": {A: 1}}).fingerprint == asked({"a": {B: 1}}).fingerprint != asked({"a": {"x": 1}}).fingerprint


def test_ids_of_the_call() -> None:
    """Ids that the caller names are kept after those of the request, and are not part of what is asked."""
    canonicaliser = Canonicaliser(PYTHON_VALUES.encode)
    question = canonicaliser.request("tool", "t", {"a": A}, ids=("call_1",))
    assert question.ids == (A, "call_1")
    assert question.fingerprint == canonicaliser.request("tool", "t", {"a": A}, ids=("call_2",)).fingerprint


@given(bodies)
def test_keyed_equals_plain(body: dict[str, Any]) -> None:
    """A keyed part gives the same question as the plain data that it builds, first and later."""

    def keyed(items: list[Any]) -> KeyedItems:
        return KeyedItems([canonical_json(PYTHON_VALUES.encode(item)) for item in items], items, lambda item: item)

    wrapped = {key: keyed(value) if isinstance(value, list) else value for key, value in body.items()}
    shared = Canonicaliser(PYTHON_VALUES.encode)
    assert asked(wrapped) == asked(wrapped, canonicaliser=shared) == asked(wrapped, canonicaliser=shared) == asked(body)


def test_keyed_builds_once() -> None:
    """An item with a key is built for the first request that has it, not for those that follow; one without always."""
    built: list[int] = []

    def build(source: int) -> Plain:
        built.append(source)
        return {"n": source}

    shared = Canonicaliser(PYTHON_VALUES.encode)
    for length in (1, 2, 3, 3):
        asked(
            {"messages": KeyedItems([("part", n) for n in range(length)], range(length), build)}, canonicaliser=shared
        )
    assert built == [0, 1, 2]
    for _ in range(2):
        asked({"messages": KeyedItems([None, ("part", 1)], [7, 1], build)}, canonicaliser=shared)
    assert built == [0, 1, 2, 7, 7]


def test_memory_of_items_is_bounded() -> None:
    """A session that sees ever new messages forgets the oldest."""
    shared, built = Canonicaliser(PYTHON_VALUES.encode), list[int]()

    def build(source: int) -> Plain:
        built.append(source)
        return source

    def ask(numbers: range) -> None:
        asked({"messages": KeyedItems(numbers, numbers, build)}, canonicaliser=shared)

    ask(range(10_000))
    ask(range(9_000, 10_000))
    assert len(built) == 10_000
    ask(range(1))
    assert len(built) == 10_001


def test_equal_keys_of_other_parts() -> None:
    """A key counts for the list of its name only, and is never mistaken for the content of plain data."""
    shared = Canonicaliser(PYTHON_VALUES.encode)
    first = asked({"a": KeyedItems(["k"], [1], lambda n: n)}, canonicaliser=shared)
    second = asked({"a": ["k"], "b": KeyedItems(["k"], [2], lambda n: n)}, canonicaliser=shared)
    third = asked({"a": KeyedItems([marshal.dumps("k", 2)], [3], lambda n: n)}, canonicaliser=shared)
    assert (first.body, second.body, third.body) == ({"a": [1]}, {"a": ["k"], "b": [2]}, {"a": [3]})


def test_later_changes_do_not_reach_back() -> None:
    """What the caller does to its request afterwards does not change the question."""
    message = {"role": "user", "content": ["hi"]}
    shared = Canonicaliser(PYTHON_VALUES.encode)
    question = asked({"messages": [message]}, canonicaliser=shared)
    message["content"].append("more")
    assert question.body == {"messages": [{"role": "user", "content": ["hi"]}]}
    assert asked({"messages": [message]}, canonicaliser=shared).fingerprint != question.fingerprint


def test_unrecordable() -> None:
    """A request with a value that has no codec is refused, cached or not."""
    canonicaliser = Canonicaliser(PYTHON_VALUES.encode)
    for _ in range(2):
        with pytest.raises(UnrecordableValueError, match="lock"):
            asked({"a": [threading.Lock()]}, canonicaliser=canonicaliser)


def test_many_threads() -> None:
    """Threads that ask the same and different questions all get what a single one would get."""
    shared = Canonicaliser(PYTHON_VALUES.encode)
    bodies = [{"messages": [f"m{n}" for n in range(length)], "id": A} for length in range(40)]
    expected = [asked(body).fingerprint for body in bodies]
    start = threading.Barrier(4)

    def run(_: int) -> list[str]:
        start.wait()
        return [asked(body, canonicaliser=shared).fingerprint for body in bodies]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [expected] * 4


ESCAPED = st.lists(
    st.sampled_from(["a", "n", "\\", '"', "\n", "\t", "\x00", "\x7f", "~", "\u00e9", "\U0001f600", A, HEX])
).map("".join)


@given(st.dictionaries(ESCAPED, ESCAPED | st.lists(ESCAPED | st.floats(allow_nan=False)) | st.none()) | ESCAPED)
def test_canonical_bytes(plain: Any) -> None:
    """The quick way to the canonical JSON writes what JSON does, and never denies that there is an id."""
    written, may_hold_id = canonical_bytes(plain)
    assert written.decode() == canonical_json(plain)
    assert may_hold_id or not RUN_SPECIFIC_ID.search(written.decode())
