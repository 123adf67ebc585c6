"""`verify` finds old defects of replays when they are put back, also where all replays are wrong in the same way."""

from __future__ import annotations

from collections import Counter

import pytest

from agenttape_core import verify
from agenttape_core.results import Verification

from . import put_back

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verification, Verification]:
    """What is found of all programs as they are, and of all with what they depend on undone."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("put_back")
        patch.chdir(folder)
        recorded = put_back.all_programs()
        assert recorded["race"] == recorded["threads"] == ["c", "b", "a"]
        assert recorded["timeout"] == "TimeoutError"
        patch.setenv("COUNTED", str(folder / "counted"))
        sound = verify(put_back.all_programs, runs=2, vary={"schedule", "earlier_replays"})
        in_each = Counter((folder / "counted").read_text(encoding="utf-8").split())
        assert sorted(in_each.values()) == [1, 3], "earlier replays, in one of two processes"
        patch.setenv("PUT_BACK", "1")
        return sound, verify(put_back.all_programs, runs=2, vary=set())


def test_nothing_put_back(verified: tuple[Verification, Verification]) -> None:
    """As they are, all programs replay as recorded, in whatever schedule."""
    assert verified[0].ok, str(verified[0])


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("race.yaml", "order of answers"),
        ("threads.yaml", "order of threads"),
        ("naps.yaml", "times read by run/naps/nap#3 tests"),
        ("other.yaml", "calls without a recording"),
    ],
)
def test_divergences_from_the_recording(where: str, what: str, verified: tuple[Verification, Verification]) -> None:
    """Where order and clock are not those of the recording, this is found, although replays agree."""
    found = [each for each in verified[1].differences if each.what.startswith(f"{what} of {where}")]
    assert [(each.runs, each.cause.name) for each in found] == [((0, 1), "not as recorded")]
    assert "  recorded  " in str(found[0])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("no_call.yaml", "The run made 0 of the 1 recorded calls"),
        ("connection.yaml", "tried to connect to 192.0.2.1:9"),
        ("moved", "No cassette yet"),
    ],
)
def test_failures_that_the_program_catches(where: str, said: str, verified: tuple[Verification, Verification]) -> None:
    """A session that fails around its calls is found, also where it made none, and the program caught the failure."""
    found = [
        each for each in verified[1].differences if each.what.startswith(f"failure that the program caught of {where}")
    ]
    assert [(each.runs, each.cause.name) for each in found] == [((0, 1), "caught failure")]
    assert said in found[0].other


def test_an_order_that_cannot_be_imposed(verified: tuple[Verification, Verification]) -> None:
    """An order that a session could not impose is told, and is no difference where results are equal."""
    sound, found = verified
    assert not sound.nondeterminism
    assert {line.partition(" ")[0] for line in found.nondeterminism} == {"small.yaml"}, str(found)
    assert f"  the recorded order could not be imposed: {', '.join(found.nondeterminism)}" in str(found).splitlines()
    assert found.to_dict()["nondeterminism"] == list(found.nondeterminism)
    assert not [each for each in found.differences if "small" in each.what]


def test_clocks_bound_before_the_session(verified: tuple[Verification, Verification]) -> None:
    """A default that is not frozen differs from replay to replay, and the advice names it."""
    found = next(each for each in verified[1].differences if each.what == "return value at $.note")
    assert found.cause.name == "nothing varied"
    assert "default_factory" in found.cause.remedy
