"""The documentation is a site that needs nothing but itself: `make site` builds it, a browser reads it from disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")
FETCHED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="?(?:https?:)?//[^>]*>')
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MODULES = re.findall(r"^## (agenttape\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The site, built as `make site` builds it, but only at night with the docstrings: they take most of the time."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DOCS_API": str(pytestconfig.getoption("night")).lower()}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def page(site: Path) -> Iterator[Any]:
    """A page in a browser, which remembers what it asked of the network and what went wrong in it."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, "--disable-component-update"])
        opened = browser.new_page()
        opened.wrong = []
        opened.on("request", lambda asked: opened.wrong.append(asked.url) if asked.url.startswith("http") else None)
        opened.on("console", lambda said: opened.wrong.append(said.text) if said.type == "error" else None)
        opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
        yield opened
        browser.close()


def test_every_page_is_built(site: Path) -> None:
    """The strict build passes; the navigation reaches each page of the docs, and their index each decision."""
    home = (site / "index.html").read_text(encoding="utf-8")
    decisions = (site / "design" / "index.html").read_text(encoding="utf-8")
    for source in PAGES:
        built = source.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / built).is_file()
        assert f'href="{built}"' in home or f'href="{source.stem}.html"' in decisions


def test_coding_agents_find_the_pages(site: Path) -> None:
    """llms.txt lists every page of the navigation, each a file of Markdown on the site, and says what most are for."""
    listed = re.findall(
        r"^- \[[^]]+\]\(([^)]+)\)(: .+)?$", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {"overview.md", "pytest.md", "cli.md", "design/index.md"} <= {page for page, _ in listed}
    assert sum(bool(purpose) for _, purpose in listed) > len(listed) * 3 / 4
    for page, _ in listed:
        assert (site / page).read_text(encoding="utf-8").startswith("# ")


@pytest.mark.night
def test_every_public_name_is_documented(site: Path) -> None:
    """What a public module exports has a section on the page about the API, once, whichever modules export it."""
    anchors = set(re.findall(r'id="(agenttape_\w+\.[\w.]+)"', (site / "api.html").read_text(encoding="utf-8")))
    exports = [
        (module, name, getattr(import_module(module), name))
        for module in MODULES
        for name in import_module(module).__all__
    ]
    homes: dict[int, set[str]] = {}
    for module, name, value in exports:
        home = f"{getattr(value, '__module__', module)}.".split(".")  # shown there where a module has its name
        places = {module, *(".".join(home[:end]) for end in range(1, len(home)))}
        homes.setdefault(id(value), set()).update(f"{place}.{name}" for place in places)
    missing = [f"{module}.{name}" for module, name, value in exports if anchors.isdisjoint(homes[id(value)])]
    assert [name for name in missing if not name.startswith("agenttape_core.storage.")] == []


def test_pages_beside_the_docs_are_on_the_site(site: Path) -> None:
    """The README and the examples are pages, and their links lead to pages."""
    assert 'href="pytest.html"' in (site / "overview.html").read_text(encoding="utf-8")
    assert 'href="../pytest.html"' in (site / "examples" / "pytest_project.html").read_text(encoding="utf-8")
    assert 'href="examples/pytest_project.html"' in (site / "pytest.html").read_text(encoding="utf-8")


def test_nothing_is_fetched(site: Path) -> None:
    """No page has a script, a style, an image or a font of another server."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert [found for page in pages for found in FETCHED.findall(page.read_text(encoding="utf-8"))] == []


def test_what_fences_tell_the_tests_is_not_shown(site: Path) -> None:
    """A block has no settings for the tests of the docs on it, and the name of its file above it."""
    assert [page.name for page in site.rglob("*.html") if "{project=" in page.read_text(encoding="utf-8")] == []
    assert '<span class="filename">agent.py</span>' in (site / "tutorial.html").read_text(encoding="utf-8")


def test_it_can_be_searched_from_a_folder(site: Path, page: Any) -> None:
    """Without a server and without a network, the search finds a page by a word in it."""
    page.goto((site / "design" / "0001-cassette-format.html").as_uri())
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("rehydrate")
    page.locator(".md-search-result__item", has_text="Glossary").first.wait_for(timeout=20_000)
    assert page.wrong == []
