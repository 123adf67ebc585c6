"""Six seeded culprits, each named right: one part varies alone, and models are asked only within a limit."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import flaky, program_of
from agenttape_core.experiments.strategies.flaky import Group, Sample
from agenttape_core.integration import Boundary, Usage
from agenttape_core.results import FlakyParts

from ...session.world import call

CHAT = Boundary("chat", usage=lambda _: Usage(input_tokens=1000, output_tokens=1000))


class Parts:
    """The parts of a program, each of which can be flaky: every third time, it does something else."""

    def __init__(self, flaky: str) -> None:
        self.flaky = flaky
        self.asked: list[str] = []
        self._turns: dict[str, Iterator[int]] = {}

    def other(self, part: str) -> bool:
        """Return whether a flaky part does something else this time."""
        turn = next(self._turns.setdefault(part, itertools.count()))
        return part in self.flaky.split("+") and turn % 3 == 2

    def look_up(self, order: str) -> str:
        """Look an order up."""

        @boundary("tool")
        def look_up(order: str) -> str:
            self.asked.append("tool")
            return f"{order} is lost" if self.other("tool") else f"{order} is on its way"

        return look_up(order)

    def ask(self, name: str, question: str) -> str:
        """Ask a model."""

        def answer() -> str:
            self.asked.append(name)
            if name == "judge":
                return "no" if self.other("judge") else "yes"
            if "together" in self.flaky and "lost" in question:
                return "It is gone."
            return "I do not know." if self.other("model") else "It comes."

        said: str = call(name, answer, CHAT, model="gpt-x", messages=[question])
        return said

    def run(self) -> None:
        """Answer, and judge the answer."""
        if self.other("code"):
            raise LookupError("the code is flaky")
        state = self.look_up("9981")
        if self.flaky == "tool":
            assert "lost" not in state
        said = self.ask("gpt", f"Where is 9981? {state}")
        assert said == "It comes."
        assert self.ask("judge", f"Is this polite? {said}") == "yes"


def recorded(flaky: str) -> Parts:
    """Record a program in a good hour."""
    parts = Parts(flaky)
    with use_cassette("c", mode="all"):
        parts.run()
    parts.asked.clear()
    return parts


@pytest.mark.usefixtures("prices")
def test_a_dry_run() -> None:
    """A dry run shows what each part would take, and runs nothing."""
    parts = recorded("none")
    found = flaky(parts.run, "c", samples=4, live=["look_up"], judge="judge", dry_run=True)
    assert parts.asked == []
    shown = str(found)
    assert "tool look_up: not tried, in a dry run: 4 runs that call it" in shown
    assert "model: not tried, in a dry run: 4 calls of models, about $0." in shown
    assert "all together: not tried, in a dry run: 8 calls of models, about $0." in shown
    assert found.ok


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(
    ("part", "verdict"),
    [
        ("code", "code"),
        ("tool", "tool look_up"),
        ("model", "model"),
        ("judge", "judge"),
        ("tool+together", "several together"),
        ("none", "nothing has failed"),
    ],
)
@pytest.mark.slow
def test_the_culprit(part: str, verdict: str) -> None:
    """Whichever part is flaky is named, and no other; of a flaky code, nothing else is tried."""
    parts = recorded(part)
    found = flaky(parts.run, "c", samples=4, max_usd=1, live=["look_up"], judge="judge", processes=0)
    assert found.verdict == verdict, str(found)
    if part == "code":
        assert [group.part for group in found.groups] == ["code"]
    else:
        assert [group.part for group in found.groups] == ["code", "order", "tool", "model", "judge", "together"]
        assert [group.calls for group in found.groups[:5]] == [0, 0, 0, 4, 4]
        assert 4 <= found.groups[5].calls <= 8
        assert found.groups[3].dollars == pytest.approx(0.004)
    if part == "tool+together":
        assert "1 with another answer, after which something else was asked" in str(found)


def test_the_order(project: Path) -> None:
    """A program whose outcome depends on which of two calls answers first is named by the order."""

    async def in_order(name: str) -> str:
        """Answer at once."""
        return name

    @boundary("tool")
    async def search(town: str) -> str:
        """Find something, sooner or later."""
        return await in_order(f"about {town}")

    async def run() -> str:
        done: list[str] = []

        async def one(town: str) -> None:
            done.append(await search(town))

        await asyncio.gather(one("Nice"), one("Lyon"))
        return ", ".join(done)

    with use_cassette("c", mode="all"):
        asyncio.run(run())
    found = flaky(run, "c", samples=2, processes=0, live=[])
    assert found.verdict == "order", str(found)
    assert "tool search: not tried, as it is not among the tools that may be live" in str(found)


def test_nothing_is_asked_without_a_limit(project: Path) -> None:
    """Without a limit no model is asked, and no tool that is not known to do nothing outside."""
    parts = recorded("model")
    found = flaky(parts.run, "c", samples=2, processes=0)
    assert [group.skipped.partition(":")[0] for group in found.groups if group.part in {"model", "together"}] == [
        "as models are asked only within a limit"
    ] * 2
    assert set(parts.asked) <= {"tool"}


@pytest.mark.usefixtures("prices")
def test_the_limit_is_kept() -> None:
    """A group ends where the next call would cost more than is left, and says so."""
    parts = recorded("none")
    found = flaky(parts.run, "c", samples=5, max_usd=0.0025, processes=0)
    model = next(group for group in found.groups if group.part == "model")
    assert model.skipped == "the limit of the cost was reached"
    assert len(parts.asked) - parts.asked.count("tool") == 2
    assert sum(group.dollars for group in found.groups) <= 0.0025
    with use_cassette("later", mode="all"):  # the limit is one of the triage
        parts.run()


def test_what_leaves_the_recording() -> None:
    """A group whose samples left the recorded world blames nobody, and says so."""
    left = Group("model", samples=(Sample("left", "no recording for tool x"), Sample("passed")))
    found = FlakyParts("p", "c.yaml", (Group("code", samples=(Sample("passed"),)), left), 7)
    assert found.culprits == []
    assert "model: none of 2 failed, which leaves up to 87%, 1 made an unrecorded call" in str(found)
    assert found.to_dict()["groups"][1]["reasons"] == ["no recording for tool x"]


@pytest.mark.process
def test_the_environment(project: Path) -> None:
    """A function that other processes can import is replayed in them, too: the group of the code has these samples."""
    Path("desk_of_triage.py").write_text(
        "from agenttape_core import boundary\n\n\n@boundary('tool')\ndef towns():\n    return ['Lyon', 'Nice']"
        "\n\n\ndef run():\n    return sorted(set(towns()))\n"
    )
    program: Any = program_of("desk_of_triage.py:run")
    with use_cassette("c", mode="all"):
        program.function()
    found = flaky(program, "c", samples=1, processes=2)
    assert found.culprits == [], str(found)
    assert len(found.groups[0].samples) == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"samples": 0}, "samples=0: expected a number, at least 1"),
        ({"live": ["fly"]}, "live={'fly'}: no recorded call of cassettes/c.yaml is selected; there are"),
        ({"judge": "jury"}, "judge={'jury'}: no recorded call"),
        ({"max_usd": -1}, "expected a limit in US dollars"),
    ],
)
def test_wrong_options(project: Path, options: Any, problem: str) -> None:
    """Each is refused before anything runs."""
    parts = recorded("none")
    with pytest.raises(ConfigurationError, match=problem):
        flaky(parts.run, "c", **options)
    assert parts.asked == []
