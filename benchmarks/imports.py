"""What importing us costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

from measure import FULL, ROUNDS, Row, Scale

_FRAMEWORK = "import langchain_core.language_models.chat_models, langchain_core.tools, langchain_core.output_parsers"


def _milliseconds(before: str, code: str) -> float:
    timed = f"{before}; import time; t = time.perf_counter(); {code}; print((time.perf_counter() - t) * 1000)"
    runs = [
        subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", timed], check=True, capture_output=True
        )
        for _ in range(ROUNDS)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def imports(_: object = None, scale: Scale = FULL) -> Iterator[Row]:
    """Measure our import in a process that has imported LangChain already."""
    if scale is FULL:
        yield Row(
            "import `agenttape_core`, over `langchain_core`",
            f"{_milliseconds(_FRAMEWORK, 'import agenttape_core'):.0f} ms",
            "<= 40 ms",
        )
        both = _milliseconds(_FRAMEWORK, "import agenttape_langchain")
        yield Row("import `agenttape_langchain`, over `langchain_core`", f"{both:.0f} ms", "")
