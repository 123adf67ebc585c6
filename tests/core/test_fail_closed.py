"""Whatever goes wrong while a replay is set up, in any process: nothing of the program runs."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeAlias

import pytest

from agenttape_core.cli.app import run
from agenttape_core.tools.processes.startup.agenttape_commands import FOLDER, RUN

from ..kit.injecting import Injected, injected

pytestmark = [pytest.mark.process, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")]

COMMAND = "sitecustomize.py:_or_end,agenttape_startup.py:begin,agenttape_startup.py:Process._open"
"""The functions that set up a process of a command."""

RAN = """
def ran():
    import os
    with open("ran", "a") as file:
        file.write(os.environ.get("INJECTED", "itself") + "\\n")
"""

PAY = """
from ran import ran
try:
    from agenttape_core import boundary

    @boundary("tool")
    def pay(amount):
        return amount

    pay(42)
except BaseException:
    pass
ran()
"""
"""A program that catches whatever there is to catch."""

CHILD = """
import subprocess, sys
subprocess.run([sys.executable, "pay.py"])  # whatever becomes of it
"""

SERVED = """
import threading
from ran import ran

def answer():
    try:
        from agenttape_core import boundary
        boundary("tool")(len)("abc")
    except BaseException:
        pass
    ran()

thread = threading.Thread(target=answer)  # as the first request of a server does
thread.start()
thread.join()
"""

SERVICE = """
from ran import ran
from agenttape_core import boundary
from agenttape_core.asgi import TapeInbound

@boundary("tool")
def pay(amount):
    return amount

async def service(scope, receive, send):
    assert scope["type"] == "http"
    ran()
    body = str(pay(42)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})

app = TapeInbound(service, "runs", suffix=".yaml")
"""

ASK = """
import asyncio
from service import app

async def main():
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    await app(scope, receive, send)
    await app.written()

asyncio.run(main())
"""

BLOCK = """
from agenttape_core import boundary, use_cassette
from ran import ran
pay = boundary("tool")(abs)
with use_cassette("block", mode="once"):
    ran()
    pay(-42)
"""

TESTS = """
import pytest
from agenttape_core import boundary
from ran import ran
pay = boundary("tool")(abs)

@pytest.mark.cassette("marked")
def test_pay(cassette):
    ran()
    pay(-42)
"""

POOL = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from agenttape_core import boundary, use_cassette
from ran import ran
pay = boundary("tool")(abs)

def work():
    ran()
    return pay(-42)

if __name__ == "__main__":
    with use_cassette("pool", mode="once"):
        pay(-42)
    with use_cassette("pool"), ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(work).result()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs, in the environment of a user's shell."""
    folder = tmp_path_factory.mktemp("project")
    programs = {"ran": RAN, "pay": PAY, "child": CHILD, "served": SERVED, "service": SERVICE, "ask": ASK}
    for name, text in {**programs, "block": BLOCK, "test_marked": TESTS, "pool": POOL}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a user's shell, whose pytest loads no other plugins: they take longer than the runs."""
    for name in [name for name in os.environ if name.startswith(("AGENTTAPE_", "_AGENTTAPE_", "PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


Under: TypeAlias = Callable[..., Injected]


@pytest.fixture
def under(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Under:
    """Run a command under `agenttape`, in this process, with errors in the set-up of one of its processes."""

    def here(command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> Any:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            for name, value in environment.items():
                patch.setenv(name, value)
            capfd.readouterr()
            return subprocess.CompletedProcess(command, run(command), *capfd.readouterr())

    def under(*words: str, into: str, every: int = 1) -> Injected:
        return injected(project, *words, into=into, within=COMMAND, every=every, run=here)

    return under


@pytest.fixture
def recorded(project: Path, under: Under) -> Callable[..., None]:
    """Record a command, without errors, unless another test has."""

    def recorded(cassette: str, *command: str) -> None:
        if (project / "cassettes" / f"{cassette}.yaml").exists():
            return
        found = under("record", "--cassette", cassette, *command, into="none of them")
        assert (found.ended.returncode, found.codes) == (0, {}), found.ended.stderr

    return recorded


def assert_nothing_ran(found: Injected, least: int, *, code: int | None = 2) -> None:
    """Nothing of the program ran where a step of the set-up failed, and each reason is told."""
    assert len(found.codes) >= least
    assert [step for step, ended in found.codes.items() if ended != code] == []
    assert found.ran == ["itself"]
    assert [step for step in found.codes if f"injected at {step}" not in found.ended.stderr] == []


def test_command(under: Under, recorded: Callable[..., None], pytestconfig: pytest.Config) -> None:
    """A replayed command ends with 2 before it runs, whichever step of its set-up fails; so does `agenttape`."""
    every, least = (4, 200) if pytestconfig.getoption("night") else (16, 50)
    recorded("pay", "--", "python", "pay.py")
    found = under("replay", "--cassette", "pay", "--", "python", "pay.py", into="pay.py", every=every)
    assert_nothing_ran(found, least)
    assert found.ended.returncode == 2


def test_recorded_command(under: Under) -> None:
    """A recording that cannot be set up does not run the program, which would pay for what is not kept."""
    found = under("record", "--cassette", "new", "--", "python", "pay.py", into="pay.py", every=80)
    assert_nothing_ran(found, 7)
    assert found.ended.returncode == 2


def test_child_of_a_command(under: Under, recorded: Callable[..., None]) -> None:
    """A child that cannot be set up does not run, and fails the command, which does not look at it."""
    recorded("child", "--", "python", "child.py")
    found = under("replay", "--cassette", "child", "--", "python", "child.py", into="pay.py", every=80)
    assert_nothing_ran(found, 7)
    assert found.ended.returncode == 2


def test_session_of_a_thread(under: Under, recorded: Callable[..., None]) -> None:
    """The process ends where the session of a server is opened by its first request, in a thread of its own."""
    recorded("served", "--", "python", "served.py")
    found = under("replay", "--cassette", "served", "--", "python", "served.py", into="served.py", every=80)
    assert_nothing_ran(found, 7)


def test_served_agent(project: Path, under: Under) -> None:
    """A request that is sent again to an ASGI application does not reach it."""
    injected(project, sys.executable, "ask.py", into="none of them", within=COMMAND)
    (source,) = (project / "runs").glob("*.yaml")
    words = ("replay", "--run", str(source), "--asgi", "service:app")
    found = under(*words, into="agenttape_core.tools.processes.restart_api", every=40)
    assert_nothing_ran(found, 7)


def test_block(project: Path) -> None:
    """The body of a `with` block does not run."""
    injected(project, sys.executable, "block.py", into="none of them", within=COMMAND)
    within = "use_cassette.py:CassetteBlock.__enter__"
    found = injected(project, sys.executable, "block.py", into="block.py", within=within, every=32)
    assert_nothing_ran(found, 10, code=1)
    assert found.ended.returncode == 0


def test_marked_test(project: Path) -> None:
    """A test does not run if a step of the plugin before it fails, and fails itself."""
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_marked.py")
    injected(project, *words, "--cassette-mode=once", into="none of them", within=COMMAND)
    within = "__init__.py:_opened,__init__.py:pytest_fixture_setup"
    found = injected(project, *words, into="pytest", within=within, only="/pytest_plugin/", every=12)
    assert len(found.codes) >= 3
    assert [step for step, ended in found.codes.items() if ended != 1] == []
    assert found.ran == ["itself"]


WRONG = {
    "an option": (["--allow-hosts", "https://api.openai.com"], {}, ""),
    "a variable": ([], {"AGENTTAPE_ALLOW_HOSTS": "api.openai.com:https"}, ""),
    "another variable": ([], {"AGENTTAPE_FREEZE": "weather"}, ""),
    "a setting": ([], {}, '[tool.agenttape]\nallow_hosts = ["a b"]\n'),
    "a file": ([], {}, "[tool.agenttape\n"),
}
"""Options, variables and the file of settings, by what is wrong."""


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("subcommand", ["record", "replay"])
def test_wrong_settings(project: Path, monkeypatch: pytest.MonkeyPatch, subcommand: str, wrong: str) -> None:
    """An option, a variable or a file of settings that is wrong is refused with 2, and nothing is started."""
    options, variables, settings = WRONG[wrong]
    monkeypatch.chdir(project)
    (project / "pyproject.toml").write_text(settings)
    (project / "ran").write_text("")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    try:
        assert run([subcommand, "--cassette", "pay", *options, "--", "python", "pay.py"]) == 2
    finally:
        (project / "pyproject.toml").unlink()
    assert (project / "ran").read_text() == ""


def test_framework_without_agenttape(project: Path, under: Under, recorded: Callable[..., None]) -> None:
    """A Python without AgentTape that imports a framework is stopped in a replay, and noted in a recording."""
    framework = dedent("""
        from ran import ran
        try:
            import langchain_core
        except BaseException:
            pass
        ran()
    """)

    without = project / "without"
    without.mkdir()
    (without / "agenttape_core.py").write_text("raise ModuleNotFoundError('not here', name='agenttape_core')\n")
    (without / "langchain_core.py").write_text("")
    (project / "framework.py").write_text(framework)
    line = f"python pay.py; PYTHONPATH=$PYTHONPATH:{without} python framework.py"
    recorded("without", "--", "sh", "-c", line)
    assert (project / "ran").read_text() == "itself\nitself\n"
    replayed = under("replay", "--cassette", "without", "--", "sh", "-c", line, into="none of them")
    assert (replayed.ended.returncode, replayed.ran) == (2, ["itself"])
    assert "has no AgentTape to replay with" in replayed.ended.stderr


@pytest.mark.parametrize("subcommand", ["record", "replay"])
def test_process_that_begins_after_its_command(project: Path, subcommand: str) -> None:
    """A process that finds its run gone does not run if that was a replay; else it runs as it would without it."""
    gone = f"{'replay:' if subcommand == 'replay' else ''}{project / 'gone'}"
    (project / "ran").write_text("")
    environment = {**os.environ, RUN: gone, "PYTHONPATH": FOLDER}
    ended = subprocess.run(
        [sys.executable, "pay.py"], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    if subcommand == "replay":
        assert (ended.returncode, (project / "ran").read_text()) == (2, "")
        assert "the replay that started it has ended" in ended.stderr
    else:
        assert (ended.returncode, (project / "ran").read_text()) == (0, "itself\n")


HIDING = """
import sys
hidden = ("agenttape_core", "pydantic")
sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
for name in [name for name in sys.modules if name.partition(".")[0] == "pydantic"]:
    del sys.modules[name]
{end}
"""
MISSING = {
    "a package that start-up code hides": ("sitecustomize.py", HIDING.format(end="")),
    "such code that raises": ("sitecustomize.py", HIDING.format(end="raise RuntimeError('it fails')")),
    "a broken installation": ("agenttape_core.py", "raise ImportError('broken')\n"),
    "one that isn't Python": ("agenttape_core.py", "def (\n"),
}


@pytest.mark.parametrize("missing", MISSING)
def test_child_that_cannot_import_agenttape(
    project: Path, under: Under, recorded: Callable[..., None], missing: str
) -> None:
    """It ends with 2 before its first line, and so does the command, with the reason."""
    folder = project / f"missing-{list(MISSING).index(missing)}"
    folder.mkdir(exist_ok=True)
    name, text = MISSING[missing]
    (folder / name).write_text(text)
    (project / "first.py").write_text("from ran import ran\nran()\n")
    recorded("pay", "--", "python", "pay.py")
    line = f"PYTHONPATH=$PYTHONPATH:{shlex.quote(str(folder))} python first.py"
    for subcommand in ("replay", "record")[: 1 if name == "agenttape_core.py" else 2]:
        cassette = "pay" if subcommand == "replay" else "hidden"
        found = under(subcommand, "--cassette", cassette, "--", "sh", "-c", line, into="none of them")
        assert (found.ended.returncode, found.ran) == (2, []), found.ended.stderr
        assert "as AgentTape could not be set up in it" in found.ended.stderr


def test_every_python_can_read_what_it_begins_with() -> None:
    """An old one would print a syntax error of `sitecustomize`, and run the program: it has no newer syntax."""
    tree = ast.parse(Path(FOLDER, "sitecustomize.py").read_text())
    newer = (ast.AnnAssign, ast.JoinedStr, ast.NamedExpr, ast.Match)
    assert [node for node in ast.walk(tree) if isinstance(node, newer)] == []
    assert [
        node for node in ast.walk(tree) if getattr(node, "returns", None) or getattr(node, "annotation", None)
    ] == []
    assert [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"] == []


def test_command_that_cannot_be_imported(project: Path) -> None:
    """`agenttape` ends with 2 and starts nothing, where a package that it needs is missing or broken."""
    for name in ("pydantic", "rich"):
        folder = project / f"without-{name}"
        folder.mkdir()
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('not here', name={name!r})\n")
        words = ("agenttape", "replay", "--cassette", "pay", "--", "python", "pay.py")
        (project / "ran").write_text("")
        ended = subprocess.run(
            words,
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, (project / "ran").read_text()) == (2, ""), ended.stderr
        assert "pip install" in ended.stderr


@pytest.mark.usefixtures("interruptible")
def test_tasks_of_a_pool_end(project: Path) -> None:
    """Who waits for a `multiprocessing.Pool` whose workers cannot begin is interrupted, and gets the reason."""
    tasks = dedent("""
        import multiprocessing
        from agenttape_core import boundary, use_cassette
        from agenttape_core.lifecycle import children
        from ran import ran
        pay = boundary("tool")(abs)

        if __name__ == "__main__":
            real = children._options
            children._options = lambda *args: {**real(*args), "no_such_option": 1}
            with use_cassette("pool"):
                pay(-42)
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    try:
                        pool.apply(ran)
                    except KeyboardInterrupt:
                        print("interrupted")
    """)

    injected(project, sys.executable, "pool.py", into="none of them", within=COMMAND)  # records
    (project / "tasks.py").write_text(tasks)
    (project / "ran").write_text("")
    ended = subprocess.run(
        [sys.executable, "tasks.py"], cwd=project, capture_output=True, text=True, check=False, timeout=150
    )
    assert (ended.returncode, (project / "ran").read_text()) == (1, "")
    assert "interrupted" in ended.stdout
    assert "ConfigurationError: a process of multiprocessing was not run" in ended.stderr
    ended = subprocess.run(
        ["sh", "-c", f"trap '' INT; exec {shlex.quote(sys.executable)} tasks.py"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert (ended.returncode, (project / "ran").read_text()) == (2, ""), "where no interrupt can reach it"
    assert "agenttape: a process of multiprocessing was not run" in ended.stderr


@pytest.mark.skipif(sys.gettrace() is not None, reason="what measures coverage runs code of its own amid the steps")
@pytest.mark.usefixtures("interruptible")
def test_worker_of_a_pool(project: Path) -> None:
    """A process that `multiprocessing` starts anew does not run, and fails the replay of its parent."""
    found = injected(
        project, sys.executable, "pool.py", into="--multiprocessing-fork", within="children.py:_begin", every=20
    )
    assert_nothing_ran(found, 7)
    assert found.ended.returncode == 1
    assert "was not run, as its replay could not begin" in found.ended.stderr
