"""What the page is made of: lines, times, what is read of an outcome; and the viewer that is shipped."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.schema import Interaction, Outcome, RecordedError, Step, StepTiming, Timing, Volatile
from agenttape_core.storage import open_cassette
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.reading.timeline import CallTree
from agenttape_core.tools.viewer import Line, is_page, lines_of, page_of, page_rows, pairs_of, readable, run_of, summary

from ....kit.records import call, step, written
from .conftest import write_page
from .showcase import Book, returned, write_hostile


class Elements(HTMLParser):
    """What a browser would find in a page.

    Args:
        page: The page.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        """Return the elements of a sort."""
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


def data_of(page: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the index and the records of a page of one cassette."""
    blocks = {attributes["id"]: text for attributes, text in Elements(page).of("script") if "id" in attributes}
    return json.loads(blocks["index"]), [json.loads(line) for line in blocks["records-0"].splitlines()]


def interaction(kind: str = "chat", outcome: Outcome | None = None, **request: Any) -> Interaction:
    """Return an interaction."""
    return call(kind=kind, request=request, outcome=outcome or returned("yes"))


def test_places_last_as_long_as_what_is_below(tmp_path: Path) -> None:
    """A place without a record spans the calls below it, counted from the beginning of the run."""
    book = Book()
    book.call("tool", "place/one", (110, 10), {"name": "one"}, returned(1))
    book.call("tool", "place/two", (150, 30), {"name": "two"}, returned(2))
    cassette = open_cassette(book.write(tmp_path / "c.yaml"))
    run = run_of(cassette, tuple(cassette.records()), load_prices())
    times = [(row["sides"][0]["start"], row["sides"][0]["ms"]) for row in page_rows(pairs_of(cassette), [run])]
    assert times == [(0, 70), (0, 10), (40, 30)]


GROWN = {"$in": {"name": "g", "args": {"$to": "x"}}}


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        (["a", {"$chunk": {"content": "b"}}, {"$chunk": {"response_metadata": {}}}], ["a", "b", ""]),
        (
            [
                {"$chunk": {"tool_call_chunks": [{"name": "f", "args": "", "id": "c", "index": 0}]}},
                {"$chunk": {"content": "t", "tool_call_chunks": [{"args": "{}", "index": 0}]}},
            ],
            [[{"call": "0", "name": "f", "id": "c", "args": ""}], ["t", {"call": "0", "args": "{}"}]],
        ),
        (
            [
                {"$chat_chunk": {"changes": {"message": {"$in": {"tool_calls": {"$items": {"#1": GROWN}}}}}}},
                {"$chat_chunk": {"content": "text", "delta": "text"}},
            ],
            [[{"call": "1", "name": "g", "args": "x"}], "text"],
        ),
    ],
)  # fmt: skip
def test_pieces_of_streams(chunks: list[Any], pieces: list[Any]) -> None:
    """What a stream says chunk by chunk is found in the chunks of each framework: texts, and pieces of calls."""
    streamed = Outcome(status="streamed", chunks=chunks, ended="exhausted")
    assert readable(interaction(outcome=streamed)) == {"pieces": pieces}


def test_readings_of_values() -> None:
    """Of a value, the text and the calls of tools are told; of what no model said, nothing."""
    message = {"$chat_result": {"message": {"content": "hi", "tool_calls": [{"name": "f", "args": {"a": 1}}]}}}
    assert readable(interaction(outcome=returned(message))) == {
        "text": "hi",
        "calls": [{"name": "f", "args": {"a": 1}}],
    }
    assert readable(interaction("tool", returned("x"))) == {}
    assert readable(interaction("embeddings", returned([0.1]))) == {}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (interaction("tool", returned("sun"), arguments={"city": "Paris", "n": [1, 2]}), "city=Paris, n=[1, 2] → sun"),
        (interaction("chat", returned("Hello\n  you")), "Hello you"),
        (interaction("embeddings", returned([0.1] * 9), input="text"), "text"),
        (interaction("tool", Outcome(status="raised", error=RecordedError(type="m:E", message="no"))), "E: no"),
        (step(kind="event", data={"x": 1}), "x=1"),
        (step(), ""),
        (interaction("chat", returned("long " * 100)), f"{('long ' * 100)[:140]}…"),
    ],
)  # fmt: skip
def test_summaries(record: Interaction | Step, said: str) -> None:
    """A record is told on one short line."""
    assert summary(record) == said


@pytest.mark.process
def test_page_holds_what_the_cassette_holds(recorded: Path) -> None:
    """Each record is in the page as it is stored, in order; the lines name them all."""
    cassette = open_cassette(recorded)
    index, records = data_of(write_page(Path("page.html"), recorded).read_text(encoding="utf-8"))
    assert [row.get("address") for row in index["rows"] if row["what"] != "place"]
    for record, told in zip(cassette.records(), records, strict=True):
        assert told["address"] == record.address
        if isinstance(record, Interaction):
            assert told["outcome"]["status"] == record.outcome.status
            assert told.get("offsets_ms", []) == cassette.header.volatile.timings[record.number].offsets_ms


@pytest.mark.process
def test_the_key_of_pseudonyms_stays_behind(recorded: Path) -> None:
    """A page, which is sent around, does not hold the key that pseudonyms were made with."""
    key = open_cassette(recorded).header.redaction.key
    assert key
    assert key not in write_page(Path("page.html"), recorded).read_text(encoding="utf-8")


def test_page_is_the_same_each_time(support: Path, tmp_path: Path) -> None:
    """One cassette gives the same bytes each time, and the file says what it is."""
    pages = [write_page(tmp_path / name, support).read_text(encoding="utf-8") for name in ("one.html", "two.html")]
    assert pages[0] == pages[1]
    assert is_page(pages[0])
    assert not is_page("<html>")


def test_policy_allows_the_viewer_and_nothing_else(support: Path, tmp_path: Path) -> None:
    """The page's policy names the hash of its one script and of its one sheet of styles, and no host."""
    page = write_page(tmp_path / "page.html", support).read_text(encoding="utf-8")
    elements = Elements(page)
    policy = next(attributes["content"] for attributes, _ in elements.of("meta") if "http-equiv" in attributes)
    for directive, tag in (("script-src", "script"), ("style-src", "style")):
        run = [text for attributes, text in elements.of(tag) if "type" not in attributes]
        hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run]
        assert f"{directive} {' '.join(hashes)};" in str(policy)
    assert str(policy).startswith("default-src 'none'; ")
    assert "//" not in re.sub(r"'sha256-[^']*'", "", str(policy))  # a hash may have slashes


def test_hostile_text_stays_in_its_element(tmp_path: Path) -> None:
    """A page of hostile content has the elements of any other page, and its data is ASCII without `<`, `>` and `&`."""
    page = write_page(tmp_path / "page.html", write_hostile(tmp_path / "</script><b>.yaml".replace("/", "|")))
    text = page.read_text(encoding="utf-8")
    tags = [tag for tag, _, _ in Elements(text).found if tag]
    assert tags == ["html", "head", *["meta"] * 5, "link", "title", "style", "body", "noscript", "div", *["script"] * 3]
    for _, data in [each for each in Elements(text).of("script") if "id" in each[0]]:
        assert data.isascii()
        assert not re.search("[<>&]", data)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=PLAIN, text=st.text(max_size=30).map(lambda text: f"<{text}"))
def test_any_value_comes_through(tmp_path_factory: pytest.TempPathFactory, value: Any, text: str) -> None:
    """Whatever plain data an interaction holds, a browser reads the same; great integers as their digits."""

    def exact(value: Any) -> Any:
        """Return a value with its great integers as numbers."""
        if isinstance(value, Mapping):
            if list(value) == ["$integer"] and isinstance(value["$integer"], str):
                return int(value["$integer"])
            return {key: exact(item) for key, item in value.items()}
        return [exact(item) for item in value] if isinstance(value, list) else value

    path = tmp_path_factory.mktemp("any") / "c.jsonl"
    times = Volatile(timings={1: Timing(duration_ms=1)}, steps={1: StepTiming(start_ms=0, duration_ms=1)})
    happened = step(1, text, kind="event", name=text, data=value)
    written(path, happened, interaction("tool", returned(value), arguments={text: value}), volatile=times)
    _, (event, called) = data_of(page_of([(text, open_cassette(path))], load_prices()))
    assert exact(event.get("data")) == value
    assert exact(called["outcome"].get("value")) == value
    assert exact(called["request"]["arguments"]) == {text: value}


class Row(NamedTuple):
    """A record of which only its place matters."""

    address: str
    kind: str = "call"


def lines_at(*addresses: str) -> list[Line]:
    """Return the lines of records at these addresses."""
    return lines_of(CallTree([Row(address) for address in addresses]))


def test_places_without_a_record() -> None:
    """A record lies below the nearest place around it; places that hold one thing only share its line."""
    assert lines_at(
        "Agent", "Agent/model@1/Chat", "Agent/tools@2/a/one", "Agent/tools@2/b/two", "Agent", "Other/x"
    ) == [
        Line(0, "Agent", "", 0),
        Line(1, "Chat", "model@1", 1),
        Line(None, "tools@2", "", 1),
        Line(2, "one", "a", 2),
        Line(3, "two", "b", 2),
        Line(4, "", "", 1),
        Line(5, "x", "Other", 0),
    ]


@given(st.lists(st.builds(Row, st.text("ab/", max_size=12), st.sampled_from(["call", "event"])), max_size=12))
def test_everything_is_there_once(rows: list[Row]) -> None:
    """Each record is on one line, no line is more than one deeper than the one before, whatever the addresses are."""
    lines = lines_of(CallTree(rows))
    assert sorted(line.record for line in lines if line.record is not None) == list(range(len(rows)))
    assert all(
        after.depth <= before.depth + 1 for before, after in zip([Line(None, "", "", -1), *lines], lines, strict=False)
    )


def test_a_step_that_comes_after_its_calls_takes_its_place() -> None:
    """A place that had no record when something below it was recorded gets the one that comes later."""
    assert lines_at("Agent/x", "Agent") == [Line(1, "Agent", "", 0), Line(0, "x", "", 1)]


def test_a_moment_makes_room_for_what_it_describes() -> None:
    """An event that was recorded before the step at its address lies below that step."""
    lines = lines_of(CallTree([Row("Agent", "event"), Row("Agent", "agent")]))
    assert lines == [Line(1, "Agent", "", 0), Line(0, "", "", 1)]


def test_deep_addresses_are_no_recursion() -> None:
    """An address of many thousand places makes one line."""
    (line,) = lines_at("/".join(["a"] * 5_000))
    assert (line.depth, line.label) == (0, "a")


ROOT = Path(__file__).resolve().parents[4] / "packages" / "core"
SOURCES = ROOT / "viewer"
ASSETS = ROOT / "src" / "agenttape_core" / "tools" / "viewer" / "assets"
BUILT = ("build.mjs", "package.json", "tsconfig.json")


def own_sources() -> list[str]:
    """Return what the viewer is built from, as paths below its folder."""
    own = [each.relative_to(SOURCES).as_posix() for each in (SOURCES / "src").rglob("*") if each.is_file()]
    return sorted([*BUILT, *own])


@pytest.mark.parametrize("asset", ["viewer.js", "viewer.css"])
def test_built_from_these_sources(asset: str) -> None:
    """The asset names the hash of the sources as they are: it was built after they were last changed."""
    digest = hashlib.sha256()
    for name in own_sources():
        text = (SOURCES / name).read_text(encoding="utf-8").replace("\r\n", "\n")
        digest.update(f"{name}\n{text}\n".encode())
    assert f"Sources: sha256-{digest.hexdigest()}" in (ASSETS / asset).read_text(encoding="utf-8"), "run: make viewer"


def test_nothing_but_exact_versions() -> None:
    """What it is built with is named exactly, without a lock file that would name a registry."""
    package = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))
    for version in [*package["dependencies"].values(), *package["devDependencies"].values()]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert not [each for each in SOURCES.glob("*") if "lock" in each.name or each.name.startswith(".npm")]


def test_script_makes_no_markup_and_asks_nobody() -> None:
    """The sources make elements only through Preact, and use nothing that runs text or reaches a network."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|fetch\(|XMLHttp|WebSocket|href="
    )
    for name in own_sources():
        if name.startswith("src/"):
            assert not re.search(forbidden, (SOURCES / name).read_text(encoding="utf-8")), name


def test_script_can_stand_in_a_page() -> None:
    """The script is ASCII, ends no element before its time, and holds the license of what it is built with."""
    script = (ASSETS / "viewer.js").read_text(encoding="utf-8")
    assert script.isascii()
    assert not re.search(r"</script|<!--", script, re.IGNORECASE)
    assert "Copyright (c) 2015-present Jason Miller" in script[:2_000]
    assert "</style" not in (ASSETS / "viewer.css").read_text(encoding="utf-8").lower()


TEXTS = (
    "text",
    "dim",
    "accent",
    "chat",
    "tool",
    "retrieval",
    "embeddings",
    "node",
    "http",
    "memory",
    "failed",
    "warning",
)
GROUNDS = ("bg", "panel", "hover", "sunken", "accent-bg")
PAIRS = [*product(TEXTS, GROUNDS), *((each, f"{each}-bg") for each in ("failed", "warning", "added", "removed"))]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(theme: int) -> None:
    """Each colour of text has a contrast of 4.5 and more on each ground it stands on, in light and in dark."""

    def luminance(colour: str) -> float:
        """Return how light a colour is, as WCAG 2 defines it."""
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one: str, other: str) -> float:
        """Return the contrast of two colours, as WCAG 2 defines it."""
        dark, light = sorted((luminance(one), luminance(other)))
        return (light + 0.05) / (dark + 0.05)

    styles = (SOURCES / "src" / "style.css").read_text(encoding="utf-8")
    colours = {name: both.split(", ")[theme] for name, both in re.findall(r"--([\w-]+): light-dark\((.+?)\);", styles)}
    assert [(text, ground) for text, ground in PAIRS if contrast(colours[text], colours[ground]) < 4.5] == []
