"""Print findings in sources that hold hardly any secret: installed packages and tests of the standard library.

`python benchmarks/precision.py` prints each finding with its place, for a comparison of two versions of the detectors:
their outputs differ in the lines that one finds and the other does not. Made-up credentials in examples are findings.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from agenttape_core.redaction import Redactor
from agenttape_core.redaction.detection.normal import normalised

_PACKAGES = ("langgraph*", "langchain*", "llama_index*", "openai*")
_PERSONAL = ("[REDACTED:email:", "[REDACTED:phone:")


def sources() -> list[Path]:
    """Return the files: Python of agents' packages, and the tests of the standard library."""
    installed = Path(sysconfig.get_path("purelib"))
    packages = [path for pattern in _PACKAGES for folder in installed.glob(pattern) for path in folder.rglob("*.py")]
    return sorted(packages) + sorted((Path(sysconfig.get_path("stdlib")) / "test").glob("*.py"))


def main() -> None:
    """Print the findings, and their number and the amount that was searched at the end."""
    size = found = 0
    for path in sources():
        text = path.read_text(encoding="utf-8", errors="replace")
        size += len(text)
        for span in Redactor("0" * 64, forms=False).spans(text):
            if not span.replacement.startswith(_PERSONAL):
                found += 1
                line = text.count("\n", 0, span.start) + 1
                around = text[max(0, span.start - 50) : span.end + 10]
                print(f"{path.parent.name}/{path.name}:{line}\t{normalised(around).text!r}")
    print(f"{found} findings in {size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
