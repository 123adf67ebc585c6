"""Pages of cassettes, opened in a headless Chromium that must not complain, ask, run or load anything else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.matching import Ignored
from agenttape_core.results import Comparison
from agenttape_core.storage import open_cassette
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.viewer import page_of

from ...cli.conftest import command, folder, kind, kinds, recorded, weather
from .showcase import write_showcase

__all__ = ["command", "folder", "kind", "kinds", "recorded", "weather"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",
    "--enable-precise-memory-info",
)
Opened = Callable[..., Any]


def write_page(target: Path, *cassettes: Path, flow: Any = None) -> Path:
    """Write the page of a cassette, or of two; of one, with the edges between its calls."""
    opened = [(each.name, open_cassette(each)) for each in cassettes]
    comparison = None
    if len(opened) > 1:
        comparison = Comparison(opened[0][1], opened[1][1], Ignored.of(()))
    target.write_text(page_of(opened, load_prices(), comparison, flow), encoding="utf-8")
    return target


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, for all tests of a module: while it is open, no other event loop can run in its thread."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here; install the package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


class Tabs:
    """Tabs of a browser, and what went wrong in them.

    Args:
        browser: The browser.
    """

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._usual: Any = None
        self.wrong: list[str] = []
        self.page = "about:blank"

    def tab(self, **options: Any) -> Any:
        """Return a tab: the usual one, or one of its own for a browser that is set otherwise."""
        if options:
            return self._new(**options)
        self._usual = self._usual or self._new()
        return self._usual

    def _new(self, **options: Any) -> Any:
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        context.on("console", lambda said: self.wrong.append(f"console {said.text}"))
        context.on("weberror", lambda error: self.wrong.append(f"error {error.error}"))
        context.on("request", self._asked)
        return context.new_page()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.page, "about:", "data:image/png;base64,")):
            self.wrong.append(request.url)


@pytest.fixture(scope="module")
def tabs(browser: Any) -> Tabs:
    """The tabs of a module."""
    return Tabs(browser)


@pytest.fixture
def opened(tabs: Tabs, tmp_path: Path) -> Iterator[Opened]:
    """Write the page of cassettes and open it; at the end, nothing must have gone wrong in it."""
    own: list[Any] = []

    def opened(*cassettes: Path, at: str = "", stopped: bool = False, flow: Any = None, **options: Any) -> Any:
        name = f"{'-'.join(each.stem for each in cassettes)}.html"
        tabs.page = write_page(tmp_path / name, *cassettes, flow=flow).as_uri()
        if stopped:  # the clock of a tab cannot be set back
            options["locale"] = "en"
        tab = tabs.tab(**options)
        if options:
            own.append(tab.context)
        if stopped:
            tab.clock.install(time=0)
        tab.goto(f"{tabs.page}{at}")
        tab.locator(".tree-pane").wait_for()
        if stopped:
            tab.clock.pause_at(60)
        return tab

    yield opened
    for context in own:
        context.close()
    wrong, tabs.wrong = tabs.wrong, []
    assert wrong == []


@pytest.fixture
def support(tmp_path: Path) -> Path:
    """A run of a graph with parallel nodes, a failed attempt and a stream."""
    return write_showcase(tmp_path / "support.yaml")


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Another run of the same graph, with another prompt."""
    return write_showcase(tmp_path / "support-new.yaml", another=True)
