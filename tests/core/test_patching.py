"""Other tools wrap the functions that sessions wrap, and put back what they found when the session is over."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import CallbackManager
from langgraph.checkpoint.memory import InMemorySaver

from agenttape_core import NetworkBlockedError, use_cassette

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRAPPED: list[tuple[Any, str]] = [
    (socket.socket, "send"),
    (socket.socket, "connect"),
    (socket, "gethostbyname"),
    (threading.Thread, "start"),
    (threading.Thread, "join"),
    (ThreadPoolExecutor, "shutdown"),
    (CallbackManager, "merge"),
    (CallbackManager, "on_chain_start"),
    (InMemorySaver, "put"),
]


def frames_of(function: Any) -> int:
    """Return the number of functions that a call passes through at most, as far as closures tell."""
    if not isinstance(function, FunctionType):
        return 1
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return 1 + max((frames_of(content) for content in cells), default=0)


@pytest.fixture(params=WRAPPED, ids=lambda where: f"{where[0].__name__}.{where[1]}")
def where(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str]]:
    """A function that sessions wrap; afterwards it is as it was."""
    owner, name = request.param
    had, before = name in vars(owner), vars(owner).get(name)
    yield owner, name
    if had and vars(owner).get(name) is not before:
        setattr(owner, name, before)
    elif not had and name in vars(owner):
        delattr(owner, name)


def test_sessions_and_another_tool_do_not_pile_up_wrappers(where: tuple[Any, str], tmp_path: Path) -> None:
    """A tool that wraps a function in each session, and unwraps it later, never finds more there than at first."""
    owner, name = where
    found = []
    for _ in range(4):
        with use_cassette(tmp_path / "run.yaml", mode="all"):
            ours = getattr(owner, name)
            found.append(frames_of(ours))

            def watched(*args: Any, _real: Any = ours, **kwargs: Any) -> Any:
                return _real(*args, **kwargs)

            setattr(owner, name, watched)
        setattr(owner, name, ours)
    assert len(set(found)) == 1, found


def test_what_a_tool_puts_back_does_not_stop_the_next_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that begins with a wrapper of the last one in place keeps the process offline."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        monkeypatch.setattr(socket.socket, "connect", socket.socket.connect)
    monkeypatch.undo()
    with socket.socket() as mine, pytest.raises(NetworkBlockedError), use_cassette(tmp_path / "run.yaml"):
        mine.connect(("192.0.2.1", 9))
