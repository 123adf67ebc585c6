"""What a change of a function would take, and what may depend on a changed call; an update takes no more than that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import BudgetExceededError, CassetteNotFoundError, ConfigurationError
from agenttape_core.experiments.update import plan, update
from agenttape_core.integration import Boundary, Usage
from agenttape_core.schema import IndexRow, Timing
from agenttape_core.session.call import WATCHERS
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.reading import prices
from agenttape_core.tools.reading.prices import Price, PriceTable
from agenttape_core.tools.update import Plan, PlannedCall, are_parallel, below

from ...session.world import call

CASSETTE = Path("cassettes/c.yaml")
CHAT = Boundary("chat", usage=lambda _: Usage(input_tokens=1000, output_tokens=1000))


class Agent:
    """A run whose questions can be edited. It notes what really happens."""

    def __init__(self, *questions: str) -> None:
        self.questions = list(questions)
        self.asked: list[str] = []

    def __call__(self) -> list[str]:
        """Ask all, one after another."""
        return [self.ask(question) for question in self.questions]

    def ask(self, question: str) -> str:
        """Ask a model."""

        def real() -> str:
            self.asked.append(question)
            return f"{question} {len(self.asked)}"

        answer: str = call("M", real, CHAT, model="m", question=question)
        return answer


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A recorded agent, in a project with prices: each of its calls costs three cents."""
    monkeypatch.chdir(tmp_path)
    Path("prices.json").write_text(json.dumps({"m": {"input": 10, "output": 20}}))
    Path("pyproject.toml").write_text('[tool.agenttape]\nprices = "prices.json"\n')
    agent = Agent("a", "b", "c")
    with use_cassette("c", mode="all"):
        agent()
    agent.asked.clear()
    return agent


def test_a_plan_executes_nothing(agent: Agent) -> None:
    """A plan names what has changed and what may follow, with the price, and leaves the file alone."""
    before = CASSETTE.read_bytes()
    agent.questions[1] = "B"
    found = plan(agent, "c")
    assert str(found) == "1 of 3 calls changed; up to 1 more depends on it, about $0.06"
    assert [call.number for call in found.changed] == [2]
    assert [call.number for call in found.below] == [3]
    assert found.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert (agent.asked, CASSETTE.read_bytes()) == ([], before)


def test_a_plan_without_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no prices are installed, the plan says how to get some."""
    plan = Plan("c.yaml", 1, (PlannedCall(1, "chat", "ask", "ask", None),))
    assert str(plan) == "1 of 1 call changed, 1 call without a known price"
    monkeypatch.setattr(prices, "_installed", prices.NoPrices)
    assert str(plan).endswith("1 call without a known price (pip install 'agenttape-core[prices]')")


def test_the_unchanged_is_clean(agent: Agent) -> None:
    """Where nothing has changed, there is nothing to update, and an update does nothing, also of a coroutine."""

    async def coroutine() -> None:
        agent()

    assert plan(agent, "c").is_clean
    assert plan(coroutine, "c").is_clean
    with pytest.raises(CassetteNotFoundError):
        plan(agent, "nowhere")
    assert str(update(agent, "c", max_usd=0.0)) == "3 calls, none changed"
    assert agent.asked == []


def test_updated_replays(agent: Agent) -> None:
    """Only what has changed is executed, and the next replay is green."""
    agent.questions[1] = "B"
    update(agent, "c")
    assert agent.asked == ["B"]
    with use_cassette("c") as session:
        assert agent() == ["a 1", "B 1", "c 3"]
    assert str(session.report) == "3 replayed, 0 recorded"


def test_new_and_dropped(agent: Agent) -> None:
    """A plan tells calls without a counterpart, and recordings that nobody asks for."""
    agent.questions.append("d")
    assert "1 new, and what follows" in str(plan(agent, "c"))
    agent.questions[:] = ["a"]
    assert str(plan(agent, "c")) == "0 of 3 calls changed, 2 no longer made"
    update(agent, "c")
    assert (agent.asked, len(open_cassette(CASSETTE).entries)) == ([], 1)


def test_what_other_runs_ask_for(agent: Agent) -> None:
    """If a cassette serves several runs, a plan lists no unused call, and an update drops none."""
    agent.questions[:] = ["a"]
    assert plan(agent, "c", on_unused="ignore").is_clean
    agent.questions[:] = ["z"]
    update(agent, "c", on_unused="ignore")
    assert (agent.asked, len(open_cassette(CASSETTE).entries)) == (["z"], 4)


def test_a_limit_that_does_not_suffice(agent: Agent) -> None:
    """Where it may cost more than is allowed, nothing is executed and nothing is written."""
    before = CASSETTE.read_bytes()
    agent.questions[1] = "B"
    with pytest.raises(ConfigurationError, match=r"about \$0.0600, and \$0.05 is allowed; nothing was recorded"):
        update(agent, "c", max_usd=0.05)
    Path("prices.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="the cost of 2 of the calls is not known"):
        update(agent, "c", max_usd=1.0)
    assert (agent.asked, CASSETTE.read_bytes()) == ([], before)


@pytest.mark.usefixtures("unwatched")
def test_a_limit_for_new_calls(agent: Agent) -> None:
    """A new call, of which the plan knows no cost, isn't made if it may cost more than is left."""
    before = CASSETTE.read_bytes()
    agent.questions[:] = ["a", "b", "c", "d", "e"]
    with pytest.raises(BudgetExceededError, match=r"\$0.0300 of \$0.05 is spent"):
        update(agent, "c", max_usd=0.05)
    assert (agent.asked, CASSETTE.read_bytes()) == (["d"], before)


def test_what_the_program_makes_of_old_answers(agent: Agent) -> None:
    """A plan survives a program that fails on an old answer, and names what was not reached as what may follow."""
    agent.questions[0] = "A"

    def checks() -> None:
        assert agent.ask(agent.questions[0]).startswith("A")

    found = plan(checks, "c")
    assert [call.number for call in found.changed] == [1]


@pytest.fixture
def unwatched() -> Iterator[None]:
    """Give a test calls that nobody watches besides it."""
    before, WATCHERS[:] = WATCHERS[:], []
    yield
    WATCHERS[:] = before


@pytest.mark.usefixtures("unwatched")
def test_a_limit_over_several_sessions(agent: Agent) -> None:
    """The call that would exceed a limit isn't made, even if the program eats the error; earlier sessions count."""
    budget = Budget(0.05, PriceTable({"m": Price(10, 20)})).watch()
    agent.questions[1:] = ["B"]
    with use_cassette("c", mode="update", on_unused="ignore"):
        agent()
    before = CASSETTE.read_bytes()
    agent.questions[1:] = ["C"]
    refused = pytest.raises(BudgetExceededError, match=r"\$0.0300 of \$0.05 is spent")
    with refused, use_cassette("c", mode="update"), suppress(BudgetExceededError):
        agent()
    assert (agent.asked, CASSETTE.read_bytes(), budget.spent) == (["B"], before, pytest.approx(0.03))


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none(limit: float) -> None:
    """A limit is an amount."""
    with pytest.raises(ConfigurationError, match="expected a limit in US dollars"):
        Budget(limit, PriceTable({}))


def row(number: int, address: str, kind: str = "chat") -> IndexRow:
    """One recorded call."""
    return IndexRow(number=number, kind=kind, name="x", address=address, fingerprint=f"{number:032}")


@pytest.mark.parametrize(
    ("first", "other", "parallel"),
    [
        ("G/a@1/M", "G/b@1/M", True),
        ("G/a@1[2]/M", "G/a@1[3]/M", True),
        ("G/a@1~1/t", "G/a@1/t", True),
        ("G/a@1/M", "G/a@1/M#2", False),
        ("G/a@1/M", "G/b@2/M", False),
        ("M", "M~1", False),
        ("G/a@1/H/x@1/M", "G/a@1/H/y@1/M", True),
        ("G/a@1", "G/a@1/M", False),
    ],
)
def test_parallel(first: str, other: str, parallel: bool) -> None:
    """Branches of one superstep are parallel, at whatever depth; nothing else is known to be."""
    assert are_parallel(first, other) is are_parallel(other, first) is parallel


def test_by_times() -> None:
    """What began before a changed call had ended does not depend on it; what began later does."""
    times = {1: Timing(start_ms=0, duration_ms=10), 2: Timing(start_ms=5, duration_ms=1)}
    times[3] = Timing(start_ms=10, duration_ms=1)
    assert below([row(1, "M"), row(2, "M~1"), row(3, "M~2")], times.get, {1}) == [3]


def test_without_times() -> None:
    """Where times are not known, what comes later in the file may depend on it, but no parallel branch."""
    rows = [row(1, "G/a@1/M"), row(2, "G/b@1/M"), row(3, "G/b@1/M#2"), row(4, "G/c@2/M")]
    assert below(rows, {}.get, {1}) == [4]
    assert below(rows, {}.get, {2}) == [3, 4]


def test_inside_and_around() -> None:
    """What is inside a changed call is below it, and so is the tool around one."""
    rows = [row(1, "t", "tool"), row(2, "t/M"), row(3, "G", "chat"), row(4, "G/M")]
    assert below(rows[:2], {}.get, {1}) == [2]
    assert below(rows[:2], {}.get, {2}) == [1]
    assert below(rows[2:], {}.get, {4}) == []
