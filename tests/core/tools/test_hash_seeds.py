"""A program that a tool starts, or a command runs, has the hash seed of its recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.cli.hash_seed import AnotherSeedError, is_of_the_command
from agenttape_core.cli.running import run_pytest
from agenttape_core.experiments import mutants
from agenttape_core.experiments.verify.environment import available
from agenttape_core.tools.hash_seeds import recorded_seed, seed_of_tests

pytestmark = pytest.mark.skipif(not sys.flags.hash_randomization, reason="this process has the hash seed 0")


@boundary
def ask(question: str) -> str:
    """Return the answer."""
    return question


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def seven(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cassette of a test that was recorded with the hash seed 7, in a process that has no known one."""
    return recorded(folder / "cassettes" / "test_it" / "test_it.yaml", "7", monkeypatch)


def recorded(path: Path, seed: str | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Record a cassette as in a process with a hash seed."""
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    with use_cassette(path, mode="all"):
        ask("Rain?")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    return path


def test_the_seed_of_tests(seven: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of all their cassettes that name one; if they name several, no process has them all."""
    (folder / "test_it.py").touch()
    (folder / "cassettes" / "notes.yaml").write_text("no: cassette\n")
    recorded(folder / "cassettes" / "plain.yaml", None, monkeypatch)
    assert recorded_seed(seven) == seed_of_tests(["test_it.py::test_it", "-k it"]) == seed_of_tests([]) == 7
    recorded(folder / "below" / "cassettes" / "other.yaml", "8", monkeypatch)
    assert seed_of_tests([]) is None
    assert seed_of_tests(["test_it.py"]) == 7
    assert seed_of_tests(["below"]) == 8


def test_a_verification_begins_with_it(seven: Path) -> None:
    """It is the first value, and the only one if it is not varied."""
    assert available({"hash_seed"}, 3, recorded_seed(seven))["hash_seed"] == [7, 0, 1]
    assert list(available((), 3, 1)["hash_seed"]) == [1]
    assert available({"hash_seed"}, 3, 1)["hash_seed"] == [1, 0, 2]


def test_a_verb_begins_anew_with_it(seven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explore` replays in the process of the command."""
    monkeypatch.setattr("agenttape_core.cli.hash_seed._Process.begins_anew", False)
    is_of_the_command()
    with pytest.raises(AnotherSeedError) as another:
        run(["lab", "orders", "desk.py:answer", "--cassette", str(seven)])
    assert another.value.seed == 7


@pytest.mark.process
def test_processes_have_it(folder: Path, seven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of `adequacy`, and the pytest of `update` and `faults`."""
    program = dedent("""
        import os
        from agenttape_core import boundary

        @boundary
        def ask(question):
            raise AssertionError("really asked")

        def answer():
            assert os.environ["PYTHONHASHSEED"] == "7"
            return ask("Rain?")

        def test_it():
            assert os.environ["PYTHONHASHSEED"] == "7"
    """)

    (folder / "test_it.py").write_text(program)
    assert mutants("test_it.py:answer", seven, only=["prompts"], runs=1).score.share == 1
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take longer than the runs
    assert run_pytest(["test_it.py"], quietly=True).returncode == 0


AGENTTAPE = Path(sys.executable).with_name("agenttape")


@pytest.mark.process
def test_a_program_is_run_with_the_recorded_seed(tmp_path: Path) -> None:
    """Its sets have the recorded order, so the command finds its calls; its folder holds none of our modules."""
    program = dedent("""
        from agenttape_core import boundary, use_cassette


        @boundary
        def ask(question: str) -> str:
            return question


        def answer():
            with use_cassette("desk.yaml"):
                ask(" ".join({f"word{number}" for number in range(20)}))
    """)

    def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command; if it is given no hash seed, Python draws one."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONHASHSEED"))}
        return subprocess.run(
            command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=60, check=False
        )

    (tmp_path / "desk.py").write_text(program, encoding="utf-8")
    recording = run(
        tmp_path, sys.executable, "-c", "from desk import answer; answer()", AGENTTAPE_MODE="once", PYTHONHASHSEED="7"
    )
    assert recording.returncode == 0, recording.stderr
    (tmp_path / "click.py").write_text("raise SystemExit('not this one')", encoding="utf-8")
    found = run(tmp_path, str(AGENTTAPE), "lab", "why", "desk.py:answer", "--cassette", "desk.yaml")
    assert found.returncode == 0, found.stdout + found.stderr
