"""Requests that extend earlier ones are stored as what is new, and come back whole."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import CassetteFormatError
from agenttape_core.format import continuation
from agenttape_core.format.continuation import Compactor, Delta, resolve
from agenttape_core.schema import Header, Interaction
from agenttape_core.storage import open_cassette, write_cassette

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOOLS = [{"name": "search", "description": "x" * 600}]


def stored(*requests: dict[str, Any]) -> list[Delta]:
    """The stored requests of records 1, 2, …."""
    compactor = Compactor()
    found = []
    for number, request in enumerate(requests, start=1):
        found.append(compactor.add(number, request))
        compactor.confirm()
    return found


def test_a_grown_history_is_stored_as_its_tail() -> None:
    """All messages kept: neither `keep` nor what is equal is written."""
    _, second = stored(
        {"model": "m", "tools": TOOLS, "messages": ["a", "b"]},
        {"model": "m", "tools": TOOLS, "messages": ["a", "b", "c"]},
    )

    assert second == Delta({"messages": ["c"]}, continues=1)


def test_messages_of_long_ago_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is continued is the same, however few messages are held to look them up."""
    texts = [{"role": "user", "content": f"question {number}"} for number in range(4)]
    others = [
        {"role": "user", "content": 7},
        {"content": "question 1", "role": "user"},
        ["question 1"],
        {"content": True},
    ]
    made = random.Random(3)
    paths = [[copy.deepcopy(made.choice(texts + others)) for _ in range(made.randrange(6))] for _ in range(60)]
    requests = [{"messages": path} for path in paths]
    expected = stored(*requests)
    monkeypatch.setattr(continuation, "_REMEMBERED", 3)
    assert stored(*requests) == expected
    assert sum(delta.continues is not None for delta in expected) > 30


def test_a_cut_history_says_how_much_it_keeps() -> None:
    """A request that shares only the first messages names their number; changed and lost keys are written."""
    _, second = stored(
        {"model": "m", "stop": ["x"], "messages": ["a", "b", "c"]},
        {"model": "n", "messages": ["a", "b", "d"]},
    )

    assert second == Delta({"model": "n", "messages": ["d"]}, continues=1, keep=2, without=("stop",))


def test_the_longest_prefix_wins_and_the_latest_of_equals() -> None:
    """The base is the record that shares most, and the nearest one among those."""
    *_, last = stored(
        {"messages": ["a", "b"]}, {"messages": ["a"]}, {"messages": ["a", "b"]}, {"messages": ["a", "b", "c"]}
    )

    assert last.continues == 3


def test_equal_tools_are_not_written_twice_for_a_new_conversation() -> None:
    """Large equal parts are worth a continuation of their own; small ones are not."""
    _, second, third = stored(
        {"tools": TOOLS, "messages": ["a"]}, {"tools": TOOLS, "messages": ["b"]}, {"tools": [], "messages": ["c"]}
    )

    assert second == Delta({"messages": ["b"]}, continues=1, keep=0)
    assert third == Delta({"tools": [], "messages": ["c"]})


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_values_that_only_compare_equal_are_not_shared(one: Any, other: Any) -> None:
    """Types, signs and the order of keys count, so that what comes back is what was recorded."""
    _, second = stored({"messages": ["s", one]}, {"messages": ["s", other]})

    assert second == Delta({"messages": [other]}, continues=1, keep=1)


def test_a_request_that_was_not_confirmed_is_not_continued() -> None:
    """A record that could not be written leaves no trace in later ones."""
    compactor = Compactor()
    compactor.add(1, {"messages": ["a"]})

    assert compactor.add(1, {"messages": ["a", "b"]}) == Delta({"messages": ["a", "b"]})


def test_old_conversations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where requests of ever new conversations are stored, no more than a limit are held, and all come back."""
    monkeypatch.setattr("agenttape_core.format.continuation._LISTS", 20)
    requests = [{"messages": [f"turn {n // 3}", *range(n % 3)], "tools": TOOLS} for n in range(300)]
    compactor, whole = Compactor(), list[dict[str, Any]]()
    for number, request in enumerate(requests, start=1):
        delta = compactor.add(number, request)
        compactor.confirm()
        assert len(compactor._prefixes) < 30
        whole.append(resolve(whole[delta.continues - 1], delta) if delta.continues else delta.request)
    assert whole == requests


_messages: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.sampled_from(["a", "b", 1, True, 1.0]), max_size=5), st.sampled_from(["text", None, {}])
)
_requests = st.fixed_dictionaries(
    {},
    optional={"messages": _messages, "tools": st.sampled_from([TOOLS, []]), "model": st.sampled_from(["m", 1, True])},
)


@given(st.lists(_requests, max_size=8))
def test_every_sequence_of_requests_comes_back(requests: list[dict[str, Any]]) -> None:
    """Whatever the parts are, messages or not lists at all, resolving gives the recorded requests."""
    whole: list[dict[str, Any]] = []
    for request, delta in zip(requests, stored(*requests), strict=True):
        whole.append(resolve(whole[delta.continues - 1], delta) if delta.continues else delta.request)
        assert json.dumps(whole[-1], sort_keys=True) == json.dumps(request, sort_keys=True)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_a_chain_of_three_thousand_resolves(tmp_path: Path, make: Callable[..., Interaction], suffix: str) -> None:
    """Chains of any length are followed without recursion, from either end."""
    messages = [{"content": f"m{position}"} for position in range(3_000)]
    path = tmp_path / f"deep{suffix}"
    lines = [make(n, request={"messages": messages[:n]}) for n in (1, 2)]
    write_cassette(path, Header(name="deep"), lines)
    text = path.read_text().removesuffix("...\n" if suffix == ".yaml" else '{"end":true}\n')
    second = text[text.index("---\ninteraction: 2") if suffix == ".yaml" else text.index('{"interaction":2') :]
    for n in range(3, 3_001):
        mark = ("interaction: 2", "continues: 1", "m1") if suffix == ".yaml" else ('n":2', 's":1', "m1")
        record = second
        for old, new in zip(mark, (mark[0][:-1] + f"{n}", mark[1][:-1] + f"{n - 1}", f"m{n - 1}"), strict=True):
            record = record.replace(old, new)
        text += record
    path.write_text(text + ("...\n" if suffix == ".yaml" else '{"end":true}\n'))

    cassette = open_cassette(path)

    assert cassette.interaction(3_000).request == {"messages": messages}
    assert cassette.interaction(2_990).request == {"messages": messages[:2_990]}


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("continues: 2", "record before this one"),
        ("continues: 3", "record before this one"),
        ("continues: 0", "not in the file"),
        ("continues: -1", "not negative"),
        ("continues: true", "not negative"),
        ("continues: 1\nkeep: 9", "has 1 messages"),
        ("continues: 1\nwithout: [nothing]", "does not have"),
        ("continues: 1\nwithout: nothing", "list of keys"),
        ("keep: 1", "need `continues`"),
        ("continues: 1\nkeep: 1\nwithout: [messages]", "without a list of messages"),
    ],
)
def test_references_that_do_not_fit_are_refused(
    tmp_path: Path, make: Callable[..., Interaction], reference: str, problem: str
) -> None:
    """Cycles, forward references and wrong counts are errors with the line of the record."""
    path = tmp_path / "bad.yaml"
    write_cassette(path, Header(name="bad"), [make(1), make(2, request={"messages": ["x"]})])
    path.write_text(
        path.read_text().replace("request:\n  messages:\n  - x", f"{reference}\nrequest:\n  messages:\n  - x")
    )
    cassette = open_cassette(path)

    with pytest.raises(CassetteFormatError, match=problem) as caught:
        cassette.interaction(2)

    assert caught.value.line == path.read_text().splitlines().index("interaction: 2") + 1
    assert cassette.outcome(2).value["content"] == "answer 2"
