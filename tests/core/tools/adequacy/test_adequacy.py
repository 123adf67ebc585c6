"""`adequacy`: edits of a program, one at a time, and whether its cassettes notice them."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import mutants
from agenttape_core.experiments.strategies.mutants.running import changed_lines
from agenttape_core.results import MutationScore

from ....kit.git import git

pytestmark = pytest.mark.process

DESK = '''
"""A desk that answers questions about books."""
from agenttape_core import boundary

PROMPT = "You answer questions about books. Never promise a date."
OTHER = "Say politely that the desk is closed today."
STYLE = "Answer in one short sentence."


@boundary("chat")
def ask(messages, tools=(), style=""):
    raise AssertionError("really asked")


@boundary("tool")
def stock(title):
    raise AssertionError("really looked up")


TOOL = {
    "name": "stock",
    "description": "Tell how many copies there are.",
    "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
}


def count(text):
    found = 0
    while found < len(text):
        found += 1
    return found


def answer(question, closed=False):
    if closed:
        ask(["Ring twice at the door."])
        return OTHER
    copies = stock(question)
    words = count(copies)
    said = ask([PROMPT, f"There are {copies} copies of {question}."], tools=[TOOL], style=STYLE)
    return said.upper() if words > 1 else said


def run():
    return answer("Dune")
'''
TESTS = """
import pytest
from desk import answer

@pytest.mark.cassette(ignore=["arguments.style"])
def test_answers():
    assert answer("Dune") == "YES, 3"

def test_without():
    assert True
"""


CASSETTE = "cassettes/test_desk/test_answers.yaml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a test and its recording."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "desk.py").write_text(DESK)
    (folder / "test_desk.py").write_text(TESTS)
    namespace: dict[str, Any] = {}
    live = DESK.replace('raise AssertionError("really asked")', 'return "Yes, 3"')
    exec(live.replace('raise AssertionError("really looked up")', 'return "three"'), namespace)
    with use_cassette(folder / CASSETTE, mode="all"):
        namespace["answer"]("Dune")
    return folder


@pytest.fixture(autouse=True)
def _inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take longer than the runs
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p agenttape_core.pytest_plugin")


@pytest.fixture(scope="module")
def found(project: Path) -> MutationScore:
    """The adequacy of the cassette for the function of the project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        return mutants("desk.py:run", CASSETTE, ignore=["arguments.style"], jobs=2)


def verdicts(found: MutationScore, place: str) -> dict[str, str]:
    """Return the verdicts on the edits of the line that holds these words, by their operators."""
    line = next(number for number, line in enumerate(DESK.splitlines(), 1) if place in line)
    return {one.mutant.id.rpartition(":")[2]: one.verdict for one in found.judged if one.mutant.line == line}


def test_prompts_are_killed(found: MutationScore) -> None:
    """Each edit of a prompt, of a tool's description or of its schema that reaches a recorded request is a miss."""
    assert verdicts(found, "PROMPT =") == dict.fromkeys(
        ("drop_sentence", "drop_sentence~2", "negate_sentence", "empty"), "miss"
    )
    operators = ("drop_placeholder", "drop_placeholder~2", "swap_placeholders", "negate_sentence", "empty")
    asked = verdicts(found, "said = ask")
    assert {name: asked[name] for name in operators} == dict.fromkeys(operators, "miss")
    assert verdicts(found, '"description": "Tell')["empty"] == "miss"
    schema = verdicts(found, '"parameters": {')
    assert {schema[name] for name in ("drop_field", "type", "optional")} == {"miss"}


def test_settings_that_hide(found: MutationScore) -> None:
    """A survivor that a setting hides says which, and comes first in the result, which is data."""
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["mutants"][0]["verdict"] == "survived"
    assert set(plain["by_kind"]) == {"prompts", "tools", "schemas"}
    assert list(plain["by_file"]) == ["desk.py"]
    assert "survived: no test catches these" in str(found)
    (style,) = [one for one in found.survivors if one.mutant.operator == "empty"]
    assert (style.mutant.before, style.words) == ("Answer in one short sentence.", "ignore hides it: arguments.style")


def test_what_no_test_reaches(found: MutationScore) -> None:
    """Edits that no test reaches have no coverage, and don't count."""
    assert verdicts(found, "OTHER =") == {"empty": "no coverage"}
    assert verdicts(found, "return OTHER") == {}, "only what stands in a request is edited"
    assert verdicts(found, "Ring twice") == {"empty": "no coverage", "negate_sentence": "no coverage"}
    assert found.score.killed + found.score.survived + len(found.unreached) == len(found.judged)
    assert "no test runs this line" in str(found)


def test_tests(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tests are programs: those with a cassette take part, red ones are named, and no file changes."""

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file()}

    red = TESTS.replace("YES, 3", "NO").replace("test_answers", "test_red")
    (project / "test_red.py").write_text(red.replace("cassette(", f'cassette("{CASSETTE}", '))
    try:
        before = files()
        assert run(["lab", "mutants", "--only=prompts", "--runs=3", "--source=desk.py", "--json"]) == 1
        assert files() == before
    finally:
        (project / "test_red.py").unlink()
    found = json.loads(capsys.readouterr().out)
    assert found["tests"] == ["test_desk.py::test_answers"]
    assert found["excluded"] == {"test_red.py::test_red": "fails without an edit: AssertionError: "}
    assert found["notes"][1] == "took no part: 2 tests without a cassette"
    tried = [one for one in found["mutants"] if one["verdict"] != "no coverage"]
    assert len(tried) == 3
    assert {one["test"] for one in tried if one["verdict"] == "miss"} == {"test_desk.py::test_answers"}
    assert found["reachable"] > 3


def test_one_mutant(capsys: pytest.CaptureFixture[str], found: MutationScore) -> None:
    """The id of a mutant runs it alone, and prints its diff; the command fails if it survives."""
    (survivor,) = [one for one in found.survivors if one.mutant.operator == "empty"]
    assert run(["lab", "mutants", "test_desk.py", "--mutant", survivor.mutant.id]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{survivor.mutant.id}  survived: ignore hides it: arguments.style\n    - Answer in one")


def test_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Kinds, numbers and programs that there are not are refused with what there is."""
    with pytest.raises(ConfigurationError, match=r"only='prompt'.*expected some of prompts"):
        mutants("test_desk.py", only=["prompt"])
    with pytest.raises(ConfigurationError, match="at least 1"):
        mutants("test_desk.py", runs=0)
    with pytest.raises(ConfigurationError, match=r"live='tool'.*such as \['tool'\]"):
        mutants("test_desk.py", live="tool")
    assert run(["lab", "mutants", "desk.py:answer"]) == 2
    assert "name its cassette" in capsys.readouterr().err


def test_nothing_to_learn() -> None:
    """A program that fails without an edit is the error, and says why."""
    with pytest.raises(ConfigurationError, match="nothing passes with a cassette") as refused:
        mutants("desk.py:answer", CASSETTE)
    assert "fails without an edit: TypeError: answer() missing 1 required" in str(refused.value)


@pytest.mark.night
def test_interrupted(tmp_path: Path) -> None:
    """An interruption ends the search; what was found so far is returned, and taken over by a later run."""
    runs = itertools.count(1)

    def interrupt() -> None:
        if next(runs) == 2:
            raise KeyboardInterrupt

    found = mutants("desk.py:run", CASSETTE, only=["prompts"], on_run=interrupt)
    assert not found.is_whole
    assert sum(one.verdict != "no coverage" for one in found.judged) == 2
    assert found.notes[0] == "interrupted: not all edits were tried"
    report, plain = tmp_path / "report.json", found.to_dict()
    for one in plain["mutants"]:
        one["words"] = "as before"
    report.write_text(json.dumps(plain))
    whole = mutants("desk.py:run", CASSETTE, only=["prompts"], resume=report)
    assert whole.is_whole
    assert [one.words for one in whole.judged].count("as before") == 2


def test_tools_that_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that a replayed tool returns is out of reach, and the result says so; that of a live tool is judged."""
    shop = dedent("""
        from agenttape_core import boundary

        @boundary("chat")
        def ask(messages):
            return "It is dear."

        @boundary("tool")
        def price(title):
            return "The price of books is high."

        def run():
            return ask(["Be brief. Say little.", price("Dune")])
    """)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(shop)
    namespace: dict[str, Any] = {}
    exec(shop, namespace)
    with use_cassette(tmp_path / "shop.yaml", mode="all"):
        namespace["run"]()
    replayed = mutants("shop.py:run", "shop.yaml", only=["prompts"])
    assert {one.verdict for one in replayed.judged if "price of books" in one.mutant.before} == {"no coverage"}
    assert "have no coverage: price" in str(replayed)
    live = mutants("shop.py:run", "shop.yaml", only=["prompts"], live=["tool"])
    assert {one.verdict for one in live.judged if "price of books" in one.mutant.before} == {"miss"}
    assert "have no coverage: price" not in str(live)


@pytest.mark.night
def test_in_a_run_of_pytest(project: Path, python_of_tests: Path) -> None:
    """`pytest --cassette-lab=mutants` shows the result of the tests that were replayed below its summary."""
    lab = "--cassette-lab=mutants:runs=1,seed=8,only=prompts"
    command = [python_of_tests, "-m", "pytest", "-p", "no:cacheprovider", lab, "test_desk.py"]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stdout
    assert "= mutants =" in ended.stdout
    assert "mutants of 1 test: " in ended.stdout
    assert "(--runs 1 --seed 8)" in ended.stdout


def test_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only lines that have changed since a revision are edited, and those of new files."""
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "Begin")
    Path("a.py").write_text("one = 1\ntwo = 22\nthree = 3\nfour = 4\n")
    Path("ä.py").write_text("new = 1\n")
    assert changed_lines("HEAD") == {tmp_path / "a.py": {2, 4}, tmp_path / "ä.py": {1}}
    with pytest.raises(ConfigurationError, match="name a commit, branch or tag: --base main"):
        changed_lines("nowhere")
