"""Programs that import LlamaIndex's workflows and nothing else of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.mark.process
def test_a_program_of_workflows_alone_is_recorded(tmp_path: Path) -> None:
    """Its time limits fire and its attempts end, recorded and replayed."""
    program = """
import asyncio, sys
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent
from workflows.retry_policy import ConstantDelayRetryPolicy
from agenttape_core import boundary, use_cassette

asked = []

@boundary("call")
async def ask(question):
    asked.append(question)
    if len(asked) == 1:
        raise ValueError("busy")
    return question + "!"

class Flow(Workflow):
    @step(retry_policy=ConstantDelayRetryPolicy(delay=0.05, maximum_attempts=3))
    async def one(self, event: StartEvent) -> StopEvent:
        answer = await ask("Paris?")
        await asyncio.sleep(event.seconds)
        return StopEvent(result=answer)

async def run(seconds):
    try:
        return await Flow(timeout=0.5).run(seconds=seconds)
    except Exception as error:
        return type(error).__name__

told = []
for mode in ("all", "none"):
    for seconds in (0, 5):
        asked.clear()
        with use_cassette(f"after {seconds}", mode=mode) as cassette:
            told.append((asyncio.run(run(seconds)), [item.address for item in cassette.interactions], len(asked)))
assert told[0][::2] == ("Paris?!", 2), told
assert told[1][::2] == ("WorkflowTimeoutError", 2), told
assert [each[:2] for each in told[2:]] == [each[:2] for each in told[:2]], told
assert not asked
"""

    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)


@pytest.mark.process
def test_a_package_of_the_program_of_that_name_is_its_own(tmp_path: Path) -> None:
    """Nothing of LlamaIndex is imported for it."""
    own = dedent("""
        import sys
        import workflows
        from agenttape_core import use_cassette
        with use_cassette("own", mode="once", on_unused="ignore"):
            assert workflows.Workflow() is not None
        assert "llama_index" not in sys.modules
    """)

    (tmp_path / "workflows.py").write_text("class Workflow: pass\n", encoding="utf-8")
    subprocess.run([sys.executable, "-c", own], check=True, cwd=tmp_path)
