"""`agenttape show --html`: where it writes its page, what it refuses, and what it ends with."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import pytest

from agenttape_core import use_cassette
from agenttape_core.tools.viewer import is_page

from .conftest import record

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
    """What is no cassette, or a broken one, ends with 3, and no page is written; nothing at all ends with 2."""
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
