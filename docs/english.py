# ruff: noqa: INP001 - a script of the lint step
"""Find sentences that a native engineer would write another way: `make lint` runs this over docstrings and pages.

Only what can be searched for is checked. Each rule names a pattern that crept in once, and says what to write instead.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "packages/*/README.md")
SOURCES = ("packages/*/src/**/*.py", "examples/**/*.py", "benchmarks/*.py", "docs/*.py")


class Rule(NamedTuple):
    """One pattern to avoid.

    Args:
        pattern: Finds it, in text without code.
        advice: What to write instead.
    """

    pattern: re.Pattern[str]
    advice: str


OPENING = Rule(
    re.compile(r"\A(?:What|Where|How|Whether|Who|Whoever|Whose|Which|When|Why)\b"),
    "begin with a verb (Return, Record, Open) or a noun phrase",
)
"""The words that no docstring begins with."""

ANYWHERE = (
    Rule(
        re.compile(r"(?:\A|[.!?:] )Who(?:ever)? (?!am\b)[a-z]+ [^?]*?[.!]"), "name the person: a user, an integration"
    ),
    Rule(re.compile(r"\bhow-manieth\b"), "say the n-th, or the ordinal"),
    Rule(re.compile(r"\bthe face of this\b", re.IGNORECASE), "say what the module offers"),
    Rule(re.compile(r"\b(?:return|returns|gives|or|,|;) nothing (?:if|where|when|for|unless|without)\b"), "say `None`"),
    Rule(re.compile(r"\bor such as\b|\bsuch as no\b"), "name the values themselves"),
    Rule(re.compile(r"\bis it (?:told|said) to\b|\bis told of\b|\bare told of\b"), "things receive, see or read"),
    Rule(re.compile(r"\bit is (?:answered|asked) otherwise\b"), "say what is different"),
    Rule(re.compile(r"\bdo likewise\b|, likewise[.;]"), "say the same, or also"),
)
"""The patterns that stand in no docstring and on no page."""

_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def docstrings(source: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, those of attributes included."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, value.value


def findings(path: Path, line: int, text: str, rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield a line of output for each place of a text that a rule finds."""
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n") or "`code`", text)
    for rule in rules:
        for found in rule.pattern.finditer(prose):
            at = line + prose.count("\n", 0, found.start())
            shown = " ".join(found[0].split())[:60]
            yield f"{path.relative_to(ROOT)}:{at}: {shown!r}: {rule.advice}"


def found_in(path: Path) -> Iterator[str]:
    """Yield what the rules find in a file."""
    if path.suffix == ".md":
        yield from findings(path, 1, path.read_text(encoding="utf-8"), ANYWHERE)
        return
    for line, text in docstrings(path):
        yield from findings(path, line, text, (OPENING, *ANYWHERE))


def tracked(patterns: tuple[str, ...]) -> set[Path]:
    """Return the files of the repository that match."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    known = {ROOT / name for name in listed.stdout.splitlines()}
    return {path for pattern in patterns for path in ROOT.glob(pattern) if path in known}


def main() -> int:
    """Print what is found; return the exit code."""
    lines = [line for path in sorted(tracked(PAGES + SOURCES)) for line in found_in(path)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
