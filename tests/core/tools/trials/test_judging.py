"""The verdicts of trials: planted samples of a baseline and a candidate, and tables of them that agree."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.report.trajectory import Trajectory
from agenttape_core.tools.trials import Sample, Trial, lines_of, markdown_of, plain_of, read_trials
from agenttape_core.tools.trials.judging import Lane, interval_of

RECORDED = Trajectory(("chat old", "look(1)"), 100, 0.5)
SAMPLES = {
    ".": {},  # passes, as it was recorded
    "f": {"passed": False, "problem": "AssertionError: no"},
    "p": {"parts_at": "look(1) → the end"},
    "q": {"parts_at": "look(1) → look(2)"},
    "d": {"drift": ({"kind": "tool", "name": "look"},), "parts_at": "look(1) → look(2) refused"},
    "x": {"passed": False, "problem": "APIConnectionError: Connection error.", "is_answered": False},
    "o": {"is_answered": False},
}
"""Sorts of samples, by a letter."""


def trial(baseline: str, candidate: str) -> Trial:
    """Return a trial with a sample for each letter."""
    lanes: list[tuple[Lane, str]] = [("baseline", baseline), ("candidate", candidate)]
    samples = [
        Sample(**{"lane": lane, "number": number, "passed": True, "trajectory": RECORDED, **SAMPLES[letter]})
        for lane, letters in lanes
        for number, letter in enumerate(letters, 1)
    ]
    return Trial("test_shop.py::test_refund[a|b]", "openai:new", RECORDED, tuple(samples))


PLANTED = [
    ("...", "...", "SAME", ""),
    ("...", "..p", "CHANGED", "look(1) → the end"),
    ("..p", "ppp", "SAME", ""),  # the baseline takes that path, too
    ("..p", "..q", "CHANGED", "look(1) → look(2)"),
    ("...", "..f", "WORSE", ""),
    ("..f", "..f", "SAME", ""),
    ("..f", ".ff", "WORSE", ""),
    ("fff", "...", "SAME", ""),  # better is not worse
    (".....f", "...", "SAME", ""),
    ("...", "..d", "HOLD", "look(1) → look(2) refused"),
    ("...", "ffd", "HOLD", "look(1) → look(2) refused"),  # what would have happened is not known
    ("..d", "..d", "SAME", ""),
    ("..d", "d.f", "WORSE", ""),
    ("xxx", "xxx", None, ""),  # both providers are down
    ("...", "xxx", None, ""),
    ("...", "ooo", None, ""),  # a fallback of the program has answered
    ("xxx", "...", None, ""),  # the model has retired
    ("...x", "...", "SAME", ""),
    ("...", "...x", "SAME", ""),
    ("..", "fff", None, ""),
    ("...", "dd", None, "look(1) → look(2) refused"),
    ("", "...", None, ""),
    ("...", "", None, ""),
]


@pytest.mark.parametrize(("baseline", "candidate", "verdict", "parts_at"), PLANTED)
def test_verdicts(baseline: str, candidate: str, verdict: str | None, parts_at: str) -> None:
    """Only what the baseline does not show counts, and below three samples of a lane there is no verdict."""
    found = trial(baseline, candidate)
    assert (found.judgement, found.parts_at) == (verdict, parts_at)


@given(st.text("".join(SAMPLES), max_size=6))
def test_a_model_is_never_worse_than_itself(letters: str) -> None:
    """Where both lanes have the same samples, in any order, the verdict is SAME, or there is none."""
    verdict = trial(letters, "".join(reversed(letters))).judgement
    assert verdict == ("SAME" if sum(letter not in "xo" for letter in letters) >= 3 else None)


LANES = st.tuples(st.text("".join(SAMPLES), max_size=5), st.text("".join(SAMPLES), max_size=5))


@given(lanes=st.lists(LANES, max_size=3))
def test_all_forms_agree(lanes: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The text, Markdown and JSON of a table have the same verdicts, and JSON comes back as the same trials."""
    trials = [trial(*each) for each in lanes]
    plain = json.loads(json.dumps(plain_of(trials)))
    said = [one["verdict"] or "too few" for one in plain["trials"]]
    assert [row.split(" | ")[1] for row in markdown_of(trials).replace("\\|", "").splitlines()[2:]] == said
    for line, verdict, (_, candidate) in zip(lines_of(trials)[1:], said, lanes, strict=True):
        passed = sum(letter not in "fx" for letter in candidate)
        assert f"  {verdict} " in line
        assert f"  {passed}/{len(candidate)} " in line
    for one in plain["trials"]:
        for lane in one["lanes"].values():
            assert lane["interval"][0] <= lane["share"] <= lane["interval"][1] or not lane["samples"]
    path = tmp_path_factory.getbasetemp() / "trials.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert [asdict(one) for one in read_trials(path)] == [asdict(one) for one in trials]


def test_intervals() -> None:
    """The interval is Wilson's: of nothing it is all, and it narrows with the samples."""
    assert interval_of(0.0, 0) == (0.0, 1.0)
    assert interval_of(1.0, 3) == (0.438, 1.0)
    assert interval_of(0.8, 5) == (0.376, 0.964)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"trials": [{}]}', '{"trials": 1}', '{"trials": [{"name": "a"}]}'])
def test_no_trials(text: str, tmp_path: Path) -> None:
    """A file that holds no trials is refused with the option that writes one."""
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="--cassette-report"):
        read_trials(tmp_path / "report.json")
