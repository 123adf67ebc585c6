"""Workflows of the functional API that are resumed: their tasks are done when they ask for them again."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, as_completed, wait
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from ..kit.replaying import recorded_as_replayed


def _by_completion(futures: list[Any]) -> list[str]:
    return [future.result() for future in as_completed(futures)]


def _by_wait(futures: list[Any]) -> list[str]:
    return [future.result() for future in wait(futures).done]


def _by_first(futures: list[Any]) -> list[str]:
    found, left = [], set(futures)
    while left:
        done, left = wait(sorted(left, key=futures.index), return_when=FIRST_COMPLETED)
        found += [future.result() for future in done]
    return found


@pytest.mark.parametrize("take", [_by_completion, _by_wait, _by_first])
def test_results_of_tasks_come_in_one_order(take: Any, tmp_path: Path) -> None:
    """A workflow that's resumed takes the results of its tasks in the recorded order."""

    def run() -> Any:
        model = FakeListChatModel(responses=[f"answer {number}" for number in range(20)])

        @task
        def ask(number: int) -> str:
            return model.invoke(f"question {number}").text

        @entrypoint(checkpointer=InMemorySaver())
        def flow(_: Any) -> Any:
            came = take([ask(number) for number in range(12)])
            return came, interrupt("ok?")

        config: Any = {"configurable": {"thread_id": "t"}}
        flow.invoke({}, config)
        resume: Any = Command(resume="yes")
        return flow.invoke(resume, config)

    recorded_as_replayed(tmp_path / "c.yaml", run, times=3)
