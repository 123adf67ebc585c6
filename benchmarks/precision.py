"""Print findings in sources that hold hardly any secret: installed packages and tests of the standard library.

`python benchmarks/precision.py` prints each finding with its place, for a comparison of two versions of the detectors:
their outputs differ in the lines that one finds and the other does not. Made-up credentials in examples are findings.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from agenttape_core.redaction import Redactor
from agenttape_core.redaction.detection.findings import Span
from agenttape_core.redaction.detection.views import normalised

_PACKAGES = ("langgraph*", "langchain*", "llama_index*", "openai*")
_PERSONAL = ("[REDACTED:email:", "[REDACTED:phone:")


def sources() -> list[Path]:
    """Return the files: Python of agents' packages, and the tests of the standard library."""
    installed = Path(sysconfig.get_path("purelib"))
    packages = [path for pattern in _PACKAGES for folder in installed.glob(pattern) for path in folder.rglob("*.py")]
    return sorted(packages) + sorted((Path(sysconfig.get_path("stdlib")) / "test").glob("*.py"))


def packages() -> list[Path]:
    """Return the Python of agents' packages without their tests."""
    return [path for path in sources() if "site-packages" in path.parts and "tests" not in path.parts]


def findings(paths: Iterable[Path]) -> Iterator[tuple[Path, str, Span]]:
    """Yield what is found in some files besides addresses and phone numbers: the file, its text and the place."""
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        for span in Redactor("0" * 64, forms=False).spans(text):
            if not span.replacement.startswith(_PERSONAL):
                yield path, text, span


def main() -> None:
    """Print the findings, and their number and the amount that was searched at the end."""
    paths, found = sources(), 0
    for path, text, span in findings(paths):
        found += 1
        line = text.count("\n", 0, span.start) + 1
        around = text[max(0, span.start - 50) : span.end + 10]
        print(f"{path.parent.name}/{path.name}:{line}\t{normalised(around).text!r}")
    print(f"{found} findings in {sum(path.stat().st_size for path in paths) / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
