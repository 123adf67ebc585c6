"""Edits of prompts and tools of LlamaIndex's agents that stand in a request are noticed by the replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from llama_index.core.base.llms.types import ChatMessage

from ..kit.edited import noticed, recorded
from ..kit.world import World
from .scripted import Reply, ScriptedLLM

pytestmark = [  # LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


@pytest.mark.parametrize("streaming", [False, True], ids=["awaited", "streamed"])
def test_what_stands_in_a_request_is_noticed(streaming: bool, tmp_path: Path) -> None:
    """Each edit of a prompt, or of a tool, that reaches a request is noticed, also in a stream."""
    program = '''
from llama_index.core.agent.workflow import FunctionAgent

PROMPT = "You book tables. Never book twice."

def search(place: str, hour: int = 8) -> str:
    """Find a place."""
    return place

async def answer():
    agent = FunctionAgent(llm=llm, tools=[search], system_prompt=PROMPT, streaming=STREAMING)
    return str(await agent.run("Book a table."))
'''

    def booking(messages: Sequence[ChatMessage], _: Sequence[str]) -> Reply:
        """Search, and say so."""
        return "Booked." if any(message.role == "tool" for message in messages) else [("search", {"place": "Luigi"})]

    given = {"llm": ScriptedLLM(World(), booking), "STREAMING": streaming}
    recorded(program, given, tmp_path / "a.yaml")
    kinds = ("prompts",) if streaming else ("prompts", "tools", "schemas")
    found = noticed(program, given, tmp_path / "a.yaml", kinds)
    assert [one for one, is_noticed in found.items() if not is_noticed] == []
    assert len(found) >= (4 if streaming else 10)
