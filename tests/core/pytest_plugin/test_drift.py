"""`--cassette-lab=live`: a suite is compared with the real services, and nothing in the tree changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import agenttape_core.pytest_plugin.verifying  # noqa: F401 - runs in this process forget what only they have imported
from agenttape_core.cli.app import run

from .conftest import Project

pytestmark = pytest.mark.process

SUITE = """
from pathlib import Path
from typing import Any

@pytest.mark.cassette
def test_city(cassette):
    city = Path("city").read_text()
    ask(city)
    cassette.assert_matches_snapshot(look_up(city))
"""


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files of a project that git does not ignore, with what they hold."""
    hidden = {".agenttape", ".pytest_cache", "__pycache__"}
    files = (path for path in folder.rglob("*") if path.is_file() and hidden.isdisjoint(path.parts))
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture
def recorded(project: Project) -> Project:
    """A project with a recorded test."""
    (project.path / "city").write_text("Rome", encoding="utf-8")
    project.tests(SUITE)
    project.record()
    return project


def test_unchanged_services(recorded: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing has changed, the run passes, no file changes, and `stale` knows when that was."""
    before = tree(recorded.path)
    assert run(["check", "--only", "verified", "cassettes"]) == 1
    result = recorded.run("--cassette-lab=live")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["1 cassette verified by a run for real"])
    assert tree(recorded.path) == before
    verified = json.loads((recorded.path / ".agenttape" / "verified.json").read_text(encoding="utf-8"))
    assert list(verified) == ["cassettes/test_it/test_city.yaml"]
    assert run(["check", "--only", "verified", "--max-age", "30d", "cassettes"]) == 0
    whole = Path("cassettes/test_it/test_city.yaml").read_text(encoding="utf-8")
    Path("cassettes/derived.yaml").write_text(
        whole.replace("\nvolatile:", "\nderived_from: test_it/test_city\nvolatile:")
    )
    assert run(["check", "--only", "verified", "cassettes"]) == 0  # no test repeats a sample of a candidate
    Path("cassettes/derived.yaml").unlink()
    assert run(["check", "--only", "verified", "--max-age", "0h", "cassettes"]) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ('return f"{city}: twenty {unit}"', "*the value differs from*test_city.snapshot.yaml*"),
        ('raise RuntimeError("gone")', "*the test fails when it is run for real: RuntimeError: gone*"),
        ('return ask(city) and f"{city}: 20 {unit}"', "*its calls diverge: the end → call ask*"),
    ],
)
def test_changed_services(changed: str, said: str, recorded: Project) -> None:
    """Where something has changed, the run fails and says what, and no file changes."""
    agent = recorded.path / "agent.py"
    text = agent.read_text(encoding="utf-8")
    agent.write_text(text.replace('return f"{city}: 20 {unit}"', changed), encoding="utf-8")
    before = tree(recorded.path)
    result = recorded.run("--cassette-lab=live")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([said])
    result.stdout.fnmatch_lines(["0 cassettes verified by a run for real"])
    assert tree(recorded.path) == before
    assert not (recorded.path / ".agenttape" / "verified.json").exists()


def test_a_part_that_caught_its_failure(recorded: Project) -> None:
    """A session that the program opened itself only replays, and its failure is told though the program caught it."""
    notes = dedent("""
        from agent import look_up
        from agenttape_core import use_cassette

        def keep(city):
            try:
                with use_cassette("notes", mode="once"):
                    look_up(city, unit="note")
            except BaseException:
                pass
    """)

    recorded.pytester.makepyfile(notes=notes)
    test = recorded.path / "test_it.py"
    test.write_text(test.read_text(encoding="utf-8").replace("ask(city)", 'ask(city), __import__("notes").keep(city)'))
    recorded.record()
    (recorded.path / "city").write_text("Roma", encoding="utf-8")
    recorded.run("--rerecord").assert_outcomes(passed=1)
    before = tree(recorded.path)
    result = recorded.run("--cassette-lab=live")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*cassettes/notes.yaml: look_up was called with a request*"])
    assert tree(recorded.path) == before


MAIL = "bob.smith" + "@" + "weather-desk.org"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {}, ""),
        ({}, {"degrees": 121}, "tool look_up now answers differently at degrees: 20 → 121"),
        ({}, {"mail": "nobody"}, "tool look_up now answers differently at to: *nobody"),
        ({}, {"id_": "order 2"}, "tool look_up now answers differently at id: *order 2"),
        (
            {"id_": "7f0c8a52-6d0e-4b59-9a53-0f4b2f3f8a11", "mail": MAIL},
            {"id_": "0b9a4a0e-1c44-4a1a-8d0e-5a2f6f1f9c22", "mail": MAIL},
            "",
        ),
    ],
)
def test_a_tool_that_answers_otherwise(
    before: dict[str, Any], now: dict[str, Any], said: str, project: Project
) -> None:
    """Another answer of a tool is drift, though the test passes; what `ignore` leaves out, and new ids, are none."""
    answers = dedent("""
        @pytest.mark.cassette(ignore=["**.fetched_at"])
        def test_city(cassette):
            assert ask("hello")
            found = look_up("Rome")
            assert found["city"] == "Rome"
    """)
    tool = """

@boundary("tool")
def look_up(city):
    import secrets
    return {{"city": city, "degrees": {degrees}, "fetched_at": secrets.token_hex(4), "to": "{mail}", "id": "{id_}"}}
"""

    agent = project.path / "agent.py"
    text = agent.read_text(encoding="utf-8").partition('\n@boundary("tool")')[0]
    common = {"degrees": 20, "mail": MAIL, "id_": "a"}
    agent.write_text(text + tool.format(**{**common, **before}), encoding="utf-8")
    project.tests(answers)
    project.record()
    agent.write_text(text + tool.format(**{**common, **now}), encoding="utf-8")
    os.utime(agent, (2e9, 2e9))  # Python takes a file of the same second and size for the same one
    result = project.run("--cassette-lab=live")
    if said:
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines([f"*{said}*"])
    else:
        result.stdout.fnmatch_lines(["1 cassette verified by a run for real"])
        assert result.ret == 0, result.stdout.str()


def test_a_tool_that_fails_otherwise_now(project: Project) -> None:
    """A tool whose error the program catches has another answer, too, if the error is another one."""
    project.tests("""
@pytest.mark.cassette
def test_city():
    try:
        look_up("Rome")
    except LookupError:
        pass
""")
    agent = project.path / "agent.py"
    text = agent.read_text(encoding="utf-8")
    for error in ("no city", "no country"):
        agent.write_text(text.replace('return f"{city}: 20 {unit}"', f'raise LookupError("{error}")'), encoding="utf-8")
        result = project.run("--cassette-mode=once" if error == "no city" else "--cassette-lab=live")
    result.stdout.fnmatch_lines(["*tool look_up now answers differently: builtins:LookupError: *city* → *country*"])


def test_a_snapshot_leaves_out_what_differs_each_time(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignored paths of a snapshot are not compared, also with one that was written with them; the rest is."""
    golden = dedent("""
        import os

        @pytest.mark.cassette
        def test_it(cassette):
            ask("hello")
            value = {"answer": [{"text": "fine", "id": os.environ["ID"]}], "words": os.environ["WORDS"]}
            cassette.assert_matches_snapshot(value, ignore=%s)
    """)

    project.tests(golden % "()")
    monkeypatch.setenv("ID", "a")
    monkeypatch.setenv("WORDS", "hello")
    project.record()
    monkeypatch.setenv("ID", "b")
    project.run().assert_outcomes(failed=1)
    project.tests(golden % '["**.id"]')
    project.run().assert_outcomes(passed=1)
    project.run("--rerecord").assert_outcomes(passed=1)
    assert "id:" not in next(project.path.rglob("*.snapshot.yaml")).read_text(encoding="utf-8")
    monkeypatch.setenv("ID", "c")
    project.run().assert_outcomes(passed=1)
    monkeypatch.setenv("WORDS", "other")
    project.run().assert_outcomes(failed=1)
    project.tests(golden % '["**.id", "words"]')
    project.run("--cassette-lab=live").assert_outcomes(passed=1)
    project.tests(golden % '"words"')
    project.run().stdout.fnmatch_lines(["*ignore='words' is a bare string*"])
