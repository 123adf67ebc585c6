"""Where the cassettes of marked tests are: a marker, a variable or a setting names their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttape_core.cli.app import run
from agenttape_core.tools.hash_seeds import recorded_seed, seed_of_tests

from .conftest import Project

OWN = """
@pytest.mark.cassette%s
def test_own():
    assert ask("own") == "own! 1"
"""
NAMED = """
@pytest.mark.cassette("shared"%s)
def test_named():
    assert ask("named") == "named! 1"
"""


def files(project: Project) -> list[str]:
    """Return the cassettes of a project."""
    found = (path for path in project.path.rglob("*") if path.suffix in {".yaml", ".gz", ".jsonl"})
    return sorted(path.relative_to(project.path).as_posix() for path in found)


@pytest.mark.parametrize(
    ("given", "own", "named"),
    [
        (("", "", ""), "tests/cassettes/test_it/test_own.yaml", "tests/cassettes/shared.yaml"),
        (("tests/cassettes", "", ""), "tests/cassettes/test_it/test_own.yaml", "tests/cassettes/shared.yaml"),
        (("kept", "", ""), "kept/tests/test_it/test_own.yaml", "kept/shared.yaml"),
        (("", "traces", ""), "traces/tests/test_it/test_own.yaml", "traces/shared.yaml"),
        (("kept", "traces", ""), "traces/tests/test_it/test_own.yaml", "traces/shared.yaml"),
        (("kept", "traces", "mine"), "tests/mine/test_it/test_own.yaml", "tests/mine/shared.yaml"),
        (("", "", "../mine"), "mine/tests/test_it/test_own.yaml", "mine/shared.yaml"),
    ],
)
def test_the_folder_of_marked_tests(
    given: tuple[str, str, str], own: str, named: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker wins over a variable, a variable over the setting; without one, cassettes are next to the module."""
    setting, variable, argument = given
    if setting:
        (project.path / "pyproject.toml").write_text(f'[tool.agenttape]\ncassette_dir = "{setting}"\n')
    if variable:
        monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", variable)
    (project.path / "tests").mkdir()
    monkeypatch.syspath_prepend(project.path)
    option = f'cassette_dir="{argument}"' if argument else ""
    body = (OWN % f"({option})" if option else OWN % "") + NAMED % (f", {option}" if option else "")
    (project.path / "tests" / "test_it.py").write_text(f"import pytest\nfrom agent import ask, asked\n{body}")
    (project.path / "agent.py").write_text((project.path / "agent.py").read_text().replace("len(asked)", "1"))
    project.record()
    assert files(project) == sorted([own, named])
    project.go_offline()
    project.run("--cassette-strict=orphans").assert_outcomes(passed=2)


def test_modules_of_one_name_stay_apart(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a named folder, cassettes have the paths of their modules; one whose test is gone is found there."""
    monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", "kept")
    monkeypatch.syspath_prepend(project.path)
    for folder in ("a", "b"):
        (project.path / folder).mkdir()
        (project.path / folder / "__init__.py").touch()
        (project.path / folder / "test_it.py").write_text(
            f"import pytest\nfrom agent import look_up\n"
            f"@pytest.mark.cassette\ndef test_city():\n    assert look_up('{folder}') == '{folder}: 20 C'\n"
        )
    project.record()
    assert files(project) == ["kept/a/test_it/test_city.yaml", "kept/b/test_it/test_city.yaml"]
    (project.path / "a" / "test_it.py").write_text("def test_other():\n    pass\n")
    result = project.run("--cassette-strict=orphans")
    result.stdout.fnmatch_lines(["*orphaned cassettes*", "kept/a/test_it/test_city.yaml"], consecutive=True)
    assert result.ret == 1
    result.stdout.no_fnmatch_line("kept/b/test_it/test_city.yaml")
    assert seed_of_tests(["b"]) == recorded_seed("kept/b/test_it/test_city.yaml")


def test_the_advice_after_the_folder_has_changed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test whose cassette is still next to its module says how to move it."""
    project.tests(OWN % "")
    project.record()
    monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", "kept")
    result = project.run()
    line = "*move its cassette:  mkdir -p kept/test_it && mv cassettes/test_it/test_own.yaml kept/test_it/test_own.yaml"
    result.stdout.fnmatch_lines([line])


def test_the_fixture_names_no_folder(project: Project) -> None:
    """The folder is known before fixtures run, so `cassette_config` cannot name it, and says who can."""
    body = "@pytest.fixture\ndef cassette_config():\n    return {'cassette_dir': 'kept'}\n"
    project.tests(body + OWN % "")
    project.run("--cassette-mode=once").stdout.fnmatch_lines(["*give it to the marker, or set cassette_dir in*"])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl.gz", pytest.param(".jsonl", marks=pytest.mark.night)])
def test_marked_tests_find_their_cassettes_in_every_format(suffix: str, project: Project) -> None:
    """A converted cassette is that of its test as before: replayed, recorded again in its format, and no orphan."""
    project.tests(OWN % "" + NAMED % "".replace("! 1", "! 2"))
    (project.path / "agent.py").write_text((project.path / "agent.py").read_text().replace("len(asked)", "1"))
    project.record()
    for path in ("cassettes/test_it/test_own", "cassettes/shared"):
        assert run(["cassette", "convert", f"{path}.yaml", f"{path}{suffix}"]) == 0
    converted = [f"cassettes/shared{suffix}", f"cassettes/test_it/test_own{suffix}"]
    assert files(project) == converted
    result = project.run("--cassette-mode=all")
    result.assert_outcomes(passed=2)
    assert files(project) == converted
    project.go_offline()
    project.run("--cassette-strict=orphans").assert_outcomes(passed=2)
    Path("cassettes/test_it/test_own.yaml").write_text("agenttape: 1\n")
    result = project.run()
    result.stdout.fnmatch_lines(["*test_own is the name of 2 cassettes:*"])
