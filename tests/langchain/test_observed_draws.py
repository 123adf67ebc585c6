"""What a program draws in a replay of an observed run is another one than then, and the replay says so."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel, Field

from agenttape_core import use_cassette
from agenttape_core.results import Verification
from agenttape_langchain import TapeCallbackHandler

from .fakes import FakeChat, World

if TYPE_CHECKING:
    from pathlib import Path

IDS, NUMBERS, TIMES = (f"{what} that the program draws are other ones" for what in ("ids", "random numbers", "times"))


class Named(BaseModel):
    """Something with an id of its own."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4)


def in_a_thread(work: Callable[[], object]) -> None:
    """Work in a thread without a context."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


DRAWN: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "nothing": (lambda: None, ()),
    "a seed of its own": (lambda: random.Random(1).random(), ()),
    "an id": (uuid.uuid4, (IDS,)),
    "an id of a field": (Named, (IDS,)),
    "an id in a thread": (lambda: in_a_thread(uuid.uuid4), (IDS,)),
    "a time in a thread": (lambda: in_a_thread(time.time), (TIMES,)),
    "numbers": (lambda: [random.random(), random.choice("abc")], (NUMBERS,)),
    "a generator": (random.Random, (NUMBERS,)),
    "a time": (time.time, (TIMES,)),
    "a date": (datetime.now, (TIMES,)),
    "several": (lambda: (time.time(), uuid.uuid1()), (TIMES, IDS)),
    "an id of the framework": (lambda: ToolMessage("", tool_call_id="1").pretty_repr(), ()),
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_named(name: str, world: World, tmp_path: Path) -> None:
    """Each replay names the kinds of what its program drew; a program that draws nothing has no note."""
    draw, told = DRAWN[name]

    def drive(**config: Any) -> str:
        def work(said: str) -> str:
            draw()
            return str(FakeChat(world=world).invoke(said).content)

        return RunnableLambda(work).invoke("Rain?", config or None)

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = drive(callbacks=[handler])
    assert handler.errors == []
    for _ in range(2):
        with use_cassette(tmp_path / "seen.jsonl") as session:
            assert drive() == observed
        assert (session.report.nondeterminism, session.report.unobserved) == ((), told)


def test_what_a_session_has_recorded_is_complete(world: World, tmp_path: Path) -> None:
    """A session keeps what is drawn, so that its replays have nothing to say, and give the same."""

    def drive() -> tuple[str, uuid.UUID]:
        return str(FakeChat(world=world).invoke("Rain?").content), uuid.uuid4()

    with use_cassette(tmp_path / "taped.jsonl", mode="all"):
        recorded = drive()
    with use_cassette(tmp_path / "taped.jsonl") as session:
        assert drive() == recorded
    assert session.report.unobserved == ()


def test_a_verification_says_so() -> None:
    """The report of a verification has a line for it, and its data a list."""
    found = Verification("f", [], [], "failed", {}, unobserved=[IDS])
    line = f"  the run was only observed, and a handler does not see all (a session does): {IDS}"
    assert line in str(found).splitlines()
    assert found.to_dict()["unobserved"] == [IDS]
