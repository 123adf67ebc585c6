"""The detectors: their speed on new text, and recall and precision on names that they were not fitted to."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import precision
from measure import FULL, QUICK, ROUNDS, Row, Scale

from agenttape_core.redaction import Redactor

_ROOT = Path(__file__).parents[1]
_SIZE, _MESSAGE = 40_000, 800


def prose(size: int, seed: int) -> str:
    """Make prose of the words of our own pages."""
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((_ROOT / "docs").glob("*.md")))
    words = [word for word in pages.split() if word.isalpha()]
    return " ".join(random.Random(seed).choices(words, k=size // 5))[:size]  # noqa: S311 - no secret is made of it


def _pages(folder: str, suffix: str) -> str:
    """Return what our own files of a kind hold."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted((_ROOT / folder).rglob(f"*.{suffix}")))


def _sentences() -> str:
    """Return the sentences of our pages, with all their signs, without code, tables and titles."""
    blocks = _pages("docs", "md").split("```")[::2]
    lines = [line for block in blocks for line in block.splitlines()]
    return "\n".join(line for line in lines if line[:1].isalpha())


def _messages(dump: Callable[[str], str]) -> str:
    """Return our pages as messages of a conversation in some format."""
    pages = _pages("docs", "md")
    return "\n".join(dump(pages[at : at + 1_500]) for at in range(0, len(pages), 1_500))


def _yaml(text: str) -> str:
    return "- role: user\n  content: |-\n" + "".join(f"    {line}\n" for line in text.splitlines())


def _seconds(redactor: Redactor, text: str) -> float:
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        redactor.spans(text)
        rounds.append(time.process_time() - began)
    return min(rounds)


def _at_first_sight(redactor: Redactor, text: str) -> float:
    """Return the seconds of one look at each message of a text, of which the redactor has seen none."""
    began = time.process_time()
    for at in range(0, len(text), _MESSAGE):
        redactor.text(text[at : at + _MESSAGE])
    return time.process_time() - began


def speed(_folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the search of new texts, and whether ten times the text takes ten times as long."""
    redactor = Redactor("0" * 64)
    times = max(1, scale.calls // 40)
    texts = [prose(_SIZE, seed) for seed in range(times)]
    redactor.spans("warm up: password=hunter2, alice@example.com")
    taken = sum(_seconds(redactor, text) for text in texts)
    yield Row("redact 40 KB of new prose", f"{times * _SIZE / taken / 1e6:.0f} MB/s", ">= 40 MB/s")
    kinds = {
        "sentences": _sentences(),
        "Markdown": _pages("docs", "md"),
        "source code": _pages("packages/core/src", "py"),
        "JSON": _messages(lambda text: json.dumps({"role": "user", "content": text})),
        "YAML": _messages(_yaml),
    }
    for name, text in kinds.items():
        parts = [text[at : at + _SIZE] for at in range(0, min(len(text), times * _SIZE), _SIZE)]
        rate = max(len(part) / _at_first_sight(redactor, part) for part in parts)
        yield Row(f"redact messages of {name} at first sight, other ones in each round", f"{rate / 1e6:.0f} MB/s")
        seconds = sum(_seconds(redactor, part) for part in parts)
        yield Row(f"redact 40 KB of new {name}", f"{sum(map(len, parts)) / seconds / 1e6:.0f} MB/s", ">= 20 MB/s")
    home = Redactor("0" * 64, places={"project_root": "/srv/shop/app", "cwd": "/mnt/run", "home": "/home/ann"})
    yield Row(
        "redact new prose with places, over without", f"{sum(_seconds(home, text) for text in texts) / taken:.2f}x"
    )
    part = _sentences()[:_SIZE]
    growth = _seconds(redactor, part * 10) / _seconds(redactor, part)
    yield Row("redact 400 KB of sentences, over 40 KB", f"{growth:.1f}x")


def quality(_folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure recall and precision on the held-out halves of the corpora of configurations and of families."""
    sys.path.insert(0, str(_ROOT / "tests" / "core" / "redaction"))
    import test_quality

    import conftest

    found = test_quality.Quality(*conftest.Maker().configured("configured_held_out"))
    total = found.planted.total()
    yield Row("secrets found in configurations, held out", f"{found.caught.total()} of {total}")
    yield Row("harmless texts changed, held out", f"{found.changed} of {found.negatives}")
    cases = conftest.Maker().cases("families_held_out")
    for family in dict.fromkeys(case.category for case in cases):
        found = test_quality.Quality([case for case in cases if case.category == family], [])
        recall = f"{found.caught.total()} of {found.planted.total()}"
        yield Row(f"secrets found in {family}, held out", f"{recall}, precision {found.precision:.2f}")
    paths = precision.packages()
    paths = paths[:: 1 + int(sum(path.stat().st_size for path in paths) / (1e5 if scale is QUICK else 1e7))]
    size = sum(path.stat().st_size for path in paths) / 1e6
    changed = len({(path, span.start) for path, _, span in precision.findings(paths)})
    yield Row(f"findings in {size:.0f} MB of agents' packages, examples of passwords included", str(changed))
