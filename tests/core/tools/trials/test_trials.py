"""The samples of a trial: what they may cost together, which count, what fails, and tables that agree."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.strategies.sampling import Case, Most, Taken, take_samples
from agenttape_core.experiments.strategies.trials import (
    LOST,
    NO_CALL,
    Group,
    Sample,
    Trial,
    judged,
    lines_of,
    plain_of,
    read_trials,
)
from agenttape_core.experiments.verdicts import Pairs
from agenttape_core.tools.report import Trajectory

RECORDED = Trajectory(("chat old", "look(1)"), 100, 0.5)
SAMPLES: dict[str, dict[str, Any]] = {
    ".": {},  # passes, as it was recorded
    "f": {"passed": False, "problem": "AssertionError: no"},
    "p": {"diverges_at": "look(1) → the end"},
    "q": {"diverges_at": "look(1) → look(2)"},
    "d": {"unrecorded": ({"kind": "tool", "name": "look"},), "diverges_at": "look(1) → look(2) refused"},
    "x": {"passed": False, "problem": "APIConnectionError: Connection error.", "unseen": LOST},
    "n": {"passed": False, "problem": "it asked no model, and the recording did", "unseen": NO_CALL},
    "o": {"unseen": LOST},
}
"""Sorts of samples, by a letter."""
COUNTING = ".fpq"


def trial(baseline: str, candidate: str) -> Trial:
    """Return a trial with a sample for each letter."""
    groups: list[tuple[Group, str]] = [("baseline", baseline), ("candidate", candidate)]
    samples = [
        Sample(**{"group": group, "number": number, "passed": True, "trajectory": RECORDED, **SAMPLES[letter]})
        for group, letters in groups
        for number, letter in enumerate(letters, 1)
    ]
    return Trial("test_shop.py::test_refund[a|b]", "openai:new", RECORDED, tuple(samples))


@pytest.mark.parametrize(
    ("baseline", "candidate", "pairs", "diverges_at"),
    [
        ("...", "...", Pairs(0, 3, 0), ""),
        ("..p", "..q", Pairs(0, 3, 0), "look(1) → look(2)"),  # another path is told, and no verdict
        ("..p", "ppp", Pairs(0, 3, 0), ""),  # the baseline takes that path, too
        ("..f", ".ff", Pairs(0, 2, 1), ""),
        ("fff", "..f", Pairs(2, 1, 0), ""),
        ("...", "f.d", Pairs(0, 1, 1), "look(1) → look(2) refused"),  # what would have happened then is not known
        ("d..", "fff", Pairs(0, 0, 2), ""),  # nor what it would have to be compared with
        ("...", "xnf", Pairs(0, 0, 1), ""),  # the provider was down, and once no model was asked
        ("...", "ooo", Pairs(), ""),  # a fallback of the program has answered
        (".....", "ff", Pairs(0, 0, 2), ""),
        ("", "...", Pairs(), ""),
    ],
)
def test_pairs(baseline: str, candidate: str, pairs: Pairs, diverges_at: str) -> None:
    """Samples of the same number make a pair if both count; paths are told beside it, if the baseline has none such."""
    found = trial(baseline, candidate)
    assert (found.pairs, found.diverges_at) == (pairs, diverges_at)
    assert sum(found.left_out.values()) == sum(letter not in COUNTING for letter in baseline + candidate)


@pytest.mark.parametrize(
    ("baseline", "candidate", "family", "wanted", "said"),
    [
        ("." * 6, "f" * 6, 1, None, "WORSE: 0 of 6 samples passed with openai:new, 6 of 6 of the baseline"),
        ("." * 6, "f" * 6, 2, None, ""),  # of two tests, one needs more evidence
        ("." * 9, "f" * 9, 2, None, "WORSE"),
        ("." * 9, "f.f.f.f.f", 1, None, ""),  # noise, as far as is known
        ("." * 9, "f.f.f.f.f", 1, 1.0, "4 of 9 samples passed with openai:new: it is below 1"),
        ("." * 9, "f.f.f.f.f", 1, 0.9, "below 0.9"),
        ("." * 9, "f.f.f.f.f", 1, 0.8, ""),
        ("." * 9, "f.f.f.f.f", 50, 0.9, ""),
        ("...", "nnn", 1, None, "nothing to judge: no sample of openai:new counts (3 made no call)"),
        ("...", "xxd", 1, None, "(2 lost its endpoint, 1 made an unrecorded call)"),
        ("xx", "..", 1, None, "no sample of the baseline counts (2 lost its endpoint)"),  # the old model has retired
        ("", "..", 1, None, ""),
        ("", ".f", 1, None, "it is below 1"),  # without a baseline there is no noise to compare with
        ("", ".f", 1, 0.9, ""),
    ],
)
def test_failures(baseline: str, candidate: str, family: int, wanted: float | None, said: str) -> None:
    """A trial fails if it is worse, if it is certain that too few pass, or if there is nothing to judge."""
    found = trial(baseline, candidate).failure(family, wanted)
    assert said in found
    assert bool(said) == bool(found)


def test_notes() -> None:
    """What does not count is told with reasons, and UNCLEAR with the pairs that settle it and their cost."""
    (one,) = judged([trial("...d", "...x")])
    assert one.notes == [
        "not counted: 1 made an unrecorded call, 1 lost its endpoint",
        "UNCLEAR after 3 pairs of samples: 35 pairs more would settle it if they are like these, about $35.0000",
    ]
    assert judged([trial("", "..")])[0].notes == ["UNCLEAR: there is no baseline to compare with"]
    assert judged([trial("d", ".")])[0].notes[-1] == "UNCLEAR: no pair of samples counts"
    assert "would not settle it" in judged([trial(".f" * 9, "f." * 9)])[0].notes[0]
    assert judged([trial("." * 6, "f" * 6)])[0].notes == []


@given(st.text("".join(SAMPLES), max_size=6))
def test_a_model_is_never_worse_than_itself(letters: str) -> None:
    """Where both groups have the same samples, there is no difference."""
    assert trial(letters, letters).pairs == Pairs(0, sum(letter in COUNTING for letter in letters), 0)


GROUPS = st.tuples(st.text("".join(SAMPLES), max_size=9), st.text("".join(SAMPLES), max_size=9))


@given(groups=st.lists(GROUPS, max_size=3))
def test_all_forms_agree(groups: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The text and JSON of a table have the same verdicts, and JSON comes back as the same trials."""
    trials = [trial(*each) for each in groups]
    plain = json.loads(json.dumps(plain_of(trials)))
    said = [one["verdict"] for one in plain["trials"]]
    lines = lines_of(judged(trials))[1 : 1 + len(groups)]
    for line, verdict, (_, candidate) in zip(lines, said, groups, strict=True):
        counting = [letter for letter in candidate if letter in COUNTING]
        assert f"  {verdict} " in line
        assert f"  {len(counting) - counting.count('f')}/{len(counting)} " in line
    for one in plain["trials"]:
        pairs, (low, high) = one["pairs"], one["difference"]
        assert low <= (pairs["better"] - pairs["worse"]) / (sum(pairs.values()) or 1) <= high
    path = tmp_path_factory.getbasetemp() / "trials.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert [asdict(one) for one in read_trials(path)] == [asdict(one) for one in trials]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"trials": [{}]}', '{"trials": 1}', '{"trials": [{"name": "a"}]}'])
def test_no_trials(text: str, tmp_path: Path) -> None:
    """A file that holds no trials is refused with the option that writes one."""
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="--cassette-report"):
        read_trials(tmp_path / "report.json")


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_samples_in_parallel_share_what_is_left(jobs: int) -> None:
    """Samples that are taken at the same time may spend no more than the limit between them."""
    together, limits = Barrier(jobs), []

    def take(_group: str, _number: int, limit: float | None) -> Taken:
        limits.append(limit or 0.0)
        together.wait(20)
        return Taken(passed=True, spent=0.25 / jobs)

    cases = [Case(f"case {number}", "other:model", Trajectory(), take) for number in range(jobs)]
    take_samples(cases, Most(samples=1, baseline=0, family=jobs, max_usd=1.0, jobs=jobs), [])
    assert limits == pytest.approx([1.0 / jobs] * jobs)
    assert sum(limits) <= 1.0
