"""The page in a browser: what a person sees and does. Each test ends with a check that nothing went wrong in it."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agenttape_core.integration import Outcome
from agenttape_core.storage import open_cassette

from .conftest import Opened
from .showcase import ANSWER, HOSTILE, QUESTION, Book, returned, write_hostile, write_long, write_showcase

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

pytestmark = pytest.mark.process


def sections(page: Any, title: str) -> Any:
    """Return the parts of a record under a heading."""
    return page.locator("details.section", has=page.get_by_role("heading", name=title, exact=True, level=3))


def selected(page: Any) -> Any:
    """Return the selected line."""
    return page.locator("[role=treeitem][aria-selected=true]")


def press(page: Any, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        page.keyboard.press(key)


def test_each_kind_of_cassette(opened: Opened, recorded: Path) -> None:
    """Every record of a cassette of any framework can be come to by the keyboard, and is shown with its number."""
    records = list(open_cassette(recorded).records())
    page = opened(recorded)
    page.get_by_role("tree").focus()
    press(page, "Home")
    shown = set()
    for _ in range(page.get_by_role("treeitem").count()):
        if page.locator(".head .number").count():
            shown.add(page.locator(".head .number").inner_text())
        press(page, "ArrowDown")
    assert shown == {f"{'interaction' if hasattr(each, 'outcome') else 'step'} {each.number}" for each in records}


def test_what_was_said_is_readable(opened: Opened, support: Path) -> None:
    """A call of a model shows its messages, the tools it asked for, tokens and cost; earlier messages are folded."""
    page = opened(support, at="#/interaction/5")
    expect(page.locator(".head")).to_contain_text("204 → 21 tokens")
    expect(page.locator(".head")).to_contain_text("$0.0")
    expect(sections(page, "Answer").locator(".call")).to_contain_text("refund")
    expect(sections(page, "New messages").locator(".message")).to_have_count(1)
    earlier = sections(page, "Earlier messages")
    expect(earlier).to_contain_text("2, as in interaction 1")
    earlier.locator("summary").first.click()
    expect(earlier).to_contain_text(QUESTION)
    cassette = sections(page, "The cassette")
    cassette.locator("summary").first.click()
    expect(cassette).to_contain_text("2026-11-21T09:30:00Z")


def test_documents_numbers_and_errors_are_readable(opened: Opened, support: Path) -> None:
    """Retrieved documents are texts, an embedding says how long it is, and an error says its class and message."""
    page = opened(support, at="#/interaction/3")
    expect(sections(page, "Result").locator("li")).to_have_count(2)
    page.goto(f"{page.url.partition('#')[0]}#/interaction/4")
    expect(sections(page, "Result")).to_contain_text("256 numbers")
    page.goto(f"{page.url.partition('#')[0]}#/interaction/6")
    expect(sections(page, "Result")).to_contain_text("ConnectionError")
    expect(sections(page, "Result")).to_contain_text("the bank does not answer")


def test_timeline(opened: Opened, support: Path) -> None:
    """Bars stand where calls happened: parallel ones overlap, and later ones are further right."""
    page = opened(support)
    bars = {
        row.locator(".label").inner_text(): row.locator(".bar").bounding_box()
        for row in page.get_by_role("treeitem").all()
    }
    order, policy, agent = (bars[f"{name}"] for name in ("order@2", "policy@2", "agent@3"))
    assert abs(order["x"] - policy["x"]) < 3
    assert policy["width"] > order["width"]
    assert agent["x"] >= policy["x"] + policy["width"] - 3
    page.get_by_role("tree").focus()
    page.locator("#row-4").click()
    press(page, "z")
    assert page.locator("#row-4 .bar").bounding_box()["width"] > 5 * order["width"]


def test_stream_plays_as_it_was_recorded(opened: Opened, support: Path) -> None:
    """A stream plays with the recorded times: nothing before the first chunk, all at its end, then twice as fast."""
    (timing,) = [each for each in open_cassette(support).header.volatile.timings.values() if each.offsets_ms]
    page = opened(support, at="#/interaction/8", stopped=True)
    answer, clock = sections(page, "Answer"), page.locator(".clock")
    expect(answer).to_contain_text(ANSWER)
    press(page, " ")
    page.clock.run_for(timing.offsets_ms[0] - 60)
    expect(clock).to_contain_text("0/17 chunks")
    page.clock.run_for(300)
    told = int(clock.inner_text().partition("· ")[2].partition("/")[0])
    assert sum(offset < timing.offsets_ms[0] + 200 for offset in timing.offsets_ms) <= told < 10
    words = ANSWER.split(" ")[: 2 * told]
    expect(answer.locator("p.said")).to_have_text(" ".join(words))
    press(page, " ")
    page.clock.run_for(5_000)
    expect(clock).to_contain_text(f"{told}/17 chunks")
    answer.locator("select").select_option("2")
    answer.get_by_role("button", name="Play").click()
    page.clock.run_for((timing.offsets_ms[-1] - timing.offsets_ms[0]) / 2)
    expect(clock).to_contain_text("17/17 chunks")
    expect(answer).to_contain_text(ANSWER)
    answer.get_by_role("slider").fill("0")
    expect(clock).to_contain_text("0/17 chunks")


def test_state_of_the_graph(opened: Opened, support: Path) -> None:
    """The state is shown after each step, with what the step changed, and is walked through in both directions."""
    page = opened(support, at="#/step/2")
    state = sections(page, "State of the graph")
    expect(state).to_contain_text("step 1 of 7")
    expect(state.locator(".channels > div.wrote > dt")).to_have_text(re.compile("^topic"))
    press(page, "]")
    expect(state.locator(".channels > div.wrote > dt")).to_have_text(re.compile("^order"))
    expect(state).to_contain_text("Desk lamp, brass")
    state.get_by_role("button", name="policy@2").click()
    press(page, "]", "]", "]", "]")
    expect(selected(page).locator(".label")).to_have_text("answer@5")
    expect(state.locator(".message")).to_have_count(4)
    expect(state.locator(".message").last).to_contain_text(ANSWER)
    press(page, "[", "[", "[")
    expect(selected(page).locator(".label")).to_have_text("agent@3")
    expect(state.locator(".message")).to_have_count(2)
    press(page, "[", "[", "[", "[")
    expect(state.get_by_role("button", name="first step")).to_be_disabled()


def test_state_of_a_workflow(opened: Opened, tmp_path: Path) -> None:
    """The state of a LlamaIndex workflow is made of the changes that its ticks tell."""
    book = Book()
    book.step("chain", "W", 0, 9, input={"event": "StartEvent"})
    items = (
        {"plan": {"$to": ["one"]}, "topic": "rain"},
        {"plan": {"$items": {"#1": "two"}}, "topic": "y"},
        {"topic": {"$gone": True}},
    )
    states = [{"$in": {"state_data": {"$in": {"_data": {"$in": item}}}}} for item in items]
    for at, state in enumerate([{"$to": {"state_type": "DictState", "state_data": {"_data": {}}}}, *states]):
        book.step("checkpoint", "W", at, 1, data={"tick": "step_result", "state": state})
    page = opened(book.write(tmp_path / "workflow.yaml"), at="#/step/1")
    state = sections(page, "State of the graph").locator(".channels > div")
    press(page, "]", "]")
    expect(state).to_have_text(["plan1 item, written hereone", "topicwritten hererain"])
    press(page, "]")
    expect(state).to_have_text(["plan2 items, written hereonetwo", "topicwritten hererainy"])
    press(page, "]")
    expect(state).to_have_text(["plan2 itemsonetwo"])
    press(page, "[", "[")
    expect(state).to_have_text(["plan1 item, written hereone", "topicwritten hererain"])


def test_search(opened: Opened, support: Path) -> None:
    """A search looks into all fields of all records, takes phrases and facts, and lists what it found."""
    searches = {
        "desk lamp": 5,
        '"broken lamp"': 4,
        "kind:tool is:failed": 1,
        "model:gpt-5 kind": 1,
        "address:policy@2": 3,
        "tool_call_id": 2,
        "-0.1337": 1,
        "offsets": 0,
        "zebra": 0,
    }

    page = opened(support)
    for query, found in searches.items():
        press(page, "/")
        page.keyboard.type(query)
        expect(page.locator(".found")).to_have_text(f"{found} found")
        expect(page.locator(".line:not(.around)")).to_have_count(found)
        press(page, "Escape")
        expect(page.locator(".line")).to_have_count(16)


def test_finds_are_walked_through(opened: Opened, support: Path) -> None:
    """`n` and `N` go from find to find; the address of the page names the search and the line."""
    page = opened(support, at="#/step/1")
    page.get_by_role("searchbox").fill("refund kind:tool")
    expect(page.locator(".found")).to_have_text("2 found")
    press(page, "Enter")
    expect(page).to_have_url(re.compile(r"#/interaction/6\?search=refund%20kind%3Atool$"))
    press(page, "n")
    expect(page).to_have_url(re.compile("#/interaction/7"))
    press(page, "N")
    expect(page).to_have_url(re.compile("#/interaction/6"))


def test_links_lead_to_their_place(opened: Opened, support: Path) -> None:
    """An address with a place opens it, also while the page is open; one that names nothing is no harm."""
    page = opened(support, at="#/step/3")
    expect(page.locator(".head .number")).to_have_text("step 3")
    page.goto(f"{page.url.partition('#')[0]}#/search/brass")
    expect(page.get_by_role("searchbox")).to_have_value("brass")
    page.goto(f"{page.url.partition('#')[0]}#/interaction/2")
    expect(page.locator(".head .number")).to_have_text("interaction 2")
    page.goto(f"{page.url.partition('#')[0]}#/interaction/999")
    expect(page.locator(".head .number")).to_have_text("interaction 2")


def test_a_click_says_why(opened: Opened, support: Path) -> None:
    """A selected call shows whose answers move it and what its own moves; each is a way to the other call."""
    edges = [
        {"from": 1, "to": 5, "way": "data", "at": ["messages[2].content"]},
        {"from": 3, "to": 5, "way": "route", "at": []},
        {"from": 5, "to": 0, "way": "data", "at": []},
    ]
    page = opened(support, at="#/interaction/5", flow={"edges": edges, "fixed": [4]})
    expect(sections(page, "Moved by")).to_contain_text("2 answers")
    expect(sections(page, "Moved by")).to_contain_text("messages[2].content")
    expect(sections(page, "Moved by")).to_contain_text("through a route")
    expect(sections(page, "Moves")).to_contain_text("the result")
    sections(page, "Moved by").get_by_role("button").first.click()
    expect(page.locator(".head .number")).to_have_text("interaction 1")
    expect(sections(page, "Moved by")).to_contain_text("No recorded answer moves its request.")
    page.goto(f"{page.url.partition('#')[0]}#/interaction/4")
    expect(sections(page, "Moves")).to_contain_text("nothing in its answer that could be another")


def test_two_runs(opened: Opened, support: Path, changed: Path) -> None:
    """Two runs stand side by side: it begins where they part, with the words marked that differ on either side."""
    page = opened(support, changed)
    expect(page.get_by_label("comparison of the two runs")).to_contain_text(
        "8 same·6 changed·2 only in A".replace("·", "")
    )
    expect(page.locator(".head .number")).to_have_text("interaction 1 / 1")
    first, other = page.locator(".beside > .run").all()
    assert first.locator("del").all_inner_texts() == ["kind"]
    assert "".join(other.locator("ins").all_inner_texts()) == ",never promise a date"
    expect(first.locator("ins")).to_have_count(0)
    press(page, ".")
    expect(page.locator(".head .number")).to_have_text("interaction 5 / 5")
    press(page, ".", ".", ".")
    expect(page.locator(".beside > .run").last).to_contain_text("There is no such step in this run.")
    press(page, ",", "d")
    expect(page.locator(".head .number")).to_have_text("interaction 1 / 1")
    press(page, "Space")
    page.get_by_role("searchbox").fill("is:only")
    expect(page.locator(".found")).to_have_text("2 found")


def test_only_the_other_run_can_be_linked_to(opened: Opened, support: Path, changed: Path) -> None:
    """What only the second run has is named by its number there; two equal runs are said to be the same."""
    page = opened(changed, support)
    page.get_by_role("searchbox").fill("is:only kind:tool")
    expect(page.locator(".found")).to_have_text("1 found")
    press(page, "Enter")
    expect(page).to_have_url(re.compile(r"#/other/interaction/\d+\?"))
    page = opened(support, support)
    expect(page.get_by_label("comparison of the two runs")).to_contain_text("The runs are the same.")
    expect(page.locator("ins, del, .differs")).to_have_count(0)
    expect(page.get_by_role("button", name="First divergence")).to_have_count(0)


def test_keys(opened: Opened, support: Path) -> None:
    """Lines are walked, folded and opened by keys, the help lists them, and keys that are typed are text."""
    page = opened(support, at="#/step/1")
    page.get_by_role("tree").focus()
    press(page, "ArrowLeft")
    expect(page.get_by_role("treeitem")).to_have_count(1)
    press(page, "ArrowRight", "ArrowRight")
    expect(selected(page).locator(".label")).to_have_text("triage@1")
    press(page, "End")
    expect(selected(page).locator(".label")).to_have_text("ChatOpenAI")
    press(page, "Enter")
    expect(page.locator("#detail")).to_be_focused()
    press(page, "Escape")
    expect(page.get_by_role("tree")).to_be_focused()
    press(page, "?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous step of the graph")
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press(page, "/", "j", "?", "z")
    expect(page.get_by_role("searchbox")).to_have_value("j?z")


def test_pointer(opened: Opened, support: Path) -> None:
    """A line is chosen and folded by clicking, and the border between the panes is moved."""
    page = opened(support)
    page.locator("#row-3").click()
    expect(page.locator(".head h2")).to_contain_text("order@2")
    page.locator("#row-0 .twist").click()
    expect(page.get_by_role("treeitem")).to_have_count(1)
    wide = page.locator(".tree-pane").bounding_box()["width"]
    page.get_by_role("separator").focus()
    press(page, "ArrowLeft", "ArrowLeft")
    assert page.locator(".tree-pane").bounding_box()["width"] < wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_and_light(opened: Opened, support: Path, scheme: str) -> None:
    """The page is as dark as the system asks for, until somebody chooses."""
    page = opened(support, color_scheme=scheme)

    def is_dark() -> bool:
        colour = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        return int(re.findall(r"\d+", colour)[0]) < 100

    assert is_dark() is (scheme == "dark")
    press(page, "t")
    assert not is_dark()
    press(page, "t")
    assert is_dark()


@pytest.mark.parametrize("width", [420, 860])
def test_narrow_windows(opened: Opened, support: Path, width: int) -> None:
    """In a narrow window the panes stand below each other and nothing is wider than the window."""
    page = opened(support, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tree, detail = page.locator(".tree-pane").bounding_box(), page.locator("#detail").bounding_box()
    assert detail["y"] >= tree["y"] + tree["height"] - 1


def test_a_thousand_calls(opened: Opened, tmp_path: Path) -> None:
    """Of a long run only the lines in sight are in the document; searching it and going to its end works."""
    page = opened(write_long(tmp_path / "long.jsonl", 1_000))
    assert page.evaluate("document.querySelectorAll('*').length") < 1_500
    assert page.evaluate("performance.memory.usedJSHeapSize") < 60_000_000
    page.get_by_role("searchbox").fill('"needle 499"')
    expect(page.locator(".found")).to_have_text("1 found")
    press(page, "Enter", "Escape", "End")
    expect(page.locator(".head .number")).to_have_text("interaction 1000")
    expect(selected(page)).to_be_in_viewport()
    page.goto(f"{page.url.partition('#')[0]}#/interaction/999")
    expect(selected(page)).to_be_in_viewport()
    expect(page.locator(".head h2")).to_contain_text("ChatOpenAI")


def test_hostile_cassette(opened: Opened, tmp_path: Path) -> None:
    """Whatever a cassette holds is shown as text: no script, dialog, link, picture or request comes of it."""
    page = opened(write_hostile(tmp_path / "hostile.yaml"))
    own = page.locator("script").count()
    page.get_by_role("tree").focus()
    press(page, "Home")
    for _ in range(page.get_by_role("treeitem").count()):
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        press(page, "j")
    page.goto(f"{page.url.partition('#')[0]}#/interaction/1")
    expect(sections(page, "Answer")).to_contain_text(HOSTILE[0])
    page.goto(f"{page.url.partition('#')[0]}#/search/{HOSTILE[1]}")
    page.get_by_role("searchbox").fill(HOSTILE[0])
    expect(page.locator(".found")).to_contain_text("found")
    assert page.locator("script").count() == own
    assert page.locator("a, iframe, object, embed, form[action], [onclick], [onerror], [onload], img").count() == 0
    assert page.evaluate("({}).polluted === undefined && !('ran' in window)")


def test_hidden_characters_are_shown(opened: Opened, tmp_path: Path) -> None:
    """Characters that reorder, hide or control are spelled out, in lines, titles and texts."""
    page = opened(write_hostile(tmp_path / "hostile.yaml"), at="#/interaction/16")
    answer = sections(page, "Answer").locator("p.said")
    assert answer.locator(".hidden-char").all_inner_texts() == [
        "\\u202e",
        "\\u2066",
        "\\u200b",
        "\\u{e0041}",
        "\\u{e0042}",
    ]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\u200b]", page.locator("body").inner_text())
    labels = page.locator("[aria-label]").evaluate_all(
        "all => all.map((each) => each.getAttribute('aria-label')).join()"
    )
    assert "\u202e" not in labels


def test_pictures_and_great_numbers(opened: Opened, tmp_path: Path) -> None:
    """A picture in a message is shown, of a kind that can hold no script; a great number keeps its digits.

    A cassette without records opens and says so.
    """
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{dot}"}}
    book = Book()
    request = {"messages": [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}]}
    book.call("chat", "model", (0, 1), request, returned({"seen": 2**70}))
    page = opened(book.write(tmp_path / "picture.yaml"))
    assert page.locator("img").evaluate("image => image.naturalWidth") == 1
    expect(sections(page, "Answer")).to_contain_text(str(2**70))
    page = opened(Book().write(tmp_path / "empty.yaml"))
    expect(page.get_by_text("This cassette is empty.")).to_be_visible()
    press(page, "j", "]", "z", "n", ".", "d", "Enter", "ArrowRight", "ArrowLeft")


def test_a_refused_call_says_what_the_model_has_read(opened: Opened, tmp_path: Path) -> None:
    """A call that left the recorded world has a badge, and its result is the words that the model has read."""
    book = Book()
    refused = Outcome(status="refused", value="The tool is not available.")
    book.call("tool", "weather", (0, 1), {"name": "weather", "arguments": {"city": "Rome"}}, refused)
    page = opened(book.write(tmp_path / "refused.yaml"), at="#/interaction/1")
    expect(selected(page)).to_contain_text("refused")
    expect(sections(page, "Arguments")).to_contain_text("Rome")
    expect(sections(page, "Result")).to_contain_text("not executed: nothing like it was recorded")
    expect(sections(page, "Result").locator(".said")).to_have_text("The tool is not available.")


def test_ticks_tell_the_state_and_are_no_lines(tmp_path: Path, opened: Opened) -> None:
    """The list has the agent and its step; the step shows the state after it, with the event itself in it."""
    event = {"$to": {"event": {"$event": 1}}}
    begun = [{"n": 1, "event": "m.Start", "value": {"$to": {"value": {"city": "Oslo"}}}}]
    seen = {"$to": {"state_data": {"_data": {"seen": [{"$event": 1}]}}}}
    book = Book()
    book.step("agent", "Agent.run", 0, 1)
    added = {"tick": "add_event", "seq": 1, "value": event, "events": begun}
    book.step("checkpoint", "Agent.run", 0, 1, name="Start", data=added)
    book.step("node", "Agent.run/Agent.look", 0, 1)
    looked = {"tick": "step_result", "seq": 2, "value": event, "state": seen}
    book.step("checkpoint", "Agent.run", 0, 1, name="look", data=looked)
    tab = opened(book.write(tmp_path / "ticks.jsonl"))
    kinds = tab.locator(".tree [role=treeitem] .kind").all_inner_texts()
    assert kinds == ["agent", "node"]
    tab.locator(".tree [role=treeitem]", has_text="look").click()
    shown = tab.locator(".channels.state").inner_text()
    assert "Start" in shown
    assert "Oslo" in shown
    assert "$event" not in tab.locator("body").inner_text()


AXE = Path(__file__).resolve().parents[4] / "packages/core/viewer/node_modules/axe-core/axe.min.js"


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.night), "dark"])
def test_accessibility(opened: Opened, support: Path, changed: Path, scheme: str) -> None:
    """Axe finds nothing in a page, in one of two runs, or in its help; roles, names, order and contrast among it."""

    def problems(page: Any, axe: str) -> list[str]:
        """Return what axe finds, with where it is."""
        page.evaluate(axe)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        return [
            f"{each['id']}: {node['html'][:160]} {node['failureSummary']}" for each in found for node in each["nodes"]
        ]

    if not AXE.exists():
        pytest.skip("axe-core is not here; run: make viewer")
    axe = AXE.read_text(encoding="utf-8")
    page = opened(support, at="#/interaction/8", color_scheme=scheme, bypass_csp=True)
    assert problems(page, axe) == []
    page.keyboard.press("?")
    assert problems(page, axe) == []
    assert problems(opened(support, changed, color_scheme=scheme, bypass_csp=True), axe) == []


PARTS = ("calls and steps", "width of the tree", "Differences", "Messages", "Answer", "State of the graph")


def test_everything_has_a_name_and_can_be_come_to(opened: Opened, support: Path, changed: Path) -> None:
    """Tab leads through all controls in the order of the page, each with a name, and out of every one of them."""
    page = opened(support, changed)
    order = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(() => { const at = document.activeElement; return at === document.body ? null"
            " : at.getAttribute('aria-label') || at.innerText || at.closest('label')?.innerText || '' })()"
        )
        if name is None:
            break
        order.append(name.strip())
    assert "" not in order
    assert order[:4] == ["search all fields", "theme: auto", "keys and help", "First divergence"]
    rest = [next(at for at, name in enumerate(order) if name.startswith(start)) for start in PARTS]
    assert rest == sorted(rest)


def test_motion_is_reduced_where_it_is_not_wanted(opened: Opened, support: Path) -> None:
    """Nothing moves by itself for a reader who prefers reduced motion."""
    page = opened(support, reduced_motion="reduce")
    assert page.locator(".line").first.evaluate("line => getComputedStyle(line).transitionDuration") == "0s"


IMAGES = Path(__file__).resolve().parents[4] / "docs" / "images"
VIEWS = {
    "viewer-light": (False, "#/interaction/8", "light", (1280, 780)),
    "viewer-dark": (False, "#/step/8", "dark", (1280, 780)),
    "viewer-two-runs": (True, "", "light", (1280, 780)),
}
"""The pictures of the docs; `pytest tests/core/tools/viewer/test_page.py --night --update-examples` takes them anew."""
LATER = ("viewer-dark", "viewer-two-runs")
MOST = 150_000
"""Bytes of a picture."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["viewer-light", *(pytest.param(each, marks=pytest.mark.night) for each in LATER)])
def test_pictures_of_the_docs(opened: Opened, tmp_path: Path, request: pytest.FixtureRequest, name: str) -> None:
    """Each view can be photographed at the size of the docs, and the docs have a picture of that size that is small."""
    both, at, scheme, size = VIEWS[name]
    runs = [write_showcase(tmp_path / "support.yaml"), write_showcase(tmp_path / "support-new.yaml", another=True)]
    page = opened(*runs[: 1 + both], at=at, color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    kept = IMAGES / f"{name}.png"
    taken = page.screenshot(animations="disabled")
    if request.config.getoption("update_examples"):
        # A third of the bytes that a browser writes, for a repository that keeps them.
        Image.open(BytesIO(taken)).convert("RGB").quantize(256).save(kept, optimize=True)
    assert len(kept.read_bytes()) < MOST
    for content in (taken, kept.read_bytes()):
        assert [int.from_bytes(content[start : start + 4]) for start in (16, 20)] == list(size)
