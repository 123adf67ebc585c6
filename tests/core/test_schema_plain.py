"""Walks over plain data reach every leaf, and change nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.schema.plain import leaves, replaced, replaced_in_chunk

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(PLAIN)
def test_replacing_by_the_same_changes_nothing(plain: Any) -> None:
    """A walk that replaces each leaf and key by itself gives equal data."""
    assert replaced(plain, lambda leaf: leaf, lambda key: key) == plain
    assert replaced_in_chunk(plain, lambda _, text: text) == plain


@given(PLAIN)
def test_leaves_are_what_is_replaced(plain: Any) -> None:
    """The leaves are the values that a replacing walk meets, in the same order."""
    met: list[Any] = []
    replaced(plain, met.append)
    assert list(leaves(plain)) == met


@given(PLAIN)
def test_a_walk_through_a_chunk_meets_each_text_at_one_path(plain: Any) -> None:
    """Two walks through one chunk give its texts the same paths, and no two keys share one with a value."""
    met: list[tuple[Any, ...]] = []
    for _ in range(2):
        replaced_in_chunk(plain, lambda path, text: met.append((path, text)) or text)
    half = len(met) // 2
    assert met[:half] == met[half:]
    assert {path for path, _ in met if path[-1:] == (None,)}.isdisjoint(path for path, _ in met if path[-1:] != (None,))


def test_pieces_of_a_block_have_one_path() -> None:
    """A block of a stream is known by its index, wherever it stands, and a tagged text by its content."""
    paths: list[Any] = []
    for chunk in ({"content": [{"index": 1, "text": "a"}]}, {"content": [{"x": 0}, {"index": 1, "text": "b"}]}):
        replaced_in_chunk(chunk, lambda path, text: paths.append(path) or text if text in "ab" else text)
    assert paths[0] == paths[1]
    paths.clear()
    for chunk in ({"$chunk": "a"}, {"$chunk": {"content": "b"}}):
        replaced_in_chunk(chunk, lambda path, text: paths.append(path) or text if text in "ab" else text)
    assert paths[0] == paths[1]
