"""Many processes, many threads, and processes that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from agenttape_langgraph import TapeSaver

from .threads import counts, place
from .worker import STEPS, agent, put_many

pytestmark = pytest.mark.process

WORKER = [sys.executable, str(Path(__file__).with_name("worker.py"))]
KILLS = 20


def states(saver: TapeSaver, thread_id: str) -> list[list[str]]:
    """Return the words of each checkpoint of a thread, oldest first."""
    found = list(saver.list(place(thread_id)))[::-1]
    for it in found:
        assert it.checkpoint["channel_values"]["common"] == ["everybody has this"] * 50
    return [it.checkpoint["channel_values"]["words"] for it in found]


def words(thread_id: str, count: int) -> list[str]:
    """Return the words of a thread after some steps."""
    return [f"{thread_id} says word {step} " * 20 for step in range(count)]


def test_what_was_stored_survives_being_killed(path: Path) -> None:
    """After `kill -9` at any moment all that was stored is there and whole, and others go on with the file."""

    def check(path: Path, thread: str, last: int) -> None:
        """Check that a thread is complete up to the last step at least, and delete it."""
        with TapeSaver(path) as saver:
            found = states(saver, thread)
            assert len(found[-1]) > last
            assert found[-1] == words(thread, len(found[-1]))
            assert [len(it) for it in found] == [*range(1, len(found) + 1)]
            latest = saver.get_tuple(place(thread))
            assert latest is not None
            assert len(latest.pending_writes or ()) in {0, 2}
            saver.delete_thread(thread)
            assert counts(path, "contents", "links", "pieces", "uses", "writes") == dict.fromkeys(
                ("contents", "links", "pieces", "uses", "writes"), 0
            )

    def killed(process: subprocess.Popen[str], thread: str, steps: int) -> int:
        """Let a process store some steps of a thread, kill it, and return the last one that it printed."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{thread}\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        said = [int(process.stdout.readline()) for _ in range(steps)]
        os.kill(child, signal.SIGKILL)
        while not (line := process.stdout.readline()).endswith("gone\n"):  # it may be killed within a line
            said.append(int(line))
        return said[-1]

    with subprocess.Popen(
        [*WORKER, "children", str(path), "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for kill in range(KILLS):
            thread = f"killed-{kill}"
            last = killed(process, thread, 1 + kill * 7 % 60)
            check(path, thread, last)


def test_processes_with_threads_share_a_file(path: Path) -> None:
    """Four processes with two threads each write, copy and delete in one file at once; all of it is there, once."""
    subprocess.run([*WORKER, "processes", str(path), "4"], check=True)
    encrypted = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    with TapeSaver(path, serde=encrypted) as saver:
        for process in range(4):
            for number in range(2):
                for thread in (f"{process}-{number}", f"{process}-{number}-copy"):
                    expected = [words(f"{process}-{number}", count) for count in range(1, STEPS + 1)]
                    assert states(saver, thread) == expected
                assert list(saver.list(place(f"{process}-{number}-gone"))) == []
    assert counts(path, "checkpoints", "digest_keys") == {"checkpoints": 4 * 2 * STEPS * 2, "digest_keys": 1}
    # for each of the two ways to write: the common words once, and the words of each thread
    assert counts(path, "pieces")["pieces"] <= 4 * 2 * STEPS + 2 * 5


def test_a_thread_is_resumed_in_another_process(path: Path) -> None:
    """A thread that waits for an answer goes on in another process, and this one sees it."""
    with TapeSaver(path) as saver:
        graph, config = agent(saver), {"configurable": {"thread_id": "trip"}}
        graph.invoke({"steps": ["asked"]}, config)
        assert graph.get_state(config).next == ("book",)
        done = subprocess.run([*WORKER, "resume", str(path), "trip"], capture_output=True, text=True, check=True)
        assert done.stdout == "booked Ritz\n"
        assert graph.get_state(config).values == {"steps": ["asked", "planned", "booked Ritz"]}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_connection_of_its_own(path: Path) -> None:
    """A saver goes on working on both sides of a fork."""
    with TapeSaver(path) as saver:
        put_many(saver, "before", 3)
        child = os.fork()
        if child == 0:
            try:
                put_many(saver, "child", 5)
                saver.close()
            except BaseException:
                os._exit(1)
            os._exit(0)
        put_many(saver, "parent", 5)
        assert os.waitpid(child, 0)[1] == 0
        assert [len(states(saver, thread)) for thread in ("before", "child", "parent")] == [3, 5, 5]


def test_threads_share_a_saver(saver: TapeSaver) -> None:
    """Threads of one process read and write at once with one saver."""
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(3):
                put_many(saver, f"{number}", 10)
                assert states(saver, f"{number}")[-1] == words(f"{number}", 10)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


async def test_the_event_loop_goes_on(saver: TapeSaver) -> None:
    """While the file is locked by others, the loop runs other tasks; also when all of its own threads are busy."""
    locked, let_go = threading.Event(), threading.Event()
    database = saver.database

    def hold() -> None:
        with database.writing():
            locked.set()
            assert let_go.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert await asyncio.to_thread(locked.wait, 20)
    loop = asyncio.get_running_loop()
    busy = [loop.run_in_executor(None, let_go.wait, 20) for _ in range(40)]
    waiting = asyncio.create_task(saver.aget_tuple(place()))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    let_go.set()
    assert await waiting is None
    assert all(await asyncio.gather(*busy))
    holder.join()


async def test_many_tasks_share_a_saver(saver: TapeSaver) -> None:
    """Tasks of one loop, and loops of several threads, use one saver at once."""

    async def work(number: int) -> int:
        config: Any = place(str(number))
        for step in range(10):
            values: Any = {"n": [f"{number} {step} " * 40] * 3}
            checkpoint: Any = {
                "v": 4,
                "id": f"{step:04}",
                "ts": "",
                "channel_values": values,
                "channel_versions": {},
                "versions_seen": {},
            }
            config = await saver.aput(config, checkpoint, {}, {})
            await saver.aput_writes(config, [("n", values["n"])], "t")
        return len([found async for found in saver.alist(place(str(number)))])

    others = [asyncio.to_thread(asyncio.run, work(number)) for number in range(10, 14)]
    assert await asyncio.gather(*map(work, range(8)), *others) == [10] * 12
