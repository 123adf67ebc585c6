"""`agenttape lab shrink`: of functions and of tests, with a file for pytest; and what cannot be made small."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Variation, boundary, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError, VerificationError
from agenttape_core.experiments import program_of, shrink

from .conftest import Ended

PROGRAM = """\
from agenttape_core import boundary

@boundary("tool")
def offers(city):
    return [{"title": f"{city} " + "x" * 800, "price": "n/a" if n == 5 else str(n)} for n in range(10)]

@boundary("chat")
def note(text):
    return f"A note on {text}. " * 20

def run():
    note("Paris")
    return sum(int(offer["price"]) for offer in offers("Paris"))

async def arun():
    return run()
"""
TEST = """\
import pytest
from desk_of_minimise import run

@pytest.fixture
def least():
    return 3

@pytest.mark.cassette("../incident.yaml")
def test_total(least, tmp_path):
    assert run() > least

def test_apart():
    assert run() > 3

@pytest.mark.parametrize("number", [1, 2])
def test_several(number):
    assert run() > 3

def test_skipped():
    pytest.skip("not here")

class TestDesk:
    @pytest.fixture
    def most(self):
        return 10**6

    def test_other(self):
        assert False

    @pytest.mark.parametrize("least", [1, 3, 5], ids=["a", "b", "c"])
    @pytest.mark.parametrize("factor", [1, 2])
    def test_in_class(self, least, most, factor):
        assert least == 3 and factor == 2
        assert most > run() > least
"""


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program whose recorded run fails: its cassette, as a text."""
    folder = tmp_path_factory.mktemp("incident")
    (folder / "desk_of_minimise.py").write_text(PROGRAM)
    program = program_of(f"{folder}/desk_of_minimise.py:run")
    with pytest.raises(ValueError, match="n/a"), use_cassette(folder / "incident.yaml", mode="all", on_error="keep"):
        program.function()  # type: ignore[attr-defined]
    del sys.modules["desk_of_minimise"]
    return (folder / "incident.yaml").read_text()


@pytest.fixture
def desk(folder: Path, incident: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The program, its cassette and its tests in the folder to work in."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:unraisableexception")  # it looks through all objects after each run
    (folder / "tests").mkdir()
    (folder / "desk_of_minimise.py").write_text(PROGRAM)
    (folder / "tests" / "test_of_minimise.py").write_text(TEST)
    (folder / "incident.yaml").write_text(incident)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    yield folder
    forget()


def forget() -> None:
    """Forget the modules of the program and its tests."""
    for name in [name for name in sys.modules if name.endswith("of_minimise")]:
        del sys.modules[name]


def run_pytest(file: str) -> int:
    """Run pytest in this process, and forget what it has imported."""
    try:
        return int(pytest.main([file, "-q", "-p", "no:cacheprovider", "-o", "addopts="]))
    finally:
        sys.modules.pop(Path(file).stem, None)
        forget()


@pytest.mark.slow
@pytest.mark.parametrize("function", [pytest.param("run", marks=pytest.mark.night), "arun"])
def test_a_function(desk: Path, command: Callable[..., Ended], function: str) -> None:
    """The cassette, its test and the account of them: the failure is the same, and the test fails by it."""
    ended = command("lab", "shrink", f"desk_of_minimise.py:{function}", "--cassette", "incident.yaml", "--json")
    assert ended.code == 0, ended.err
    found = ended.json
    assert found["failure"]["function"] == "run.<locals>.<genexpr>"
    assert found["failure"]["file"] == "desk_of_minimise.py"
    assert found["share"] == round(found["bytes"]["after"] / found["bytes"]["before"], 4) < 0.2
    assert found["calls"] == {"before": 2, "after": 2}
    assert found["minimal"]
    assert found["replays"] < 100
    assert found["test"] == "test_incident_minimal.py"
    assert "price: n/a" in Path(found["cassette"]).read_text()
    assert run_pytest(found["test"]) == pytest.ExitCode.TESTS_FAILED
    Path("desk_of_minimise.py").write_text(PROGRAM.replace('int(offer["price"])', 'len(str(offer["price"]))'))
    assert run_pytest(found["test"]) == pytest.ExitCode.OK


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("test_total", marks=pytest.mark.night), "TestDesk::test_in_class[2-b]"])
def test_a_test(desk: Path, command: Callable[..., Ended], name: str) -> None:
    """A test is replayed with the cassette, whether or not it has one of its own, and so is the test of the result."""
    ended = command(
        "lab", "shrink", f"tests/test_of_minimise.py::{name}", "--cassette", "incident.yaml", "-o", "small.yaml"
    )
    assert ended.code == 0, ended.err
    assert "ValueError at desk_of_minimise.py:13 in run.<locals>.<genexpr>: invalid literal" in ended.out
    assert Path("small.yaml").stat().st_size < 1500
    assert run_pytest("test_small.py") == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
@pytest.mark.night
def test_the_same_each_time(desk: Path, command: Callable[..., Ended]) -> None:
    """Two searches find the same, byte for byte."""
    made = []
    for name in ("one", "two"):
        options = ("-o", f"{name}.yaml", "--no-test-file")
        assert command("lab", "shrink", "desk_of_minimise.py:run", "--cassette", "incident.yaml", *options).code == 0
        made.append(Path(f"{name}.yaml").read_text().partition("---")[2])
    assert made[0] == made[1]
    assert not list(desk.glob("test_*.py"))
    assert not list(desk.glob("*derived*"))


RECORDED = ["--cassette", "incident.yaml"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["desk_of_minimise.py:run"], "has no cassette"),
        (["desk_of_minimise.py:nothing", *RECORDED], "cannot load desk_of_minimise.py:nothing"),
        (["tests/test_of_minimise.py::test_several", *RECORDED], "2 tests have this id"),
        (["tests/test_of_minimise.py::test_none", *RECORDED], "ran no test"),
        (["tests/test_of_minimise.py::test_skipped", *RECORDED], "is skipped: not here"),
        (["desk_of_minimise.py:run", *RECORDED, "--runs", "3"], "needs 10 replays at least"),
        (["desk_of_minimise.py:run", *RECORDED, "-o", "incident.yaml"], "give the result another name"),
    ],
)
def test_wrong_commands(desk: Path, command: Callable[..., Ended], words: list[str], problem: str) -> None:
    """Each is refused with the reason, and nothing is written."""
    before = sorted(desk.iterdir())
    ended = command("lab", "shrink", *words)
    assert ended.code == 2, ended.out
    assert problem in ended.err
    assert sorted(path for path in desk.iterdir() if path.name[0] not in "._") == before


@boundary("tool")
def look(what: str) -> list[str]:
    """Return what there is."""
    return [what, "more"]


def test_what_does_not_fail(project: Path) -> None:
    """A run that ends well has nothing to be minimised, and a cassette without calls neither."""
    with use_cassette("c", mode="all"):
        look("x")
    with pytest.raises(ConfigurationError, match=r"does not fail when it replays cassettes/c.yaml: it ended well"):
        shrink(lambda: look("x"), "c")
    Path("cassettes/empty.yaml").write_text("agenttape: 2\nname: empty\n...\n")
    with pytest.raises(ConfigurationError, match="holds no call"):
        shrink(lambda: look("x"), "empty")


def test_what_does_not_hold_still(project: Path) -> None:
    """A program that is another one each time is named first, and so is one that asks for what was not recorded."""
    calls = itertools.count()

    def unsteady() -> Any:
        look("x")
        raise ValueError if next(calls) % 2 else TypeError

    with pytest.raises(TypeError), use_cassette("c", mode="all", on_error="keep"):
        unsteady()
    with pytest.raises(VerificationError, match="not the same in two replays") as error:
        shrink(unsteady, "c")
    assert "TypeError" in str(error.value)
    assert "ValueError" in str(error.value)
    with pytest.raises(VerificationError, match=r"does not replay cassettes/c.yaml to begin with: look was called"):
        shrink(lambda: look("y"), "c")


def test_a_failure_that_needs_no_call(project: Path) -> None:
    """What fails whatever its calls answer is minimised to no calls at all."""

    @boundary
    def plan() -> str:
        return "a plan"

    def run() -> None:
        with use_cassette("c", mode="once"):
            plan()
        raise KeyError("plan")

    with pytest.raises(KeyError):
        run()
    assert list(open_cassette(shrink(run, "c").cassette).entries) == []


def test_little_time(project: Path) -> None:
    """A search that may not go on says so, and its result fails alike all the same."""

    @boundary("tool")
    def rows() -> list[str]:
        return [f"row {n}" for n in range(64)]

    def run() -> None:
        assert "row 17" not in rows()

    with pytest.raises(AssertionError), use_cassette("c", mode="all", on_error="keep"):
        run()
    found = shrink(run, "c", runs=14)
    assert not found.is_minimal
    assert "not minimal yet" in str(found)
    assert found.replays <= 14
    assert program_of(run).run(Variation(found.cassette)).failure == found.failure


@pytest.mark.slow
def test_why(desk: Path, command: Callable[..., Ended]) -> None:
    """`agenttape lab why` asks about a call of a function, or of a test, and what led to it."""
    ended = command("lab", "why", "desk_of_minimise.py:run", "--cassette", "incident.yaml", "--text", "n/a")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("2 tool offers at offers of incident.yaml, and the text 'n/a'")
    ended = command("lab", "why", "tests/test_of_minimise.py::test_total", "--cassette", "incident.yaml", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["call"]["name"] == "note"
    assert [(edge["from"], edge["to"]) for edge in ended.json["flow"]["edges"]] == [(2, 0)]
    assert command("lab", "why", "desk_of_minimise.py:run", "--cassette", "incident.yaml", "--call", "7").code == 2


@pytest.mark.slow
def test_flaky(desk: Path, command: Callable[..., Ended]) -> None:
    """`agenttape lab flaky` blames the code for what fails while everything is replayed, and tries nothing else.

    A test is replayed from its own cassette where none is named; one that has none is refused.
    """
    words = ("lab", "flaky", "tests/test_of_minimise.py::test_total", "--samples", "2")
    ended = command(*words, "--max-usd", "1", "--json")
    assert ended.code == 1, ended.err
    assert (ended.json["cassette"], ended.json["verdict"], ended.json["culprits"]) == (
        "incident.yaml",
        "code",
        ["code"],
    )
    assert [group["failed"] for group in ended.json["groups"]] == [2]
    assert "code: 2 of 2 failed" in command(*words, *RECORDED).out
    assert command(*words, *RECORDED, "--judge", "jury").code == 2
    ended = command("lab", "flaky", "tests/test_of_minimise.py::test_apart")
    assert (ended.code, "has no cassette" in ended.err) == (2, True)


@pytest.mark.slow
def test_an_answer_in_a_later_request(project: Path) -> None:
    """An answer that a later request holds is emptied as well: that request follows, and the result is strict."""

    @boundary("tool")
    def price(city: str) -> str:
        return f"it depends on the season in {city}"

    @boundary("chat")
    def remark(text: str) -> str:
        return f"A remark on {len(text)} letters"

    def remarks() -> None:
        assert "remark" not in remark(f"It costs {price('Nice')}.")

    with pytest.raises(AssertionError), use_cassette("remarks.yaml", mode="once", on_error="keep"):
        remarks()
    found = shrink(remarks, "remarks.yaml", to="small.yaml")
    first, second = (open_cassette(found.cassette).interaction(number) for number in (1, 2))
    assert (first.outcome.value, second.outcome.value) == ("", "remark")
    assert second.request["arguments"] == {"text": "It costs ."}
    with pytest.raises(AssertionError), use_cassette("small.yaml", mode="replay"):
        remarks()
