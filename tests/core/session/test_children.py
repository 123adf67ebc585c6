"""The processes that `multiprocessing` starts within a replay: replayed or refused, and never live."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import util
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, IncompleteObjectError, NetworkBlockedError

HITS = Path("hits.txt")


@boundary("tool")
def look_up(city: str) -> str:
    """Really happens only while it is recorded."""
    with HITS.open("a", encoding="utf-8") as file:
        file.write(f"{city}\n")
    return f"{city}!"


def draw() -> uuid.UUID:
    """Draw an id."""
    return uuid.uuid4()


def connect(port: int) -> None:
    """Reach out."""
    socket.create_connection(("127.0.0.1", port)).close()


@contextmanager
def executor() -> Iterator[Callable[..., Any]]:
    """Run functions in another process, by `concurrent.futures`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


@contextmanager
def worker() -> Iterator[Callable[..., Any]]:
    """Run functions in another process, by `multiprocessing`."""
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        yield lambda function, *args: pool.apply_async(function, args).get(60)


@pytest.mark.process
@pytest.mark.parametrize("running", [executor, worker])
@pytest.mark.skipif(sys.platform == "win32", reason="there is no forkserver")
def test_child_of_a_replay(running: Any) -> None:
    """It computes, replays recorded calls, and is refused the rest; after the replay others are free.

    What it is refused fails the replay, though the program drops it. The replay names what the program draws in it.
    """
    with use_cassette("c", mode="all"):
        look_up("Paris")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            pytest.raises(CassetteMissError, match="look_up was called with a request"),
            use_cassette("c", on_unused="ignore") as session,
            running() as run,
        ):
            assert run(abs, -3) == 3
            assert run(draw).version == 4
            assert run(look_up, "Paris") == "Paris!"
            with pytest.raises(CassetteMissError, match="look_up was called with a request"):
                run(look_up, "Oslo")
            with pytest.raises(NetworkBlockedError, match="during an offline replay of"):
                run(connect, port)
        with running() as run:
            run(connect, port)
    [missed] = session.report.missed
    assert missed.startswith("look_up was called with a request")
    assert session.report.nondeterminism == (
        "ids that a process of `multiprocessing` draws are not those of the recording",
    )
    assert HITS.read_text(encoding="utf-8") == "Paris\n"


def test_a_miss_in_a_pool_of_threads() -> None:
    """It reaches whoever waits for the task, instead of ending the thread; other tasks and errors are as ever."""
    with use_cassette("c", mode="all"):
        look_up("Paris")
    with (
        pytest.raises(CassetteMissError, match="look_up was called with a request"),
        use_cassette("c"),
        ThreadPool(1) as pool,
    ):
        with pytest.raises(ZeroDivisionError):
            pool.apply(divmod, (1, 0))
        assert pool.map(look_up, ["Paris"]) == ["Paris!"]
        for wait in (pool.map_async(look_up, ["Oslo"]).get, pool.imap(look_up, ["Oslo"]).next):
            with pytest.raises(CassetteMissError):
                wait(timeout=60)


@pytest.mark.parametrize("error", [IncompleteObjectError("a", "b", "c", "d"), CassetteMissError("a", "b")])
def test_errors_arrive_in_another_process_as_they_are(error: BaseException) -> None:
    """A pool could not wait for one that cannot be made again."""
    error.add_note("noted")
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), arrived.args, vars(arrived)) == (type(error), error.args, vars(error))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows starts processes in another way")
def test_other_programs_by_the_function_of_multiprocessing() -> None:
    """The function raises no audit event; joblib uses it, too."""
    with use_cassette("c", mode="all"):
        pass
    with pytest.raises(NetworkBlockedError, match="start the process 'true'"), use_cassette("c"):
        util.spawnv_passfds(b"/bin/true", ["true"], [])
