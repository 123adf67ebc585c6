"""What the pages say besides Python: commands of `make` that exist, links that lead somewhere, words that are ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import agenttape_core.errors

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
    """Return the verbs of `make` that a page tells the reader to type, in shell blocks and between backticks."""
    shell = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    prose = " ".join(re.findall(r"(`make [a-z]+)\b", FENCED.sub("", text)))
    return {verb for part in (shell, prose) for verb in MAKE.findall(part)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file or a heading of this repository resolves."""
    for link in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link["target"].partition("#")
        if "://" in target:
            continue
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{name_of(page)} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors_of(linked), f"{name_of(page)} links to #{anchor}, which {name_of(linked)} lacks"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_verbs_exist(page: Path) -> None:
    """Each `make` command that a page names is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert commands_of(page.read_text(encoding="utf-8")) <= targets


def test_every_make_verb_is_explained() -> None:
    """The page for contributors names each verb that `make help` lists."""
    listed = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands_of((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) >= set(listed)


def test_every_error_is_explained() -> None:
    """The page about errors has a heading for each error that the library can raise."""
    page = ROOT / "docs" / "errors.md"
    raised = {name.lower() for name, cls in vars(agenttape_core.errors).items() if isinstance(cls, type)}
    assert raised - anchors_of(page) == set()


def test_every_page_is_reachable_from_the_index() -> None:
    """The index of the docs links to every other page of them."""
    index = ROOT / "docs" / "index.md"
    text = index.read_text(encoding="utf-8")
    linked = {(index.parent / link["target"].partition("#")[0]).resolve() for link in LINK.finditer(text)}
    assert set((ROOT / "docs").rglob("*.md")) - {index} <= linked


def test_no_page_names_a_machine() -> None:
    """No page holds a path of the machine that it was written on."""
    for page in PAGES:
        assert not re.search(r"(?<![\w./])/(?:tmp|home|root|work|Users)/", page.read_text(encoding="utf-8")), name_of(page)
