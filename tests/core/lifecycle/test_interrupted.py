"""A session that Ctrl-C interrupts as it begins or ends is over afterwards, and what it recorded can be kept."""

from __future__ import annotations

import _thread
import signal
import threading
from pathlib import Path

import pytest

from agenttape_core import boundary, recover, use_cassette, what_if
from agenttape_core.garbage import ASIDE
from agenttape_core.integration import current_session
from agenttape_core.lifecycle import contained

LIMIT = 30
"""Seconds after which a wait that the test ends is an error."""


@boundary("call")
def ask(question: str) -> str:
    """Answer."""
    return f"{question}!"


def interrupted(path: Path) -> None:
    """Record a call, and a thread that interrupts the end of the session, which waits for the thread."""
    may_end, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        ask("thread")
        _thread.interrupt_main()
        while not may_end.is_set():
            pass

    thread = threading.Thread(target=work)
    try:
        with pytest.raises(KeyboardInterrupt), use_cassette(path, mode="once"):
            ask("main")
            thread.start()
    finally:
        may_end.set()
        thread.join(LIMIT)


def test_ctrl_c_while_a_session_waits_for_threads(tmp_path: Path) -> None:
    """The session is over then, and the calls of the recording can be recovered."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupted(tmp_path / "c.yaml")
    finally:
        signal.signal(signal.SIGINT, before)
    assert current_session() is None
    (journal,) = (path for path in tmp_path.iterdir() if "c.yaml" in path.name)
    recover(journal)
    with use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
        assert ask("main") == "main!"
    with use_cassette(tmp_path / "new.yaml", mode="once"):
        ask("again")


def test_ctrl_c_while_a_replay_of_an_experiment_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was just entered is left again, and the next experiment runs as if there had been none."""

    def interrupts(_: object) -> None:
        raise KeyboardInterrupt

    def agent() -> str:
        return ask("agent")

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        agent()
    with monkeypatch.context() as patch:
        patch.setattr(contained, "watching_failed_blocks", interrupts)
        with pytest.raises(KeyboardInterrupt):
            what_if(tmp_path / "c.yaml", agent, {})
    assert current_session() is None
    assert not ASIDE.is_on
    with use_cassette(tmp_path / "new.yaml", mode="once"):
        ask("again")
    assert what_if(tmp_path / "c.yaml", agent, {}).result == "agent!"
