"""`show`: where in the tree a record stands, when each call ran, trees as rich draws them, and pages of HTML."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import pytest
from rich.console import Console
from rich.tree import Tree

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.cli.commands.show import Branch, bar_of
from agenttape_core.cli.output import print_tree, printable
from agenttape_core.integration import Boundary
from agenttape_core.lifecycle.imported import CallFacts, Importing
from agenttape_core.schema import Outcome, StepTiming, Timing, Volatile
from agenttape_core.tools.reading.timeline import Row, timeline_of
from agenttape_core.tools.viewer import is_page

from ...kit.records import call, step, written
from .conftest import record


def test_places_without_a_record_are_shown_once(tmp_path: Path, command: Any) -> None:
    """A record stands below the place just above it, which is shown once, whether or not it has a record itself."""
    calls = [call(number, address) for number, address in enumerate(["A", "A/b@1/x", "A/b@1/y", "C/z"], 1)]
    shown = command("show", written(tmp_path / "a.yaml", *calls)).out
    lines = [line for line in shown.splitlines() if ">" not in line and "<" not in line]
    words = ["1", "b@1", "2", "3", "C", "4"]
    assert [line.find(word) for line, word in zip(lines[1:], words, strict=True)] == [4, 8, 12, 12, 4, 8]


def test_a_deep_address_is_no_recursion(tmp_path: Path, command: Any) -> None:
    """An address of many places, which a stranger may have written, does not keep other records from being shown."""
    deep, after = call(1, "/".join(["a"] * 1_200)), call(2, "B/after", name="after")
    ended = command("show", written(tmp_path / "a.yaml", deep, after))
    assert ended.code == 0
    assert "2  call after" in ended.out


def test_what_was_given_up_says_so(tmp_path: Path, command: Any) -> None:
    """An answer that nobody waited for looks like any other, but for a line of its own."""
    left = call(outcome=Outcome(status="returned", given_up=0))
    assert "! given up" not in command("show", written(tmp_path / "a.yaml", call())).out
    shown = command("show", written(tmp_path / "b.yaml", left)).out
    assert "! given up by the program, while its thread went on" in shown


def test_one_after_the_other(command: Any) -> None:
    """Calls that follow each other begin when the one before has ended, or later."""
    shown = command("show", "--timeline", "weather", "--json").json
    assert (shown["guessed"], shown["most_at_once"]) == (0, 1)
    rows = shown["rows"]
    assert [row["label"] for row in rows] == ["answer", "look_up", "look_up#2"]
    assert rows[0]["start_ms"] == 0
    for before, after in pairwise(rows):
        assert after["start_ms"] >= before["start_ms"] + before["duration_ms"] - 0.2  # written with one place
    assert [row["has_failed"] for row in rows] == [False, False, True]


def test_parallel_calls(command: Any, folder: Path) -> None:
    """Calls that ran at the same time are seen to."""
    both = threading.Barrier(2)

    @boundary
    def meet(n: int) -> int:
        both.wait(60)
        return n

    with use_cassette("both", mode="all"), ThreadPoolExecutor(2) as threads:
        list(threads.map(meet, range(2)))
    assert command("show", "--timeline", "both", "--json").json["most_at_once"] == 2
    assert "at most 2 at once" in command("show", "--timeline", "both").out


@pytest.mark.process
def test_each_kind(command: Any, recorded: Path, kind: str) -> None:
    """Each framework's calls have their starts, within the steps around them; streams have their first chunk."""
    shown = command("show", "--timeline", recorded, "--json").json
    assert shown["guessed"] == 0
    calls = [row for row in shown["rows"] if row["word"] == "interaction"]
    assert all(row["start_ms"] >= 0 and row["start_ms"] + row["duration_ms"] <= shown["total_ms"] for row in calls)
    streamed = [row for row in calls if row["chunks_ms"]]
    assert bool(streamed) is (kind != "langgraph")
    steps = {row["address"]: row for row in shown["rows"] if row["word"] == "step"}
    for row in calls:
        around = steps.get(row["address"].rpartition("/")[0], {"start_ms": 0, "duration_ms": shown["total_ms"]})
        assert around["start_ms"] - 0.2 <= row["start_ms"]
        assert row["start_ms"] + row["duration_ms"] <= around["start_ms"] + around["duration_ms"] + 0.2
    out = command("show", "--timeline", recorded).out
    assert all(f"{row['number']} {row['kind']} " in out for row in calls)
    if kind == "langgraph":
        assert shown["most_at_once"] == 2
        assert [row["depth"] for row in shown["rows"]] == [0, 1, 2, 1, 2, 1, 2]


def test_bars() -> None:
    """A bar stands where the row ran; the first chunk and the later ones are marked on it."""
    row = Row("interaction", 1, "chat", "m", "m", "m", 0, 20.0, 50.0, (10.0, 30.0, 31.0))
    assert bar_of(row, 100.0, 10) == "  ━◆━•━━"
    assert bar_of(Row("step", 1, "node", "n", "n", "n", 0, 0.0, 100.0), 100.0, 4) == "────"
    assert bar_of(Row("interaction", 1, "call", "f", "f", "f", 0, 0.0, 0.0), 0.0, 4) == "━"


def test_older_cassettes(command: Any, folder: Path) -> None:
    """Where starts were not recorded, calls begin with the step around them, or after the call before; it is said."""
    timings = {number: Timing(duration_ms=10.0 * number) for number in (1, 2, 3, 4)}
    volatile = Volatile(timings=timings, steps={1: StepTiming(start_ms=500.0, duration_ms=70.0)})
    records = [call(1, "a"), step(1, "n"), call(2, "n/x"), call(3, "n/y"), call(4, "z")]
    path = written(folder / "old.yaml", *records, volatile=volatile)
    rows = timeline_of(open_cassette(path)).calls
    assert [row.start_ms for row in rows] == [0.0, 0.0, 20.0, 10.0]
    assert [row.is_measured for row in rows] == [False] * 4
    out = command("show", "--timeline", "old.yaml").out
    assert "~20 ms" in out
    assert "the start of 4 of them was not recorded" in out


def test_starts_outlive_the_way_into_the_file(folder: Path) -> None:
    """What is written with starts is read with them, with and without some."""
    timings = {1: Timing(start_ms=0.5, duration_ms=1.0, offsets_ms=[0.1]), 2: Timing(duration_ms=2.0)}
    path = written(folder / "some.yaml", call(1, "a"), call(2, "b"), volatile=Volatile(timings=timings))
    assert "\n    1 0.5+1.0 0.1\n    2 2.0\n" in path.read_text()
    assert open_cassette(path).header.volatile.timings == timings


def test_calls_of_other_runs_have_no_start(folder: Path) -> None:
    """A call that is added to a recording, carried into a derived one, or imported keeps its duration alone."""
    ask, live = boundary("chat")(abs), boundary("tool")(abs)
    with use_cassette("grown", mode="once"):
        ask(1)
    with use_cassette("grown", mode="new_episodes"):
        ask(1)
        ask(2)
    with use_cassette("first", mode="once"):
        ask(1)
        live(1)
    with use_cassette("first", live={"tool"}):
        ask(1)
        live(1)
    with Importing("cassettes/imported.yaml") as importing:
        importing.session_call(Boundary("call"), "f", {}, CallFacts(duration_ms=7.0)).returned(1)

    def timings(name: str) -> list[Timing]:
        return [*open_cassette(folder / "cassettes" / name).header.volatile.timings.values()]

    assert [timing.start_ms is None for timing in timings("grown.yaml")] == [False, True]
    assert [timing.start_ms is None for timing in timings("first.derived.yaml")] == [True, False]
    assert timings("imported.yaml") == [Timing(duration_ms=7.0)]


@pytest.mark.parametrize("timings", ["1 5.0+", "1 +5.0", "1 1.0+2.0+3.0", "1 5.0 1.0+2.0"])
def test_malformed_starts(command: Any, folder: Path, timings: str) -> None:
    """Starts that are none make the cassette malformed."""
    path = written(folder / "bad.yaml", call(1, "a"), volatile=Volatile(timings={1: Timing(duration_ms=5.0)}))
    path.write_text(path.read_text().replace("1 5.0\n", f"{timings}\n"))
    ended = command("show", "--timeline", "bad.yaml")
    assert (ended.code, "expected a timing such as" in ended.err) == (3, True)


def _of_rich() -> Tree:
    tree = Tree(printable("a run  with two\nlines", "bold"))
    first = tree.add(printable("one\tand more", "red"))
    first.add(printable("x" * 100))
    first.add(printable("several\nlines")).add(printable("\x1b[31m below"))
    tree.add(printable("the last one\nof all")).add(printable(""))
    return tree


def _of_branches() -> Tree:
    tree = Branch("a run  with two\nlines", "bold")
    first = tree.grow(Branch("one\tand more", "red"))
    first.grow(Branch("x" * 100))
    first.grow(Branch("several\nlines")).grow(Branch("\x1b[31m below"))
    tree.grow(Branch("the last one\nof all")).grow(Branch(""))
    return tree


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("tree", [_of_rich(), _of_branches()], ids=["rich", "branches"])
def test_as_rich(tree: Tree, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into a file is what rich would have written there, but that long lines are not broken."""
    ours, theirs = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr("sys.stdout", ours)
    print_tree(tree)
    Console(file=theirs, width=200, soft_wrap=True, highlight=False, emoji=False, markup=False).print(tree)
    for stream in (ours, theirs):
        stream.seek(0)
    assert ours.read() == theirs.read()


def test_branches_look_as_trees_do() -> None:
    """On a terminal, a tree of branches has the colours of one of rich."""
    shown = []
    for tree in (_of_rich(), _of_branches()):
        terminal = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="256", legacy_windows=False)
        terminal.print(tree)
        shown.append(terminal.file.getvalue())  # type: ignore[attr-defined]
    assert shown[0] == shown[1]


WEATHER = "cassettes/weather.yaml"


def page(path: str | Path) -> str:
    """Return what a page holds; it must be one of ours."""
    text = Path(path).read_text(encoding="utf-8")
    assert is_page(text)
    return text


def test_written_again(command: Any) -> None:
    """A page of ours is replaced; another file is not, and neither is a folder, nor other pages in it."""
    assert command("show", WEATHER, "--html", "out.html").code == 0
    assert command("show", WEATHER, "--html", "out.html").code == 0
    Path("mine.html").write_text("<p>mine</p>")
    for target, why in (("mine.html", "is not a page of agenttape show"), ("cassettes", "is a folder")):
        ended = command("show", WEATHER, "--html", target)
        assert ended.code == 2
        assert f"{target} {why}" in ended.err
    assert Path("mine.html").read_text() == "<p>mine</p>"
    snow = record(Path("cassettes/snow.yaml"), "Snow?")
    Path("agenttape-pages").mkdir()
    Path("agenttape-pages/index.html").write_text("mine")
    assert command("show", "cassettes", "--open").code == 2
    assert Path("agenttape-pages/index.html").read_text() == "mine"
    assert command("show", WEATHER, snow, "--html", "out.html", "--json").json["identical"] is False
    assert '"divergence":["interaction",1,1]' in page("out.html")
    ended = command("show", WEATHER, "--html", "gone/out.html")
    assert (ended.code, "gone/out.html cannot be written" in ended.err) == (2, True)


def test_standard_output_and_input(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page goes to standard output with `--html -`, and a cassette comes from standard input."""
    content = Path(WEATHER).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    ended = command("show", "-", "--html", "-")
    assert ended.code == 0
    assert is_page(ended.out)
    for words in (["-", "-"], [WEATHER, "--json"], [WEATHER, "--open"]):
        assert command("show", *words, "--html", "-").code == 2


def test_opened(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--open` shows the page that was written, with the name of the cassette if no other is given."""
    shown: list[str] = []
    monkeypatch.setattr(click, "launch", shown.append)
    assert command("show", WEATHER, "--open").code == 0
    assert command("show", WEATHER, "--open", "--html", "rain.html").code == 0
    assert shown == ["weather.html", "rain.html"]


@pytest.mark.parametrize("words", [[], ["gone.yaml"], [WEATHER, "gone.yaml"], ["docker.yaml"], ["bad.yaml"]])
def test_bad_input(command: Any, words: list[str]) -> None:
    """A file that isn't a cassette, or a broken one, ends with 3 and writes no page; no file at all ends with 2."""
    Path("bad.yaml").write_text(Path(WEATHER).read_text().replace("outcome:\n  status: ", "outcome:\n  status: un", 1))
    assert command("show", *words, "--html", "page.html").code == (3 if words else 2)
    assert not list(Path().glob("*.html"))


def test_compressed_and_named(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed cassette is read, a bare name is found, and the page is not called after suffixes or folders."""
    monkeypatch.setattr(click, "launch", lambda _: None)
    command("cassette", "convert", WEATHER, "rain.jsonl.gz")
    assert command("show", "rain.jsonl.gz", "--open", "--json").json["written"] == "rain.html"
    assert command("show", "cassettes", "--open", "--json").json["written"] == "weather.html"
    assert command("show", "weather", "--open", "--json").json["written"] == "weather.html"
    assert str(Path.cwd()) not in page("weather.html")


def test_a_folder(command: Any, folder: Path) -> None:
    """Each of several cassettes in a folder gets a page, and one lists them with links, also those that are broken."""
    record(folder / "cassettes" / "test_it" / "test_a[#1 & <b>].yaml", "Snow?")
    (folder / "cassettes" / "cut.yaml").write_bytes(Path(WEATHER).read_bytes()[:-200])
    ended = command("show", "cassettes", "--html", "pages")
    assert (ended.code, ended.out.splitlines()[0]) == (3, "wrote pages/index.html and 2 pages; open it in a browser")
    listed = page("pages/index.html")
    links = re.findall('href="([^"]+)"', listed)
    assert [unquote(link) for link in links if link.endswith(".html")] == [
        "test_it/test_a[#1 & <b>].yaml.html",
        "weather.yaml.html",
    ]
    assert all(page(Path("pages", unquote(link))) for link in links if link.endswith(".html"))
    assert "test_a[#1 &amp; &lt;b&gt;].yaml</a>" in listed
    assert "<td>cut.yaml</td>" in listed
    assert "<script" not in listed
    told = command("show", "cassettes", "--html", "pages", "--json").json
    assert (told["written"], len(told["pages"]), list(told["problems"])) == (
        "pages/index.html",
        2,
        ["cassettes/cut.yaml"],
    )


def test_why_is_on_the_page(command: Any) -> None:
    """The program is replayed, and the edges between its calls are on the page, those of a text if one is named."""
    Path("shop.py").write_text(
        "from agenttape_core import boundary\n\n\n"
        "@boundary('tool')\ndef stock(title):\n    return f'{title}: 3 copies'\n\n\n"
        "@boundary('chat')\ndef ask(question):\n    return 'Yes, 3 copies.'\n\n\n"
        "def answer():\n    return ask(stock('Dune'))\n"
    )
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(Path("shop.py").read_text(), "shop.py", "exec"), names)
    with use_cassette("shop.yaml", mode="all"):
        names["answer"]()

    def flow(*more: str) -> Any:
        assert command("show", "shop.yaml", "--why", "shop.py:answer", *more, "--html", "shop.html").code == 0
        index = page("shop.html").partition('id="index">')[2].partition("</script>")[0]
        return json.loads(index).get("flow")

    assert [(edge["from"], edge["to"]) for edge in flow()["edges"]] == [(1, 2), (2, 0)]
    assert flow("--text", "3 copies")["text"] == "3 copies"
    for words in (["shop.yaml", "--text", "x"], ["shop.yaml", WEATHER, "--why", "shop.py:answer"]):
        assert command("show", *words, "--open").code == 2


@pytest.mark.process
def test_nothing_heavy_is_imported_before_it_is_asked_for() -> None:
    """The core does not import the viewer."""
    code = "import agenttape_core, sys; print([name for name in sys.modules if 'viewer' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
