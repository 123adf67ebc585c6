"""The plugin works beside those that many projects have; each of them is really loaded here, and does its work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ...kit import forks
from .conftest import INI, LOADED, Project

pytestmark = pytest.mark.process

DRAWS = """
import random, uuid

@pytest.mark.cassette
@pytest.mark.parametrize("n", range(3))
def test_it(n):
    assert ask(f"{n} {random.random()} {uuid.uuid4()}")
"""
SERVICE = """
import http.server, itertools, threading
import pytest

@pytest.fixture(scope="session")
def url():
    numbers = itertools.count(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = f"answer {next(numbers)}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
"""
BOTH = """
from urllib.request import urlopen

def get(url):
    with urlopen(url) as answer:
        return answer.read().decode()

@pytest.fixture(scope="module")
def vcr_config():
    return {"match_on": ["method"]}  # the service has another port each time

@pytest.mark.vcr
@pytest.mark.cassette(%s)
def test_both(url):
    assert ask("hi")
    assert get(url) == "answer 1"

@pytest.mark.vcr
def test_http(url):
    assert get(url) == "answer 2"

@pytest.mark.cassette
def test_agent():
    assert ask("ho")
"""


class Apart(Project):
    """A project whose runs are processes of their own: these plugins change the process that they are loaded into.

    Args:
        pytester: Where it lies.
        commands: The folder of the command `pytest`.
    """

    def __init__(self, pytester: pytest.Pytester, commands: Path) -> None:
        super().__init__(pytester)
        self._pytest = commands / "pytest"

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.run(self._pytest, f"--basetemp={self.path / 'runs'}", *args)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with `pytest`, which begins with itself and a session's modules loaded."""
    ours = (f"agenttape_core.lifecycle.{name}" for name in ("open_cassette", "missing"))
    loaded = ("pytest", "hypothesis.strategies", "aiohttp", "httpx", "requests", "yaml", *ours)
    with forks.commands(tmp_path_factory.mktemp("commands"), loaded, "pytest") as folder:
        yield folder


@pytest.fixture
def project(project: Project, commands: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Give an empty project, whose runs load our plugin alone."""
    monkeypatch.setenv("PYTEST_PLUGINS", LOADED[0])
    apart = Apart(project.pytester, commands)
    apart.pytester.makefile(
        ".ini", pytest="".join(line for line in INI.splitlines(keepends=True) if "asyncio" not in line)
    )
    return apart


def with_plugins(project: Project, *names: str) -> None:
    """Load plugins that the ini file of the project leaves out."""
    ini = project.path / "pytest.ini"
    text = ini.read_text("utf-8")
    for name in names:
        assert f"-p no:{name}" in text
        text = text.replace(f"-p no:{name}", f"-p {name}")
    ini.write_text(text, encoding="utf-8")


# -- pytest-randomly --------------------------------------------------------------------------------------------------


def test_randomly(project: Project) -> None:
    """What a test draws is that of its cassette in any order and under any seed; other tests have the plugin's."""
    with_plugins(project, "randomly")
    project.tests(f"""{DRAWS}
def test_unmarked():
    print("unmarked", random.random())
""")
    recorded = project.record("-s", "--randomly-seed=1")
    recorded.stdout.fnmatch_lines(["Using --randomly-seed=1"])
    project.go_offline()
    replayed = project.run("-s", "--randomly-seed=2")
    replayed.assert_outcomes(passed=4)
    first, other = ([line for line in run.outlines if "unmarked" in line] for run in (recorded, replayed))
    assert first != other


# -- pytest-recording -------------------------------------------------------------------------------------------------


@pytest.fixture
def recording(project: Project) -> Project:
    """Give a project whose tests record HTTP, too."""
    with_plugins(project, "recording")
    project.pytester.makeconftest(SERVICE)
    return project


def test_recording(recording: Project) -> None:
    """One test with both markers has two cassettes, and both serve it; those with one marker are as they would be."""
    recording.tests(BOTH % '"agent"')
    result = recording.run("--cassette-mode=once", "--record-mode=once")
    result.assert_outcomes(passed=3)
    assert recording.cassettes() == ["agent.yaml", *(f"test_it/test_{n}.yaml" for n in ("agent", "both", "http"))]
    recording.go_offline()
    recording.run("--cassette-strict=orphans", "--block-network").assert_outcomes(passed=3)
    recording.run("--disable-recording", "-k", "agent").assert_outcomes(passed=1, deselected=2)


def test_one_file_for_both(recording: Project) -> None:
    """A cassette that would lie where the other plugin has its own is refused, and nothing is written over."""
    recording.tests(BOTH % "")
    file = recording.path / "cassettes" / "test_it" / "test_both.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(theirs := "interactions: []\nversion: 1\n", encoding="utf-8")
    result = recording.run("--cassette-mode=all", "-k", "both")
    result.assert_outcomes(errors=1, deselected=2)
    result.stdout.fnmatch_lines(["*test_both.yaml is where pytest-recording keeps the HTTP of this test*"])
    assert file.read_text("utf-8") == theirs


@pytest.mark.night
def test_the_other_plugin_in_another_folder(recording: Project) -> None:
    """Where the other plugin has a folder of its own, both markers need no name."""
    recording.tests(
        BOTH % ""
        + """
@pytest.fixture(scope="module")
def vcr_cassette_dir():
    return "http"
"""
    )
    result = recording.run("--cassette-mode=once", "--record-mode=once", "-k", "both")
    result.assert_outcomes(passed=1, deselected=2)
    recording.go_offline()
    recording.run("-k", "both", "--block-network").assert_outcomes(passed=1, deselected=2)


# -- Hypothesis -------------------------------------------------------------------------------------------------------

GIVEN = """
from hypothesis import HealthCheck, given, settings, strategies as st

@pytest.mark.cassette
@settings(max_examples=5, database=None, deadline=None, %s)
@given(n=st.integers(0, 10**9))
def test_it(%sn):
    assert ask(n)
"""

BY_ITS_SEED = """
from hypothesis.internal.conjecture import providers

providers._get_local_constants = lambda: providers._local_constants
"""
"""Hypothesis draws constants of the modules that happen to be loaded, too, and parses all of them for that."""


@pytest.fixture
def drawing(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Give a project with Hypothesis, which draws by its seed alone."""
    monkeypatch.setenv("PYTEST_PLUGINS", f"{LOADED[0]},_hypothesis_pytestplugin")
    project.pytester.makeconftest(BY_ITS_SEED)
    return project


def test_hypothesis_draws_others(drawing: Project) -> None:
    """Without that, the first new example is a miss, and no more: it is neither shrunk nor tried again."""
    drawing.tests(GIVEN % ("derandomize=False", ""))  # where CI is set, Hypothesis draws the same each time
    drawing.record("--hypothesis-seed=1")
    drawing.go_offline()
    result = drawing.run("--hypothesis-seed=2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMissError*", "missed *1 missed*"])
    drawing.run("--hypothesis-seed=1").assert_outcomes(passed=1)


def test_hypothesis_and_the_fixture(drawing: Project) -> None:
    """The fixture is one for all examples, which Hypothesis wants to be told; then it shows what they asked so far."""
    drawing.tests(GIVEN % ("derandomize=True", "cassette, "))
    result = drawing.run("--cassette-mode=once")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*uses a function-scoped fixture 'cassette'*"])
    checks = "derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]"
    seen = "    assert cassette.interactions[-1].request['arguments']['question'] == n\n"
    drawing.tests(GIVEN % (checks, "cassette, ") + seen)
    drawing.record()
    drawing.go_offline()
    drawing.run().assert_outcomes(passed=1)


# -- those that run tests elsewhere, later, or again -------------------------------------------------------------------


@pytest.mark.usefixtures("forked_tests")
def test_xdist(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """However pytest-xdist deals tests out, also while they record, each has its cassette; one summary has all."""
    monkeypatch.setenv("PYTEST_PLUGINS", f"{LOADED[0]},xdist.plugin")
    project.tests(DRAWS)
    project.tests(DRAWS, "test_other")
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "true")
    result = project.pytester.runpytest_subprocess("--cassette-mode=once", "-n2", "--dist=worksteal")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["6 calls recorded; 6 recordings replay OK"])
    assert len(project.cassettes()) == 6
    project.go_offline()
    (project.path / "cassettes" / "test_it" / "old.yaml").touch()
    result = project.pytester.runpytest_subprocess("-n2", "--dist=loadscope", "--cassette-strict=orphans")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        ["6 cassettes replayed, 6 calls*", "*orphaned cassettes*", "cassettes/test_it/old.yaml"]
    )
    assert result.ret == 1


@pytest.mark.usefixtures("forked_tests")
def test_xdist_that_runs_each_test_in_each_worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary and the report have the verdict of each worker, in whatever order the workers end."""
    monkeypatch.setenv("PYTEST_PLUGINS", f"{LOADED[0]},xdist.plugin")
    project.tests("@pytest.mark.cassette\ndef test_it():\n    ask('a')\n")
    project.record()
    project.tests("""
import os

@pytest.mark.cassette
def test_it():
    ask('a' if os.environ["PYTEST_XDIST_WORKER"] == "gw0" else 'b')
""")
    result = project.pytester.runpytest_subprocess("-n2", "--dist=each", "--cassette-report=report.json")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["missed *test_it.yaml*1 missed*", "1 cassette replayed, 1 call*"])
    tests = json.loads((project.path / "report.json").read_text())["tests"]
    assert sorted(len(each["checks"][0]["findings"]) for each in tests) == [0, 1]
    project.pytester.runpytest_subprocess("--dist=each", "-k", "no_such").stdout.no_fnmatch_line("*INTERNALERROR*")
    project.tests("import os\n\ndef test_crash():\n    os._exit(3)\n")
    result = project.pytester.runpytest_subprocess("-n1", "--dist=each")
    result.stdout.fnmatch_lines(["*worker 'gw0' crashed*"])


@pytest.mark.parametrize("logs_all", [pytest.param(False, marks=pytest.mark.night), True])
def test_reruns(project: Project, logs_all: bool) -> None:
    """A test that runs again replays the recording of its first attempt; what counts is the last time."""
    # Runs a failed test once more, in the way of pytest-rerunfailures, which logs all attempts.
    again = dedent(f"""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for _ in range(2):
                item._initrequest()
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                if not any(report.failed for report in reports):
                    break
                for report in reports if {logs_all} else ():
                    report.outcome = "rerun" if report.failed else report.outcome
                    item.ihook.pytest_runtest_logreport(report=report)
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            return True
    """)

    project.pytester.makeconftest(again)
    project.tests("""
times = []

@pytest.mark.cassette
def test_it():
    times.append(ask("hi"))
    assert len(times) == 2
""")
    result = project.record("--junitxml=first.xml")
    result.stdout.fnmatch_lines(["1 cassette replayed, 1 call*"])
    result.stdout.no_fnmatch_line("failed*")
    project.go_offline()
    result = project.run("--junitxml=again.xml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 cassette replayed, 1 call*"])
    for name in ("first.xml", "again.xml"):
        logged = (project.path / name).read_text("utf-8")
        assert logged.count("cassette.word") == logged.count("<testcase")


def test_time_limits(project: Project) -> None:
    """A signal that ends a test in the middle of a call, as pytest-timeout sends it, leaves the good cassette alone."""
    project.pytester.makeconftest("""
import signal, pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    def ring(*_):
        pytest.fail("Timeout")
    signal.signal(signal.SIGALRM, ring)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
""")
    project.tests("""
import os, signal
from agenttape_core import boundary

@boundary
def hang(question):
    if "HANGS" in os.environ:
        signal.raise_signal(signal.SIGALRM)
    return question

@pytest.mark.cassette
def test_it():
    assert hang("hi") == "hi"
""")
    project.record()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANGS", "1")
        result = project.run("--cassette-mode=all")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Timeout*", "failed, not saved *"])
    project.run().assert_outcomes(passed=1)


def test_a_test_that_fails_at_a_time_of_its_own(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no cassette is used, a failure imports nothing that would take another clock for the real one."""
    other_time = dedent("""
        import datetime, sys

        import pytest

        class Standing(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return cls(2020, 1, 1, tzinfo=tz)

        def test_late(monkeypatch):
            monkeypatch.setattr(datetime, "datetime", Standing)
            assert datetime.datetime.now().year == 2021

        def test_after():
            assert "agenttape_core.freeze" not in sys.modules
    """)

    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take longer than the run
    monkeypatch.setenv("PYTEST_PLUGINS", LOADED[0])
    pytester.makepyfile(other_time)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
