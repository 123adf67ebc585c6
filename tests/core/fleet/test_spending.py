"""The limit on a fleet: shards keep it together, whether they see each other's spending or not."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import BudgetExceededError, CassetteError, CassetteFormatError, ConfigurationError
from agenttape_core.fleet.working import SharedLimit, limit_over_shards
from agenttape_core.integration import Boundary, Usage
from agenttape_core.storage import Location, location_of
from agenttape_core.tools.reading.prices import NoPrices, Price, PriceTable

from ..session.world import call

CHAT = Boundary("chat", usage=lambda _: Usage(input_tokens=1000, output_tokens=1000))
PRICES = PriceTable({"m": Price(10, 20)})  # three cents a call


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A store on the disk, and one behind a URL."""
    return tmp_path if request.param == "disk" else location_of(f"memory://{tmp_path.name}/spent")


def spent_by(shard: SharedLimit, cost: float) -> float:
    """Spend from a limit until it refuses."""
    spent = 0.0
    while shard.allows(spent + cost):
        spent += cost
    return spent


@pytest.mark.parametrize("seed", range(5))
def test_shards_keep_one_limit(store: Location, seed: int) -> None:
    """Eight shards that spend at the same time never spend more than the limit, and most of it."""
    draw = random.Random(seed)
    costs = [draw.uniform(0.001, 0.05) for _ in range(8)]
    shards = [SharedLimit(store, "plan", 2.0, shards=8) for _ in costs]
    with ThreadPoolExecutor(8) as pool:
        spent = sum(pool.map(spent_by, shards, costs))
    assert 1.5 < spent <= 2.0


def test_one_shard_spends_all(store: Location) -> None:
    """A single shard can spend the whole limit."""
    assert spent_by(SharedLimit(store, "plan", 1.0), 0.001) == pytest.approx(1.0, abs=0.0011)


def test_money_that_is_given_back(store: Location) -> None:
    """What a shard has reserved and didn't spend is there for others; what a killed one had reserved isn't."""
    killed, ended = SharedLimit(store, "plan", 1.0), SharedLimit(store, "plan", 1.0)
    assert killed.allows(0.3)
    assert ended.allows(0.4)
    ended.settle(0.1)
    later = SharedLimit(store, "plan", 1.0)
    assert not later.allows(0.61)
    assert later.elsewhere == pytest.approx(0.4, abs=0.1)
    assert later.allows(0.5)
    assert SharedLimit(store, "another plan", 1.0).allows(1.0)


def test_a_larger_limit_later(store: Location) -> None:
    """A second run with a larger limit may spend the difference."""
    assert SharedLimit(store, "plan", 1.0).allows(1.0)
    assert not SharedLimit(store, "plan", 1.0).allows(0.01)
    assert SharedLimit(store, "plan", 1.5).allows(0.5)


def test_a_limit_around_sessions(tmp_path: Path) -> None:
    """A call that other shards leave no money for isn't made, and the message counts what they spent."""
    assert SharedLimit(tmp_path / "spent", "plan", 0.1).allows(0.08)
    made: list[str] = []
    with (
        pytest.raises(BudgetExceededError, match=r"\$0.1100 of \$0.1 is spent"),
        limit_over_shards(tmp_path, "plan", 0.1, PRICES),
        limit_over_shards(tmp_path, "plan", 0.1, PRICES),
    ):
        run(tmp_path, made)
        run(tmp_path, made)
    assert made == ["a"]


def run(folder: Path, made: list[str]) -> None:
    """Make one call in a session."""
    with use_cassette(folder / "a.yaml", mode="all"):
        call("M", lambda: made.append("a") or "a", CHAT, model="m", question="a")


def test_nested_blocks_count_a_call_once(tmp_path: Path) -> None:
    """Blocks around the same plan share one account, and settle it once the last one ends."""
    with limit_over_shards(tmp_path, "plan", 1, PRICES) as outer, limit_over_shards(tmp_path, "plan", 1, PRICES):
        run(tmp_path, [])
        assert outer.spent == pytest.approx(0.03)
    (left,) = (tmp_path / "spent" / "plan").iterdir()
    assert left.name.endswith("-30000000")


def test_a_store_that_cannot_be_listed(tmp_path: Path) -> None:
    """Without sight of what others spend, no call is made."""
    (tmp_path / "spent").mkdir()
    (tmp_path / "spent" / "plan").write_text("a file")
    made: list[str] = []
    with (
        pytest.raises(CassetteError, match="can't be listed") as caught,
        limit_over_shards(tmp_path, "plan", 1, PRICES),
    ):
        run(tmp_path, made)
    assert made == []
    assert not isinstance(caught.value, CassetteFormatError)  # of a recording, which would be called damaged


SPENDER = """
import sys
from pathlib import Path
from agenttape_core.fleet.working import SharedLimit

limit, spent = SharedLimit(Path("spent"), "plan", 1.0, shards=4), 0.0
print("begun", flush=True)
while limit.allows(spent + 0.004):
    spent += 0.004
    with open(sys.argv[1], "a") as bill:
        bill.write("0.004\\n")
limit.settle(spent)
"""


@pytest.mark.process
def test_killed_shards_keep_the_limit(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """However often workers are killed, all of them together never spend more than the limit, and most of it."""
    draw = random.Random(0)

    def begun(number: int) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", SPENDER, f"bill-{number}"]
        started = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        started.stdout.readline()
        return started

    def billed() -> list[float]:
        return [float(line) for bill in tmp_path.glob("bill-*") for line in bill.read_text().split()]

    for number in range(0, 8 if pytestconfig.getoption("night") else 4, 2):
        pair = [begun(number), begun(number + 1)]
        wanted = len(billed()) + draw.randrange(1, 15)
        while len(billed()) < wanted and pair[0].poll() is None:
            pass
        for each in pair:
            each.kill()
            each.communicate()
    last = begun(8)
    last.communicate()
    assert last.returncode == 0
    assert 0.5 < sum(billed()) <= 1.0


def test_shards_that_do_not_see_each_other(tmp_path: Path) -> None:
    """Shards with folders on several machines spend an equal share each, and a second run of one spends no more."""
    spent = 0.0
    for number in (1, 2, 3, 4, 2):
        with limit_over_shards(tmp_path / str(number), "plan", 0.4, PRICES, (number, 4)) as budget:
            made: list[str] = []
            with pytest.raises(BudgetExceededError, match=r"of \$0.1 is spent"):
                for _ in range(10):
                    run(tmp_path, made)
            spent += budget.spent
    assert spent == pytest.approx(0.36)


def test_shards_in_one_folder(tmp_path: Path) -> None:
    """Whatever the number of shards that it's split into, a folder never pays more than the limit."""
    spent = 0.0
    for shard in ((1, 2), (2, 2), (1, 4), (2, 4), (1, 1)):
        made: list[str] = []
        with pytest.raises(BudgetExceededError), limit_over_shards(tmp_path, "plan", 0.4, PRICES, shard):
            for _ in range(20):
                run(tmp_path, made)
        spent += 0.03 * len(made)
    assert 0.36 < spent <= 0.4


def test_shards_behind_a_url(tmp_path: Path) -> None:
    """Shards that have one store share all the money: one may spend what the others don't."""
    store = location_of(f"memory://{tmp_path.name}")
    made: list[str] = []
    with pytest.raises(BudgetExceededError), limit_over_shards(store, "plan", 0.1, PRICES, (2, 4)):
        for _ in range(10):
            run(tmp_path, made)
    assert len(made) == 3


@pytest.mark.parametrize(
    ("dollars", "prices", "problem"),
    [
        (-1, PRICES, "0 or more"),
        (float("inf"), PRICES, "0 or more"),
        (float("nan"), PRICES, "0 or more"),
        (1, NoPrices(), "needs prices"),
    ],
)
def test_no_limit(tmp_path: Path, dollars: float, prices: Any, problem: str) -> None:
    """A limit that isn't an amount, or that nothing can be priced for, is refused."""
    with pytest.raises(ConfigurationError, match=problem), limit_over_shards(tmp_path, "plan", dollars, prices):
        pass
