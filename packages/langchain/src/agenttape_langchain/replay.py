"""Stand-ins made of a cassette: no provider package, no key, no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, PrivateAttr

from agenttape_core import ConfigurationError, Report
from agenttape_core.integration import Crossing, Session, open_replay
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.requests import chat_body
from agenttape_langchain.settings import Setting, format_meaning, meaning_of, setting_of


class ReplayChatModel(BaseChatModel):
    """A chat model that answers from a cassette, as the recorded model did.

    It matches as strictly as a session does, on the whole request; only what belongs to the model itself (its name
    and sampling parameters) is taken from the recording. Tools and response formats may be spelled in any provider's
    way. Each instance replays the cassette once from the start.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: Which model to be, where the cassette holds several.
        exhausted: What to do when a request is asked more often than it was recorded: `fail`, `last`, `cycle`.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it holds no chat, or not of that model.
    """

    cassette: str | Path
    model: str | None = None
    exhausted: Literal["fail", "last", "cycle"] = "fail"

    _session: Session = PrivateAttr()
    _settings: list[Setting] = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        self._session = open_replay(self.cassette, exhausted=self.exhausted)
        self._settings = self._recorded_settings()
        if self.profile is None and any(setting.meaning[2] for setting in self._settings):
            self.profile = {"structured_output": True}

    def _recorded_settings(self) -> list[Setting]:
        source = self._session.source
        requests = [source.interaction(row.number).request for row in source.entries if row.kind == CHAT.kind]
        settings: dict[str, Setting] = {}
        for request in requests:
            setting = setting_of(request)
            if self.model in {None, setting.model}:
                settings.setdefault(repr(sorted(setting.params.items())), setting)
        if not settings:
            models = sorted({str(setting_of(request).model) for request in requests})
            found = f"found chats of {', '.join(models)}" if models else "it holds no chat at all"
            raise ConfigurationError(f"{self.cassette} holds no chat of the model {self.model!r}: {found}")
        return list(settings.values())

    @property
    def report(self) -> Report:
        """What was served so far."""
        return self._session.report

    @property
    def _llm_type(self) -> str:
        return "agenttape-replay"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return self._settings[0].base

    @property
    def _name(self) -> str:
        """The class of the recorded model."""
        return next(row.name for row in self._session.source.entries if row.kind == CHAT.kind)

    def _cross(self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]) -> Crossing:
        """Begin the crossing of a call, asked in the spelling of the recording that means the same."""
        asked = {**kwargs, "stop": stop} if stop else kwargs
        seen = as_provider_sees(messages, traced=False)
        meaning = meaning_of(asked)
        spelled = [setting.params for setting in self._settings if setting.meaning == meaning]
        bodies = [chat_body(seen, params) for params in spelled or [{**self._settings[0].base, **asked}]]
        known = (body for body in bodies if self._session.times_recorded(CHAT, body))
        return self._session.cross(CHAT, self._name, next(known, bodies[0]), owner=self)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result: ChatResult = self._cross(messages, stop, kwargs).replay()
        return result

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._cross(messages, stop, kwargs).replay_chunks():
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
        for chunk in self._cross(messages, stop, kwargs).replay_chunks():
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as the recorded model did, in whatever spelling they are given."""
        spelled = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in tools]
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=spelled, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Ask for structured output in the way that was recorded: as a response format, or as a tool."""
        json_mode = kwargs.get("method") == "json_mode"
        wanted = ("json_object",) if json_mode else format_meaning(schema)
        if wanted not in {setting.meaning[2] for setting in self._settings}:
            return super().with_structured_output(schema, include_raw=include_raw)
        name, *_ = wanted
        spelled = {"type": name} if json_mode else {"type": "json_schema", "json_schema": _named_schema(schema)}
        return _parsed(self.bind(response_format=spelled), _parser_for(schema), include_raw=include_raw)


def _named_schema(schema: Any) -> dict[str, Any]:
    if isinstance(schema, dict) and "schema" in schema:
        return schema
    plain = convert_to_json_schema(schema)
    return {"name": plain.get("title"), "schema": plain}


def _parser_for(schema: Any) -> Runnable[Any, Any]:
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return PydanticOutputParser(pydantic_object=schema)
    return JsonOutputParser()


def _parsed(model: Runnable[Any, Any], parser: Runnable[Any, Any], *, include_raw: bool) -> Runnable[Any, Any]:
    """Chain a parser behind a model, as `BaseChatModel.with_structured_output` does."""
    if not include_raw:
        return model | parser
    tried = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    failed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | tried.with_fallbacks([failed], exception_key="parsing_error")
