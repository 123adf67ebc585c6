"""Precision and recall on the labelled corpus, per kind, and the table of them that the docs print.

To write the table anew after a change of the corpus or of the detectors:
`pytest tests/core/redaction/test_quality.py --update-examples`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agenttape_core.redaction import PSEUDONYM, Redactor
from agenttape_core.redaction.detection.encoded import decode

PAGE = Path(__file__).parents[3] / "docs" / "redaction.md"
BETWEEN = re.compile(r"(?<=<!-- the table of test_quality\.py -->\n\n).*?(?=\n\n<!-- its end -->)", re.DOTALL)
ENCODED = "base64"


class Found(NamedTuple):
    """A part of a string that was replaced."""

    kind: str
    start: int
    end: int


class Quality:
    """What was found of a corpus.

    Args:
        positives: Cases with secrets.
        negatives: Cases without.
    """

    def __init__(self, positives: list[Any], negatives: list[Any]) -> None:
        self.planted: Counter[str] = Counter()
        self.caught: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        """Findings that no label explains, by the kind that was reported."""
        self.named: Counter[bool] = Counter()
        """Caught secrets, by whether the kind reported for them is the labelled one."""
        self.exact: Counter[bool] = Counter()
        """Texts, by whether exactly the labelled secrets were replaced in them."""
        self.changed = 0
        """How many negatives were changed."""
        self.missed: list[str] = []
        self.negatives = len(negatives)
        for case in positives:
            self._judge(case)
        for case in negatives:
            before = self.wrong.total()
            self._judge(case)
            self.changed += self.wrong.total() > before

    def _judge(self, case: Any) -> None:
        is_exact = True
        for text, found, labels in zip(texts(case.plain), findings(case), case.labels, strict=True):
            for label in labels:
                over = [one for one in found if one.start < label.end and one.end > label.start]
                self._count(label, over, text)
            explained = [one for one in found if any(one.start < la.end and one.end > la.start for la in labels)]
            self.wrong.update(one.kind for one in found if one not in explained)
            is_exact &= sorted(one[1:] for one in found) == sorted(label[1:] for label in labels)
        self.exact[is_exact] += 1

    def _count(self, label: Any, over: list[Found], text: str) -> None:
        at = label.start
        for one in sorted(over, key=lambda one: one.start):
            at = one.end if one.start <= at else at
        self.planted[label.kind] += 1
        if at >= label.end:
            self.caught[label.kind] += 1
            self.named[label.kind in {one.kind for one in over}] += 1
        else:
            self.missed.append(f"{label.kind} in {text!r}")

    @property
    def recall(self) -> float:
        """The share of the secrets that are replaced whole."""
        return self.caught.total() / self.planted.total()

    @property
    def precision(self) -> float:
        """The share of the findings that are secrets."""
        return self.caught.total() / (self.caught.total() + self.wrong.total())

    def told(self, half: str) -> str:
        """What a failure says: the texts of a half that rules are written for, and only the number of the others."""
        is_unseen = half.replace("_", " ").endswith("held out")
        return f"{len(self.missed)} are missed" if is_unseen else "\n".join(self.missed)

    def table(self) -> str:
        """Precision and recall per kind, in Markdown."""
        rows = ["| kind | secrets | recall | precision |", "|---|---|---|---|"]
        for kind in sorted(self.planted | self.wrong):
            caught, wrong = self.caught[kind], self.wrong[kind]
            recall = caught / self.planted[kind] if self.planted[kind] else 0.0
            precision = caught / (caught + wrong) if caught + wrong else 0.0
            rows.append(f"| `{kind}` | {self.planted[kind]} | {recall:.2f} | {precision:.2f} |")
        rows.append(
            f"| **all**, and {self.negatives:,} texts without, of which {self.changed} are changed "
            f"| {self.planted.total():,} | {self.recall:.3f} | {self.precision:.3f} |"
        )
        return "\n".join(rows)


def texts(plain: Any) -> list[str]:
    """Return all strings of plain data in order, keys included; numbers as they are written."""
    if isinstance(plain, dict):
        return [text for key, item in plain.items() for text in (*texts(key), *texts(item))]
    if isinstance(plain, list):
        return [text for item in plain for text in texts(item)]
    return [] if plain is None else [str(plain)]


def findings(case: Any) -> list[list[Found]]:
    """Redact a case, and return for each of its strings what was replaced."""
    # In brackets, a pseudonym tells its kind; and what detectors find are examples for the most part.
    redactor = Redactor("0" * 64, forms=False)
    if isinstance(case.plain, str) and not case.pieces:
        spans = redactor.spans(case.plain)
        return [[Found(kind_of(span.replacement), span.start, span.end) for span in spans]]
    if case.pieces:
        size = case.pieces
        pieces = [case.plain[at : at + size] for at in range(0, len(case.plain), size)]
        chunks = redactor.chunks([{"delta": {"content": piece}} for piece in pieces])
        redacted: Any = "".join(chunk["delta"]["content"] for chunk in chunks)
    else:
        redacted = redactor.value(case.plain)
    return [replaced(old, new) for old, new in zip(texts(case.plain), texts(redacted), strict=True)]


def kind_of(replacement: str) -> str:
    """Return the kind of what stands in the place of a secret."""
    pseudonym = PSEUDONYM.search(replacement)
    if pseudonym is None:
        assert PSEUDONYM.search(decode(replacement) or ""), "what stays base64 holds a pseudonym"
        return ENCODED
    return pseudonym["kind"]


def replaced(old: str, new: str) -> list[Found]:
    """Return what of an old text is a pseudonym in the new one."""
    names = list(PSEUDONYM.finditer(new))
    kept = re.split(PSEUDONYM.pattern.replace("?P<kind>", "?:").replace("?P<digest>", "?:"), new)
    match = re.fullmatch("(.+?)".join(map(re.escape, kept)), old, re.DOTALL)
    assert match, f"{new!r} is not {old!r} with parts replaced"
    return [Found(name["kind"], *match.span(number)) for number, name in enumerate(names, start=1)]


@pytest.fixture(scope="module")
def halves(positives: dict[str, list[Any]], negatives: dict[str, list[Any]]) -> dict[str, Quality]:
    """The quality on each half of the corpus."""
    return {half: Quality(positives[half], negatives[half]) for half in positives}


@pytest.fixture(scope="module")
def quality(positives: dict[str, list[Any]], negatives: dict[str, list[Any]]) -> Quality:
    """The quality on the whole corpus."""
    return Quality([*chain(*positives.values())], [*chain(*negatives.values())])


def test_corpus_is_large_and_varied(quality: Quality, negatives: dict[str, list[Any]]) -> None:
    """The corpus has at least 300 secrets of 35 kinds and 1000 different texts without one."""
    assert quality.planted.total() >= 300
    assert sum(count >= 3 for count in quality.planted.values()) >= 35
    assert len({str(case.plain) for half in negatives.values() for case in half}) >= 1000


def test_recall(quality: Quality) -> None:
    """Nearly all secrets are replaced whole, and of no kind are many left."""
    assert quality.recall >= 0.995, quality.missed
    assert {kind for kind in quality.planted if quality.caught[kind] < 0.95 * quality.planted[kind]} == set()


def test_precision(quality: Quality) -> None:
    """No text without a secret is changed, and nothing but secrets is replaced in the others."""
    assert quality.changed == 0
    assert quality.wrong == Counter()


def test_secrets_are_found_exactly_and_as_their_kind(quality: Quality) -> None:
    """A pseudonym says the right kind, and almost never takes anything that stands beside its secret."""
    assert quality.named[False] == 0
    assert quality.exact[False] <= 0.005 * quality.exact.total()


@pytest.mark.slow
@pytest.mark.parametrize("half", ["known", "held out"])
def test_both_halves_are_equally_good(half: str, halves: dict[str, Quality]) -> None:
    """The detectors are as good on the texts that were written before they were looked at."""
    assert halves[half].recall >= 0.99, halves[half].told(half)
    assert halves[half].changed == 0


@pytest.mark.parametrize("half", ["configured", "configured_held_out"])
def test_configurations(half: str, configured: dict[str, Any]) -> None:
    """Most of what configurations, documents and programs name is found, and nearly no harmless text is changed."""
    quality = Quality(*configured[half])
    assert quality.recall >= 0.92, quality.told(half)
    assert quality.changed <= 0.005 * quality.negatives
    assert quality.wrong.total() <= 0.005 * quality.planted.total()


def test_lines(lines: dict[str, Any]) -> None:
    """All passwords in commands, settings, prose and code are found, and no line that only looks like it is changed."""
    quality = Quality(lines["secrets"], lines["harmless"])
    assert quality.missed == []
    assert quality.wrong == Counter()


def test_met(met: dict[str, list[Any]]) -> None:
    """Nearly all secrets that agents met in 2026 are found, and no look-alike is changed.

    When the texts were written, 64 of 93 were found, 44 of 62 and 20 of 31, and one look-alike changed. The rules were
    mended after that, so this isn't a measure of what is unseen: that was 65 %, and is 87 % in `families_held_out`.
    """
    quality = Quality(met["secrets"], met["harmless"])
    assert quality.caught.total() >= 90, quality.missed
    assert quality.changed == 0
    assert quality.wrong == Counter()


@pytest.mark.parametrize(("half", "least"), [("families", 0.98), ("families_held_out", 0.83)])
def test_families(half: str, least: float, families: dict[str, list[Any]]) -> None:
    """Most secrets in the families that agents meet are found, also those that no rule was written for."""
    quality = Quality(families[half], [])
    assert quality.recall >= least, quality.told(half)
    assert quality.wrong == Counter()


def test_table_is_current(quality: Quality, request: pytest.FixtureRequest) -> None:
    """The page prints the precision and recall that the corpus has now."""
    page = PAGE.read_text(encoding="utf-8")
    assert BETWEEN.search(page)
    if request.config.getoption("--update-examples"):
        PAGE.write_text(BETWEEN.sub(lambda _: quality.table(), page), encoding="utf-8")
    else:
        assert BETWEEN.findall(page) == [quality.table()], "run this test with --update-examples"
