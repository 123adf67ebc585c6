"""A miss by the order of a set says so, with the hash seed of the recording and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.integration import Plain
from agenttape_core.matching import is_permuted


@boundary("tool")
def ask(prompt: Any) -> str:
    """Answer."""
    return "yes"


def _miss(path: Path, recorded: Any, asked: Any) -> str:
    with use_cassette(path, mode="all"):
        ask(recorded)
    return _asked(path, asked)


def _asked(path: Path, asked: Any) -> str:
    with pytest.raises(CassetteMissError) as caught, use_cassette(path):
        ask(asked)
    return str(caught.value)


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        (["b", "a", "c"], ["a", "b", "c"]),
        ("Tags: red, blue, green", "Tags: green, red, blue"),
        ("- red\n- dark blue\n", "- dark blue\n- red\n"),
        ("{'red', 'blue'}", "{'blue', 'red'}"),
        ('{"b": 1, "a": [1]}', '{"a": [1], "b": 1}'),
        ({"deep": [{"names": ["x", "y"]}, "t: b a"]}, {"deep": [{"names": ["y", "x"]}, "t: a b"]}),
    ],
)
def test_another_order_is_named(recorded: Any, asked: Any, tmp_path: Path) -> None:
    """Items, lines, words and keys in texts."""
    message = _miss(tmp_path / "a.yaml", recorded, asked)
    assert "order     only the order changed" in message
    assert "sorted(the_set)" in message


@pytest.mark.parametrize(
    ("recorded", "asked"), [("red, blue", "blue, green"), (["a", "b"], ["b"]), ([1, 2], [2, 1.0]), ("ab c", "a bc")]
)
def test_what_differs_otherwise_is_no_order(recorded: Any, asked: Any, tmp_path: Path) -> None:
    """A part that only one of them has, or of another type, is a difference of its own."""
    assert "order     " not in _miss(tmp_path / "a.yaml", recorded, asked)


def test_equal_values_are_no_permutation() -> None:
    """There is nothing to say of them."""
    value: Plain = {"a": [1, "x y"]}
    assert not is_permuted(value, value)


@pytest.mark.parametrize(
    ("recorded", "mine", "advice"),
    [
        (None, None, "PYTHONHASHSEED=0 pytest"),
        (7, None, "PYTHONHASHSEED=7 pytest"),
        (7, "8", "PYTHONHASHSEED=7 pytest"),
        (7, "7", ""),
    ],
)
def test_the_seed_is_in_the_advice(
    recorded: int | None, mine: str | None, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known if the process was given it; where it is the same, another one would not help."""
    if sys.flags.hash_randomization == 0:
        pytest.skip("this process has the hash seed 0")
    path = tmp_path / "a.yaml"
    for seed in (recorded, mine):
        if seed is None:
            monkeypatch.delenv("PYTHONHASHSEED", raising=False)
        else:
            monkeypatch.setenv("PYTHONHASHSEED", str(seed))
        if not path.exists():
            with use_cassette(path, mode="all"):
                ask(["b", "a"])
            assert open_cassette(path).header.volatile.hash_seed == recorded
    message = _asked(path, ["a", "b"])
    assert (advice in message) if advice else ("PYTHONHASHSEED" not in message)


@pytest.mark.parametrize("seed", ["random", "-1", "4294967296", "x"])
def test_what_is_no_seed_is_not_noted(seed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed that Python drew is not known."""
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    with use_cassette(tmp_path / "a.yaml", mode="all"):
        ask("x")
    assert "hash_seed" not in (tmp_path / "a.yaml").read_text()
