"""What strands read from the clock beside each other's waits is recorded, and read again on replay."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteFormatError

Tree = tuple[str, int, list["Tree"]]
MS = 0.001


def _record(program: Callable[[], Any], path: str) -> Any:
    with use_cassette(path, mode="all"):
        return program()


def _replay(program: Callable[[], Any], path: str) -> Any:
    with use_cassette(path, on_unused="ignore"):
        return program()


def _volatile(path: str) -> dict[str, Any]:
    volatile: dict[str, Any] = next(yaml.safe_load_all(Path(path).read_text()))["volatile"]
    return volatile


def _trees() -> st.SearchStrategy[Tree]:
    how = st.sampled_from(["tasks", "threads", "sequence"])
    waits = st.integers(0, 3)
    leaves = st.tuples(how, waits, st.just([]))
    return st.recursive(leaves, lambda below: st.tuples(how, waits, st.lists(below, max_size=3)), max_leaves=8)


async def _grow(tree: Tree) -> list[Any]:
    """Wait, read, do what is below in tasks, threads or one after the other, and read again."""
    how, wait, below = tree
    read = [time.time()]
    await asyncio.sleep(wait * MS)
    read.append(time.time())
    if how == "tasks":
        inner = await asyncio.gather(*map(_grow, below))
    elif how == "threads":
        inner = await asyncio.gather(*(asyncio.to_thread(_grow_in_thread, one) for one in below))
    else:
        inner = [await _grow(one) for one in below]
    return [*read, time.time(), inner]


def _grow_in_thread(tree: Tree) -> list[Any]:
    time.sleep(tree[1] * MS)
    read = time.time()
    return [read, asyncio.run(_grow(tree)), time.time()]


@pytest.mark.slow
@examples(max_examples=20)
@given(tree=_trees())
def test_all_strands_read_what_they_read_when_recorded(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever sleeps beside whatever, in tasks and threads, however close the ends of the waits are."""
    path = str(tmp_path_factory.mktemp("tree") / "a.yaml")

    def program() -> Any:
        return asyncio.run(_grow(tree))

    recorded = _record(program, path)
    for _ in range(2):
        assert _replay(program, path) == recorded


def _staggered() -> Any:
    async def one(*waits: float) -> list[float]:
        read = []
        for wait in waits:
            await asyncio.sleep(wait * MS)
            read.append(time.time())
        return read

    async def main() -> Any:
        return await asyncio.gather(one(4), one(2, 2), one(1, 1, 1, 1), one(3, 1), one(2, 1, 1)), time.time()

    return asyncio.run(main())


def _poller() -> Any:
    async def main() -> Any:
        began, seen = time.time(), []
        other = asyncio.create_task(asyncio.sleep(0.01))
        while time.time() < began + 0.02:
            await asyncio.sleep(0.002)
            seen.append((time.time(), other.done()))
        return len(seen), seen[-1][0]

    return asyncio.run(main())


def _hedge() -> Any:
    async def main() -> Any:
        slow = asyncio.create_task(asyncio.sleep(0.02, "slow"))
        done, _ = await asyncio.wait([slow], timeout=0.005)
        fast = asyncio.create_task(asyncio.sleep(0.002, "fast"))
        at = time.time()
        await asyncio.wait([slow, fast], return_when=asyncio.FIRST_COMPLETED)
        slow.cancel()
        return len(done), at, time.time()

    return asyncio.run(main())


def _producer() -> Any:
    """A queue between threads: an item may be there before its reader, or after."""
    items: queue.Queue[float] = queue.Queue()

    def produce() -> None:
        for _ in range(4):
            time.sleep(MS)
            items.put(time.time())

    read = []
    thread = threading.Thread(target=contextvars.copy_context().run, args=(produce,))
    thread.start()
    for _ in range(4):
        time.sleep(MS)
        read += [items.get(), time.time()]
    thread.join()
    return read


def _pool() -> Any:
    def work(wait: int) -> list[float]:
        read = [time.time()]
        for _ in range(wait):
            time.sleep(MS)
            read.append(time.time())
        return read

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(contextvars.copy_context().run, work, wait) for wait in (3, 1, 2, 3, 1)]
        return [future.result() for future in futures], time.time()


@pytest.mark.parametrize("program", [_staggered, _poller, _hedge, _producer, _pool])
def test_replays_read_the_same(program: Callable[[], Any], tmp_path: Any) -> None:
    """Ten times, with ends of waits that collide."""
    path = str(tmp_path / "a.yaml")
    recorded = _record(program, path)
    assert [_replay(program, path) for _ in range(10)] == [recorded] * 10


def test_waits_one_after_the_other_leave_no_readings(tmp_path: Any) -> None:
    """They are the same in every run by themselves, so a cassette is as quiet as ever."""
    path = str(tmp_path / "a.yaml")

    def program() -> list[float]:
        async def main() -> float:
            await asyncio.create_task(asyncio.sleep(MS))
            return time.time()

        time.sleep(MS)
        return [time.time(), asyncio.run(main()), time.time()]

    recorded = _record(program, path)
    assert "readings" not in _volatile(path)
    assert _replay(program, path) == recorded


def test_a_changed_program_goes_on(tmp_path: Any) -> None:
    """One that waits more often, or for a deadline of its own, reads a clock that passes."""
    path = str(tmp_path / "a.yaml")
    _record(_staggered, path)
    assert _volatile(path)["readings"]

    def changed() -> float:
        async def wait() -> None:
            until = time.time() + 0.01
            while time.time() < until:
                await asyncio.gather(asyncio.sleep(MS), asyncio.sleep(2 * MS))

        began = time.time()
        asyncio.run(wait())
        return time.time() - began

    assert 0.01 <= _replay(changed, path) < 0.02


def test_readings_that_are_none_are_refused(tmp_path: Any) -> None:
    """A cassette that was edited by hand says where it is wrong."""
    path = tmp_path / "a.yaml"
    _record(_staggered, str(path))
    text = path.read_text()
    path.write_text(text.replace("readings:\n", "readings:\n    run main: 0*x\n"))
    with pytest.raises(CassetteFormatError, match="readings"):
        _replay(_staggered, str(path))
