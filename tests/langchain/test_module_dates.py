"""Dates that stand in the prompts of a module's chains and agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import DateAtImportWarning

from ..kit.replaying import Twice

SOURCE = """
from datetime import datetime
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate

def model(): return FakeListChatModel(responses=["answer"])

PROMPT = ChatPromptTemplate.from_messages([("system", f"Today is {datetime.now():%B %d, %Y}"), ("user", "{text}")])
AGENT = create_agent(model(), [], system_prompt=f"Today is {datetime.now():%Y-%m-%d}")

def chain(): return PROMPT | model()
def made_late(): return create_agent(model(), [], system_prompt=f"Today is {datetime.now():%d %B %Y}")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of the program, imported before any session."""
    (tmp_path / "dated_program.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "dated_program", raising=False)
    yield __import__("dated_program")
    sys.modules.pop("dated_program", None)


def test_template_of_a_module(program: Any, tmp_path: Path) -> None:
    """A template of prompts with a date is named."""
    with pytest.warns(DateAtImportWarning, match="dated_program.PROMPT"), use_cassette(tmp_path / "c", mode="all"):
        program.chain().invoke({"text": "Hi"})


def test_agent_of_a_module(program: Any, tmp_path: Path) -> None:
    """An agent whose system prompt has a date is named."""
    with pytest.warns(DateAtImportWarning, match="dated_program.AGENT"), use_cassette(tmp_path / "c", mode="all"):
        program.AGENT.invoke({"messages": [("user", "Hi")]})


def test_agent_of_a_function(program: Any, twice: Twice) -> None:
    """An agent that a function makes in the session draws a date that is replayed: no warning."""
    twice.record(lambda: program.made_late().invoke({"messages": [("user", "Hi")]}))
