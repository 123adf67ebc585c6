"""The cost of importing AgentTape."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import FULL, ROUNDS, Row, Scale, fake

from agenttape_core import use_cassette
from agenttape_langchain import tape

_MODEL = "from langchain_core.language_models import BaseChatModel"
_CORE = "from agenttape_core import use_cassette"


def _milliseconds(before: str, code: str) -> float:
    """Return the least time of the processor for an import; the first round may compile, so it isn't the least."""
    lines = (before, "import time; t = time.process_time()", code, "print((time.process_time() - t) * 1000)")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, env=environment
        )
        for _ in range(ROUNDS)
    ]
    return min(float(run.stdout) for run in runs)


def imports(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure our import, and a first session, in a process that has imported a chat model, as shares of that."""
    if scale is not FULL:
        return
    cassette = folder / "first.yaml"
    with use_cassette(cassette, mode="record"):
        tape(fake()).invoke("question")
    session = f"{_CORE}\nwith use_cassette({str(cassette)!r}, on_unused='ignore'): pass"
    model = _milliseconds("pass", _MODEL)
    yield Row("import `use_cassette`, over `langchain_core`", f"{_milliseconds(_MODEL, _CORE):.0f} ms", "<= 40 ms")
    for what, before, code, share in (
        ("import `agenttape_langchain`", _MODEL, "import agenttape_langchain", 0.13),
        ("the first session after it", f"{_MODEL}; import agenttape_langchain", session, 0.2),
    ):
        found = _milliseconds(before, code)
        yield Row(
            f"{what}, over `BaseChatModel`", f"{found:.0f} ms, {found / model:.2f}x", f"<= {share}x of {model:.0f} ms"
        )
