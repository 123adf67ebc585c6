"""Structured prediction in all its forms."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_llamaindex import ReplayLLM, tape

from .fakes import CallingLLM, PromptLLM, drained, events_of
from .scripted import World

PROMPT = PromptTemplate("Which city in {land}?")


class City(BaseModel):
    """A city."""

    name: str
    size: int


class Suburb(City):
    """A city beside another one."""

    of: City | None = None


def add(name: str, size: int) -> str:
    """Add a city."""
    return f"{name}:{size}"


async def _astream(llm: Any) -> Any:
    return dumped(await drained(await llm.astream_structured_predict(City, PROMPT, land="Spain")))


def dumped(items: Any) -> list[Any]:
    """Return objects as what they hold: the framework makes a new class for the unfinished ones of each stream."""
    return [(type(item).__name__, item.model_dump()) for item in items]


async def _astream_tools(llm: Any) -> Any:
    return await drained(await llm.astream_chat_with_tools([FunctionTool.from_defaults(add)], user_msg="Add"))


FORMS: dict[str, Callable[[Any], Any]] = {
    "structured_predict": lambda llm: llm.structured_predict(City, PROMPT, land="France"),
    "astructured_predict": lambda llm: llm.astructured_predict(City, PROMPT, land="Italy"),
    "stream_structured_predict": lambda llm: dumped(llm.stream_structured_predict(City, PROMPT, land="Malta")),
    "astream_structured_predict": _astream,
    "as_structured_llm": lambda llm: llm.as_structured_llm(City).chat([ChatMessage(role="user", content="Peru")]),
    "structured complete": lambda llm: llm.as_structured_llm(City).acomplete("Chile"),
    "structured stream": lambda llm: [
        (str(chunk.message), chunk.raw.model_dump())
        for chunk in llm.as_structured_llm(City).stream_chat([ChatMessage(role="user", content="Cuba")])
    ],
    "predict_and_call": lambda llm: str(llm.predict_and_call([FunctionTool.from_defaults(add)], "Add Paris")),
    "chat_with_tools": lambda llm: llm.chat_with_tools([FunctionTool.from_defaults(add)], user_msg="Add"),
    "achat_with_tools": lambda llm: llm.achat_with_tools([FunctionTool.from_defaults(add)], user_msg="Add"),
    "stream_chat_with_tools": lambda llm: list(
        llm.stream_chat_with_tools([FunctionTool.from_defaults(add)], user_msg="Add")
    ),
    "astream_chat_with_tools": _astream_tools,
    "nested class": lambda llm: llm.structured_predict(Suburb, PROMPT, land="France"),
    "nested argument": lambda llm: llm.chat_with_tools(
        [FunctionTool.from_defaults(add, fn_schema=Suburb)], user_msg="Add"
    ),
    "predict": lambda llm: llm.predict(PROMPT, land="Norway"),
    "stream": lambda llm: "".join(llm.stream(PROMPT, land="Norway")),
}


def outcome_of(form: str, llm: Any) -> tuple[Any, list[Any]]:
    """Return what a form gives, and which events happen at it."""
    with events_of() as events:
        value = FORMS[form](llm)
        value = asyncio.run(value) if inspect.isawaitable(value) else value
    return value, [event[:2] for event in events]


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:The `json` method is deprecated")  # StructuredLLM calls it
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
def test_replay_equals_the_recording(tmp_path: Path, form: str, *, auto: bool) -> None:
    """Every form gives the same value and fires the same events recorded, replayed, and from a stand-in."""
    world = World()
    llm = CallingLLM(world) if auto else tape(CallingLLM(world))
    plain = outcome_of(form, CallingLLM(World()))
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=auto):
        recorded = outcome_of(form, llm)
    world.gone = True
    with use_cassette(tmp_path / "c.yaml", auto=auto):
        replayed = outcome_of(form, llm)
    assert replayed == recorded == plain
    alone = ReplayLLM(tmp_path / "c.yaml", is_chat_model=True, is_function_calling_model=True)
    assert outcome_of(form, alone)[0] == recorded[0]
    assert world.trespasses == []


@pytest.mark.parametrize("mode", [PydanticProgramMode.LLM, PydanticProgramMode.DEFAULT])
def test_text_programs(tmp_path: Path, mode: PydanticProgramMode) -> None:
    """An LLM without functions answers with JSON in its text, recorded, replayed, and as a stand-in."""

    class JsonLLM(PromptLLM):
        """Says JSON, with the number of the call."""

        def _complete(self, what: str) -> CompletionResponse:
            return CompletionResponse(text=f'{{"name": "Oslo", "size": {self._world.reach(what)}}}')

    world = World()
    llm = tape(JsonLLM(world, pydantic_program_mode=mode))
    for session_mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=session_mode) as cassette:
            assert llm.structured_predict(City, PROMPT, land="Norway").size == 1
        world.gone = True
    assert [replayed.kind for replayed in cassette.report.replayed] == ["completion"]
    alone = ReplayLLM(tmp_path / "c.yaml", is_chat_model=True, pydantic_program_mode=mode)
    assert alone.structured_predict(City, PROMPT, land="Norway").size == 1


def test_structured_llm_is_no_boundary(tmp_path: Path) -> None:
    """A structured LLM that is taped records the LLM that it asks, once."""
    structured = tape(CallingLLM(World()).as_structured_llm(City))
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=False) as cassette:
        assert structured.chat([ChatMessage(role="user", content="Peru")]).raw.name == "Paris"
    assert [interaction.name for interaction in cassette.interactions] == ["CallingLLM"]


class FormatLLM(CallingLLM):
    """Asks for objects by a response format, and takes one tool call of several, as OpenAI's class does."""

    def structured_predict(self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **prompt_args: Any) -> Any:
        wanted = {"name": output_cls.__name__, "schema": output_cls.model_json_schema(), "strict": True}
        answer = self.chat(
            self._extend_messages(prompt.format_messages(**prompt_args)),
            response_format={"type": "json_schema", "json_schema": wanted},
        )
        return output_cls.model_validate_json(answer.message.content)

    def _prepare_chat_with_tools(self, tools: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        several = kwargs.get("allow_parallel_tool_calls", False)
        return {**super()._prepare_chat_with_tools(tools, *args, **kwargs), "parallel_tool_calls": several}

    def _validate_chat_with_tools_response(
        self, response: ChatResponse, tools: Any, allow_parallel_tool_calls: bool = False, **kwargs: Any
    ) -> ChatResponse:
        if not allow_parallel_tool_calls:
            response.message.blocks = response.message.blocks[:1]
        return response

    def _answer(self, what: str, tools: Any) -> ChatResponse:
        if tools:
            first, second = super()._answer(what, tools), super()._answer(what, tools)
            first.message.blocks += second.message.blocks
            return first
        said = f'{{"name": "Oslo", "size": {self._world.reach(what)}}}'
        return ChatResponse(message=ChatMessage(role="assistant", content=said))


@pytest.mark.parametrize("form", ["structured_predict", "as_structured_llm"])
def test_a_stand_in_asks_by_the_response_format_that_was_recorded(tmp_path: Path, form: str) -> None:
    """It asks for an object in the form in which the recorded class asked, which was no tool."""
    world = World()
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = outcome_of(form, FormatLLM(world))[0]
    world.gone = True
    assert outcome_of(form, ReplayLLM(tmp_path / "c.yaml", is_function_calling_model=True))[0] == recorded


@pytest.mark.parametrize("several", [False, True])
def test_a_stand_in_takes_one_call_where_one_was_asked_for(tmp_path: Path, *, several: bool) -> None:
    """It drops all but the first tool call of an answer, as the recorded class did, unless several were asked for."""

    def called(llm: Any) -> Any:
        add_city = FunctionTool.from_defaults(add)
        return llm.chat_with_tools([add_city], user_msg="Add", allow_parallel_tool_calls=several).message.blocks

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = called(FormatLLM(World()))
    assert len(recorded) == 1 + several
    assert called(ReplayLLM(tmp_path / "c.yaml", is_function_calling_model=True)) == recorded
