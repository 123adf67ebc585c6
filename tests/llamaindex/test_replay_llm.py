"""LLMs made of a cassette: no provider, no key, no network; and structured prediction in all its forms."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.tools import FunctionTool
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel
from tests.kit.world import gone
from workflows.context.external_context import ExternalContext

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, CassetteNotFoundError, ConfigurationError
from agenttape_llamaindex import ReplayEmbedding, ReplayLLM, tape

from .fakes import CALLS, HELLO, CallingLLM, LeafLLM, PromptLLM, done, drained, events_of
from .scripted import Reply, ScriptedLLM, World

# -- LLMs made of a cassette: no provider, no key, no network ----------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("cls", [LeafLLM, PromptLLM], ids=lambda cls: cls.__name__)
def test_every_leaf_call(tmp_path: Path, cls: type[LeafLLM], name: str) -> None:
    """A stand-in gives the recorded answers, and fires the events of every LLM."""
    with use_cassette(tmp_path / "c.yaml", mode="all"), events_of() as told:
        recorded = done(CALLS[name](cls(World())))
    llm = ReplayLLM(tmp_path / "c.yaml")
    with events_of() as again:
        assert done(CALLS[name](llm)) == recorded
    assert {event[0] for event in again} == {event[0] for event in told}
    assert llm.metadata.model_name == "fake-1"
    assert len(llm.report.replayed) == 1
    assert done(CALLS[name](pickle.loads(pickle.dumps(llm)))) == recorded  # as in another process, from the start


def test_no_session_records_it(tmp_path: Path) -> None:
    """A stand-in takes no part in a session, taped or automatic: nothing real is behind it."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml")
    assert tape(llm) is llm
    with use_cassette(tmp_path / "other.yaml", mode="all", on_unused="ignore") as other:
        llm.chat(HELLO)
    assert other.interactions == []


@pytest.mark.parametrize(
    "call",
    [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"city": "Oslo"}'}},
        {"id": "1", "type": "tool_use", "name": "add", "input": {"city": "Oslo"}},
        {"id": "1", "name": "add", "args": {"city": "Oslo"}},
        {"toolUseId": "1", "name": "add", "input": {"city": "Oslo"}},
        {"function": {"name": "add", "arguments": {"city": "Oslo"}}},
        {"unknown": "add"},
    ],
)
def test_tool_calls_that_an_llm_keeps_in_the_form_of_its_provider(tmp_path: Path, call: dict[str, Any]) -> None:
    """A stand-in reads them from `additional_kwargs`, or refuses the form: without the call, an agent would end.

    Streamed ones that have no name yet are none.
    """
    calls = [call, {"id": "2", "function": None}, {"id": "3", "function": {"name": None, "arguments": ""}}]

    class Keeping(LeafLLM):
        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            return ChatResponse(message=ChatMessage(role="assistant", additional_kwargs={"tool_calls": calls}))

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        Keeping(World()).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml")
    with pytest.raises(ConfigurationError, match="only its own LLM knows") if "unknown" in call else nullcontext():
        (found,) = llm.get_tool_calls_from_response(llm.chat(HELLO))
        assert (found.tool_name, found.tool_kwargs) == ("add", {"city": "Oslo"})
        assert found.tool_id == ("1" if "1" in call.values() else "add")


def test_one_of_several_models(tmp_path: Path) -> None:
    """One of several models in a cassette is chosen by its name."""
    world = World()
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        for temperature in (0.1, 0.9):
            LeafLLM(world, temperature=temperature).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml", model="fake-1")
    assert [llm.chat(HELLO).raw["id"] for _ in range(2)] == ["chatcmpl-1", "chatcmpl-2"]
    assert ReplayLLM(tmp_path / "c.yaml").chat(HELLO, temperature=0.9).raw["id"] == "chatcmpl-2"
    with pytest.raises(ConfigurationError, match="it holds calls of 'fake-1'"):
        ReplayLLM(tmp_path / "c.yaml", model="other")


def test_asked_more_often_than_recorded(tmp_path: Path) -> None:
    """One answer more than was recorded is a miss, or the last one again with `on_repeat="last"`."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    llm, again = ReplayLLM(tmp_path / "c.yaml"), ReplayLLM(tmp_path / "c.yaml", on_repeat="last")
    llm.chat(HELLO)
    with pytest.raises(CassetteMissError, match="was called again with a request"):
        llm.chat(HELLO)
    assert again.chat(HELLO) == again.chat(HELLO)


def test_other_question_is_a_miss(tmp_path: Path) -> None:
    """A question that was not recorded has no answer."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml")
    with pytest.raises(CassetteMissError):
        llm.chat([ChatMessage(role="user", content="Other")])
    with pytest.raises(CassetteMissError):
        llm.complete("Once")


def test_errors_of_making_one(tmp_path: Path) -> None:
    """A cassette that is missing, or holds nothing of the sort, is refused when the stand-in is made."""
    with pytest.raises(CassetteNotFoundError):
        ReplayLLM(tmp_path / "none.yaml")
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    with pytest.raises(ConfigurationError, match="holds no embeddings"):
        ReplayEmbedding(tmp_path / "c.yaml")


@pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated")  # the agent reads them
def test_a_miss_ends_a_stream_of_events(tmp_path: Path) -> None:
    """Whoever reads the events of an agent on a stand-in gets the miss, without any session; later nothing is left."""

    async def events(llm: Any, question: str) -> list[Any]:
        handler = FunctionAgent(llm=llm, tools=[]).run(question)
        told = [event async for event in handler.stream_events()]
        return [str(await handler), len(told)]

    gc.collect()  # stand-ins of other tests
    real = ExternalContext.stream_events
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(events(CallingLLM(World()), "Paris?"))
    llm = ReplayLLM(tmp_path / "c.yaml", is_function_calling_model=True)
    with pytest.raises(CassetteMissError):
        asyncio.run(asyncio.wait_for(events(llm, "Oslo?"), 60))
    assert asyncio.run(events(llm, "Paris?")) == recorded
    del llm
    gc.collect()
    assert ExternalContext.stream_events is real


# -- `ReplayLLM` asks for objects as an LLM did that forces its tools --------------------------------------------------


class Flat(BaseModel):
    """A flat."""

    a: str


WHICH_FLAT = PromptTemplate("Which flat?")
SAID = [ChatMessage(role="user", content="Which flat?")]


async def _streamed(stream: Any) -> list[Any]:
    return [item async for item in await stream]


async def _predicted(llm: Any) -> Any:
    return llm.structured_predict(Flat, WHICH_FLAT)


async def _as_structured(llm: Any) -> Any:
    return llm.as_structured_llm(Flat).chat(SAID).raw


async def _read(llm: Any) -> Any:
    return list(llm.stream_structured_predict(Flat, WHICH_FLAT))


async def _program(llm: Any) -> Any:
    return FunctionCallingProgram.from_defaults(Flat, prompt=WHICH_FLAT, llm=llm)()


WAYS: dict[str, Callable[[Any], Any]] = {
    "structured_predict": _predicted,
    "astructured_predict": lambda llm: llm.astructured_predict(Flat, WHICH_FLAT),
    "stream_structured_predict": _read,
    "astream_structured_predict": lambda llm: _streamed(llm.astream_structured_predict(Flat, WHICH_FLAT)),
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


# -- Structured prediction in all its forms ----------------------------------------------------------------------------

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
