"""Other tools wrap the functions that sessions wrap, and put back what they found when the session is over."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import NetworkBlockedError, use_cassette

from ..kit.foreign_wrappers import frames_in_sessions

if TYPE_CHECKING:
    from pathlib import Path

WRAPPED: list[tuple[Any, str]] = [
    (socket.socket, "send"),
    (socket.socket, "connect"),
    (socket, "gethostbyname"),
    (threading.Thread, "start"),
    (threading.Thread, "join"),
    (ThreadPoolExecutor, "shutdown"),
]


@pytest.mark.parametrize("where", WRAPPED, ids=lambda where: f"{where[0].__name__}.{where[1]}")
def test_sessions_and_another_tool_do_not_pile_up_wrappers(where: tuple[Any, str], tmp_path: Path) -> None:
    """A tool that wraps a function in each session, and unwraps it later, never finds more there than at first."""
    found = frames_in_sessions(*where, tmp_path / "run.yaml")
    assert found == found[:1] * len(found)


def test_what_a_tool_puts_back_does_not_stop_the_next_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that begins with a wrapper of the last one in place keeps the process offline."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        monkeypatch.setattr(socket.socket, "connect", socket.socket.connect)
    monkeypatch.undo()
    with socket.socket() as mine, pytest.raises(NetworkBlockedError), use_cassette(tmp_path / "run.yaml"):
        mine.connect(("192.0.2.1", 9))
