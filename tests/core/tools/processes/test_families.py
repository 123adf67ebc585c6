"""Commands of several processes: each Python of them has a session, and finds its own recordings again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from agenttape_core import open_cassette

from .conftest import Ended, cassettes

pytestmark = pytest.mark.process

Agenttape = Callable[..., Ended]
Program = Callable[[str, str], str]

ASK = """
import sys, uuid
from tools import look_up
print(look_up(" ".join(sys.argv[1:])), uuid.uuid4(), flush=True)
"""


SECRET = "sk-proj-" + "a1B2" * 9


@pytest.mark.usefixtures("forked_python")
def test_shell(folder: Path, program: Program, agenttape: Agenttape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that a shell starts one after the other, or in parallel, each replay their own calls."""
    monkeypatch.setenv("SECRET", SECRET)
    program("a.py", ASK)
    program("b.py", ASK)
    line = "python a.py 1 & python a.py 2 $SECRET & python a.py 2 $SECRET & wait; python b.py"
    words = ("--cassette", "both", "--", "sh", "-c", line)
    recorded = agenttape("record", *words)
    assert (recorded.code, cassettes(folder)) == (0, ["both.processes/a.py.yaml", "both.processes/b.py.yaml"])
    assert SECRET not in (folder / "cassettes" / "both.processes" / "a.py.yaml").read_text()
    lines = sorted(recorded.out.splitlines())
    assert len({line.split()[-1] for line in lines}) == 4  # no two make the same ids
    replayed = agenttape("replay", *words)
    assert (replayed.code, sorted(replayed.out.splitlines())) == (0, lines)


@pytest.mark.usefixtures("forked_python")
def test_new_episodes(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """What is added by several processes that share a cassette is there once, and what was there before too."""
    program("a.py", ASK)
    words = ("--cassette", "both", "--", "sh", "-c")
    assert agenttape("record", *words, "python a.py 1; python a.py 2").code == 0
    added = agenttape("record", "--mode", "new_episodes", *words, "python a.py 1; python a.py 3; python a.py 4")
    assert added.code == 0
    cassette = open_cassette(folder / "cassettes" / "both.processes" / "a.py.yaml")
    asked = [interaction.request["arguments"]["city"] for interaction in cassette.interactions()]
    assert sorted(asked) == ["1", "2", "3", "4"]


@pytest.mark.usefixtures("forked_python")
@pytest.mark.parametrize(
    ("method", "workers", "own", "calls"),
    [
        ("fork", "2", "fork", 6),
        ("spawn", "1", "multiprocessing", 4),
        pytest.param("forkserver", "1", "multiprocessing/fork", 4, marks=pytest.mark.night),
    ],
)
def test_multiprocessing(
    folder: Path, program: Program, agenttape: Agenttape, *, method: str, workers: str, own: str, calls: int
) -> None:
    """Workers share their recordings, whichever of them gets a job, and nothing else is left behind."""
    pool = dedent("""
        import multiprocessing, sys
        from concurrent.futures import ProcessPoolExecutor
        from tools import look_up

        if __name__ == "__main__":
            multiprocessing.set_start_method(sys.argv[1])
            with multiprocessing.Pool(int(sys.argv[2])) as pool:
                answers = pool.map(look_up, ["Bonn", "Graz", "Nice", "Oslo"], chunksize=1)
            if sys.argv[1] == "fork":
                with ProcessPoolExecutor(2) as pool:
                    answers += pool.map(look_up, ["Rome", "Kiel"])
            print(look_up("Paris"), answers)
    """)

    words = ("--cassette", "pool", "--", "python", program("pool.py", pool), method, workers)
    recorded = agenttape("record", *words)
    assert (recorded.code, cassettes(folder)) == (0, [f"pool.processes/{own}.yaml", "pool.yaml"])
    assert len(open_cassette(folder / "cassettes" / "pool.processes" / f"{own}.yaml").entries) == calls
    replayed = agenttape("replay", *words)
    assert (replayed.code, replayed.out) == (0, recorded.out)


@pytest.mark.usefixtures("forked_python")
def test_miss_in_a_pool(program: Program, agenttape: Agenttape) -> None:
    """A miss in a worker ends the command, which would wait for the worker for ever, and is explained."""
    script = program(
        "pool.py",
        """
        import multiprocessing, sys
        from tools import look_up
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(look_up, sys.argv[1:])
        """,
    )
    assert agenttape("record", "--", "python", script, "Paris").code == 0
    missed = agenttape("replay", "--", "python", script, "Oslo")
    assert missed.code == 1
    assert "+ Oslo" in missed.err
    assert "the pool was stopped" in missed.err


@pytest.mark.usefixtures("forked_python")
def test_started_by_a_program(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A program's forks, what it starts and what it becomes have their places below its own cassette."""
    program("ask.py", ASK)
    script = program(
        "main.py",
        """
        import os, subprocess, sys
        from tools import look_up
        print(look_up("main"), flush=True)
        if not (child := os.fork()):
            print(look_up("fork"), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        subprocess.run([sys.executable, "ask.py", "child"], check=True)
        os.execv(sys.executable, [sys.executable, "-m", "ask", "become"])
        """,
    )
    words = ("--cassette", "cassettes/run.jsonl", "--", "python", script)
    recorded = agenttape("record", *words)
    assert (recorded.code, cassettes(folder)) == (
        0,
        ["run.jsonl", "run.processes/ask.jsonl", "run.processes/ask.py.jsonl", "run.processes/fork.jsonl"],
    )
    assert agenttape("replay", *words)[:2] == recorded[:2]


@pytest.mark.night
def test_pytest_with_workers(
    folder: Path, program: Program, agenttape: Agenttape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests are replayed whichever worker of xdist runs them, even where pytest rewrites our modules."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    program("pytest.ini", "[pytest]\naddopts = -q -p xdist.plugin\n")
    program("conftest.py", "import pytest\npytest.register_assert_rewrite('agenttape_core')\n")
    program(
        "test_tools.py",
        """
        import pytest
        from tools import look_up

        @pytest.mark.parametrize("n", range(6))
        def test_look_up(n):
            assert look_up(str(n)).startswith(f"{n}: ")
        """,
    )
    words = ("--cassette", "tests", "--", "pytest", "-n2")
    assert (agenttape("record", *words).code, cassettes(folder)) == (0, ["tests.processes/code.yaml"])
    replayed = agenttape("replay", "--json", *words).json
    assert replayed["exit_code"] == 0
    assert sum(process["replayed"] for process in replayed["processes"]) == 6


@pytest.mark.usefixtures("forked_python")
def test_process_without_a_cassette(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A process that recorded nothing needs no cassette until it asks, and one that does not come is a finding."""
    program("ask.py", ASK)
    script = program(
        "main.py",
        """
        import subprocess, sys
        from tools import look_up
        look_up("Paris")
        subprocess.run([sys.executable, *sys.argv[1:]], check=True)
        """,
    )
    words = ("--", "python", script)
    assert agenttape("record", *words, "-c", "import tools").code == 0
    assert cassettes(folder) == ["main.yaml"]
    asked = agenttape("replay", *words, "ask.py")
    assert (asked.code, "cassettes/main.processes/ask.py.yaml (0 calls" in asked.err) == (1, True)
    assert agenttape("record", *words, "ask.py").code == 0
    gone = agenttape("replay", *words, "-c", "pass")
    assert (gone.code, "recorded call in cassettes/main.processes/ask.py.yaml. Not made:" in gone.err) == (1, True)
    again = agenttape("record", *words, "-c", "pass")
    assert (again.code, cassettes(folder)) == (0, ["main.yaml"])
    assert "removed cassettes/main.processes/ask.py.yaml" in again.err


DEAF = {
    "an option": 'subprocess.run([sys.executable, "-S", "-c", CODE])',
    "no environment": 'subprocess.run([sys.executable, "-c", CODE], env={})',
    "posix_spawn": 'os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", CODE], {}), 0)',
    "spawn": 'os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-c", CODE], {})',
    "a shell": 'os.system(f"unset PYTHONPATH; {sys.executable} -c \\"{CODE}\\"")',
    "another program": 'subprocess.run(["./other", "began"])',
    "a script": 'subprocess.run(["./script.py"], env={})',
    "no variables any more": "(os.fork() and os.wait()"
    " or (os.environ.clear(), os.execv(sys.executable, [sys.executable, '-c', CODE])))",
    "exec": 'os.execve(sys.executable, [sys.executable, "-c", CODE], {b"A": b"x"})',
}
DEAF_ELSEHOW = {
    "posix_spawnp": 'os.waitpid(os.posix_spawnp(sys.executable, [sys.executable, "-Ic", CODE], os.environ), 0)',
    "env": 'subprocess.run(["env", "-i", sys.executable, "-c", CODE])',
    "a shell's env": 'subprocess.run(f"env -u PYTHONPATH {sys.executable} -c \\"{CODE}\\"", shell=True)',
    "a launcher": 'subprocess.run(["timeout", "60", sys.executable, "-I", "-c", CODE])',
    "a shell that starts one": 'os.system("./other began")',
}


@pytest.mark.usefixtures("forked_python")
@pytest.mark.parametrize("ways", [DEAF, pytest.param(DEAF_ELSEHOW, marks=pytest.mark.night)], ids=["ways", "more"])
def test_deaf_python(folder: Path, program: Program, agenttape: Agenttape, ways: dict[str, str]) -> None:
    """What isn't known to be guarded does not start in a replay, in any way, unless processes are allowed."""
    lines = []
    for number, (name, call) in enumerate({**DEAF, **ways}.items()):
        python = folder / f"python-{number}"  # a name of its own, as each is noted once
        python.symlink_to(sys.executable)
        lines.append(f"{name!r} in sys.argv and {call.replace('sys.executable', repr(str(python)))}")
    script = program(
        "main.py",
        f"""
        import os, subprocess, sys
        from tools import look_up
        CODE = "open('began', 'w')"
        look_up("Paris")
        {"; ".join(lines)}
        """,
    )
    (folder / "script.py").write_text(f"#!{sys.executable}\nopen('began', 'w')\n")
    (folder / "script.py").chmod(0o700)
    shutil.copy(str(shutil.which("touch")), folder / "other")
    (folder / "other").chmod(0o700)
    recorded = agenttape("record", "--", "python", script, *ways)
    notes = recorded.err.count("is not recorded, and a replay refuses it")
    assert (recorded.code, notes) == (0, len(ways)), recorded.err
    (folder / "began").unlink()
    for name in ways:
        replayed = agenttape("replay", "--", "python", script, name)
        assert (replayed.code, (folder / "began").exists()) == (1, False), name
        assert "which a replay can't guard" in replayed.err
    assert agenttape("replay", "--", "env", "-i", "python", script, "env").code == 2
    allowed = agenttape("replay", "--allow-hosts", "subprocess", "--", "python", script, "an option")
    assert allowed.code == 0
    assert "is not guarded: the option -S keeps Python from importing" in allowed.err


@pytest.mark.usefixtures("forked_python")
def test_what_the_replay_starts(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A guarded Python behind shells, programs that only work with files, and questions about the machine."""
    program("ask.py", ASK)
    (folder / "run.sh").write_text("#!/bin/sh\ncd . && exec python ask.py script\n")
    (folder / "run.sh").chmod(0o700)
    script = program(
        "main.py",
        """
        import os, platform, subprocess
        from agenttape_core import boundary
        from tools import look_up

        @boundary("tool")
        def commit(word):
            return subprocess.run(["env", "true"]).returncode + subprocess.run(["git", "--version"]).returncode

        print(look_up("main"), commit("x"), flush=True)
        platform.processor()
        os.system("python ask.py line 2>&1 | tee log")
        subprocess.run(["nice", "sh", "-c", "for one in a; do python ask.py $0; done", "loop"])
        subprocess.run(["./run.sh"])
        """,
    )
    words = ("--", "python", script)
    recorded = agenttape("record", *words)
    assert (recorded.code, "is not recorded" in recorded.err) == (0, False), recorded.err
    replayed = agenttape("replay", *words)
    shown = [line.split(":")[0] for line in replayed.out.splitlines()]
    assert (replayed.code, shown) == (0, ["main", "line", "loop", "script"]), replayed.err


CLEARED = ["unset PYTHONPATH; python ask.py x", "sudo python ask.py x", "timeout 60 python -I ask.py x"]


@pytest.mark.sweep
@pytest.mark.usefixtures("forked_python")
@pytest.mark.parametrize("line", CLEARED)
@pytest.mark.parametrize("subcommand", ["record", "replay"])
def test_shell_that_clears_its_environment(program: Program, agenttape: Agenttape, subcommand: str, line: str) -> None:
    """A command that would run a Python without AgentTape is refused with 2 before it begins."""
    program("ask.py", ASK)
    agenttape("record", "--cassette", "both", "--", "python", "ask.py", "x")
    ended = agenttape(subcommand, "--cassette", "both", "--", "sh", "-c", line)
    assert (ended.code, ended.out) == (2, "")
    assert "sh would run without AgentTape" in ended.err


def test_a_program_that_is_no_python_is_judged_by_its_calls(
    folder: Path, program: Program, agenttape: Agenttape
) -> None:
    """The command itself may be any program; a replay in which it starts no guarded Python fails at its end."""
    program("ask.py", ASK)
    shutil.copy(str(shutil.which("env")), folder / "wrapper")
    assert agenttape("record", "--cassette", "both", "--", "./wrapper", "python", "ask.py", "x").code == 0
    replayed = agenttape("replay", "--cassette", "both", "--", "./wrapper", "-i", sys.executable, "-c", "print(1)")
    assert (replayed.code, replayed.out) == (1, "1\n")
    assert "Not made:" in replayed.err


@pytest.mark.usefixtures("forked_python")
def test_code_in_c_starts_anything(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """The page of the guard says so: `ctypes` raises no event for what it calls."""
    script = program(
        "main.py",
        """
        import ctypes
        from tools import look_up
        look_up("Paris")
        ctypes.CDLL(None).system(b"env -i touch began")
        """,
    )
    assert agenttape("record", "--", "python", script).code == 0
    (folder / "began").unlink()
    assert agenttape("replay", "--", "python", script).code == 0
    assert (folder / "began").exists()


def test_python_without_agenttape(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A Python that has no AgentTape reaches nothing in a replay, which ends with 1 whatever it makes of that."""
    (folder / "without").mkdir()
    program("without/agenttape_core.py", "raise ModuleNotFoundError('not here', name='agenttape_core')\n")
    program("a.py", ASK)
    program(
        "reach.py",
        """
        import socket
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=5)
        except Exception as error:
            print(type(error).__name__)
        """,
    )
    line = "python a.py; PYTHONPATH=$PYTHONPATH:without python reach.py"
    words = ("--cassette", "both", "--", "sh", "-c", line)
    assert agenttape("record", *words).out.endswith("ConnectionRefusedError\n")
    replayed = agenttape("replay", *words)
    assert (replayed.code, replayed.out.endswith("RuntimeError\n")) == (1, True)
    assert "has no AgentTape to replay with" in replayed.err


class Started:
    """`agenttape` in a process group of its own, with a program that says when it is ready."""

    def __init__(self, *words: str) -> None:
        command = [str(Path(sys.executable).with_name("agenttape")), *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self, number: signal.Signals, *, group: bool) -> Ended:
        """Send a signal, to the whole group as a terminal does or to the command alone, and wait."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        out, err = self.process.communicate(timeout=60)
        return Ended(self.process.returncode, out, err)


@pytest.mark.parametrize(
    ("number", "group", "arguments", "code"),
    [
        pytest.param(signal.SIGINT, True, "", 130, marks=pytest.mark.night),
        (signal.SIGINT, True, "late", 130),
        (signal.SIGTERM, False, "", 143),
        pytest.param(signal.SIGTERM, True, "gently", 0, marks=pytest.mark.night),
    ],
    ids=["interrupted", "interrupted and running more", "terminated", "ends gently"],
)
@pytest.mark.usefixtures("interruptible")
def test_ended_by_a_signal(
    folder: Path, program: Program, *, number: signal.Signals, group: bool, arguments: str, code: int
) -> None:
    """What a program had recorded when it was ended is its cassette, and it ends as it would without AgentTape."""
    wait = dedent("""
        import atexit, signal, sys
        from tools import look_up
        look_up("Paris")
        if "gently" in sys.argv:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        if "late" in sys.argv:
            atexit.register(exec, "0")  # as an import at the end may do; Python then forgets that it was interrupted
        print("ready", flush=True)
        signal.pause()
    """)

    ended = Started("record", "--", "python", program("wait.py", wait), *arguments.split()).end(number, group=group)
    assert (ended.code, cassettes(folder)) == (code, ["wait.yaml"])
    assert "cassettes/wait.yaml: 0 replayed, 1 recorded" in ended.err
    assert len(open_cassette(folder / "cassettes" / "wait.yaml").entries) == 1


def test_ended_by_a_signal_while_python_takes_it_down(folder: Path, program: Program) -> None:
    """A program that ends by itself after a signal to its whole group gets no second one, which would kill it."""
    ending = dedent("""
        import signal, sys, time
        from tools import look_up

        class Slow:
            def __del__(self, sleep=time.sleep):
                sleep(1)  # longer than the command waits before it forwards a signal

        slow = Slow()
        look_up("Paris")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("ready", flush=True)
        signal.pause()
    """)

    ended = Started("record", "--", "python", program("slow.py", ending)).end(signal.SIGTERM, group=True)
    assert (ended.code, cassettes(folder)) == (0, ["slow.yaml"])


def test_ignored_interrupts_stay_ignored(
    program: Program,
    agenttape: Agenttape,
    interruptible: None,
) -> None:
    """Where SIGINT was ignored already, as `nohup` starts commands, it is ignored by the program, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    script = program("ask.py", "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)")
    assert agenttape("record", "--", "python", script).out == "True\n"


def test_terminated_while_it_ends(program: Program, agenttape: Agenttape) -> None:
    """A signal that comes while a recording is written waits for that, and then ends the process."""
    script = program(
        "sync.py",
        """
        import os, signal
        from tools import look_up

        def terminated(descriptor, fsync=os.fsync):
            os.kill(os.getpid(), signal.SIGTERM)
            fsync(descriptor)

        look_up("Paris")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.fsync = terminated
        """,
    )
    ended = agenttape("record", "--", "python", script)
    assert (ended.code, "cassettes/sync.yaml: 0 replayed, 1 recorded" in ended.err) == (143, True)


def test_killed(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """What a process had recorded when it was killed is kept, and a replay that is killed proves nothing."""
    script = program(
        "exit_now.py",
        """
        import os, signal
        from tools import look_up
        look_up("Paris")
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert agenttape("record", "--", "python", script).code == 137
    assert cassettes(folder) == ["exit_now.yaml"]
    assert len(open_cassette(folder / "cassettes" / "exit_now.yaml").entries) == 1
    replayed = agenttape("replay", "--", "python", script)
    assert (replayed.code, "was killed or is still running" in replayed.err) == (1, True)
