"""What holds for every run of the suite here: no settings of this project, and few processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttape_core.testing.checks.files import one_child

ALL_SHAPES = ("TestChat", "TestChatModel", "TestTask", "TestMethods")
"""The objects that can be called in most ways: one of each framework, and one of none."""
OF_SESSIONS = (
    *("both_layouts_hold_the_same", "nested_sessions", "two_sessions_at_once", "unused_interactions_are_reported"),
    *("equal_questions_get_their_answers_in_order", "equal_questions_in_tasks", "equal_questions_in_threads"),
    *("eaten_miss_fails_the_session", "one_question_too_many_is_a_miss"),
    *("miss_explains_itself", "order_of_completion_changes_nothing"),
)
"""The checks of what sessions do with any call; none of those that a request which varies by process or run fails."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what sessions do with any call to the night, but for the objects that can be called in most ways."""
    for item in items:
        is_of_sessions = item.path.parent == Path(__file__).parent and item.name.removeprefix("test_") in OF_SESSIONS
        if is_of_sessions and item.parent is not None and item.parent.name not in ALL_SHAPES:
            item.add_marker(pytest.mark.night)


@pytest.fixture(autouse=True, scope="session")
def _one_child() -> Iterator[None]:
    """Have one child process of each worker serve the checks about other processes."""
    with one_child():
        yield


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
