"""Every Python snippet of the README and the docs runs, and prints what its page says.

The snippets of a page run in order, share their names, and work in an empty folder. `ChatOpenAI` finds the example's
loopback server where it looks for OpenAI's service, so the pages show the code that a user writes. A page whose fences
say `{needs="package"}` is tested where that is installed.

To write the printed output anew after an edit: `pytest tests/docs --update-examples`.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

from agenttape_core.errors import AgentTapeHalt

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = re.compile(r'^```\w+ \{project="\w+" file="[^"]+"\}$', re.MULTILINE)
"""How a file begins that `test_console.py` writes, where it is run."""
EXCERPT = re.compile(r'^```yaml \{file="(?P<file>[^"]+)"\}\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
SKIPPED = 0
"""How many snippets are shown but not executed. It may only fall."""


def name_of(page: Path) -> str:
    """Return the path of a page inside the repository."""
    return page.relative_to(ROOT).as_posix()


def is_skipped(example: CodeExample) -> bool:
    """Whether a snippet says `{test="skip"}`."""
    return example.prefix_settings().get("test") == "skip"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, without settings of ours in the environment."""
    for variable in ("MODE", "CASSETTE_DIR", "ON_UNUSED", "FREEZE", "REDACTION_KEY"):
        monkeypatch.delenv(f"AGENTTAPE_{variable}", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    # Snippets run as `__main__`; the real one comes back after the test.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    return tmp_path


@pytest.fixture
def eval_example(eval_example: EvalExample, monkeypatch: pytest.MonkeyPatch) -> EvalExample:
    """What runs a snippet; for each `print` it asked for the source of each frame, which is sought in all modules."""

    def stack() -> list[SimpleNamespace]:
        """Return what it needs of the frames, the caller's first."""
        frames = traceback.walk_stack(sys._getframe(1))
        return [SimpleNamespace(frame=frame, filename=frame.f_code.co_filename) for frame, _ in frames]

    of_frames = SimpleNamespace(stack=stack, iscoroutinefunction=inspect.iscoroutinefunction)
    monkeypatch.setattr("pytest_examples.run_code.inspect", of_frames)
    return eval_example


@pytest.fixture
def as_printed(project: Path) -> Callable[[str], str]:
    """Make the same text of what a page prints everywhere: without its folder, its files and its process."""

    def shortened(text: str) -> str:
        text = re.sub(rf"({re.escape(str(project))}/|\b)[\w-]+_\d+_\d+\.py", "app.py", text)
        text = re.sub(r"\(process \d+\)", "(process 4711)", text)
        return text.replace(f"{project}/", "")

    return shortened


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> object:
    """The loopback server, where `ChatOpenAI` looks for OpenAI's service."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with import_module("weather_agent.server").OpenAILoopback() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any-text")
        yield server


# LlamaIndex's agents read pydantic's old names, and its synchronous queries leave an event loop open.
@pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated", "ignore:unclosed .*(event loop|socket)")
@pytest.mark.usefixtures("openai")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_is_true(
    page: Path,
    project: Path,
    as_printed: Callable[[str], str],
    eval_example: EvalExample,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The snippets of a page run in order and print what it shows; its excerpts stand in the cassettes they wrote."""
    # The remedy of an error names the test that a reader would run, not this one. Here: pytest sets it for each phase.
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_weather.py::test_weather (call)")
    for example in find_examples(page):
        if "needs" in example.prefix_settings():
            pytest.importorskip(example.prefix_settings()["needs"])
    eval_example.set_config(line_length=100)
    eval_example.print_callback = as_printed
    run = eval_example.run_print_update if eval_example.update_examples else eval_example.run_print_check
    names: dict[str, object] = {}
    for example in find_examples(page):
        if not is_skipped(example) and not WRITTEN.match(f"```{example.prefix}"):
            try:
                names = run(example, module_globals=names)
            except (Exception, AgentTapeHalt) as error:  # pytest cannot show the traceback that pytest-examples makes
                shown = f"{example}: {type(error).__name__}: {error}"
                raise pytest.fail.Exception(shown, pytrace=False) from None
    if names:  # else nothing ran, as on most pages of decisions
        asyncio.set_event_loop(None)
        gc.collect()  # an event loop that a framework left open is told of here, and not in another test
    for excerpt in EXCERPT.finditer(page.read_text(encoding="utf-8")):
        written = (project / excerpt["file"]).read_text(encoding="utf-8")
        assert excerpt["text"] in written, f"{page.name} shows what is not in {excerpt['file']}:\n{written}"


@pytest.mark.usefixtures("openai")
def test_the_sdk_of_the_page_replays_in_a_new_process(project: Path) -> None:
    """An SDK looks at the machine once in a process; in this one it did so while nothing was offline."""
    page = ROOT / "docs" / "boundaries.md"
    (snippet,) = [example.source for example in find_examples(page) if "OpenAI(" in example.source]
    modes = '("once", "replay")'
    assert modes in snippet
    script = "from agenttape_core import use_cassette\n" + snippet.replace(modes, "sys.argv[1:]")
    (project / "sdk.py").write_text(f"import sys\n{script.replace('answers[0] == answers[1], ', '')}", encoding="utf-8")
    shown = [
        subprocess.run([sys.executable, "sdk.py", mode], capture_output=True, text=True, check=False)
        for mode in ("once", "replay")
    ]
    assert [run.stderr for run in shown] == ["", ""]
    assert [run.stdout for run in shown] == ["0 replayed, 1 recorded\n", "1 replayed, 0 recorded\n"]


def test_no_more_snippets_are_skipped() -> None:
    """A snippet that is not executed can become wrong unnoticed: their number never grows."""
    assert sum(is_skipped(example) for page in PAGES for example in find_examples(page)) == SKIPPED


def test_shown_cassettes_are_excerpts() -> None:
    """A YAML block names its cassette, but for those of the specification and those that `agenttape init` writes."""
    for page in PAGES:
        if page.name not in {"0001-cassette-format.md", "git.md"}:
            text = page.read_text(encoding="utf-8")
            written = [fence for fence in WRITTEN.findall(text) if fence.startswith("```yaml")]
            assert text.count("```yaml") == len(EXCERPT.findall(text)) + len(written), name_of(page)
