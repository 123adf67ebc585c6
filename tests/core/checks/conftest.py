"""A run with a model, tools that fail and do not, and every source that it can be read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, convert, open_cassette, use_cassette
from agenttape_core.integration import Boundary, Usage

from ..session.world import call

QUESTION = "May I have my money back?"
ANSWER = '{"refunded": 5, "to": "Paris"}'


def ask(model: str, messages: list[dict[str, Any]], answer: Any, usage: Usage | None = None) -> Any:
    """Ask a model, as an integration does."""
    boundary = Boundary("chat", usage=lambda _: usage)
    return call("Model", lambda: answer, boundary, model=model, messages=messages)


@boundary("tool")
def look_up(order: str) -> str:
    """Find an order that exists."""
    if order == "none":
        raise LookupError("no such order")
    return f"{order} cost 5"


@boundary("tool")
def refund(order: str, amount: int) -> str:
    """Pay back."""
    return f"{amount} for {order}"


def support(question: str = QUESTION, answer: str = ANSWER) -> None:
    """Look up an order twice, of which one does not exist, pay back, and answer. The model asks for one tool more."""
    user = {"role": "user", "content": question}
    said = {"role": "assistant", "content": "", "tool_calls": [{"name": "delete_user", "args": {}, "id": "c1"}]}
    ask("gpt-5", [user], said, Usage(input_tokens=100, output_tokens=20))
    with suppress(LookupError):
        look_up("none")
    look_up("A-7")
    refund("A-7", 5)
    ask(
        "gpt-5",
        [user, {"role": "assistant", "content": "One moment."}],
        answer,
        Usage(input_tokens=200, output_tokens=30),
    )


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cassette of the run, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "support.yaml"
    with use_cassette(path, mode="all"):
        support()
    return path


@contextmanager
def _recording(path: Path, *, is_closed: bool = False) -> Iterator[Any]:
    with use_cassette(path.with_name("again.yaml"), mode="all") as session:
        support()
        if not is_closed:
            yield session
    if is_closed:
        yield session


@contextmanager
def _replaying(path: Path) -> Iterator[Any]:
    with use_cassette(path) as session:
        support()
        yield session


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    yield open_cassette(path)


@contextmanager
def _named(path: Path) -> Iterator[Any]:
    yield str(path)


@contextmanager
def _lines(path: Path) -> Iterator[Any]:
    convert(path, path.with_suffix(".jsonl"))
    yield path.with_suffix(".jsonl")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "recording": _recording,
    "replaying": _replaying,
    "closed": partial(_recording, is_closed=True),
    "opened": _opened,
    "named": _named,
    "lines": _lines,
}
