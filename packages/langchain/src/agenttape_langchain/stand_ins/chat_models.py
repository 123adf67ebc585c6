"""A chat model made of a cassette."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, PrivateAttr

from agenttape_core.integration import SessionCall, areplay_call, areplay_stream, replay_call, replay_stream
from agenttape_core.integration.stand_ins import (
    OnRepeat,
    Pace,
    RecordedModel,
    Setting,
    StandIn,
    format_meaning,
    formats_agree,
    hold_signature,
)
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.requests import chat_body
from agenttape_langchain.stand_ins.methods import InOrder


class ReplayChatModel(StandIn, InOrder, BaseChatModel):
    """A chat model that answers from a cassette, as the recorded model did.

    It matches as strictly as a session does, on the whole request; only the settings of the model itself (its name
    and sampling parameters) are taken from the recording. Tools and response formats may have any provider's form.
    Each instance replays the cassette once from the start. The constructor reads every recorded chat once; a call
    reads only its own answer.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The recorded model, if the cassette holds several.
        on_repeat: The answer to more calls of a request than were recorded: `fail`, `last`, `cycle`; by default the
            setting of the project.
        pace: The duration of an answer: no time (`none`), its recorded duration (`recorded`), or that times a number;
            by default the setting of the project.
        options: Options of every chat model; `output_version` must be the recorded model's.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no chat, or not of that model.
    """

    cassette: str | Path
    model: str | None = None
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None

    # LangChain looks for these on each call, and pydantic takes long to report that there are none.
    model_name: ClassVar[None] = None
    temperature: ClassVar[None] = None
    max_tokens: ClassVar[None] = None

    _recorded: RecordedModel = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        self._recorded = RecordedModel(self.cassette, (CHAT,), self.model, on_repeat=self.on_repeat, pace=self.pace)
        if self.profile is None and any(setting.meaning.response_format for setting in self._settings):
            self.profile = {"structured_output": True}

    @property
    def _settings(self) -> list[Setting]:
        return self._recorded.settings(CHAT)

    @property
    def _llm_type(self) -> str:
        return "agenttape-replay"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(self._recorded.settings(CHAT)[0].base)

    def _cross(self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]) -> SessionCall:
        given = chat_body((), {**kwargs, "stop": stop} if stop else kwargs) if kwargs or stop else {}
        given.pop("messages", None)
        seen = as_provider_sees(messages, traced=False)
        return self._recorded.cross(CHAT, functools.partial(chat_body, seen), given)

    @hold_signature
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result: ChatResult = replay_call(self._cross(messages, stop, kwargs))
        return result

    @hold_signature
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result: ChatResult = await areplay_call(self._cross(messages, stop, kwargs))
        return result

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in replay_stream(self._cross(messages, stop, kwargs)):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in areplay_stream(self._cross(messages, stop, kwargs)):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as the recorded model did, whatever their form."""
        spelled = [_spelled(tool) for tool in tools]
        by_framework = "ls_structured_output_format" in kwargs  # LangChain forces a tool if it has no response format
        if tool_choice is not None and not (by_framework and self._recorded.was_forced(CHAT, spelled) is False):
            kwargs["tool_choice"] = tool_choice
        return self.bind(**({"tools": spelled} if spelled else {}), **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Request structured output as the recorded model did: by a response format, or by a tool.

        Args:
            schema: The schema, as for every chat model.
            include_raw: Whether to return the message too, as for every chat model.
            kwargs: `method` (`json_schema`, `function_calling`, `json_mode`), if the cassette holds several, and other
                options of the recorded model.
        """
        method = kwargs.pop("method", None)
        kwargs.pop("strict", None)
        wanted = ("json_object",) if method == "json_mode" else _meaning_of(schema)
        recorded = any(formats_agree(wanted, setting.meaning.response_format) for setting in self._settings)
        if method == "function_calling" or (method is None and not recorded):
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        tools = kwargs.pop("tools", ())
        if method == "json_mode":
            model = self.bind_tools(tools, response_format={"type": "json_object"}, **kwargs)
            return _parsed(model, _parser_of_text(schema), include_raw=include_raw)
        model = self.bind_tools(tools, response_format=_json_schema(schema), **kwargs)
        return _parsed(model, _parser_of_answer(schema), include_raw=include_raw)


def _spelled(tool: Any) -> dict[str, Any]:
    """Return a tool in a provider's form; objects, classes and plain JSON schemas are converted."""
    if isinstance(tool, dict) and ("title" not in tool or "name" in tool):
        return tool
    return convert_to_openai_tool(tool)


def _meaning_of(schema: Any) -> tuple[Any, ...] | None:
    """Return the name and fields of a response format, given as a provider's dict, a JSON schema or a class."""
    is_spelled = schema is None or isinstance(schema, Mapping | str)
    return format_meaning(schema if is_spelled else convert_to_json_schema(schema))


def _json_schema(schema: Any) -> dict[str, Any]:
    plain = convert_to_json_schema(schema)
    return {"type": "json_schema", "json_schema": {"name": plain.get("title"), "schema": plain}}


def _parser_of_text(schema: Any) -> Runnable[Any, Any]:
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return PydanticOutputParser(pydantic_object=schema)
    return JsonOutputParser()


def _parser_of_answer(schema: Any) -> Runnable[Any, Any]:
    """Return a parser of whole answers: the object may come with the message, or else its text is JSON."""
    of_text = _parser_of_text(schema)
    if not isinstance(of_text, PydanticOutputParser):
        return of_text

    def parse(message: AIMessage) -> Any:
        parsed = message.additional_kwargs.get("parsed")
        if isinstance(parsed, BaseModel) and not isinstance(parsed, schema):
            parsed = parsed.model_dump(by_alias=True)
        if isinstance(parsed, dict):
            return schema(**parsed)
        if parsed is None and message.tool_calls:
            return None  # it calls a tool before it answers
        return of_text.invoke(message) if parsed is None else parsed

    return RunnableLambda(parse).with_types(output_type=schema)


def _parsed(model: Runnable[Any, Any], parser: Runnable[Any, Any], *, include_raw: bool) -> Runnable[Any, Any]:
    """Chain a parser behind a model, as `BaseChatModel.with_structured_output` does."""
    if not include_raw:
        return model | parser
    tried = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    failed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | tried.with_fallbacks([failed], exception_key="parsing_error")
