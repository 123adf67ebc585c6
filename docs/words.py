# ruff: noqa: INP001 - a script of `make words`
"""Count the words that a native engineer would write another way, and "you": `make words` prints them.

The figures of pages and docstrings are budgets in `docs/words.toml`, which only fall: a test compares them. Decisions
and the changelog are left out.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from english import ROOT, docstrings

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


def texts() -> dict[str, list[str]]:
    """Return the prose of pages and of docstrings, without code and tables."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")]
    prose = [path.read_text(encoding="utf-8") for path in pages if path.name != "CHANGELOG.md"]
    sources = ROOT.glob("packages/*/src/**/*.py")
    return {
        "pages": [_CODE.sub("", text) for text in prose],
        "docstrings": [_CODE.sub("", text) for path in sources for _, text in docstrings(path)],
    }


def counted(prose: list[str]) -> dict[str, int]:
    """Return the hits of each pattern, and the number of long paragraphs."""
    found = Counter({name: sum(len(re.findall(one, text)) for text in prose) for name, one in PATTERNS.items()})
    paragraphs = [part for text in prose for part in _PARAGRAPH.split(text)]
    found[LONG] = sum(len(part.split()) > _LONG for part in paragraphs)
    return dict(found)


def rate(prose: list[str], wanted: re.Pattern[str] = _YOU) -> float:
    """Return how often prose has a pattern in 1,000 words, by default "you"."""
    words = sum(len(text.split()) for text in prose)
    return 1000 * sum(len(wanted.findall(text)) for text in prose) / max(words, 1)


def navigation() -> dict[str, list[str]]:
    """Return the pages of each tab of the site."""
    _, _, tabs = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    return {tab.partition(":")[0]: _PAGE.findall(tab) for tab in re.split(r"^  - ", tabs, flags=re.MULTILINE)[1:]}


def goals(found: dict[str, dict[str, int]]) -> list[tuple[str, str, str]]:
    """Return each measure of what the words should be, with its figure of today and its goal."""
    tabs = navigation()
    guides = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in tabs["Guides"] + ["tutorial.md"]]
    prose = [_CODE.sub("", text) for text in guides]
    hits = {place: sum(count for name, count in each.items() if name != LONG) for place, each in found.items()}
    users = sum(len(pages) for tab, pages in tabs.items() if tab not in ("Home", "Contributors"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").count("](")
    return [
        ("hits of the patterns on pages", str(hits["pages"]), "< 300"),
        ("hits of the patterns in docstrings", str(hits["docstrings"]), "< 1000"),
        ('"you" per 1,000 words in guides', f"{rate(prose):.1f}", ">= 12"),
        ("contractions per 1,000 words in guides", f"{rate(prose, _SHORTENED):.1f}", ">= 2"),
        ("paragraphs over 80 words on pages", str(found["pages"][LONG]), "< 10"),
        ("pages for users", str(users), "30"),
        ("links on the home page", str(links), "< 40"),
        (
            "the README shows a run of pytest",
            str("$ pytest" in readme),
            "True",
        ),
    ]


def exceeded() -> list[str]:
    """Return a line for each budget that is exceeded."""
    budgets, lines = tomllib.loads(BUDGETS.read_text(encoding="utf-8")), []
    for place, prose in texts().items():
        for name, count in counted(prose).items():
            most = budgets[place][name]
            if count > most:
                lines.append(f"{name}: {count} in {place}, and the budget is {most}")
    return lines


def lower() -> None:
    """Set each budget to what is there now, where that is less."""
    before = tomllib.loads(BUDGETS.read_text(encoding="utf-8")) if BUDGETS.exists() else {}
    lines = ["# The most hits of each pattern: `make words` prints them, and lowers these figures. They only fall.\n"]
    for place, prose in texts().items():
        lines.append(f"\n[{place}]\n")
        for name, count in counted(prose).items():
            most = min(count, before.get(place, {}).get(name, count))
            key = name.replace('"', '\\"')
            lines.append(f'"{key}" = {most}\n')
    BUDGETS.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Print the figures, and lower the budgets."""
    both = texts()
    figures = {place: counted(prose) for place, prose in both.items()}
    rows = [(name, *(str(each[name]) for each in figures.values())) for name in figures["pages"]]
    rows.append(("all", *(str(sum(each.values())) for each in figures.values())))
    for name, pages, inside in [("", *both), *rows]:
        sys.stdout.write(f"{name:<46}{pages:>8}{inside:>12}\n")
    for name, now, goal in [("\nDone means", "now", "goal"), *goals(figures)]:
        sys.stdout.write(f"{name:<46}{now:>8}{goal:>12}\n")
    lower()


if __name__ == "__main__":
    main()
