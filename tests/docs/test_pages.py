"""What the pages say besides Python: commands of `make` that exist, links that lead somewhere, words that are ours."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttape_core.errors
from agenttape_core.matching.run_ids import RUN_SPECIFIC_ID

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
MAKE = re.compile(r"(?:^\$ |^|`)make ([a-z]+)\b(?!=)", re.MULTILINE)


def name_of(page: Path) -> str:
    """Return the path of a page inside the repository."""
    return page.relative_to(ROOT).as_posix()


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_of(text: str) -> set[str]:
    """Return the commands of `make` that a page tells the reader to type, in shell blocks and between backticks."""
    shell = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    prose = " ".join(re.findall(r"(`make [a-z]+)\b", FENCED.sub("", text)))
    return {subcommand for part in (shell, prose) for subcommand in MAKE.findall(part)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_make_commands_lead_somewhere(page: Path) -> None:
    """Each link to a file or a heading of this repository resolves, and each `make` command is a target."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert commands_of(page.read_text(encoding="utf-8")) <= targets
    for link in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link["target"].partition("#")
        if "://" in target:
            continue
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{name_of(page)} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors_of(linked), f"{name_of(page)} links to #{anchor}, which {name_of(linked)} lacks"


@pytest.mark.parametrize("framework", ["langchain", "langgraph", "llamaindex"])
def test_a_framework_page_begins_with_forty_lines_that_are_enough(framework: str) -> None:
    """Each of these pages has "Start here" as its first section: installation, a recording and its replay."""
    page = (ROOT / f"docs/{framework}.md").read_text(encoding="utf-8")
    first, section, *_ = re.split(r"^## (?=[A-Z])", page, flags=re.MULTILINE)
    assert len(first.splitlines()) <= 5
    assert section.startswith("Start here\n")
    assert len(section.splitlines()) <= 40
    assert all(word in section for word in ("pip install", 'mode="once"', "cassette.report", "(pytest.md)"))


def test_names_are_where_their_links_lead() -> None:
    """A name that is linked to a module is a function or a class of it: pages that walk through the code stay true."""
    seen = 0
    for page in PAGES:
        for name, target in re.findall(r"\[`([\w.]+)`\]\(([^)\s]+\.py)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / target).resolve().read_text(encoding="utf-8")
            for part in name.split("."):
                assert re.search(rf"^ *(?:async )?(?:def|class) {part}\b", text, re.MULTILINE), f"{name} in {target}"
            seen += 1
    assert seen


def test_every_make_verb_is_explained() -> None:
    """The page for contributors names each command that `make help` lists."""
    listed = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands_of((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) >= set(listed)


def test_every_error_is_explained() -> None:
    """The page about errors has a heading for each error that the library can raise."""
    page = ROOT / "docs" / "errors.md"
    classes = {name: each for name, each in vars(agenttape_core.errors).items() if isinstance(each, type)}
    raised = {name.lower() for name, each in classes.items() if issubclass(each, BaseException)}
    assert raised - anchors_of(page) == set()


def test_every_page_is_reachable_from_the_index() -> None:
    """Every page of the docs is at most two clicks away from the home page, each decision from the list of them."""

    def linked_from(page: Path) -> set[Path]:
        """Return the pages that a page links to."""
        targets = (link["target"].partition("#")[0] for link in LINK.finditer(page.read_text(encoding="utf-8")))
        return {
            path for target in targets if (path := (page.parent / target).resolve()).suffix == ".md" and path.exists()
        }

    home, decisions = ROOT / "docs" / "index.md", ROOT / "docs" / "design" / "index.md"
    first = linked_from(home)
    near = first.union(*map(linked_from, first)) | {home}
    assert set((ROOT / "docs").glob("*.md")) - near == set()
    assert set((ROOT / "docs").rglob("design/*.md")) - linked_from(decisions) == {decisions}
    assert len(first) < 40, "a home page is no list"


def test_no_page_names_a_machine() -> None:
    """No page holds a path of the machine that it was written on."""
    place = re.compile(r"(?<![\w./])/(?:tmp|home|root|work|Users)/")
    assert [name_of(page) for page in PAGES if place.search(page.read_text(encoding="utf-8"))] == []


UUID = "3f2b8c1e-9a4d-4c7b-8e5f-0a1b2c3d4e5f"
PIECES = (
    UUID,
    UUID.upper(),
    UUID.replace("-", ""),
    UUID.replace("-", "").upper(),
    "\\n",
    "\\\\",
    "\\u00e9",
    "z",
    "0",
    "-",
    " ",
)


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_run_specific_ids_are_specified(text: str) -> None:
    """The expression on the page about fingerprints finds the ids that the library finds."""
    page = (ROOT / "docs" / "fingerprint.md").read_text(encoding="utf-8")
    printed = re.search(r"^```text\n(.*)\n```$", page, re.MULTILINE)
    assert printed is not None
    assert re.findall(printed[1], text) == RUN_SPECIFIC_ID.findall(text)


def test_every_layer_is_explained() -> None:
    """The page for contributors lists the layers of core as the linter checks them, top to bottom."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = settings["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["agenttape_core"])
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| floor | room |")[2].partition("\n\n")[0]
    rooms = [re.findall(r"`(\w+)[.\w]*`", row.split("|")[2])[0] for row in page.splitlines()[2:]]
    floor_of = {room: number for number, floor in enumerate(layers) for room in floor.split(" : ")}
    assert [floor_of[room] for room in rooms] == sorted(floor_of[room] for room in rooms)
    assert set(rooms) == set(floor_of)
