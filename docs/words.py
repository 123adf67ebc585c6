# ruff: noqa: INP001 - a script of `make words`
"""Count the words that a native engineer would write another way, and "you": `make words` prints them.

The figures of pages and docstrings are budgets in `docs/words.toml`, which only fall: a test compares them. Decisions
and the changelog are left out.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from english import ROOT
from english import docstrings as docstrings_in

BUDGETS = Path(__file__).with_name("words.toml")
PATTERNS = {
    'a clause as a noun, "what is …"': r"(?<![?]) \bwhat (?:is|was|are|were|it|they|has|cannot|comes|came|an?|the)\b",
    "software that tells, says or knows": r"\b(?:tells|told|says|said|knows|hears)\b",
    "programs that ask": r"\b(?:asks|asked|asking) (?:for|a|the|no|its|again|something|otherwise)\b",
    "nobody, nothing, somebody": r"\b(?:nobody|nothing|somebody)\b",
    '"is no X"': r"\b(?:is|are|was|were) no(?! longer| more| less)\b",
    "as it is, as it was": r"\bas (?:it|they) (?:is|was|are|were)\b",
    "anew": r"\banew\b",
    "at once": r"\bat once\b",
    "stand or lie for be": r"\b(?:stands?|stood|lies|lie) (?:in|at|on|beside|below|above|where|there|for)\b",
    "go on": r"\b(?:go|goes|went|going|gone) on\b",
    "by itself, of its own": r"\b(?:by itself|by themselves|of (?:its|their|his|your) own)\b",
    "that of, those of": r"\b(?:that|those) of\b",
    '"Of …" in front': r"(?:^|[.:] )Of (?:a|an|the|all|several|two|more|what|those)\b",
    "also or too in the German place": r"\balso (?:if|without|where|with|after|in)\b|\w, too\b",
    "otherwise, alike, in the place of": r"\b(?:otherwise|alike|likewise|besides|for want of|in the place of)\b",
}
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`|^ *\|[^\n]*$", re.MULTILINE | re.DOTALL)
_YOU = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)
_SHORTENED = re.compile(r"\b(?:\w+n't|(?:it|that|there|what)'s|\w+'(?:re|ll|ve))\b", re.IGNORECASE)
_PAGE = re.compile(r"([\w/-]+\.md)$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\n|\n(?= *(?:[-*]|\d+\.) )|\n(?= *\*{0,2}\w+: )")
"""Separates paragraphs: an empty line, or the beginning of an item or an argument."""
_LONG = 80
"""The most words of a paragraph."""
LONG = "paragraphs over 80 words"


@functools.cache
def docstrings(path: Path) -> list[str]:
    """Return the docstrings of a file."""
    return [text for _, text in docstrings_in(path)]


@functools.cache
def texts() -> dict[str, list[str]]:
    """Return the prose of pages and of docstrings, without code and tables."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")]
    prose = [path.read_text(encoding="utf-8") for path in pages if path.name != "CHANGELOG.md"]
    sources = ROOT.glob("packages/*/src/**/*.py")
    return {
        "pages": [_CODE.sub("", text) for text in prose],
        "docstrings": [_CODE.sub("", text) for path in sources for text in docstrings(path)],
    }


def counted(prose: list[str]) -> dict[str, int]:
    """Return the hits of each pattern, and the number of long paragraphs."""
    found = Counter({name: sum(len(re.findall(one, text)) for text in prose) for name, one in PATTERNS.items()})
    paragraphs = [part for text in prose for part in _PARAGRAPH.split(text)]
    found[LONG] = sum(len(part.split()) > _LONG for part in paragraphs)
    return dict(found)


@functools.cache
def figures() -> dict[str, dict[str, int]]:
    """Return the figures of pages and of docstrings."""
    return {place: counted(prose) for place, prose in texts().items()}


def rate(prose: list[str], wanted: re.Pattern[str] = _YOU) -> float:
    """Return how often prose has a pattern in 1,000 words, by default "you"."""
    words = sum(len(text.split()) for text in prose)
    return 1000 * sum(len(wanted.findall(text)) for text in prose) / max(words, 1)


def navigation() -> dict[str, list[str]]:
    """Return the pages of each tab of the site."""
    _, _, tabs = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    return {tab.partition(":")[0]: _PAGE.findall(tab) for tab in re.split(r"^  - ", tabs, flags=re.MULTILINE)[1:]}


def surface() -> list[tuple[str, str, str, str]]:
    """Return the measures of the command, of pytest's options, of `use_cassette` and of messages; see `goals`."""
    import pytest

    from agenttape_core import use_cassette
    from agenttape_core.cli.app import GROUPS
    from agenttape_core.pytest_plugin import pytest_addoption

    summaries = [f"  {name:<10}{text}" for group in GROUPS.values() for name, text in group.items()]
    cut = sum(len(line) > _COLUMNS for line in summaries)
    doc = inspect.cleandoc(use_cassette.__doc__ or "")
    described, _, rest = doc.partition("Args:\n")[2].partition("Other Parameters:")
    first = _ARGUMENT.findall(described) if rest else []
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    options = [option.names()[-1] for group in parser._groups for option in group.options]  # noqa: SLF001 - no other way
    bare = sum(not name.startswith("--cassette-") for name in options)
    terms = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8").partition("## Fourteen words")[2]
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = [len(_TERM.findall(text.partition("\n## ")[0])) for text in (terms,)] + [len(_TERM.findall(glossary))]
    return [
        ("commands in --help; cut summaries", "39; 35", f"{len(summaries)}; {cut}", "<= 18; 0"),
        (
            "parameters first; pytest options; without prefix",
            "34; 25; 9",
            f"{len(first)}; {len(options)}; {bare}",
            "8; 15; 1",
        ),
        ("terms that you must learn; all others", "71; 120", f"{words[0]}; {words[1]}", "14; <= 70"),
        ('"is no" in messages', "63", str(sum(map(_is_no, messages()))), "0"),
    ]


_COLUMNS = 80
"""The width of a terminal."""
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)
_TERM = re.compile(r"^\| (?!word\b)[^-|]", re.MULTILINE)


def messages() -> Iterator[str]:
    """Yield the texts in the code that aren't docstrings: messages, help and lines of reports."""
    for path in ROOT.glob("packages/*/src/**/*.py"):
        known = set(docstrings(path))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in known:
                yield node.value


def _is_no(text: str) -> bool:
    return re.search(r"(?<!there) (?:is|are) no (?!longer|more|less)", text) is not None


def goals(found: dict[str, dict[str, int]]) -> list[tuple[str, str, str, str]]:
    """Return each measure of what the words should be: its first figure, the one of today, and its goal."""
    tabs = navigation()
    guides = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in tabs["Guides"] + ["tutorial.md"]]
    prose = [_CODE.sub("", text) for text in guides]
    hits = {place: sum(count for name, count in each.items() if name != LONG) for place, each in found.items()}
    users = sum(len(pages) for tab, pages in tabs.items() if tab not in ("Home", "Contributors"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").count("](")
    return [
        ("red, record, green without a key, from the README", "never", "3 minutes", "3 minutes"),  # by a clock
        ("hits of the patterns on pages", "2082", str(hits["pages"]), "< 300"),
        ("hits of the patterns in docstrings", "5000", str(hits["docstrings"]), "< 1000"),
        ('"you" per 1,000 words in guides', "3.4", f"{rate(prose):.1f}", ">= 12"),
        ("contractions per 1,000 words in guides", "0", f"{rate(prose, _SHORTENED):.1f}", ">= 2"),
        ("paragraphs over 80 words on pages", "104", str(found["pages"][LONG]), "< 10"),
        ("pages for users; links on the home page", "157; 149", f"{users}; {links}", "<= 35; < 40"),
        *surface(),
        ("the README shows a run of pytest", "no", "yes" if "$ pytest" in readme else "no", "yes"),
    ]


def holds(now: str, goal: str) -> bool:
    """Return whether a figure reaches its goal, such as `< 300`; of several, each of them."""
    for value, wanted in zip(now.split("; "), goal.split("; "), strict=True):
        sign, _, limit = wanted.rpartition(" ")
        compare = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}.get(sign)
        if not (compare(float(value), float(limit)) if compare else value == wanted):
            return False
    return True


def missed() -> list[str]:
    """Return the measures whose goal isn't reached."""
    rows = goals(figures())
    return [f"{name}: {now}, and the goal is {goal}" for name, _, now, goal in rows if not holds(now, goal)]


def exceeded() -> list[str]:
    """Return a line for each budget that is exceeded."""
    budgets, lines = tomllib.loads(BUDGETS.read_text(encoding="utf-8")), []
    for place, counts in figures().items():
        for name, count in counts.items():
            most = budgets[place][name]
            if count > most:
                lines.append(f"{name}: {count} in {place}, and the budget is {most}")
    return lines


def lower() -> None:
    """Set each budget to what is there now, where that is less."""
    before = tomllib.loads(BUDGETS.read_text(encoding="utf-8")) if BUDGETS.exists() else {}
    lines = ["# The most hits of each pattern: `make words` prints them, and lowers these figures. They only fall.\n"]
    for place, counts in figures().items():
        lines.append(f"\n[{place}]\n")
        for name, count in counts.items():
            most = min(count, before.get(place, {}).get(name, count))
            key = name.replace('"', '\\"')
            lines.append(f'"{key}" = {most}\n')
    BUDGETS.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Print the figures, and lower the budgets."""
    found = figures()
    rows = [(name, *(str(each[name]) for each in found.values())) for name in found["pages"]]
    rows.append(("all", *(str(sum(each.values())) for each in found.values())))
    for name, pages, inside in [("", *found), *rows]:
        sys.stdout.write(f"{name:<46}{pages:>8}{inside:>12}\n")
    for name, first, now, goal in [("\nDone means", "first", "now", "goal"), *goals(found)]:
        sys.stdout.write(f"{name:<50}{first:>12}{now:>12}{goal:>12}\n")
    lower()


if __name__ == "__main__":
    main()
