"""Processes and interpreters, older than a session or started in it: what a replay refuses, and a recording names."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import util
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, IncompleteObjectError, NetworkBlockedError, shown_path

from .world import look, refused

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

interpreters = importlib.import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")


def note(file: str) -> int:
    """Leave a trace, wherever this runs."""
    with Path(file).open("a") as opened:
        opened.write("x")
    return 1


def answer(ends: Any, asked: Any, answers: Any, quick: Any) -> None:
    """Answer a pipe; put something into two queues first."""
    answers.put("queued")
    quick.put("quick")
    asked.get()
    while True:
        ends.send(ends.recv())


class Older:
    """What a module could have made before the session."""

    def __init__(self, stack: ExitStack, trace: str) -> None:
        context = multiprocessing.get_context("fork")
        self.trace = trace
        self.executor = stack.enter_context(ProcessPoolExecutor(1, mp_context=context))
        self.executor.submit(len, "").result()
        self.pool = stack.enter_context(context.Pool(1))
        self.manager = stack.enter_context(context.Manager())
        self.shared = self.manager.dict()
        self.ends, others = context.Pipe()
        self.asked, self.answers, self.quick = context.Queue(), context.JoinableQueue(), context.SimpleQueue()
        self.process = context.Process(target=answer, args=(others, self.asked, self.answers, self.quick), daemon=True)
        self.process.start()
        stack.callback(self.process.join)
        stack.callback(self.process.kill)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Older]:
    """All of it, which works again when the replays are over."""
    with ExitStack() as stack:
        made = Older(stack, str(tmp_path_factory.mktemp("traces") / "trace"))
        yield made
        assert made.executor.submit(note, made.trace).result() == 1
        assert made.pool.apply(note, (made.trace,)) == 1
        made.shared["town"] = "Paris"
        assert made.shared.copy() == {"town": "Paris"}
        made.asked.put("begin")
        assert (made.answers.get(), made.quick.get()) == ("queued", "quick")
        made.ends.send("x")
        assert made.ends.recv() == "x"
        assert Path(made.trace).read_text() == "xx"


WAYS: dict[str, Callable[[Older], object]] = {
    "an executor": lambda older: older.executor.submit(note, older.trace),
    "an executor's map": lambda older: older.executor.map(note, [older.trace]),
    "a pool": lambda older: older.pool.apply(note, (older.trace,)),
    "a pool's map": lambda older: older.pool.map(note, [older.trace]),
    "a pool's imap": lambda older: list(older.pool.imap_unordered(note, [older.trace])),
    "a pool's task": lambda older: older.pool.apply_async(note, (older.trace,)).get(),
    "a manager's object": lambda older: older.shared.update(town="Oslo"),
    "a new object of a manager": lambda older: older.manager.dict(),
    "a queue": lambda older: older.asked.put("x"),
    "what a queue holds": lambda older: older.answers.get(),
    "what a queue may hold": lambda older: older.answers.get(timeout=60),
    "a queue with tasks": lambda older: older.answers.put("x"),
    "a simple queue": lambda older: older.quick.put("x"),
    "what a simple queue holds": lambda older: older.quick.get(),
    "a pipe": lambda older: older.ends.send("x"),
    "the other end of a pipe": lambda older: older.ends.recv(),
    "a look at a pipe": lambda older: older.ends.poll(60),
}


@pytest.mark.process
@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_nothing_is_handed_to_an_older_process(older: Older, way: Callable[[Older], object]) -> None:
    """A replay refuses it where the program hands it over, says why, and leaves the process usable.

    What is then garbage holds no buffer of `multiprocessing`: Python 3.12 would crash, and 3.13 would warn.
    """
    with pytest.raises(NetworkBlockedError) as caught, use_cassette("c", on_unused="ignore"):
        way(older)
    message = str(caught.value)
    assert message.startswith(shown_path(__file__)) or "in update" in message
    for part in ("older than the session", "make it inside the block", "allow_hosts={'subprocess'}"):
        assert part in message
    del caught
    gc.collect()


@pytest.mark.process
@pytest.mark.usefixtures("recorded")
def test_an_older_process_is_reached_where_processes_are_allowed(older: Older) -> None:
    """They're the user's business then."""
    with use_cassette("c", allow_hosts={"subprocess"}):
        look("Paris")
        assert older.executor.submit(abs, -1).result() == 1
        assert older.pool.apply(abs, (-1,)) == 1
        assert older.shared.copy() == {}


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_a_recording_names_what_it_hands_to_an_older_process(older: Older) -> None:
    """Nothing of it is recorded, and a replay will refuse it."""
    with use_cassette("c", mode="all") as session:
        look("Paris")
        older.pool.apply(abs, (-1,))
        older.shared.copy()
    pool, shared = session.report.uncovered
    assert pool.startswith("reached a Pool whose processes are older than the session at ")
    assert shared.startswith("reached a process that is older than the session at ")
    with use_cassette("c", mode="all", allow_hosts={"subprocess"}) as session:
        look("Paris")
        older.pool.apply(abs, (-1,))
    assert session.report.uncovered == ()


def replay_there(queue: Any) -> None:
    """Replay in a process that is older than its session, and report from within."""
    with use_cassette("c"):
        queue.put(look("Paris"))


@pytest.mark.process
@pytest.mark.usefixtures("older", "recorded")
def test_processes_of_the_replay_are_worked_with() -> None:
    """Those that start inside, beside older ones, are guarded and replayed; threads are no processes."""

    def put_there(queue: Any) -> None:
        """Report to the parent."""
        queue.put("x")

    context = multiprocessing.get_context("fork")
    with use_cassette("c") as session:
        look("Paris")
        with ThreadPool(1) as threads:
            assert threads.map(abs, [-1]) == [1]
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            assert executor.submit(abs, -1).result() == 1
        with context.Manager() as manager:
            shared = manager.dict(a=1)
            assert shared["a"] == 1
        queue = context.SimpleQueue()
        process = context.Process(target=put_there, args=(queue,))
        process.start()
        assert queue.get() == "x"
        process.join()
    assert session.report.blocked == ()


@pytest.mark.usefixtures("recorded")
def test_a_session_opens_while_another_thread_imports_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of processes that is known, but has nothing in it yet, has no processes either."""
    monkeypatch.setitem(sys.modules, "multiprocess.process", ModuleType("multiprocess.process"))
    with use_cassette("c") as session:
        assert look("Paris") == "Paris!"
    assert session.report.blocked == ()


@pytest.mark.process
@pytest.mark.usefixtures("recorded")
def test_a_process_with_its_own_session_reports_to_its_parent() -> None:
    """The pipe is older than the session, and leads to no process that this one has started."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=replay_there, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == "Paris!"
    process.join()
    assert process.exitcode == 0


# -- interpreters ----------------------------------------------------------------------------------------------


@pytest.fixture
def interpreter() -> Iterator[Any]:
    """An interpreter that is older than the session."""
    made = interpreters.create()
    yield made
    interpreters.destroy(made)


@pytest.mark.usefixtures("recorded")
def test_no_code_runs_in_another_interpreter(interpreter: Any) -> None:
    """It has no guard: a replay refuses to start one, and to use one that is there."""
    with refused("tried to start another interpreter"):
        interpreters.create()
    with refused("tried to run code in another interpreter"):
        interpreters.run_string(interpreter, "raise SystemExit(1)")
    with use_cassette("c", allow_hosts={"subprocess"}):
        look("Paris")
        interpreters.run_string(interpreter, "1 + 1")


@pytest.mark.usefixtures("recorded")
def test_a_module_that_is_imported_in_the_replay_starts_no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.13 the start raises no event, so the module is wrapped when it has been imported."""
    monkeypatch.delitem(sys.modules, interpreters.__name__)
    with refused("start another interpreter"):
        importlib.import_module(interpreters.__name__).create()


@pytest.mark.usefixtures("recorded")
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python raises no event any more")
def test_the_start_of_an_interpreter_is_seen_whoever_starts_it() -> None:
    """Code in C, and a function that was imported by name, raise the event; Python 3.12 crashes if that is refused."""
    create, started = interpreters.create, []
    with refused("start another interpreter"), suppress(RuntimeError):
        started.append(create())
    assert len(started) == (sys.version_info[:2] == (3, 12))
    for other in started:
        interpreters.destroy(other)


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
@pytest.mark.skipif(sys.version_info < (3, 14), reason="there is no pool of interpreters before Python 3.14")
@pytest.mark.parametrize("is_older", [False, True])
def test_a_pool_of_interpreters_works_in_a_recording_and_gets_nothing_of_a_replay(*, is_older: bool) -> None:
    """A recording names it where the program submits the work, and a replay refuses that there."""
    pools: Any = importlib.import_module("concurrent.futures")
    with pools.InterpreterPoolExecutor(1) as pool:
        if is_older:
            assert pool.submit(len, "abc").result() == 3
        with use_cassette("c", mode="all") as session:
            look("Paris")
            assert list(pool.map(len, ["a", "bc"])) == [1, 2]
        assert [line.partition(" at ")[0] for line in session.report.uncovered] == ["reached another interpreter"]
        refused = pytest.raises(NetworkBlockedError, match=f"{Path(__file__).name}.* run code in another interpreter")
        with refused, use_cassette("c") as session:
            look("Paris")
            pool.submit(len, "abc")
    assert len(session.report.blocked) == 1


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_a_recording_names_another_interpreter(interpreter: Any) -> None:
    """Calls that are made in it are not recorded."""
    with use_cassette("c", mode="all") as session:
        look("Paris")
        interpreters.run_string(interpreter, "1 + 1")
    assert [line.partition(" at ")[0] for line in session.report.uncovered] == ["reached another interpreter"]


# -- signals ---------------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.usefixtures("recorded")
@pytest.mark.skipif(not hasattr(signal, "pidfd_send_signal"), reason="needs Linux")
def test_older_processes_are_not_ended() -> None:
    """Each way to signal a process that the replay did not start is refused, unless processes are allowed."""
    with subprocess.Popen(["sleep", "60"]) as started:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        opened = os.pidfd_open(started.pid)
        ways: list[Callable[[], object]] = [
            started.kill,
            started.terminate,
            child.kill,
            child.terminate,
            lambda: started.send_signal(signal.SIGHUP),
            lambda: os.kill(started.pid, signal.SIGKILL),
            lambda: os.killpg(started.pid, signal.SIGKILL),
            lambda: signal.pidfd_send_signal(opened, signal.SIGKILL),
        ]
        for way in ways:
            with refused("send signal"):
                way()
        assert started.poll() is None
        assert child.is_alive()
        with use_cassette("c", allow_hosts={"subprocess"}):
            look("Paris")
            started.kill()
            child.kill()
        child.join()
        os.close(opened)


@pytest.mark.process
@pytest.mark.usefixtures("recorded")
def test_processes_of_the_replay_are_ended() -> None:
    """The program may signal itself and its own children, and look if a process is there."""
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    try:
        with use_cassette("c") as session:
            look("Paris")
            os.kill(os.getppid(), 0)
            os.kill(os.getpid(), signal.SIGUSR1)
            for context in (multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")):
                child = context.Process(target=time.sleep, args=(60,))
                child.start()
                child.terminate()
                child.join()
            forked = os.fork()
            if not forked:
                time.sleep(60)
            os.kill(forked, signal.SIGKILL)
            os.waitpid(forked, 0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (received, session.report.blocked) == ([signal.SIGUSR1], ())


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
