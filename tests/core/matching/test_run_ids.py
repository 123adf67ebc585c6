"""Recorded ids in recorded answers become those of this run."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.matching import IdMap, ids_held

OLD, NEW = "3f2b8c1e-9a4d-4c7b-8e5f-0a1b2c3d4e5f", "77777777-9a4d-4c7b-8e5f-0a1b2c3d4e5f"
ids = st.lists(st.uuids().map(str), min_size=1, max_size=4, unique=True)


LIVE = str(uuid.UUID(int=1))


@pytest.mark.parametrize(
    ("recorded", "live", "answer", "mapped"),
    [
        # a UUID is replaced in values, in keys and in the middle of a text, at any depth
        (
            [OLD],
            [NEW],
            {"text": f"I looked at {OLD}.", "items": [{OLD: [OLD, 1, None, True, 1.5]}]},
            {"text": f"I looked at {NEW}.", "items": [{NEW: [NEW, 1, None, True, 1.5]}]},
        ),
        # an id that looks like a word only where it is all there is
        (
            ["call_1"],
            ["call_2"],
            ["call_1", "call_10", "see call_1", {"call_1": 0}],
            ["call_2", "call_10", "see call_1", {"call_2": 0}],
        ),
        # two ids that have changed places
        ([OLD, NEW], [NEW, OLD], [OLD, f"{NEW} and {OLD}"], [NEW, f"{OLD} and {NEW}"]),
        # one that was left out has no counterpart, and those after it keep theirs
        (["", OLD], [NEW, LIVE], {"text": OLD, "": "", "other": NEW}, {"text": LIVE, "": "", "other": NEW}),
    ],
)
def test_mapped(recorded: list[str], live: list[str], answer: Any, mapped: Any) -> None:
    """Each recorded id becomes the one of this run that has its place."""
    assert IdMap(recorded, live).value(answer) == mapped


@pytest.mark.parametrize(("recorded", "live"), [([], [NEW]), ([OLD], []), ([OLD], [OLD]), (["", ""], [NEW, OLD])])
def test_nothing_to_do(recorded: list[str], live: list[str]) -> None:
    """Without a counterpart of its own an id stays, and the data is not copied."""
    answer = {"text": OLD}
    assert IdMap(recorded, live).value(answer) is answer


@given(ids, st.data())
@pytest.mark.slow
def test_there_and_back(recorded: list[str], data: st.DataObject) -> None:
    """Mapping to another run's ids and back gives the answer that was recorded."""
    live = [str(uuid.uuid5(uuid.NAMESPACE_DNS, found)) for found in recorded]
    text = st.lists(st.sampled_from([*recorded, "call_1", "word"]), max_size=5).map(" ".join)
    answer: Any = data.draw(
        st.recursive(text, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=5)
    )
    mapped = IdMap(recorded, live).value(answer)
    assert not any(found in repr(mapped) for found in recorded)
    assert IdMap(live, recorded).value(mapped) == answer


@given(st.lists(st.integers(0, 80), max_size=5))
def test_split_between_chunks(cuts: list[int]) -> None:
    """An id that a stream cuts anywhere is replaced; the chunks stay as many, and only they are touched."""
    whole = f"it is {OLD}, yes"
    at = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [{"text": whole[a:b], "n": 1} for a, b in itertools.pairwise(at)]
    mapped = IdMap([OLD], [NEW]).chunks(chunks)
    assert len(mapped) == len(chunks)
    assert "".join(chunk["text"] for chunk in mapped) == whole.replace(OLD, NEW)


@given(
    st.lists(st.sampled_from([OLD, NEW, "call_1", f"lc_run--{OLD}"]), max_size=4), st.sets(st.sampled_from([OLD, NEW]))
)
def test_ids_that_are_held(asked: list[str], told: set[str]) -> None:
    """Of the ids of a call those stay that look like other words, and those that an answer holds as it is replayed."""
    held = ids_held(asked, [{"said": f"about {one}"} for one in told], ())
    kept = {"call_1", *told}
    assert held == [one if one in kept else "" for one in asked]


@given(st.lists(st.integers(0, 80), max_size=5))
def test_held_by_chunks(cuts: list[int]) -> None:
    """An id that a stream cuts anywhere is held, and so is one that is the whole of a text or a key."""
    whole = f"it is {OLD}, yes"
    at = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    assert ids_held([NEW, OLD], (), [{"text": whole[a:b]} for a, b in itertools.pairwise(at)]) == ["", OLD]
    run = f"lc_run--{OLD}"
    assert ids_held([run, NEW], [[run], {NEW: 1}], ()) == [run, NEW]
