"""What the pages say besides Python: commands that exist, links that lead somewhere, tables of what there is."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import agenttape_core.errors
from agenttape_core import use_cassette
from agenttape_core.matching.run_ids import RUN_SPECIFIC_ID
from agenttape_core.settings import Settings

from ..frameworks.run import BEGIN, END, FRAMEWORKS, PAGE, RESULTS, table

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


# -- the page about the API -----------------------------------------------------------------------------------


MODULES = re.findall(r"^## (agenttape\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
SAME = {"agenttape_core.transports.httpx2": "agenttape_core.transports.httpx"}
IMPORT = re.compile(r"^\s*from (agenttape_\w+(?:\.\w+)*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "experiments.md"}),  # of contributors
    ids=lambda page: page.name,
)
def test_pages_import_what_is_public(page: Path) -> None:
    """Every name that a page imports is exported by a module of the page about the API."""
    for module, several, one in IMPORT.findall(page.read_text(encoding="utf-8")):
        names = {name.split(" as ")[0].strip() for name in (several or one).partition("#")[0].split(",")} - {""}
        named = {name for name in names if f"{module}.{name}" not in MODULES}
        assert SAME.get(module, module) in MODULES, f"{module} is not on the page"
        assert named <= set(import_module(module).__all__), module


def test_public_names_are_on_the_page_about_the_api() -> None:
    """What a public module exports is on the page, as its builder reads it: by the text of modules, and its options."""
    from griffe import visit  # what builds the page reads with it; few tests need it

    shown = set[int]()
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name, told in re.findall(r"^::: (\S+)\n((?:    .*\n)*)", page, re.MULTILINE):
        found = resolve_name(name)
        if not inspect.ismodule(found):
            shown.add(id(found))
            continue
        options = (yaml.safe_load(told) or {}).get("options", {})
        file = Path(str(found.__file__))
        text = visit(name, file, file.read_text(encoding="utf-8"))
        hidden = "|".join(each.removeprefix("!") for each in options.get("filters", ["!^_[^_]", "!^__"]))
        all_of_it = [each for each in text.exports or () if not re.search(hidden, str(each))]
        names = text.members.keys() & set(map(str, options.get("members", all_of_it)))
        shown |= {id(getattr(found, each)) for each in names}
    missing = {
        f"{module}.{name}"
        for module in MODULES
        for name in import_module(module).__all__
        if id(getattr(import_module(module), name)) not in shown
    }
    assert {name for name in missing if not name.startswith("agenttape_core.storage.")} == set()


# -- the changelog --------------------------------------------------------------------------------------------


MOST = 25
"""The most words of a fragment."""


def test_fragments_are_short_and_of_a_known_type() -> None:
    """Each file in `changelog.d` is named `NAME.TYPE.md`, and has at most 25 words."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    types = {each["directory"] for each in settings["type"]}
    fragments = [path for path in (ROOT / settings["directory"]).iterdir() if path.name != ".gitignore"]
    named = [path.name.split(".") for path in fragments]
    assert [parts for parts in named if len(parts) != 3 or parts[1] not in types or parts[2] != "md"] == []
    long = {path.name: len(path.read_text(encoding="utf-8").split()) for path in fragments}
    assert {name: words for name, words in long.items() if not 0 < words <= MOST} == {}


def test_the_changelog_begins_where_fragments_are_inserted() -> None:
    """The changelog has the line below which a release inserts its notes, and the latest notes begin there."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    head, _, notes = text.partition("<!-- towncrier release notes start -->\n")
    assert head.startswith("# Changelog\n")
    assert notes.lstrip().startswith("## 0.1.0")


# -- the page about settings ----------------------------------------------------------------------------------


CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
SETTINGS = CONFIGURATION.partition("## Settings\n")[2].partition("\n## ")[0]
LISTED = re.findall(r"^\| `(\w+)` \| (.*?) \|", SETTINGS, re.MULTILINE)
ROWS = dict(LISTED)
CALLS_ONLY = {"self", "name_or_path", "redact", "auto", "vary", "fakes", "to"}
SETTINGS_ONLY = {"redaction_key", "redaction_rules", "run_id", "prices", "retirements"}


def test_every_setting_is_listed() -> None:
    """The table has the settings, each once, in their order, and no others."""
    assert [name for name, _ in LISTED if not name.isupper()] == list(Settings._fields)


def test_defaults_are_those_of_the_settings() -> None:
    """A default that is a value is shown as it is written into the file."""
    shown = {name: re.match("`([^`]*)`", default) for name, default in ROWS.items()}
    values = {name: json.loads(default[1]) for name, default in shown.items() if default and not name.isupper()}
    settings = json.loads(json.dumps(Settings()._asdict()))
    assert values == {"on_unused": "fail"} | {name: settings[name] for name in values if name != "on_unused"}
    assert {name for name in settings if settings[name] is None} == settings.keys() - values.keys() | {"on_unused"}


def test_settings_are_options_of_calls() -> None:
    """What is a setting is an option of `use_cassette`, and the other way round, but for those that the page names."""
    options = set(inspect.signature(use_cassette.__init__).parameters)
    assert options - CALLS_ONLY == set(Settings._fields) - SETTINGS_ONLY


# -- the page about other frameworks --------------------------------------------------------------------------


def test_the_page_has_the_results() -> None:
    """The table is made of the committed results, which have all frameworks."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(results) == sorted(FRAMEWORKS)
    assert text.partition(BEGIN)[2].partition(END)[0] == table(results)


# -- the page about what is outside ---------------------------------------------------------------------------


@functools.cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_row_is_a_test() -> None:
    """Every row of the tables ends with the name of a test that exists."""

    def is_a_test(row: str) -> bool:
        """Return whether a row ends with the name of a test that exists."""
        match = re.search(r"\| `(\S+)::(test_\w+)` \|$", row)
        return match is not None and match[2] in functions_of(ROOT / "tests" / match[1])

    lines = (ROOT / "docs" / "outside.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| the program |")]
    assert rows
    assert [row for row in rows if not is_a_test(row)] == []


# -- English --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words() -> Iterator[Any]:
    """The script of `make words`, which reads all pages and docstrings once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        for name in ("english", "words"):
            patch.delitem(sys.modules, name, raising=False)
        yield import_module("words")


def test_english(words: Any) -> None:
    """No budget of `docs/words.toml` is exceeded; pages, docstrings, options and messages are as `make words` says."""
    assert (words.exceeded(), words.missed()) == ([], [])
