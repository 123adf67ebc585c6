"""An event handler whose disk is full leaves one file and one message, and goes on when there is room."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import NoReturn

import pytest
from llama_index.core.llms import MockLLM

from agenttape_core import open_cassette
from agenttape_core.storage import atomic, leftover_journals
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS

pytestmark = FRAMEWORK_WARNINGS


def test_recording_pauses_while_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of the handler of LangChain: what was recorded before the pause is written after it."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "c.jsonl"
    with TapeEventHandler(path) as handler:
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "_write_synced", full)
            for number in range(30):
                assert MockLLM().complete(f"full {number}").text == f"full {number}"
        assert not path.exists()
        assert [file.suffix for file in tmp_path.iterdir()].count(".journal") == 1
        for number in range(40):
            MockLLM().complete(f"after {number}")
    found = [str(call.request) for call in open_cassette(path).interactions()]
    assert "full 0" in found[0]
    assert "after" in found[1]
    assert "after 39" in found[-1]
    assert len(handler.errors) == 1
    levels = [record.levelno for record in caplog.records if record.name == "agenttape"]
    assert levels == [logging.ERROR, logging.WARNING]
    assert leftover_journals(path) == []
