"""Two cassettes are compared record by record: by address first, then by fingerprint, word by word."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import compare_cassettes
from agenttape_core.errors import CassetteNotFoundError, ConfigurationError
from agenttape_core.schema import Freeze, IndexRow, Interaction, Outcome, Redaction, Step
from agenttape_core.tools.compare import StepRow, aligned

from ....kit.records import call, step, written

Records = Sequence[Interaction | Step]


def interaction(number: int, said: Any = "hello", **changes: Any) -> Interaction:
    """An interaction of a model that answers something."""
    request = {"messages": [{"role": "user", "content": f"the question number {number}"}]}
    usual = {"kind": "chat", "name": "Model", "fingerprint": f"f{number}", "request": request}
    return call(number, **{"address": f"agent/model#{number}", "value": said, **usual, **changes})


def streamed(*chunks: Any) -> Outcome:
    """A stream that was read to its end."""
    return Outcome(status="streamed", chunks=list(chunks), ended="exhausted")


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Any]:
    """Write both cassettes and compare them."""

    def compare(
        first: Records, other: Records, *, headers: Any = ({}, {}), suffix: str = ".yaml", **options: Any
    ) -> Any:
        paths = [tmp_path / f"{name}{suffix}" for name in ("first", "other")]
        for path, records, header in zip(paths, (first, other), headers, strict=True):
            written(path, *records, **header)
        return compare_cassettes(*paths, **options)

    return compare


def states(comparison: Any) -> list[tuple[str, int | None, int | None]]:
    """What became of each record, with its numbers."""
    return [(item.state, item.first, item.other) for item in comparison]


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_equal_cassettes_are_identical(compared: Callable[..., Any], suffix: str) -> None:
    """Two recordings of the same are identical, false, and without a divergence."""
    records = [interaction(1), step(1, output={"x": 1}), interaction(2, outcome=streamed("a", "b"))]
    with pytest.raises(CassetteNotFoundError):
        compare_cassettes("one", "nowhere")
    comparison = compared(records, copy.deepcopy(records), suffix=suffix)
    assert comparison.identical
    assert not comparison
    assert comparison.first_divergence is None
    assert states(comparison) == [("same", 1, 1), ("same", 1, 1), ("same", 2, 2)]
    assert comparison.to_dict()["records"] == []
    assert [item["what"] for item in comparison.to_dict(same=True)["records"]] == ["interaction", "step", "interaction"]
    assert str(comparison).splitlines()[-2:] == ["3 same", "identical"]


def test_messages_are_compared_word_by_word(compared: Callable[..., Any]) -> None:
    """A changed request at the same address shows the words that differ, and comes first if it is first."""
    edited = interaction(
        2, fingerprint="other", request={"messages": [{"role": "user", "content": "the question number two"}]}
    )
    comparison = compared(
        [interaction(1), interaction(2), interaction(3)], [interaction(1), edited, interaction(3, "bye")]
    )
    assert states(comparison) == [("same", 1, 1), ("changed", 2, 2), ("changed", 3, 3)]
    (found,) = comparison.first_divergence.differences
    assert (found.path, found.recorded) == ("request.messages[0].content", "the question number [-2-]")
    assert found.asked == "the question number {+two+}"
    (answer,) = next(item for item in comparison.changes if item.first == 3).differences
    assert (answer.path, answer.recorded, answer.asked) == ("outcome.value", "[-hello-]", "{+bye+}")
    text = str(comparison)
    assert "1 same, 2 changed" in text
    assert text.index("the first divergence is interaction 2 / 2") < text.index("[-2-]") < text.index("{+bye+}")


def test_a_model_of_another_class(compared: Callable[..., Any]) -> None:
    """A call of another class of model at the same place is the counterpart of the recorded one, also a step later."""
    first = [
        interaction(1, address="agent/model@1/One", name="One"),
        interaction(2, address="agent/model@3/One", name="One"),
    ]
    other = [
        interaction(1, address="agent/model@1/Two", name="Two", fingerprint="g1"),
        interaction(2, address="agent/model@5/Two", name="Two", fingerprint="g2"),
    ]
    assert states(compared(first, other)) == [("changed", 1, 1), ("changed", 2, 2)]


def test_what_only_one_has(compared: Callable[..., Any]) -> None:
    """A call that only one run made stands where it happened in that run."""
    comparison = compared([interaction(n) for n in (1, 2, 4)], [interaction(n) for n in (1, 3, 4, 5)])
    assert states(comparison) == [
        ("same", 1, 1),
        ("only in first", 2, None),
        ("only in other", None, 3),
        ("same", 4, 4),
        ("only in other", None, 5),
    ]
    assert comparison.counts["only in other"] == 2


def test_same_request_elsewhere_is_moved(compared: Callable[..., Any]) -> None:
    """A request that is asked at another address is the same call, moved."""
    comparison = compared([interaction(1, address="a/x")], [interaction(1, address="b/x")])
    assert comparison.first_divergence.state == "moved"
    assert (comparison.first_divergence.address, comparison.first_divergence.other_address) == ("a/x", "b/x")


def test_one_more_sibling_shifts_the_others(compared: Callable[..., Any]) -> None:
    """A call before equal siblings is the only new one: those that it shifts are found by what they ask."""
    first = [interaction(1, address="n/tool"), interaction(2, address="n/tool#2")]
    new = interaction(1, address="n/tool", fingerprint="new")
    shifted = [
        each.model_copy(update={"number": number, "address": f"n/tool#{number}"})
        for number, each in enumerate(first, 2)
    ]
    assert states(compared(first, [new, *shifted])) == [("only in other", None, 1), ("moved", 1, 2), ("moved", 2, 3)]


@pytest.mark.parametrize(
    ("first", "other", "paths"),
    [
        (streamed("Hel", "lo"), streamed("Hel", "lo"), []),
        (streamed({"t": "Hel"}, {"t": "lo"}), streamed({"t": "Hel"}, {"t": "p"}), ["outcome.chunks[*].t"]),
        (streamed("Hel", "lo"), streamed("Hell", "o"), ["outcome.chunks[0]", "outcome.chunks[1]"]),
        (streamed("Hel", "lo"), streamed("Hello"), ["outcome.chunks"]),
        (streamed("Hi"), Outcome(status="returned", value="Hi"), ["outcome"]),
        (Outcome(status="returned", value=1), Outcome(status="returned", value=True), ["outcome.value"]),
    ],
)
def test_outcomes(compared: Callable[..., Any], first: Outcome, other: Outcome, paths: list[str]) -> None:
    """Streams are compared by what they say, then by how they are cut; values keep their types."""
    comparison = compared([interaction(1, outcome=first)], [interaction(1, outcome=other)])
    assert [found.path for item in comparison.changes for found in item.differences] == paths


def test_ids_have_counterparts(compared: Callable[..., Any]) -> None:
    """Ids that stand for each other everywhere are the same; one that stands for two is a difference."""

    def run(*ids: int) -> list[Interaction]:
        return [
            interaction(n, {"id": f"lc_run--{UUID(int=serial)}-0", "tool_calls": [{"id": f"call_{serial}"}]})
            for n, serial in enumerate(ids, start=1)
        ]

    assert compared(run(1, 2, 1), run(8, 9, 8)).identical
    assert compared(run(1, 2, 1), run(8, 9, 9)).first_divergence.first == 3
    assert compared(run(1, 2), run(8, 8)).first_divergence.first == 2


def test_ids_in_streams_have_counterparts(compared: Callable[..., Any]) -> None:
    """Ids that streams name have counterparts, too, and are each other's wherever they stand alone afterwards."""

    def run(serial: str, given: str) -> Records:
        started = {"$chunk": {"tool_call_chunks": [{"id": f"call_{serial}1", "args": "{}", "index": 0}]}}
        grown = {"$chat_chunk": {"changes": {"tool_calls": {"$items": {"#0": {"$in": {"id": f"call_{serial}2"}}}}}}}
        calls = [interaction(n, outcome=streamed(chunk)) for n, chunk in enumerate((started, grown), 1)]
        return [*calls, step(1, input=[{"id": f"call_{given}"}])]

    assert compared(run("a", "a1"), run("b", "b1")).identical
    assert not compared(run("a", "a1"), run("b", "b2")).identical


def test_pseudonyms_of_two_keys_have_counterparts(compared: Callable[..., Any]) -> None:
    """Pseudonyms made with two keys may stand for each other; with one key they say what they say."""
    first = [interaction(1, "mail [REDACTED:email:00000001]")]
    other = [interaction(1, "mail [REDACTED:email:00000002]")]
    keys = [{"redaction": Redaction(key=key)} for key in ("aa", "bb")]
    assert compared(first, other, headers=keys).identical
    assert not compared(first, other, headers=(keys[0], keys[0])).identical
    assert not compared(first, [interaction(1, "mail [REDACTED:email:00000002]!")], headers=keys).identical


def test_steps_and_facts(compared: Callable[..., Any]) -> None:
    """Steps are compared in all that they say, and so are the inputs and the variables of the header."""
    headers = ({"input": {"q": "a"}}, {"input": {"q": "b"}, "freeze": Freeze(environment={"REGION": "eu"})})
    comparison = compared(
        [step(1, output="x"), step(2)], [step(1, output="y", status="failed"), step(2)], headers=headers
    )
    changes = list(comparison.changes)
    assert [(item.what, item.name) for item in changes] == [
        ("header", "input"),
        ("header", "environment"),
        ("step", "n"),
    ]
    assert [found.path for found in changes[2].differences] == ["status", "output"]
    assert "header input" in str(comparison)


def test_ignored_paths(compared: Callable[..., Any]) -> None:
    """What is ignored does not count, in requests and in answers; a path that is none is refused."""
    first, other = ([interaction(1, {"text": "x", "created": at})] for at in (1, 2))
    assert not compared(first, other).identical
    assert compared(first, other, ignore=["created"]).identical
    with pytest.raises(ConfigurationError, match="is not a path"):
        compared(first, other, ignore=["[0]"])


def test_text_is_limited(compared: Callable[..., Any]) -> None:
    """The text shows so many changes, and says how many it leaves out."""
    comparison = compared([interaction(n) for n in range(1, 60)], [interaction(n, "other") for n in range(1, 60)])
    assert comparison.text(5).splitlines()[-1] == "… and 54 more"
    assert "more" not in comparison.text(None).splitlines()[-1]
    json.dumps(comparison.to_dict())


# -- whatever the runs are --------------------------------------------------------------------------------------------

ROWS = st.lists(
    st.builds(
        lambda what, kind, place, count, asked: (what, kind, f"{place}{count}", asked if what == "interaction" else ""),
        st.sampled_from(["interaction", "step"]),
        st.sampled_from(["chat", "tool"]),
        st.sampled_from(["a", "a/b", "c"]),
        st.sampled_from(["", "#2", "#3"]),
        st.sampled_from(["f1", "f2", "f3"]),
    ),
    max_size=12,
).map(
    lambda rows: [
        (StepRow if what == "step" else IndexRow)(n, kind, "x", at, asked)
        for n, (what, kind, at, asked) in enumerate(rows)
    ]
)


@given(first=ROWS, other=ROWS)
def test_every_row_is_aligned_once(first: list[IndexRow], other: list[IndexRow]) -> None:
    """Each row of either file occurs exactly once, those of the first in their order, and with one of its like."""
    pairs = list(aligned(first, other))
    assert [left for left, _ in pairs if left is not None] == first
    assert sorted((right for _, right in pairs if right is not None), key=other.index) == other
    assert all((type(left), left.kind) == (type(right), right.kind) for left, right in pairs if left and right)


@given(first=ROWS, other=ROWS)
def test_alignment_is_greedy(first: list[IndexRow], other: list[IndexRow]) -> None:
    """What is left alone on both sides has no counterpart: neither by address nor by fingerprint."""
    pairs = list(aligned(first, other))
    left = [row for row, partner in pairs if row is not None and partner is None]
    right = [row for partner, row in pairs if row is not None and partner is None]
    assert not {(type(row), row.kind, row.address) for row in left} & {
        (type(row), row.kind, row.address) for row in right
    }
    asked = [{(row.kind, row.fingerprint) for row in rows if row.fingerprint} for rows in (left, right)]
    assert not asked[0] & asked[1]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab 1", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "id"]), inner, max_size=3),
    max_leaves=8,
)


@given(first=PLAIN, other=PLAIN)
def test_answers_differ_exactly_when_they_are_not_equal(tmp_path_factory: Any, first: Any, other: Any) -> None:
    """Two runs with one different answer are identical exactly if it is the same plain data."""
    folder = tmp_path_factory.mktemp("pair")
    pair = [written(folder / f"{n}.jsonl", interaction(1, said)) for n, said in enumerate((first, other))]
    assert compare_cassettes(*pair).identical == (
        json.dumps(first, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


@pytest.mark.slow
def test_long_cassettes_are_not_held_in_memory(tmp_path: Path) -> None:
    """Comparing thousands of interactions takes less memory than what they hold, twice over."""
    same = [interaction(n, {"text": f"{n} " * 800}) for n in range(1, 1000)]
    pair = [written(tmp_path / f"{last}.jsonl", *same, interaction(1000, last)) for last in ("the same", "another")]
    comparison = compare_cassettes(*pair)
    size = pair[0].stat().st_size
    tracemalloc.start()
    try:
        assert comparison.first_divergence.first == 1000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 2
