"""The report on changed recordings: paths first, words second, and nothing in it acts on a forge."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import open_cassette, use_cassette
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.prices import NoPrices
from agenttape_core.tools.report import Change, Totals, Trajectory, change_of, comment, markdown

from ...session.world import call


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Callable[[], Cassette]]:
    """Records tools with their city, and returns how to open what was recorded."""

    def record(*cities: str, answer: str = "sunny") -> Callable[[], Cassette]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        with use_cassette(path, mode="all"):
            for city in cities:
                call("look", lambda: answer, arguments={"city": city})
        return lambda: open_cassette(path)

    return record


def changed(before: Callable[[], Cassette] | None, now: Callable[[], Cassette] | None) -> Change:
    """Return the change, which there is."""
    found = change_of("a.yaml", before, now, NoPrices())
    assert found is not None
    return found


def test_another_path(recorded: Callable[..., Callable[[], Cassette]]) -> None:
    """A tool that is called with other arguments, or not at all, is another path, shown call by call."""
    change = changed(recorded("Paris", "Rome"), recorded("Paris", "Oslo"))
    assert (change.state, change.calls) == (
        "path",
        ('  look(city="Paris")', '- look(city="Rome")', '+ look(city="Oslo")'),
    )
    assert changed(recorded("Paris", "Rome"), recorded("Paris")).calls[-1] == '- look(city="Rome")'


def test_the_same_path(recorded: Callable[..., Callable[[], Cassette]]) -> None:
    """The same calls with other answers are the same path; a run that was recorded again is the same.

    A recording that only one side has is new or gone.
    """
    change = changed(recorded("Paris"), recorded("Paris", answer="rainy"))
    assert (change.state, change.calls, change.changed) == ("words", (), 1)
    assert change.words == (("tool look at look", "outcome.value", "[-sunny-]", "{+rainy+}"),)
    same = changed(recorded("Paris"), recorded("Paris"))
    assert same.state == "same"
    assert "no recording changed" in markdown([same], "HEAD")
    assert changed(None, recorded("Paris")).state == "new"
    assert changed(recorded("Paris"), None).state == "gone"


def test_broken_files(tmp_path: Path, recorded: Callable[..., Callable[[], Cassette]]) -> None:
    """What cannot be read any more is said; a file that never was a cassette is none."""
    (tmp_path / "other.yaml").write_text("services: {}\n")

    def other() -> Cassette:
        return open_cassette(tmp_path / "other.yaml")

    change = changed(recorded("Paris"), other)
    assert change.state == "unreadable"
    assert change.problem
    assert change_of("a.yaml", other, other, NoPrices()) is None
    assert change_of("a.yaml", None, other, NoPrices()) is None


def test_totals() -> None:
    """The sums are of all recordings, those that did not change among them."""
    changes = [
        Change("a", "path", before=Trajectory(tokens=10, dollars=0.1), now=Trajectory(tokens=30, dollars=0.3)),
        Change("b", "same", before=Trajectory(tokens=5), now=Trajectory(tokens=5)),
    ]
    assert Totals.of(changes) == Totals(2, 1, 1, (15, 35), (0.1, 0.3))
    text = markdown(changes, "main")
    assert text.startswith("### AgentTape: 1 of 2 recordings changed, 1 took another path\n")
    assert "| **all 2** | | | 15 → 35 | $0.1000 → $0.3000 |" in text


@given(st.text(max_size=60), st.text(max_size=60))
def test_nothing_acts_on_a_forge(path: str, said: str) -> None:
    """Whatever a recording holds stays inside its fence and its cell: no mention, no tag, no second row."""
    text = markdown([Change(path, "path", calls=(f"+ {said}",), words=((said, said, said, said),))], "main")
    fences = [line for line in text.splitlines() if re.fullmatch("`{3,}(diff)?", line)]
    assert len([line for line in fences if line.endswith("diff")]) == 1
    opening = next(line for line in fences if line.endswith("diff"))
    before, _, rest = text.partition(f"\n{opening}\n")
    inside, closing, after = rest.partition(f"\n{opening.removesuffix('diff')}\n")
    assert closing
    assert len([line for line in before.splitlines() if line.startswith("| ")]) == 3
    summary = before.partition("<details><summary>")[2].partition("</summary>")[0]
    assert "<" not in summary
    assert "@" not in summary
    assert not re.search(r"[\x00-\x08\x1b\u202e]", text)
    assert after.strip().startswith("</details>")
    assert inside


def test_a_comment_fits() -> None:
    """A comment is no longer than a forge takes, and is cut between recordings."""
    changes = [Change(f"{n}.yaml", "path", calls=(f"+ {'x' * 500}",)) for n in range(300)]
    body = comment(markdown(changes, "main"))
    assert len(body) < 65_536
    assert body.startswith("<!-- agenttape-report -->\n### AgentTape")
    assert body.count("<details>") == body.count("</details>")
    assert body.rstrip().endswith("see the summary of the job.")
