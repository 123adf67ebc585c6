"""A handler whose disk is full leaves one file and one message, disturbs nothing, and goes on when there is room."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

from agenttape_core import open_cassette
from agenttape_core.errors import CassetteWriteError
from agenttape_core.storage import atomic, journal, leftover_journals, recover
from agenttape_langchain import TapeCallbackHandler

Fill = Callable[[bool], None]


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Take the room for cassettes away, or give it back."""
    real = atomic._write_synced

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda is_full: monkeypatch.setattr(atomic, "_write_synced", full if is_full else real)


def ask(handler: TapeCallbackHandler, question: str) -> None:
    """Ask a model within a chain."""
    model = RunnableLambda(lambda text: text) | FakeListChatModel(responses=["said"])
    assert model.invoke(question, {"callbacks": [handler]}).content == "said"


def asked(path: Path) -> list[Any]:
    """The questions that a cassette holds."""
    return [
        re.findall(r"before|full \d+|after \d+", str(call.request))[0] for call in open_cassette(path).interactions()
    ]


def told(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The levels of what AgentTape has logged."""
    return [record.levelno for record in caplog.records if record.name == "agenttape"]


def test_recording_pauses_while_there_is_no_room(tmp_path: Path, fill: Fill, caplog: pytest.LogCaptureFixture) -> None:
    """What was recorded before is written when there is room; calls in between are not recorded."""
    path = tmp_path / "c.jsonl"
    handler = TapeCallbackHandler(path)
    ask(handler, "before")
    fill(True)
    for number in range(30):
        ask(handler, f"full {number}")
    assert asked(path) == ["before"]
    assert [file.suffix for file in tmp_path.iterdir() if file.suffix != ".lock"].count(".journal") == 1
    assert told(caplog) == [logging.ERROR]
    assert "nothing more is recorded until there is room again" in caplog.text
    assert len(handler.errors) == 1

    fill(False)
    for number in range(40):
        ask(handler, f"after {number}")
    handler.close()
    found = asked(path)
    assert found[:2] == ["before", "full 0"]
    assert found[2:] == [f"after {number}" for number in range(42 - len(found), 40)]
    assert len(found) > 10
    assert told(caplog) == [logging.ERROR, logging.WARNING]
    assert leftover_journals(path) == []


def test_the_second_pause_is_told_as_well(tmp_path: Path, fill: Fill, caplog: pytest.LogCaptureFixture) -> None:
    """There is one message for each."""
    handler = TapeCallbackHandler(tmp_path / "c.jsonl")
    for is_full in (True, False, True, False):
        fill(is_full)
        for _ in range(8):
            ask(handler, "Hi")
    handler.close()
    assert told(caplog) == [logging.ERROR, logging.WARNING] * 2


def test_what_is_left_at_the_end_can_be_recovered(tmp_path: Path, fill: Fill, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asks for the file gets the error; one file is left, and nothing more is logged."""
    path = tmp_path / "c.jsonl"
    handler = TapeCallbackHandler(path)
    fill(True)
    for number in range(5):
        ask(handler, f"full {number}")
    for end in (handler.flush, handler.close):
        with pytest.raises(CassetteWriteError, match="No space left"):
            end()
    (left,) = leftover_journals(path)
    fill(False)
    assert asked(Path(recover(left))) == ["full 0"]
    assert told(caplog) == [logging.ERROR]


def test_no_room_to_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No file is left, and the recording begins when there is room."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    path = tmp_path / "c.jsonl"
    handler = TapeCallbackHandler(path)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_created", full)
        for number in range(20):
            ask(handler, f"full {number}")
    assert leftover_journals(path) == []
    assert told(caplog) == [logging.ERROR]
    for number in range(40):
        ask(handler, f"after {number}")
    handler.close()
    assert asked(path)[-1] == "after 39"
    assert told(caplog) == [logging.ERROR, logging.WARNING]
