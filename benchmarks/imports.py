"""The cost of importing AgentTape."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from measure import FULL, ROUNDS, Row, Scale

_FRAMEWORK = "import langchain_core.language_models.chat_models, langchain_core.tools, langchain_core.output_parsers"


def _milliseconds(before: str, code: str) -> float:
    """Return the least time of an import; the first round, which may compile, is not the least."""
    timed = f"{before}; import time; t = time.perf_counter(); {code}; print((time.perf_counter() - t) * 1000)"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", timed], check=True, capture_output=True, env=environment
        )
        for _ in range(ROUNDS)
    ]
    return min(float(run.stdout) for run in runs)


def imports(_: object = None, scale: Scale = FULL) -> Iterator[Row]:
    """Measure our import in a process that has imported LangChain already."""
    if scale is FULL:
        yield Row(
            "import `use_cassette`, over `langchain_core`",
            f"{_milliseconds(_FRAMEWORK, 'from agenttape_core import use_cassette'):.0f} ms",
            "<= 40 ms",
        )
        first = "from agenttape_core import use_cassette; import agenttape_core.lifecycle.open_session"
        yield Row("the same, with what the first session imports", f"{_milliseconds(_FRAMEWORK, first):.0f} ms", "")
        both = _milliseconds(_FRAMEWORK, "import agenttape_langchain")
        yield Row("import `agenttape_langchain`, over `langchain_core`", f"{both:.0f} ms", "")
