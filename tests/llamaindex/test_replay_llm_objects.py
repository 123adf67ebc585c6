"""`ReplayLLM` asks for objects as an LLM did that forces its tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.program import FunctionCallingProgram
from pydantic import BaseModel
from tests.kit.world import gone

from agenttape_core import use_cassette
from agenttape_llamaindex import ReplayLLM, tape

from .scripted import Reply, ScriptedLLM, World


class Flat(BaseModel):
    """A flat."""

    a: str


PROMPT = PromptTemplate("Which flat?")
SAID = [ChatMessage(role="user", content="Which flat?")]


async def _streamed(stream: Any) -> list[Any]:
    return [item async for item in await stream]


async def _predicted(llm: Any) -> Any:
    return llm.structured_predict(Flat, PROMPT)


async def _as_structured(llm: Any) -> Any:
    return llm.as_structured_llm(Flat).chat(SAID).raw


async def _read(llm: Any) -> Any:
    return list(llm.stream_structured_predict(Flat, PROMPT))


async def _program(llm: Any) -> Any:
    return FunctionCallingProgram.from_defaults(Flat, prompt=PROMPT, llm=llm)()


WAYS: dict[str, Callable[[Any], Any]] = {
    "structured_predict": _predicted,
    "astructured_predict": lambda llm: llm.astructured_predict(Flat, PROMPT),
    "stream_structured_predict": _read,
    "astream_structured_predict": lambda llm: _streamed(llm.astream_structured_predict(Flat, PROMPT)),
    "as_structured_llm": _as_structured,
    "program": _program,
}


@pytest.mark.parametrize("way", WAYS)
async def test_objects_of_an_llm_that_forces_its_tools(way: str, tmp_path: Path) -> None:
    """Each way to ask for an object replays, by the replay model and by the taped LLM."""

    class Forcing(ScriptedLLM):
        """Sends a `tool_choice` only where a tool is required."""

        def _prepare_chat_with_tools(self, tools: Any, tool_required: bool = False, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
            made = super()._prepare_chat_with_tools(tools, tool_required=tool_required, **kwargs)
            return {**made, "tool_choice": "required"} if tool_required else made

    def _script(messages: Any, _: Any) -> Reply:
        return [("Flat", {"a": "big"})]

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await WAYS[way](Forcing(World(), _script))
    assert repr(await WAYS[way](ReplayLLM(tmp_path / "c.yaml"))) == repr(recorded)  # streams make a class each time
    with use_cassette(tmp_path / "c.yaml"):
        assert repr(await WAYS[way](tape(Forcing(gone(), _script)))) == repr(recorded)
