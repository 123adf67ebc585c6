"""Trials: verdicts on paired samples, how often they are wrong, which samples count, and what fails."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import accumulate, islice
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
from agenttape_core.experiments.verdicts import (
    ALPHA,
    MARGIN,
    Pairs,
    Verdict,
    difference_of,
    pairs_to_settle,
    share_of,
    verdict_of,
    verdicts_of,
)
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


TRIALS = 500
verdict = cache(verdict_of)
COUNTS = st.builds(Pairs, st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))


def growing(baseline: float, candidate: float, seed: int) -> Iterator[Pairs]:
    """Yield the counts after each pair of samples of two models that pass with these probabilities."""
    chance = random.Random(seed)
    better = equal = worse = 0
    while True:
        before, now = chance.random() < baseline, chance.random() < candidate
        better, equal, worse = better + (now and not before), equal + (now == before), worse + (before and not now)
        yield Pairs(better, equal, worse)


@cache
def is_worse(better: int, worse: int) -> bool:
    """Return whether the verdict is WORSE, on which equal pairs have no effect."""
    return verdict_of(Pairs(better, 0, worse)) == "WORSE"


@cache
def rejected(count: int, share: float) -> float:
    """Return how often McNemar's exact test, one-sided at 5 %, rejects equality after some pairs that differ."""
    tails = accumulate(math.comb(count, each) / 2**count for each in range(count + 1))
    needed = count + 1 - sum(tail <= ALPHA for tail in tails)  # so many at least are worse
    return sum(
        math.comb(count, each) * share**each * (1 - share) ** (count - each) for each in range(needed, count + 1)
    )


@pytest.mark.parametrize("share", [0.8, 0.85, 0.9, 0.95])
def test_equal_models_are_seldom_called_worse(share: float) -> None:
    """Of trials of two equal models, looked at after each of 200 pairs, at most 5 % ever say WORSE."""
    looks = (islice(growing(share, share, seed), 200) for seed in range(TRIALS))
    false = sum(any(is_worse(int(pairs.better), int(pairs.worse)) for pairs in each) for each in looks)
    assert false / TRIALS <= 0.05


@pytest.mark.slow
def test_a_drop_is_found_in_half_the_samples_of_a_fixed_design() -> None:
    """A drop from .9 to .7 is found with 90 % power in half the pairs of a design for the least drop worth finding.

    A fixed design has to be planned for that least drop, from .9 to .8, as the real one isn't known before: 232 pairs
    with McNemar's exact test. Against a design that knew the drop to .7 beforehand (74 pairs), nothing could halve the
    samples: at 37 pairs, McNemar's test, for which 37 were planned, has less than 65 % power itself.
    """

    def power_of_mcnemar(baseline: float, candidate: float, pairs: int) -> float:
        """Return how often the test finds a drop in a fixed number of pairs."""
        worse, better = baseline * (1 - candidate), candidate * (1 - baseline)
        apart = worse + better
        return sum(
            rejected(count, worse / apart) * math.comb(pairs, count) * apart**count * (1 - apart) ** (pairs - count)
            for count in range(pairs + 1)
        )

    def fixed_design(baseline: float, candidate: float) -> int:
        """Return the fewest pairs with which McNemar's exact test finds a drop in 90 % of all trials."""
        return next(pairs for pairs in range(20, 400) if power_of_mcnemar(baseline, candidate, pairs) >= 0.9)

    def stopped(baseline: float, candidate: float, seed: int, most: int) -> tuple[int, Verdict]:
        """Return the number of pairs at which a trial stops, and its verdict."""
        for number, pairs in zip(range(1, most + 1), growing(baseline, candidate, seed), strict=False):
            if (told := verdict(pairs)) != "UNCLEAR":
                return number, told
        return most, "UNCLEAR"

    planned, known = fixed_design(0.9, 0.9 - MARGIN), fixed_design(0.9, 0.7)
    assert (planned, known) == (232, 74)
    assert power_of_mcnemar(0.9, 0.7, known // 2) < 0.65
    ended = [stopped(0.9, 0.7, seed, planned // 2) for seed in range(TRIALS)]
    assert sum(told == "WORSE" for _, told in ended) / TRIALS >= 0.9
    assert sum(number for number, _ in ended) / TRIALS < 0.8 * known  # on average, it's less than a design that knew


def test_a_family_has_few_false_alarms() -> None:
    """Of families of 20 equal models, stopped where each looks worst, at most 5 % contain a WORSE."""

    def _worse(pairs: Pairs) -> float:
        return pairs.worse - pairs.better

    false = 0
    for seed in range(100):
        worst = [
            max((pairs for _, pairs in zip(range(60), growing(0.9, 0.9, 1000 * seed + at), strict=False)), key=_worse)
            for at in range(20)
        ]
        false += "WORSE" in verdicts_of(worst)
    assert false / 100 <= 0.05


def test_a_family_of_many_that_are_worse_needs_no_more_than_one() -> None:
    """If all trials of a family are worse, each is found with the evidence that one alone needs; one of 20 isn't."""
    clear, equal = Pairs(0, 0, 6), Pairs(0, 6, 0)
    assert verdicts_of([clear]) == ["WORSE"]
    assert verdicts_of([clear] * 20) == ["WORSE"] * 20
    assert verdicts_of([clear] + [equal] * 19) == ["UNCLEAR"] * 20
    assert verdict_of(clear, family=20) == "UNCLEAR"


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        (Pairs(), "UNCLEAR"),
        (Pairs(0, 3, 0), "UNCLEAR"),  # three of three passes say nothing yet
        (Pairs(0, 2, 1), "UNCLEAR"),
        (Pairs(0, 0, 5), "UNCLEAR"),
        (Pairs(0, 0, 6), "WORSE"),
        (Pairs(0, 100, 6), "WORSE"),  # equal pairs say nothing on which is better
        (Pairs(6, 0, 0), "BETTER"),
        (Pairs(0, 37, 0), "UNCLEAR"),
        (Pairs(0, 38, 0), "SAME"),
        (Pairs(10, 300, 10), "SAME"),
        (Pairs(10, 30, 10), "UNCLEAR"),
        (Pairs(0, 2000, 8), "WORSE"),  # a small difference that is certain
    ],
)
def test_planted_verdicts(pairs: Pairs, wanted: Verdict) -> None:
    """Planted counts have the verdict that they must have."""
    assert verdict_of(pairs) == wanted


@given(COUNTS)
def test_verdicts_agree_with_their_interval(pairs: Pairs) -> None:
    """WORSE is an interval below 0, BETTER one above, SAME one within the margin, UNCLEAR none of these."""
    low, high = difference_of(pairs)
    told = verdict_of(pairs)
    assert -1 <= low <= high <= 1
    assert (told == "WORSE") == (high < 0)
    assert (told == "BETTER") == (low > 0)
    assert (told == "SAME") == (low > -MARGIN and high < MARGIN and low <= 0 <= high)


@given(COUNTS)
def test_equal_pairs_do_not_show_which_is_worse(pairs: Pairs) -> None:
    """Whether a verdict is WORSE depends on the pairs that differ alone, as the simulations rely on."""
    assert (verdict_of(pairs) == "WORSE") == is_worse(int(pairs.better), int(pairs.worse))


@given(COUNTS)
def test_verdicts_turn_with_the_lanes(pairs: Pairs) -> None:
    """With baseline and candidate exchanged, WORSE becomes BETTER, and nothing else changes."""
    turned: dict[Verdict, Verdict] = {"WORSE": "BETTER", "BETTER": "WORSE", "SAME": "SAME", "UNCLEAR": "UNCLEAR"}
    assert verdict_of(pairs.turned) == turned[verdict_of(pairs)]


@given(st.lists(COUNTS, min_size=1, max_size=3))
def test_the_pairs_that_settle_it_do_so(family: list[Pairs]) -> None:
    """So many pairs more at the same rates give a verdict, and one fewer doesn't; none are needed after a verdict."""

    def grown(pairs: Pairs, told: Verdict, more: int) -> Pairs:
        """Return the pairs of a trial that has no verdict yet, after some more at the same rates."""
        if told != "UNCLEAR" or not pairs.total:
            return pairs if pairs.total else Pairs(equal=more)
        return Pairs(*(each * (1 + more / pairs.total) for each in pairs))

    needed, now = pairs_to_settle(family), verdicts_of(family)

    def later(more: int) -> list[Verdict]:
        return verdicts_of([grown(*one, more) for one in zip(family, now, strict=True)])

    for place, more in enumerate(needed):
        assert (more == 0) == (now[place] != "UNCLEAR")
        if more != 0:
            assert more is None or later(more)[place] != "UNCLEAR"
            assert later(2000 if more is None else more - 1)[place] == "UNCLEAR"


def test_what_a_first_look_foretells() -> None:
    """After no pair or three equal ones, 38 in all would give SAME; a family of ten needs no more if all are equal."""
    assert pairs_to_settle([Pairs()]) == [38]
    assert pairs_to_settle([Pairs(0, 3, 0)]) == [35]
    assert pairs_to_settle([Pairs(0, 3, 0)] * 10) == [35] * 10
    assert pairs_to_settle([Pairs(0, 3, 0), *[Pairs(10, 10, 10)] * 9])[0] == 59


def test_bounds_of_shares() -> None:
    """Of nothing a share may be all, it narrows with samples, and one failure proves that not all pass."""
    assert share_of(0, 0) == (0.0, 1.0)
    low, high = share_of(8, 10)
    assert 0.3 < low < 0.8 < high < 1
    assert share_of(80, 100)[0] > low
    assert share_of(2, 3)[1] < 1
    assert share_of(3, 3)[1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_bounds_of_shares_hold_at_all_times(share: float) -> None:
    """Looked at after each of 100 samples, a bound is wrong in at most 5 % of all trials."""
    bound = cache(lambda count, of: share_of(count, of)[0])
    wrong = 0
    for seed in range(300):
        chance = random.Random(seed)
        seen = list(accumulate(chance.random() < share for _ in range(100)))
        wrong += any(bound(count, of) > share for of, count in enumerate(seen, 1))
    assert wrong / 300 <= 0.05
