"""Virtual time of workflows: their time limit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, WorkflowTimeoutError, step
from tests.kit.times import took

from agenttape_core import Variation, late, use_cassette

from .acceptance import FRAMEWORK_WARNINGS
from .scripted import ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


@pytest.mark.parametrize(
    ("limit", "options", "result"),
    [
        (60, {}, ("answered", 45)),
        (30, {}, ("ended", 30)),
        (60, {"vary": Variation(changes={1: late(60)})}, ("ended", 60)),
    ],
)
def test_the_time_limit_of_a_workflow_is_virtual(tmp_path: Path, limit: float, options: Any, result: Any) -> None:
    """A model takes its recorded time, and a workflow ends when it would have ended."""

    class Asks(Workflow):
        """Asks once."""

        @step
        async def ask(self, _: StartEvent) -> StopEvent:
            """Ask."""
            return StopEvent(result=(await ScriptedLLM(World()).acomplete("Why?")).text)

    def run(path: Path, limit: float, **options: Any) -> Any:
        """Run the workflow, and return the seconds that it took in its loop, and whether it was ended."""

        async def runs() -> Any:
            loop = asyncio.get_running_loop()
            async with use_cassette(path, on_unused="ignore", **options):
                began = loop.time()
                try:
                    await Asks(timeout=limit).run()
                except WorkflowTimeoutError:
                    return "ended", round(loop.time() - began, 1)
                return "answered", round(loop.time() - began, 1)

        return asyncio.run(runs())

    run(tmp_path / "run.yaml", 60, mode="all")
    took(tmp_path / "run.yaml", {1: 45})
    assert run(tmp_path / "run.yaml", limit, pace="virtual", **options) == result
