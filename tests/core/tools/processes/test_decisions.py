"""What is decided about processes from what they are told and tell."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.tools.processes.report import findings_of
from agenttape_core.tools.processes.run_folder import ProcessReport, cassette_of, cassettes_of, part_of
from agenttape_core.tools.processes.startup.agenttape_commands import (
    FOLDER,
    RUN,
    is_main,
    label_of,
    what_runs,
    why_deaf,
    why_unguarded,
)
from agenttape_core.tools.processes.startup.agenttape_startup import _waits_for_import

PATIENCE = 30.0
"""Seconds after which a thread that was started has come to its lock, on the busiest machine."""


@pytest.mark.parametrize(
    ("line", "label", "arguments"),
    [
        ("python a/worker.py --fast x", "worker.py", ["--fast", "x"]),
        ("python -X dev -Wignore -u worker.py -c 1", "worker.py", ["-c", "1"]),
        ("python -m json.tool in.json", "json.tool", ["in.json"]),
        ("python -um json.tool in.json", "json.tool", ["in.json"]),
        ("python -c print(1) x", "code", ["x"]),
        ("python /venv/bin/pytest tests", "pytest", ["tests"]),
        ("python application/", "application", []),
        ("python - x", "stdin", ["x"]),
        ("python -i", "stdin", []),
        ("python -- a.py", "a.py", []),
        ("python ../.hidden", "hidden", []),
        ("python /tmp/$(x)%2F.py", "__x__2F.py", []),
    ],
)
def test_what_runs(line: str, label: str, arguments: list[str]) -> None:
    """A process is called by what it runs, which its arguments do not change."""
    words = line.split()
    assert (label_of(words), what_runs(words)[2]) == (label, arguments)


def test_multiprocessing_is_called_by_its_name() -> None:
    """What `multiprocessing` starts has numbers in its code and is called the same every time."""
    spawned = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)", "--multiprocessing-fork"]
    server = ["python", "-c", "from multiprocessing.forkserver import main; main(3, 5)"]
    assert (label_of(spawned), what_runs(spawned)[2], label_of(server)) == ("multiprocessing", [], "multiprocessing")


HEARD = {RUN: "x", "PYTHONPATH": f"a:{FOLDER}"}
"""The environment of a process of a command."""


@given(st.lists(st.text()))
def test_any_command_line_has_a_name(words: list[str]) -> None:
    """Whatever a process was started with, its name is one part of a path and no hidden file."""
    label = label_of(["python", *words])
    assert Path(label).name == label
    assert 0 < len(label) <= 60
    assert not label.startswith((".", "-"))


@pytest.mark.parametrize(
    ("words", "command", "is_so"),
    [
        (["/venv/bin/python", "a.py", "x"], ["python", "a.py", "x"], True),
        (["/venv/bin/python", "/venv/bin/pytest", "-q"], ["uv", "run", "pytest", "-q"], True),
        (["python", "a.py"], ["sh", "-c", "python a.py && python b.py"], False),
        (["python", "helper.py"], ["python", "a.py"], False),
        (["python"], ["python"], True),
        (["python"], ["sh", "script"], False),
    ],
)
def test_which_is_the_main_process(words: list[str], command: list[str], is_so: bool) -> None:
    """The main process is the one that the command names, whichever tool starts it."""
    assert is_main(words, command) is is_so


@pytest.mark.parametrize(
    ("words", "environment", "is_deaf"),
    [
        (["python", "-Iu", "a.py"], HEARD, True),
        (["python3.11", "-E", "a.py"], HEARD, True),
        (["python", "a.py", "-I"], HEARD, False),
        (["curl", "-I", "x"], {}, False),
        (["python", "a.py"], {}, True),
        (["python", "a.py"], HEARD, False),
        ([], HEARD, False),
        (["env", "A=1", "python", "a.py"], HEARD, False),
        (["/usr/bin/env", "-i", "python", "a.py"], HEARD, True),
        (["env", "-", "A=1", "python", "a.py"], HEARD, True),
        (["env", "-u", "PYTHONPATH", "python", "a.py"], HEARD, True),
        (["env", f"--unset={RUN}", "--", "python", "a.py"], HEARD, True),
        (["env", "--unset", "HOME", "-C", ".", "python", "a.py"], HEARD, False),
        (["env", "PYTHONPATH=src", "python", "a.py"], HEARD, True),
        (["env", "-vS", "python -I", "a.py"], HEARD, True),
        (["env", "A=1", "env", "-0i", "python", "a.py"], HEARD, True),
        (["env", "-i", "ls"], HEARD, False),
        (["env"], HEARD, False),
    ],
)
def test_which_python_is_deaf(words: list[str], environment: dict[str, str], is_deaf: bool) -> None:
    """A Python hears nothing of AgentTape if its options or its environment keep it from it."""
    assert bool(why_deaf(words, environment)) is is_deaf


@pytest.mark.parametrize(
    ("line", "environment", "is_deaf"),
    [
        ("#!/usr/bin/python3 -I", HEARD, True),
        ("#!/usr/bin/env -S python -E", HEARD, True),
        ("#!/usr/bin/env python", HEARD, False),
        ("#!/usr/bin/env python", {}, True),
        ("#!/bin/sh", {}, False),
        ("no script", {}, False),
    ],
)
def test_which_script_is_deaf(line: str, environment: dict[str, str], is_deaf: bool, tmp_path: Path) -> None:
    """A script is judged by the Python that its first line names, also if it is looked up on PATH."""
    script = tmp_path / "tool"
    script.write_text(f"{line}\n")
    script.chmod(0o700)
    wrapper = tmp_path / "python"
    wrapper.write_text("#!/usr/bin/python3 -I\n")
    wrapper.chmod(0o700)
    assert not why_deaf(["python", "a.py"], {**HEARD, "PATH": str(tmp_path)})
    for words, variables in (([str(script)], environment), (["tool"], {**environment, "PATH": f"x:{tmp_path}"})):
        assert bool(why_deaf(words, variables)) is is_deaf


LINES = {
    "python a.py": "",
    "cd x && python a.py 2>&1 | tee log": "",
    "exec nohup python a.py & wait": "",
    "ls *.py | xargs -n 2 python a.py": "",
    "python a.py # git status": "",
    "PYTHONPATH=y:$PYTHONPATH python a.py": "",
    "if true; then python a.py; fi": "",
    "unset PYTHONPATH; python a.py": "deaf",
    "export PYTHONPATH=; python a.py": "deaf",
    "PYTHONPATH= python a.py": "deaf",
    f"true && unset {RUN} && python a.py": "deaf",
    "env -u PYTHONPATH python a.py": "deaf",
    "git x; env -i python a.py": "deaf",
    "timeout -k 3 5 python -I a.py": "deaf",
    "nice -n 5 bash -c 'python -E a.py'": "deaf",
    "sudo -E python a.py": "deaf",
    "su bob -c whoami": "unknown",
    "git status": "unknown",
    "python a.py; curl x": "unknown",
    "python a.py $(curl x)": "unknown",
    'python a.py "$(curl x)"': "unknown",
    "python a.py `curl x`": "unknown",
    "f() { curl x; }; f": "unknown",
    "eval python a.py": "unknown",
    "$PROGRAM a.py": "unknown",
    "python $OPTIONS a.py": "unknown",
    "find . | xargs python": "unknown",
    "find . -exec curl x ;": "unknown",
    "echo -I | xargs -I{} python {} a.py": "unknown",
    "timeout --signal KILL 5 python a.py": "unknown",
    "echo x > /dev/tcp/192.0.2.1/80": "unknown",
    "python - <<X": "unknown",
    "case a in b) curl x;; esac": "unknown",
    "sh -l -c 'python a.py'": "unknown",
    "sh": "unknown",
    ". ./settings; python a.py": "unknown",
    "python 'a.py": "unknown",
}


@pytest.mark.parametrize(("line", "found"), LINES.items(), ids=LINES)
def test_which_line_of_a_shell_is_guarded(line: str, found: str, tmp_path: Path) -> None:
    """Each Python in it is found, and it's guarded only if nothing else starts; a script is like a line."""
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n# run it\n{line}\n")
    script.chmod(0o700)
    for words in (["sh", "-c", line], ["/bin/bash", "-ec", line], ["sh", str(script)], [str(script)]):
        reason, is_deaf = why_unguarded(words, {**HEARD, "PATH": "/usr/bin:/bin"})
        assert ("deaf" if is_deaf else "unknown" if reason else "") == found, (words, reason)


def test_another_sitecustomize_comes_first(tmp_path: Path) -> None:
    """Python imports the first one on `PYTHONPATH` only."""
    (tmp_path / "sitecustomize.py").touch()
    for path, is_deaf in ((f"{tmp_path}:{FOLDER}", True), (f"{FOLDER}:{tmp_path}", False)):
        assert bool(why_deaf(["python", "a.py"], {**HEARD, "PYTHONPATH": path})) is is_deaf


def report(address: str, replayed: list[int], unused: list[int], state: str = "ended") -> ProcessReport:
    """What a process told."""
    return ProcessReport(1, address, "", "", state=state, replayed=replayed, unused=dict.fromkeys(unused, ""))  # type: ignore[arg-type]


ROWS = [(1, "same", "one"), (2, "same", "two"), (3, "other", "three")]


@pytest.mark.parametrize(
    ("reports", "unused"),
    [
        ([report("w", [1, 2, 3], [])], []),
        ([report("w", [1], [2, 3])], ["two", "three"]),
        ([report("w", [1], [2, 3]), report("w", [3, 1], [2])], []),  # the same answer, to one each
        ([report("w", [1], [2, 3]), report("w", [2], [1, 3])], ["three"]),
        ([report("v", [1, 2, 3], [])], ["one", "two", "three"]),
        ([report("w", [1, 2, 3], [], state="open")], ["one", "two", "three"]),
        ([report("w", [], [1, 2])], ["one", "two"]),  # 3 is inside of another one, or live
        ([], ["one", "two", "three"]),
    ],
)
def test_unused(reports: list[ProcessReport], unused: list[str]) -> None:
    """A recording is unused if none of the processes that share it asked, and no equal request had its answer."""
    found = findings_of(reports, {"w": ROWS})
    assert found.unused == ({"w": unused} if unused else {})


def test_killed() -> None:
    """A process that was open and did not end is named; one that had not begun asked for nothing."""
    reports = [report("a", [], [], state="open"), report("b", [], [], state="opening"), report("c", [], [])]
    assert findings_of(reports, {}).killed == ["a"]


@given(
    st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True), min_size=1, max_size=3),
    st.sampled_from([".yaml", ".jsonl", ".yaml.gz"]),
)
def test_cassettes_are_found_by_address(
    tmp_path_factory: pytest.TempPathFactory, labels: list[str], suffix: str
) -> None:
    """The cassette of a process is found again with its address, and what is only beside it is not."""
    folder = tmp_path_factory.mktemp("cassettes")
    main, address = folder / f"run{suffix}", "/".join(labels)
    own = cassette_of(main, address)
    own.parent.mkdir(parents=True)
    for path in (main, own, part_of(own, "1"), own.with_name(f"x.recovered{suffix}"), own.with_name("notes.txt")):
        path.touch()
    assert dict(cassettes_of(main)) == {"": main, address: own}


@pytest.mark.process
def test_startup_imports_nothing() -> None:
    """What runs in every Python of a command imports nothing that is not there already."""
    import subprocess

    program = "import sys; before = set(sys.modules); import agenttape_startup; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": FOLDER}, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {"agenttape_startup", "atexit"}


def test_thread_that_waits_for_an_import() -> None:
    """Who imports a module does not wait for a thread that waits for this module."""
    me = threading.get_ident()
    lock: Any = importlib._bootstrap._ModuleLock("module")  # type: ignore[attr-defined]
    lock.acquire()
    thread = threading.Thread(target=lambda: (lock.acquire(), lock.release()))
    thread.start()
    try:
        until = time.monotonic() + PATIENCE
        while not _waits_for_import(thread.ident, me):
            assert time.monotonic() < until, "nobody says that it waits"
        assert not _waits_for_import(thread.ident, me + 1)
    finally:
        lock.release()
        thread.join()
    assert not _waits_for_import(thread.ident, me)
    assert not _waits_for_import(None, me)
