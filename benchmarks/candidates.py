"""Other models tried on a suite by `--cassette-lab=model`, beside the same suite that asks each of them plainly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import suites
from measure import FULL, Row, Scale
from suites import OpenAILoopback, Suite

from weather_agent.policy import Reply

_TESTS, _CANDIDATES = 50, 20
_ASKED, _SECONDS = 3, 0.3
"""The calls of a model that a test makes, and the seconds that a usual one takes to answer."""
_PLAIN = Suite("", "")
_OURS = suites.SUITES["ours"]

_HEAD = """import pytest
from langchain_openai import ChatOpenAI
from agent import answer, os


def model(name="old"):
    return ChatOpenAI(model=name, base_url=os.environ["BENCH_URL"], api_key="sk-any")
"""


def candidates(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the processor time that samples take beyond the same tests with the same models, and what share that is.

    Where the benchmark is only tried, nothing is run: a `pytest` takes seconds.
    """
    if scale is not FULL:
        return
    names = [f"new-{number}" for number in range(_CANDIDATES)]
    _write(folder / "plain", f"@pytest.mark.parametrize('name', {names})\n", "name")
    _write(folder / "ours", "@pytest.mark.cassette\n", "")
    with OpenAILoopback(_policy) as server:
        suites.run(_OURS, folder / "ours", server.base_url, _OURS.recording)
        plain = suites.run(_PLAIN, folder / "plain", server.base_url)[1]
        tried = (f"--cassette-lab=model:openai:{name}" for name in names)
        options = ("--cassette-samples=1/0", *tried)
        ours = suites.run(_OURS, folder / "ours", server.base_url, *options)[1]
    samples = _TESTS * _CANDIDATES
    more, answers = ours - plain, samples * _ASKED * _SECONDS
    what = f"{_CANDIDATES} candidates x {_TESTS} tests of 6 calls, beyond the plain suite"
    yield Row(f"{what}: processor, a sample", f"+{more / samples * 1000:.0f} ms")
    yield Row(f"{what}: of its time, at {_SECONDS} s an answer", f"+{more / (plain + answers):.1%}", "<= +10 %")


def _write(folder: Path, marker: str, argument: str) -> None:
    _PLAIN.write(folder, 0)
    body = 'def test_{0}({1}):\n    assert "City {0}" in answer(model({1}), "City {0}")\n'
    bodies = (f"\n\n{marker}{body.format(test, argument)}" for test in range(_TESTS))
    (folder / "test_all.py").write_text(_HEAD + "".join(bodies))


def _policy(turn: Any) -> Reply:
    """Ask for two tools at once, then for one, and answer."""
    cities = {0: ("a", "b"), 2: ("c",)}.get(len(turn.tool_results), ())
    calls = tuple(("get_weather", {"city": f"{turn.user_text} {city}"}) for city in cities)
    return Reply(tool_calls=calls) if calls else Reply(turn.user_text)
