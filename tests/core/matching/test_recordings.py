"""Each recording is handed out once, to the caller it belongs to."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.matching import Exhausted, Found, Recordings


@dataclass(frozen=True)
class Row:
    number: int
    fingerprint: str
    address: str = ""
    parent: int | None = None


class Model:
    """The rule in its slowest form: look through the list."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.free = list(rows)
        self.repeats: dict[str, int] = {}

    def take(self, fingerprint: str, address: str, exhausted: Exhausted) -> Found | None:
        same = [row for row in self.free if row.fingerprint == fingerprint]
        here = [row for row in same if row.address == address]
        for rung, rows in (("address", here), ("fingerprint", same)):
            if rows:
                self.free.remove(rows[0])
                return Found(rows[0].number, rung)  # type: ignore[arg-type]
        recorded = [row.number for row in self.rows if row.fingerprint == fingerprint]
        if not recorded or exhausted == "fail":
            return None
        if exhausted == "last":
            return Found(recorded[-1], "repeated")
        nth = self.repeats[fingerprint] = self.repeats.get(fingerprint, -1) + 1
        return Found(recorded[nth % len(recorded)], "repeated")


calls = st.lists(st.tuples(st.sampled_from("fgh"), st.sampled_from("abc")), max_size=12)


@given(calls, calls, st.sampled_from(["fail", "last", "cycle"]))
def test_as_the_model_says(recorded: list[tuple[str, str]], asked: list[tuple[str, str]], exhausted: Exhausted) -> None:
    """Same address first, then recorded order, then what `exhausted` says; and what is left is left."""
    rows = [Row(number, *call) for number, call in enumerate(recorded, start=1)]
    recordings, model = Recordings(rows), Model(rows)
    for call in asked:
        assert recordings.take(*call, exhausted) == model.take(*call, exhausted)
    assert recordings.unused(row.number for row in rows) == [row.number for row in model.free]
    assert [recordings.left(f) for f in "fgh"] == [sum(r.fingerprint == f for r in model.free) for f in "fgh"]
    assert [recordings.recorded(f) for f in "fgh"] == [sum(r.fingerprint == f for r in rows) for f in "fgh"]
    assert len(recordings) == len(rows)


def test_rungs() -> None:
    """A call finds its own recording although an equal one was recorded before it elsewhere."""
    recordings = Recordings([Row(1, "f", "a"), Row(2, "f", "b")])
    assert recordings.take("f", "b") == Found(2, "address")
    assert recordings.take("f", "b") == Found(1, "fingerprint")
    assert recordings.take("f", "b") is None


@pytest.mark.parametrize("addresses", [["same"] * 200, [f"a{n}" for n in range(200)]])
def test_threads_take_each_once(addresses: list[str]) -> None:
    """However many threads ask, each recording is taken exactly once."""
    recordings = Recordings(Row(n, "f", address) for n, address in enumerate(addresses))
    start = threading.Barrier(8)
    taken: list[list[int]] = [[] for _ in range(8)]

    def run(mine: list[int]) -> None:
        start.wait()
        while (found := recordings.take("f", "elsewhere")) is not None:
            mine.append(found.number)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for mine in taken for n in mine) == list(range(200))
    assert all(mine == sorted(mine) for mine in taken)


def test_what_is_inside_a_served_one() -> None:
    """What lies inside a recording that was served, at any depth, is not unused; its neighbours are."""
    rows = [Row(1, "t"), Row(2, "m", parent=1), Row(3, "n", parent=2), Row(4, "m"), Row(5, "x", parent=4)]
    recordings = Recordings(rows)
    assert recordings.unused([1, 2, 3, 4, 5]) == [1, 2, 3, 4, 5]
    recordings.take("t", "")
    assert recordings.unused([1, 2, 3, 4, 5]) == [4, 5]
