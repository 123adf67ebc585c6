"""The limit on the cost of calls: those in flight count."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import BudgetExceededError
from agenttape_core.integration import Boundary, Usage
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.reading.prices import Price, PriceTable

from ..session.world import acall

CHAT = Boundary("chat", usage=lambda _: Usage(input_tokens=1000, output_tokens=1000))
CHEAP = Boundary("chat", usage=lambda _: Usage(input_tokens=100, output_tokens=100))
PRICES = PriceTable({"m": Price(10, 20)})  # three cents a call


async def ask(question: str, made: list[str], gate: asyncio.Event | None = None) -> Any:
    """Call a model that costs three cents, and answers once a gate is open."""

    async def real() -> str:
        made.append(question)
        if gate is not None:
            await gate.wait()
        return question

    return await acall("M", real, CHAT, model="m", question=question)


async def ask_together(count: int, made: list[str]) -> list[Any]:
    """Make calls that are all in flight before the first one ends."""
    gate = asyncio.Event()
    asked = [asyncio.ensure_future(ask(str(number), made, gate)) for number in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.set()
    return await asyncio.gather(*asked, return_exceptions=True)


def test_calls_in_flight_count(tmp_path: Path) -> None:
    """Of ten calls that begin together, as many are made as the limit allows at their recorded price."""
    cassette = tmp_path / "a.yaml"
    with use_cassette(cassette, mode="all"):
        asyncio.run(ask_together(10, []))
    made: list[str] = []
    budget = Budget(0.1, PRICES)
    with budget.held(), pytest.raises(BudgetExceededError), use_cassette(cassette, mode="all"):
        asyncio.run(ask_together(10, made))
    assert len(made) == 3
    assert budget.spent == budget.committed == pytest.approx(0.09)


def test_calls_that_end_in_another_order(tmp_path: Path) -> None:
    """Each call counts once, in whatever order they end."""

    async def crossed() -> None:
        gate = asyncio.Event()
        first = asyncio.ensure_future(ask("first", [], gate))
        await asyncio.sleep(0)
        await ask("second", [])
        seen.append(budget.spent)
        gate.set()
        await first

    seen: list[float] = []
    budget = Budget(1, PRICES)
    with budget.held(), use_cassette(tmp_path / "a.yaml", mode="all"):
        asyncio.run(crossed())
    assert [*seen, budget.spent] == [pytest.approx(0.03), pytest.approx(0.06)]


def run(folder: Path, number: int, made: list[str], meet: Barrier | None = None) -> None:
    """Make one call in a session, after all threads have come here."""
    if meet is not None:
        meet.wait()
    with use_cassette(folder / f"{number}.yaml", mode="all"):
        asyncio.run(ask(str(number), made))


@pytest.mark.slow
@pytest.mark.parametrize("is_recorded", [True, False])
def test_runs_in_parallel(tmp_path: Path, *, is_recorded: bool) -> None:
    """Of 64 runs that begin together, as many make their call as the limit pays; a call of unknown cost runs alone."""
    for number in range(64 * is_recorded):
        run(tmp_path, number, [])
    made: list[str] = []
    budget, meet = Budget(0.31, PRICES), Barrier(64)
    with budget.held(), ThreadPoolExecutor(64) as pool:
        runs = [pool.submit(run, tmp_path, number, made, meet) for number in range(64)]
        failed = [isinstance(each.exception(), BudgetExceededError) for each in runs]
    assert (len(made), sum(failed)) == (10, 54)
    assert budget.spent == pytest.approx(0.3)


def test_money_that_others_give_back(tmp_path: Path) -> None:
    """A call waits for the end of another run's that has reserved the rest of the money, and then takes its place."""
    gate, began = Event(), Event()

    def dear() -> None:
        async def real() -> str:
            began.set()
            await asyncio.to_thread(gate.wait)
            return "cheap"

        with use_cassette(tmp_path / "0.yaml", mode="all"):
            asyncio.run(acall("M", real, CHEAP, model="m", question="0"))

    run(tmp_path, 0, [])
    made: list[str] = []
    with Budget(0.05, PRICES).held(), ThreadPoolExecutor(2) as pool:
        first = pool.submit(dear)
        began.wait()
        second = pool.submit(run, tmp_path, 1, made)
        with pytest.raises(TimeoutError):
            second.result(0.2)
        gate.set()
        first.result()
        second.result()
    assert made == ["1"]
    cassette = open_cassette(tmp_path / "1.yaml")
    assert cassette.header.volatile.timings[1].duration_ms < 200  # without the time for which it waited


def test_a_run_does_not_wait_for_itself(tmp_path: Path) -> None:
    """Calls that a run makes at the same time aren't held up, even if nothing is known of their cost."""
    made: list[str] = []
    budget = Budget(1, PRICES)
    with budget.held(), use_cassette(tmp_path / "a.yaml", mode="all"):
        asyncio.run(ask_together(10, made))
    assert len(made) == 10
    assert budget.spent == pytest.approx(0.3)


def test_a_call_that_is_given_up(tmp_path: Path) -> None:
    """A canceled call holds up no other run, even while its session continues."""

    async def canceled() -> None:
        call = asyncio.ensure_future(ask("0", [], asyncio.Event()))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    made: list[str] = []
    with Budget(1, PRICES).held(), use_cassette(tmp_path / "a.yaml", mode="all"), ThreadPoolExecutor(1) as pool:
        asyncio.run(canceled())
        pool.submit(run, tmp_path, 1, made).result(10)
    assert made == ["1"]
