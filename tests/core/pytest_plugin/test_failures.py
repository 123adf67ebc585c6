"""A test with a cassette fails for what its session finds, and shows that as a person would tell it."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from agenttape_core import record_call, use_cassette

from .conftest import Project

pytestmark = pytest.mark.process

ASKS = """
@pytest.mark.cassette
def test_it():
    assert ask("hi")
"""
ASKS_OTHERWISE = ASKS.replace("hi", "ho")

IN_A_GROUP = """import asyncio
    async def inside():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(ask, 'ho'))
    asyncio.run(inside())"""


def test_a_miss_is_a_diff(project: Project) -> None:
    """A miss shows what differs and what to do about it, at the line of the test, and no line of ours."""
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_it.py:7: in test_it",
            '    assert ask("ho")',
            "E   CassetteMissError: ask was called with a request*",
            "E     cassette  cassettes/test_it/test_it.yaml (1 call, replaying)",
            "*- *hi*",
            "*+ *ho*",
            "*pytest test_it.py::test_it --cassette-mode=record",
            "missed    cassettes/test_it/test_it.yaml  1 missed, 1 unused",
            "FAILED test_it.py::test_it - CassetteMissError: ask was called with a request*",
        ]
    )
    result.stdout.no_fnmatch_line("*session.py*")


def test_the_command_is_for_where_pytest_was_started(
    project: Project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a miss tells to type works in the directory in which pytest was started, which may be another one."""
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE)
    (project.path / "deep").mkdir()
    monkeypatch.chdir(project.path / "deep")
    result = pytester.runpytest_inprocess("..")
    result.stdout.fnmatch_lines(["*pytest ../test_it.py::test_it --cassette-mode=record"])


@pytest.mark.parametrize("style", ["long", "short"])
def test_a_style_of_tracebacks_has_no_line_of_ours(style: str, project: Project) -> None:
    """With a style of tracebacks on the command line, the last line is the test's; `--full-trace` shows the rest."""
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE)
    result = project.run(f"--tb={style}")
    result.stdout.fnmatch_lines(["test_it.py:7: *", "*CassetteMissError: ask was called with a request*"])
    result.stdout.no_fnmatch_line("*agenttape_core*.py:*")
    project.run(f"--tb={style}", "--full-trace").stdout.fnmatch_lines(["*session.py:*"])


def test_a_miss_in_a_group(project: Project) -> None:
    """A miss that comes in a group of exceptions fails the test with the same words."""
    project.tests(ASKS)
    project.record()
    project.tests(f"@pytest.mark.cassette\ndef test_it():\n    {IN_A_GROUP}\n")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ask was called with a request*", "*+ *ho*"])


def test_failures_that_a_program_catches(project: Project) -> None:
    """Blocks of the program that fail within a test that passes are named at the end; those of the test itself not."""
    catches = dedent("""
        import asyncio
        from agent import ask
        from agenttape_core import use_cassette

        async def once(question, name):
            async with use_cassette(name, mode="once"):
                return ask(question)

        async def side_by_side(question):
            return await asyncio.gather(once(question, "a"), once(question, "b"), return_exceptions=True)

        def run(question):
            asyncio.run(side_by_side(question))
            try:
                with use_cassette("gone", mode="once" if question == "hi" else "none", cassette_dir=question):
                    pass
            except Exception:
                return "nothing is there"
    """)
    runs = dedent("""
        def test_it():
            import program_that_catches
            program_that_catches.run("{question}")
    """)
    knows = dedent("""
        def test_that_knows():
            from agenttape_core import use_cassette
            from agenttape_core.errors import CassetteMissError
            with pytest.raises(CassetteMissError), use_cassette("a"):
                ask("ho")
    """)

    project.pytester.makepyfile(program_that_catches=catches)
    project.tests(runs.format(question="hi"))
    assert "caught" not in project.run().stdout.str()
    project.tests(runs.format(question="ho") + knows)
    result = project.run("--cassette-mode=none")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*misses your program swallowed*",
            "1 test passed although a session in it failed: the program caught the error.",
            "test_it.py::test_it",
            "    No cassette yet: ho/gone.yaml",
            "    cassettes/a.yaml: ask was called with a request *",
            "    cassettes/b.yaml: ask was called with a request *",
        ],
        consecutive=True,
    )


def test_a_miss_is_not_hidden_by_a_test_that_skips_itself(project: Project) -> None:
    """What ends a test without a verdict gives way to a miss before it; and where nothing was missed, it is as ever."""
    gives_up = dedent("""
        import unittest

        def hidden():
            try:
                ask("ho")
            except BaseException:
                pass

        @pytest.mark.cassette
        def test_eats():
            hidden()

        @pytest.mark.cassette
        def test_skips():
            hidden()
            pytest.skip("it did not work out")

        @pytest.mark.cassette
        def test_gives_up():
            hidden()
            pytest.xfail("it never works out")

        @pytest.fixture
        def given_up():
            hidden()
            pytest.skip("it cannot be set up")

        @pytest.mark.cassette
        def test_fixture(given_up):
            pass

        class TestCase(unittest.TestCase):
            @pytest.mark.cassette
            def test_case(self):
                hidden()
                self.skipTest("it did not work out")

        @pytest.mark.cassette
        def test_without_a_miss():
            pytest.skip("so it is")
    """)

    project.tests(gives_up)
    hiding = ("test_eats", "test_skips", "test_gives_up", "test_fixture", "TestCase.test_case")
    for name in (*hiding, "test_without_a_miss"):
        with use_cassette(project.path / f"cassettes/test_it/{name}.yaml", mode="all"):
            record_call("call", len, "hi")
    result = project.run()
    result.assert_outcomes(failed=4, skipped=2, errors=1)
    assert result.outlines.count("E   CassetteMissError: ask was called with a request ") == 0
    assert sum("CassetteMissError: ask was called with a request" in line[:60] for line in result.outlines) == 5


def test_a_miss_fails_a_test_of_unittest(project: Project) -> None:
    """A miss fails a test case, wherever it's raised: unittest's runner catches the errors of tests, and continues."""
    cases = """
import pytest, unittest

@pytest.mark.cassette
class TestCase(unittest.TestCase):
    def test_it(self):
        ask("hi")

    def test_part(self):
        with self.subTest():
            ask("hi")

    def test_cleanup(self):
        self.addCleanup(ask, "hi")

@pytest.mark.cassette
class TestAround(unittest.TestCase):
    def setUp(self):
        ask("hi")

    def test_it(self):
        pass

@pytest.mark.cassette
class TestAfter(unittest.TestCase):
    def test_it(self):
        pass

    def tearDown(self):
        ask("hi")

@pytest.mark.cassette
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_it(self):
        ask("hi")
"""
    project.tests(cases)
    project.record().assert_outcomes(passed=6)
    project.tests(cases.replace("hi", "ho"))
    result = project.run()
    failed = {line.split()[1] for line in result.outlines if line.startswith("FAILED ")}
    tests = {"TestCase::test_it", "TestCase::test_part", "TestCase::test_cleanup"}
    assert failed == {
        f"test_it.py::{name}" for name in (*tests, "TestAround::test_it", "TestAfter::test_it", "TestAsync::test_it")
    }
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_no_end_of_a_marked_test_hides_a_miss(project: Project) -> None:
    """A test that swallows a miss fails, whatever ends it, unless it's marked to fail by the miss."""
    hides = """
import asyncio, pytest, unittest
from agenttape_core.errors import CassetteMissError

class Timeout(BaseException):
    pass

def hidden():
    try:
        ask("ho")
    except BaseException:
        pass

ENDS = [pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception, unittest.SkipTest, Timeout, SystemExit,
        GeneratorExit, asyncio.CancelledError]

@pytest.mark.cassette("c")
@pytest.mark.parametrize("end", ENDS)
def test_marked(end):
    hidden()
    raise end("it did not work out") if end is not SystemExit else end(0)

@pytest.mark.cassette("c")
@pytest.mark.xfail(reason="the agent can't count")
def test_expected():
    hidden()

@pytest.mark.cassette("c")
@pytest.mark.xfail(raises=CassetteMissError)
def test_expected_miss():
    hidden()
"""

    project.tests(hides)
    with use_cassette(project.path / "cassettes/c.yaml", mode="all"):
        record_call("call", len, "hi")
    project.run("-p", "no:cacheprovider").assert_outcomes(failed=9, xfailed=1)


def test_unused_recordings_fail_the_test(project: Project) -> None:
    """A test that no longer asks for all that was recorded fails itself, not its teardown."""
    project.tests(ASKS)
    project.record()
    project.tests("@pytest.mark.cassette\ndef test_it():\n    pass\n")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ test_it _*",
            "UnusedInteractionsError: The run made 0 of the 1 recorded calls in cassettes/*. Not made:",
            "     1  call ask at ask",
            "  last call made: none",
            "",
            "  Did the program stop early? Then this is the bug.",
            "    it should make fewer calls now:    pytest test_it.py::test_it --cassette-mode=record",
            '    several tests share the cassette:  use_cassette(..., on_unused="ignore")',
            "*= cassettes =*",
            "unused *1 unused",
        ],
        consecutive=True,
    )
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_it - UnusedInteractionsError: The run made*"])


def test_a_first_recording_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An assertion that fails costs nothing twice: the next run replays; a run that broke off is no recording."""
    wrong = dedent("""
        import os, unittest
        from agenttape_core import boundary

        @boundary
        def broken():
            raise AssertionError("no call ended")

        @pytest.mark.cassette
        def test_wrong(cassette):
            cassette.assert_matches_snapshot(ask("wrong"))
            assert os.environ.get("RIGHT")

        class TestCase(unittest.TestCase):
            @pytest.mark.cassette
            def test_case(self):
                ask("case")
                self.assertTrue(os.environ.get("RIGHT"))

        @pytest.mark.cassette
        def test_error():
            ask("error")
            raise KeyError("error")

        @pytest.mark.cassette
        def test_inside():
            ask("inside")
            broken()
    """)

    project.tests(wrong)
    result = project.run("--cassette-mode=once")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "E *AgentTape: cassettes/test_it/test_wrong.yaml keeps what was recorded; the next run replays it",
            "E *nothing was saved, because the run failed. There is still no cassettes/test_it/test_error.yaml.",
            "E *keep the 1 call recorded so far:  agenttape cassette recover cassettes/test_it/test_error.yaml",
            "failed, recording kept cassettes/test_it/test_wrong.yaml  1 recorded",
            "failed, recording kept cassettes/test_it/TestCase.test_case.yaml  1 recorded",
            "failed, not saved cassettes/test_it/test_error.yaml  1 recorded",
            "failed, not saved cassettes/test_it/test_inside.yaml  2 recorded",
        ]
    )
    project.go_offline()
    monkeypatch.setenv("RIGHT", "1")
    project.run("-k", "wrong or case").assert_outcomes(passed=2, deselected=2)
    kept = {path: path.read_bytes() for path in (project.path / "cassettes" / "test_it").glob("*.yaml")}
    (project.path / "offline").unlink()
    monkeypatch.delenv("RIGHT")
    project.run("--rerecord", "-k", "wrong or case").stdout.fnmatch_lines(
        ["*because the run failed. cassettes/test_it/test_wrong.yaml is unchanged.", *["failed, not saved *"] * 2]
    )
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize("mode", ["once", "all"])
def test_an_expected_failure_is_recorded(project: Project, mode: str) -> None:
    """A test that fails as its marker says is replayed like one that passes; another failure is no recording."""
    expected = dedent("""
        @pytest.mark.cassette
        @pytest.mark.xfail(raises=KeyError)
        def test_known():
            ask("known")
            raise KeyError("known")

        @pytest.mark.cassette
        @pytest.mark.xfail(True, reason="it never works")
        def test_always():
            ask("always")
            raise ValueError("always")

        @pytest.mark.cassette
        def test_says_so():
            ask("said")
            pytest.xfail("it does not work")

        @pytest.mark.cassette
        @pytest.mark.xfail(raises=KeyError)
        def test_other():
            ask("other")
            raise ValueError("other")
    """)

    project.tests(expected)
    project.run(f"--cassette-mode={mode}").assert_outcomes(xfailed=3, failed=1)
    assert project.cassettes() == [f"test_it/test_{name}.yaml" for name in ("always", "known", "says_so")]
    project.go_offline()
    project.run("-k", "not other").assert_outcomes(xfailed=3, deselected=1)


ENDING = """
@pytest.mark.cassette
@pytest.mark.xfail(reason="the agent can't count")
def test_marked():
    assert ask(1) == "2"

@pytest.mark.cassette
@pytest.mark.xfail(raises=KeyError)
def test_named():
    {}[ask(1)]

@pytest.mark.cassette
def test_says_so():
    ask(1)
    pytest.xfail("it does not work")

@pytest.mark.cassette
@pytest.mark.xfail(reason="the agent can't count")
def test_odd():
    ask(1)
    raise ConnectionError

@pytest.mark.cassette
def test_skipped():
    ask(1)
    pytest.skip("not here")

@pytest.mark.cassette
def test_skipped_by_unittest():
    import unittest
    ask(1)
    raise unittest.SkipTest
"""


@pytest.mark.parametrize("mode", ["update", "record"])
def test_an_expected_end_is_recorded_again(project: Project, mode: str) -> None:
    """A failure that was expected replaces the recording; a skip or an odd error keeps the one that there is."""
    project.tests(ENDING)
    project.record().stdout.fnmatch_lines(["recorded  *"] * 6, consecutive=True)
    project.tests(ENDING.replace("ask(1)", "ask(2)"))
    word = {"update": "updated", "record": "recorded"}[mode]
    project.run(f"--cassette-mode={mode}").stdout.fnmatch_lines(
        [f"{word}  *test_{name}.yaml *" for name in ("marked", "named", "says_so")]
        + ["failed, not saved *test_odd.yaml *"]
        + [f"skipped, not saved *test_{name}.yaml *" for name in ("skipped", "skipped_by_unittest")]
    )
    project.go_offline()
    project.run().assert_outcomes(xfailed=3, failed=3)
    project.tests(ENDING)
    project.run("-k", "odd or skipped").assert_outcomes(xfailed=1, skipped=2, deselected=3)


UNSURE = """
import asyncio, contextlib, unittest
from pathlib import Path
from agenttape_core import boundary

def offline():
    return Path(__file__).with_name("offline").exists()

@boundary
async def slow(_):
    await asyncio.sleep(9 if offline() else 0)

@pytest.mark.cassette
def test_gives_up():
    try:
        ask(1)
    except RuntimeError:
        pytest.xfail("nobody answers")

@pytest.mark.cassette
@pytest.mark.xfail(raises=Exception)
def test_named_by_a_base():
    {}[ask(1)]

@pytest.mark.cassette
@pytest.mark.xfail
def test_swallows():
    try:
        assert ask(1) == "2"
    except RuntimeError:
        assert False

@pytest.mark.cassette
def test_asks_no_more():
    if offline():
        pytest.xfail("not now")
    assert ask(1) == "2"

@pytest.mark.cassette
@pytest.mark.xfail
def test_waits_in_vain():
    asked = None
    with contextlib.suppress(TimeoutError):
        asked = asyncio.run(asyncio.wait_for(slow(ask(1)), 0.01 if offline() else 9))
    assert asked == "2"

@pytest.mark.cassette
class TestOfUnittest(unittest.TestCase):
    @unittest.expectedFailure
    def test_of_unittest(self):
        raise KeyError(ask(1))
"""
STRICTER = """
@pytest.mark.cassette(on_error="discard")
@pytest.mark.xfail
def test_discards():
    assert ask(1) == "2"

@pytest.mark.xfail
class TestOfOneError:
    @pytest.mark.cassette
    @pytest.mark.xfail(raises=KeyError)
    def test_of_one_error(self):
        assert ask(1) == "2"

    @pytest.mark.cassette
    @pytest.mark.xfail(True, False, raises=KeyError, reason="one of them holds")
    def test_of_two_conditions(self):
        assert ask(1) == "2"
"""


@pytest.mark.parametrize(
    ("tests", "options", "is_outage"),
    [
        (UNSURE, [], True),
        (STRICTER, [], False),
        (ENDING.partition("@pytest.mark.cassette\ndef")[0], ["--runxfail"], False),
    ],
    ids=["an outage", "stricter", "--runxfail"],
)
def test_what_may_not_have_been_expected_keeps_the_recording(
    project: Project, tests: str, options: list[str], is_outage: bool
) -> None:
    """A failure that pytest doesn't expect, or that may come of an outage, replaces no recording."""
    project.tests(tests)
    project.run("--cassette-mode=once")
    before = {name: (project.path / "cassettes" / name).read_text("utf-8") for name in project.cassettes()}
    project.tests(tests.replace("ask(1)", "ask(2)"))
    if is_outage:
        project.go_offline()
    result = project.run("--cassette-mode=update", *options)
    assert not [line for line in result.outlines if line.startswith(("recorded ", "updated "))]
    assert sum(line.startswith("failed, not saved ") for line in result.outlines) >= len(before) - 1 > 0
    assert before == {name: (project.path / "cassettes" / name).read_text("utf-8") for name in before}


@pytest.mark.skipif(not hasattr(pytest, "RaisesExc"), reason="pytest has it since 8.4")
def test_an_expected_error_may_be_described(project: Project) -> None:
    """What pytest's `RaisesExc` matches is expected, so it replaces the recording."""
    expected = """
@pytest.mark.cassette
@pytest.mark.xfail(raises=pytest.RaisesExc(AssertionError, match="2"))
def test_described():
    assert ask(1) == "2"
"""
    project.tests(expected)
    project.record()
    project.tests(expected.replace("ask(1)", "ask(3)"))
    project.run("--cassette-mode=update").stdout.fnmatch_lines(["updated  *test_described.yaml *"])


def test_a_replay_with_something_live_leaves_nothing_beside_the_tests(project: Project) -> None:
    """Its derived cassette is in pytest's cache, that of a failing test too, which leaves no journal."""
    live = dedent("""
        from agenttape_core import use_cassette

        @pytest.mark.cassette(live={"look_up"})
        def test_live():
            print(ask("hi"), look_up("Paris"))
            assert not FAILS
    """)

    project.tests(f"FAILS = False{live}")
    project.record()
    left = sorted((project.path / "cassettes").rglob("*"))
    project.run().assert_outcomes(passed=1)
    derived = project.path / ".pytest_cache/d/agenttape-derived/cassettes/test_it/test_live.derived.yaml"
    assert "derived_from: test_live.yaml" in derived.read_text("utf-8")
    derived.unlink()
    project.tests(f"FAILS = True{live}")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*recorded so far*")
    result.stdout.fnmatch_lines(["E *AgentTape: .pytest_cache/*/test_live.derived.yaml keeps what this run did"])
    assert sorted((project.path / "cassettes").rglob("*")) == left
    assert list(derived.parent.iterdir()) == [derived]
    assert "derived_from: test_live.yaml" in derived.read_text("utf-8")
    project.tests(f"FAILS = False{live}")
    project.run("-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert sorted((project.path / "cassettes").rglob("*")) == left


def test_a_session_with_something_live_leaves_nothing_beside_the_tests(project: Project) -> None:
    """One that a test opens by itself writes to pytest's cache, too; unless it says where to."""
    project.tests("""
from agenttape_core import use_cassette

@pytest.mark.parametrize("to", [None, "mine"])
def test_it(to):
    with use_cassette("own", mode="once", live={"look_up"}, to=to):
        print(ask("hi"), look_up("Paris"))
""")
    project.run("-k", "None").assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=2)
    assert (project.path / ".pytest_cache/d/agenttape-derived/cassettes/own.derived.yaml").exists()
    assert sorted(file.name for file in (project.path / "cassettes").iterdir()) == ["mine.yaml", "own.yaml"]


def test_a_failing_fixture(project: Project) -> None:
    """A fixture that fails after it has asked something leaves no cassette and no open session behind."""
    project.tests("""
@pytest.fixture
def broken():
    ask("hi")
    raise ValueError("broken")

@pytest.mark.cassette
def test_it(broken):
    pass

@pytest.mark.cassette
def test_other():
    assert ask("hi")
""")
    result = project.run("--cassette-mode=once")
    result.assert_outcomes(errors=1, passed=1)
    assert project.cassettes() == ["test_it/test_other.yaml"]


def test_artifacts_of_a_replay(project: Project) -> None:
    """Of a failing replay, what it asked and got and the cassette are kept on request; secrets are not."""
    key = "sk-proj-" + "a1B2" * 12
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE.replace("ho", f"ho {key}"))
    project.run("--cassette-artifacts=kept").assert_outcomes(failed=1)
    (folder,) = (project.path / "kept").iterdir()
    told = json.loads((folder / "run.json").read_text())
    assert (told["test"], told["mode"], len(told["missed"]), len(told["unused"])) == (
        "test_it.py::test_it",
        "replay",
        1,
        1,
    )
    assert "ask was called with a request" in told["failure"]
    assert (folder / "test_it.yaml").read_bytes() == (project.path / "cassettes/test_it/test_it.yaml").read_bytes()
    assert all(key not in path.read_text() for path in folder.iterdir())


def test_artifacts_of_a_recording(project: Project) -> None:
    """Of a failing recording, what it recorded is kept as a cassette."""
    project.tests(f"{ASKS}    assert False\n")
    project.run("--cassette-mode=all", "--cassette-artifacts=kept").assert_outcomes(failed=1)
    (recorded,) = (project.path / "kept").rglob("recorded.yaml")
    assert "question: hi" in recorded.read_text()
    assert project.cassettes() == []


def test_a_failed_assertion_names_the_tools_that_did_not_run(project: Project) -> None:
    """A test that looks for a replayed tool's file is told that the tool didn't run, and why; so is the summary."""
    writes = dedent("""
        from pathlib import Path
        from agenttape_core import boundary, use_cassette

        @boundary("tool")
        def write_report(text):
            return Path("report.md").write_text(text)

        @pytest.mark.cassette
        def test_marked():
            write_report("so it is")
            assert Path("report.md").exists()

        def test_plain():
            with use_cassette("plain"):
                write_report("so it is")
            assert Path("report.md").exists()

        @pytest.mark.cassette
        def test_miss():
            ask("a miss says itself what it is about" if Path("offline").exists() else "hi")
    """)

    project.tests(writes)
    project.record()
    (project.path / "report.md").unlink()
    project.go_offline()
    result = project.run()
    result.assert_outcomes(failed=3)
    told = "side effects skipped: write_report (would have written report.md)"
    assert result.outlines.count(told) == 2 + 1
    result.stdout.fnmatch_lines(["*- AgentTape -*", told, "*= cassettes =*", told])


def test_a_failed_assertion_names_what_was_real(project: Project) -> None:
    """What was real in a replay stands on a line of its own: it is no order that could not be imposed."""
    project.tests(
        """
import secrets
import time
from pathlib import Path
import pytest
from agenttape_core import boundary

@boundary("tool")
def ask(text):
    return text

@pytest.mark.cassette
def test_it():
    key, began = secrets.token_hex(), time.monotonic()
    ask("hi")
    assert not Path("offline").exists(), (key, began)
"""
    )
    project.record()
    project.go_offline()
    result = project.run()
    result.assert_outcomes(failed=1)
    noise = "what `secrets`, `os.urandom` and `random.SystemRandom` give the program is real"
    spans = "what `time.monotonic`, `perf_counter` and their like tell the program is real"
    assert result.outlines.count(f"not replayed (real clock or random numbers): {noise}; {spans}") == 1
    result.stdout.no_fnmatch_line("*the recorded order could not be imposed*")


def test_a_sub_agent_that_ran_is_counted(project: Project) -> None:
    """A tool that was stepped into is counted in the verdict."""
    asks_inside = '@boundary("tool")\ndef expert(text):\n    return ask(text)\n'
    project.tests(f"from agenttape_core import boundary\n\n{asks_inside}\n{ASKS.replace('ask(', 'expert(')}")
    project.record()
    project.go_offline()
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 cassette replayed, 2 calls*"])


def test_one_command_for_all_that_miss_a_recording(project: Project) -> None:
    """Where several tests fail for want of a recording, the summary ends with one command that makes them pass."""
    body = """
@pytest.mark.cassette
def test_a():
    for word in WORDS: ask(word)

@pytest.mark.cassette
def test_b():
    for word in WORDS: ask(word)
"""
    project.tests(f"WORDS = ['x', 'y']\n{body}")
    missing = project.run("test_it.py")
    missing.stdout.fnmatch_lines(["to record the 2 that are missing:  pytest test_it.py --cassette-mode=once"])
    project.run("test_it.py", "--cassette-mode=once").assert_outcomes(passed=2)
    project.tests(f"WORDS = ['x']\n{body}")
    unused = project.run("test_it.py")
    unused.stdout.fnmatch_lines(["to record again what failed:  pytest test_it.py --rerecord=failed"])
    project.run("test_it.py", "--rerecord=failed").assert_outcomes(passed=2)
    for cut in (project.path / "cassettes" / "test_it").iterdir():
        cut.write_bytes(cut.read_bytes()[:-20])
    project.run("test_it.py").stdout.fnmatch_lines(
        ["to record again what failed:  pytest test_it.py --rerecord=failed"]
    )
    project.run("test_it.py", "--rerecord=failed").assert_outcomes(passed=2)
    project.run("test_it.py").assert_outcomes(passed=2)


def test_an_error_of_ours_in_a_test_without_a_cassette(project: Project) -> None:
    """A session that a test opens by itself fails at the line of the test, without frames of pytest or of ours."""
    project.tests("""
from agenttape_core import use_cassette

def test_a():
    with use_cassette("gone"):
        ask("x")
""")
    out = project.run().stdout.str()
    assert "CassetteNotFoundError: No cassette yet: cassettes/gone.yaml" in out
    assert "test_it.py:8: in test_a" in out
    assert not any(word in out for word in ("use_cassette.py", "pluggy/", "_pytest/"))


def test_a_miss_under_anyio_is_shown_once(project: Project) -> None:
    """With anyio's plugin and one loop for all tests, asyncio prints no second traceback, and later tests replay."""
    body = """
from agenttape_core import boundary

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@boundary("tool")
async def look(city):
    return city

@pytest.mark.anyio
@pytest.mark.cassette
async def test_a():
    await look("{}")

@pytest.mark.anyio
@pytest.mark.cassette
async def test_b():
    await look("Oslo")
"""
    project.tests(body.format("Rome"))
    project.record()
    project.tests(body.format("Lima"))
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert result.stdout.str().count("CassetteMissError: look was called with a request") == 2  # the last is a summary
    assert "never retrieved" not in result.stdout.str() + result.stderr.str()
