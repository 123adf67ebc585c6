"""Secrets in the file of a saver: replaced where the user asks for it, and told in a copy of a production saver."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from agenttape_langgraph import TapeSaver

KEY = "sk-" + "proj-" + "a1B2c3D4" * 5
THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    """The state of a thread with an address, a password and a number under a denied name."""

    mail: str
    password: str
    passcode: int


def fill(_: State) -> State:
    """Return what no file should have."""
    return {"mail": f"ann.lee@acme-mail.com with {KEY}", "password": "hunter2-plain", "passcode": 471147}


def run(saver: Any) -> Any:
    """Run a graph of one node, and return the state that the saver has."""
    graph = StateGraph(State).add_node("fill", fill).add_edge(START, "fill").add_edge("fill", END).compile(saver)
    graph.invoke({"mail": KEY, "password": "hunter2-plain", "passcode": 1}, THREAD)
    return graph.get_state(THREAD).values


def test_redacted_file(tmp_path: Path) -> None:
    """With `redact`, the file has pseudonyms of the types of the values, and the production saver has the values."""
    production = InMemorySaver()
    with TapeSaver(tmp_path / "copy.sqlite", inner=production, redact=True) as saver:
        assert run(saver)["password"] == "hunter2-plain"
    with TapeSaver(tmp_path / "copy.sqlite", read_only=True) as copy:
        values = copy.get_tuple(THREAD).checkpoint["channel_values"]
        text = str(list(copy.list(THREAD)))
    assert KEY not in text
    assert "hunter2" not in text
    assert "acme-mail" not in text
    assert isinstance(values["passcode"], int)
    assert values["passcode"] != 471147
    assert "@example.com" in values["mail"]


def test_copy_of_secrets_warns_once(tmp_path: Path) -> None:
    """A copy that holds secrets says so once; one that is meant to, and a saver of its own, say nothing."""
    with TapeSaver(tmp_path / "copy.sqlite", inner=InMemorySaver()) as saver:
        with pytest.warns(UserWarning, match="copied as they are") as told:
            run(saver)
        assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TapeSaver(tmp_path / "meant.sqlite", inner=InMemorySaver(), redact=False) as saver:
            assert run(saver)["password"] == "hunter2-plain"
        with TapeSaver(tmp_path / "own.sqlite") as saver:
            assert run(saver)["password"] == "hunter2-plain"
