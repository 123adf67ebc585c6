# ruff: noqa: INP001 - mkdocs loads this file by its path
"""Hooks of mkdocs that change our pages, so that they read well in a repository and on the site.

The pages link to files beside `docs/`, as a reader of the repository expects. Those that are pages become pages of the
site. What a fence says to the tests of the docs becomes a title, or is left out.

The site also has its pages as Markdown, and `llms.txt` (https://llmstxt.org), which lists them for coding agents. The
plugin mkdocs-llmstxt needs the address of the site, and makes Markdown from the HTML; ours is there already.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Literal

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    "examples/README.md": "examples/index.md",
    **{
        f"examples/{page.parent.name}/README.md": f"examples/{page.parent.name}.md"
        for page in ROOT.glob("examples/*/*.md")
    },
}
"""The files of the repository that become pages, and what they are called on the site."""

_HOMES = {uri: path for path, uri in OUTSIDE.items()}
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_SOURCE = re.compile(r"\[(?P<name>[^\]]*)\]\((?:\.\./)*packages/[^)\s]+\.py\)")
"""A link to a module, which is no page of the site: the name stays."""
_SETTINGS = re.compile(r"^(?P<fence> *```\w+) \{(?P<settings>.*)\}$", re.MULTILINE)
_FILE = re.compile(r'\bfile="(?P<file>[^"]+)"')
_LEAD = re.compile(r"^# [^\n]+\n+(?P<text>\w.*?)(?=\n\n|$)", re.DOTALL)
"""The paragraph below the title, unless a picture, a table or a block comes first."""
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|\*\*|`")
_FOR_CONTRIBUTORS = "Contributors"
_navigation: list[StructureItem] = []


def on_startup(command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:  # noqa: ARG001 - mkdocs names them
    """Look for garbage seldom: nearly all that is read for the pages stays, and the looks take a tenth of a build."""
    gc.set_threshold(200_000, 50, 1000)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in `docs/`."""
    for path, uri in OUTSIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text if path.endswith(".md") else _as_page(path, text)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs names them
    """Make the links and the fences of a page those of the site."""
    uri = page.file.src_uri
    parts, end = [], 0
    for fenced in _FENCED.finditer(markdown):
        parts += [linked_from(uri, markdown[end : fenced.start()]), _SETTINGS.sub(_titled, fenced[0])]
        end = fenced.end()
    return "".join([*parts, linked_from(uri, markdown[end:])])


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:  # noqa: ARG001 - mkdocs names them
    """Keep the navigation for llms.txt."""
    _navigation[:] = nav.items
    return nav


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> Environment:
    """Write each page as Markdown beside its HTML, and llms.txt."""
    site = Path(config.site_dir)
    for file in files.documentation_pages():
        path = site / file.src_uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((file.page and file.page.markdown) or "", encoding="utf-8")
    head = f"# {config.site_name}\n\n> {config.site_description}\n"
    (site / "llms.txt").write_text(head + "".join(map(_section, _navigation)), encoding="utf-8")
    return env


def _section(item: StructureItem) -> str:
    # "Optional" is the name that llmstxt.org gives to what a reader short of room leaves out.
    title = "Optional" if item.title == _FOR_CONTRIBUTORS else item.title
    lines = [f"- [{page.title}]({page.file.src_uri}){_lead(page)}\n" for page in _pages(item)]
    return f"\n## {title}\n\n{''.join(lines)}"


def _pages(item: StructureItem) -> list[Page]:
    if isinstance(item, Section):
        return [page for child in item.children for page in _pages(child)]
    return [item] if isinstance(item, Page) else []


def _lead(page: Page) -> str:
    found = _LEAD.match(page.markdown or "")
    return ": " + _MARKUP.sub(r"\g<1>", " ".join(found["text"].split())) if found else ""


def linked_from(uri: str, text: str) -> str:
    """Return text of a page whose links lead to pages of the site.

    Args:
        uri: Which page of the site it is.
        text: What stands in it between the blocks of code.
    """
    here = PurePosixPath(_HOMES.get(uri, f"docs/{uri}")).parent

    def led(link: re.Match[str]) -> str:
        meant = normpath(here / link["target"])
        target = OUTSIDE.get(meant, meant.removeprefix("docs/"))
        return f"]({relpath(target, PurePosixPath(uri).parent)}{link['anchor'] or ''})"

    return _LINK.sub(led, _SOURCE.sub(r"\g<name>", text))


def _titled(fence: re.Match[str]) -> str:
    file = _FILE.search(fence["settings"])
    return fence["fence"] + (f' title="{file["file"]}"' if file else "")


def _as_page(path: str, text: str) -> str:
    return f"# {path.capitalize()}\n\n```text\n{text}```\n"
