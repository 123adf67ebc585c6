"""The LLM stand-in: its answers come from a cassette, without a provider package, a key or a network."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.generic_utils import (
    completion_response_to_chat_response,
    stream_completion_response_to_chat_response,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    ToolCallBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.program.streaming_utils import process_streaming_content_incremental
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools.types import BaseTool
from llama_index_instrumentation import get_dispatcher
from pydantic import BaseModel, PrivateAttr

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import SessionCall, areplay_call, replay_call
from agenttape_core.integration.answers import field_of
from agenttape_core.integration.stand_ins import (
    OnRepeat,
    Pace,
    RecordedModel,
    StandIn,
    format_meaning,
    formats_agree,
)
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.llms import CHAT, COMPLETION
from agenttape_llamaindex.requests import chat_body, completion_body, params_body
from agenttape_llamaindex.shapes import areplayed, replayed
from agenttape_llamaindex.workflows.halts import halts_end_streams_for

_dispatcher = get_dispatcher(__name__)


class ReplayLLM(StandIn, FunctionCallingLLM):
    """An LLM that answers from a cassette, as the recorded one did.

    It matches as strictly as a session does, on the whole request; only the settings of the LLM itself (its name and
    sampling parameters) are taken from the recording. Tools may be spelled in any provider's way. Each instance replays
    the cassette once from the start. The constructor reads every recorded call once; a call reads only its own answer.

    A cassette does not hold the `metadata` of the recorded LLM. It counts as a chat model if the cassette holds chats
    without tools, or chats only, and as one that calls functions if a chat has tools. Give its other properties here.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The recorded model to replace, if the cassette holds several.
        on_repeat: The answer to a request that is made more often than it was recorded: `fail`, `last`, `cycle`.
        pace: The time that an answer takes: none (`none`), the recorded time (`recorded`), or that times a number; by
            default, the project's setting.
        is_chat_model: Whether prompts are sent as chats.
        is_function_calling_model: Whether structured output and agents use tools.
        context_window: The size of the context, in tokens.
        num_output: The number of tokens to keep free for an answer.
        options: The options of every LLM, such as `system_prompt`, `output_parser` and `pydantic_program_mode`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no chat and no completion, or none of that model.
    """

    cassette: str | Path
    model: str | None = None
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None
    is_chat_model: bool | None = None
    is_function_calling_model: bool | None = None
    context_window: int | None = None
    num_output: int | None = None

    _recorded: RecordedModel = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        self._recorded = RecordedModel(
            self.cassette, (CHAT, COMPLETION), self.model, on_repeat=self.on_repeat, pace=self.pace
        )
        halts_end_streams_for(self._recorded)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """The properties of the LLM that are known from the cassette or from its options."""
        chats, calls = self.is_chat_model, self.is_function_calling_model
        sizes = {"context_window": self.context_window, "num_output": self.num_output}
        return LLMMetadata(
            model_name=self._recorded.model or "unknown",
            is_chat_model=self._had_chats if chats is None else chats,
            is_function_calling_model=self._had_tools if calls is None else calls,
            **{name: size for name, size in sizes.items() if size is not None},
        )

    @property
    def _had_chats(self) -> bool:
        """True if the recorded LLM received prompts as chats: it had chats without tools, or only chats."""
        chats = self._recorded.settings(CHAT)
        is_only = bool(chats) and not self._recorded.settings(COMPLETION)
        return is_only or any(not setting.meaning.tools for setting in chats)

    @property
    def _had_tools(self) -> bool:
        """True if the recorded LLM was given tools."""
        return any(setting.meaning.tools for setting in self._recorded.settings(CHAT))

    # -- chats --------------------------------------------------------------------------------------------------

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Return the recorded answer."""
        if self._takes_prompts:
            return completion_response_to_chat_response(self.complete(self._prompt(messages), formatted=True, **kwargs))
        return CHATS.converted(replay_call(self._cross_chat(messages, kwargs)))  # type: ignore[no-any-return]

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Return the recorded answer."""
        if self._takes_prompts:
            answer = await self.acomplete(self._prompt(messages), formatted=True, **kwargs)
            return completion_response_to_chat_response(answer)
        return CHATS.converted(await areplay_call(self._cross_chat(messages, kwargs)))  # type: ignore[no-any-return]

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Yield the recorded answer."""
        if self._takes_prompts:
            answers = self.stream_complete(self._prompt(messages), formatted=True, **kwargs)
            return stream_completion_response_to_chat_response(answers)
        return replayed(self._cross_chat(messages, kwargs), CHATS)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Yield the recorded answer."""
        if self._takes_prompts:
            return _as_async(self.stream_chat(messages, **kwargs))
        return await areplayed(self._cross_chat(messages, kwargs), CHATS)

    @property
    def _takes_prompts(self) -> bool:
        """True if the recorded LLM made prompts of chats."""
        return not self._recorded.settings(CHAT)

    def _prompt(self, messages: Sequence[ChatMessage]) -> str:
        assert self.messages_to_prompt is not None  # a validator puts the framework's own there
        return self.messages_to_prompt(messages)

    def _cross_chat(self, messages: Sequence[ChatMessage], given: dict[str, Any]) -> SessionCall:
        return self._recorded.cross(CHAT, lambda params: chat_body(messages, params), params_body(given))

    # -- completions --------------------------------------------------------------------------------------------

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the recorded answer."""
        return TEXTS.converted(replay_call(self._cross_completion(prompt, formatted, kwargs)))  # type: ignore[no-any-return]

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the recorded answer."""
        answer = await areplay_call(self._cross_completion(prompt, formatted, kwargs))
        return TEXTS.converted(answer)  # type: ignore[no-any-return]

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Yield the recorded answer."""
        return replayed(self._cross_completion(prompt, formatted, kwargs), TEXTS)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Yield the recorded answer."""
        return await areplayed(self._cross_completion(prompt, formatted, kwargs), TEXTS)

    def _cross_completion(self, prompt: str, formatted: bool, given: dict[str, Any]) -> SessionCall:
        given = params_body({**given, "formatted": True} if formatted else given)
        return self._recorded.cross(COMPLETION, lambda params: completion_body(str(prompt), params), given)

    # -- objects ------------------------------------------------------------------------------------------------

    @_dispatcher.span
    def structured_predict(
        self,
        output_cls: type[BaseModel],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Any:
        """Return the recorded object, requested by a response format, by a tool or in words, as in the recording."""
        wanted = self._response_format(output_cls)
        if wanted is None:
            return super().structured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
        messages = self._extend_messages(prompt.format_messages(**prompt_args))
        response = self.chat(messages, **{**(llm_kwargs or {}), "response_format": wanted})
        return output_cls.model_validate_json(str(response.message.content))

    @_dispatcher.span
    async def astructured_predict(
        self,
        output_cls: type[BaseModel],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Any:
        """Return the recorded object, as `structured_predict` does."""
        wanted = self._response_format(output_cls)
        if wanted is None:
            return await super().astructured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
        messages = self._extend_messages(prompt.format_messages(**prompt_args))
        response = await self.achat(messages, **{**(llm_kwargs or {}), "response_format": wanted})
        return output_cls.model_validate_json(str(response.message.content))

    def _structured_stream_call(
        self,
        output_cls: type[BaseModel],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Generator[Any, None, None]:
        wanted = self._response_format(output_cls)
        if wanted is None:
            yield from super()._structured_stream_call(output_cls, prompt, llm_kwargs, **prompt_args)
            return
        messages = self._extend_messages(prompt.format_messages(**prompt_args))
        sofar = None
        for response in self.stream_chat(messages, **{**(llm_kwargs or {}), "response_format": wanted}):
            sofar = process_streaming_content_incremental(response, output_cls, sofar)
            yield sofar

    async def _structured_astream_call(
        self,
        output_cls: type[BaseModel],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> AsyncGenerator[Any, None]:
        wanted = self._response_format(output_cls)
        if wanted is None:
            return await super()._structured_astream_call(output_cls, prompt, llm_kwargs, **prompt_args)
        messages = self._extend_messages(prompt.format_messages(**prompt_args))

        async def objects() -> AsyncGenerator[Any, None]:
            sofar = None
            async for response in await self.astream_chat(
                messages, **{**(llm_kwargs or {}), "response_format": wanted}
            ):
                sofar = process_streaming_content_incremental(response, output_cls, sofar)
                yield sofar

        return objects()

    def _response_format(self, cls: type[BaseModel]) -> dict[str, Any] | None:
        """Return the response format for the objects of a class, if the recorded LLM was called with one."""
        schema = cls.model_json_schema()
        wanted = {"type": "json_schema", "json_schema": {"name": cls.__name__, "schema": schema}}
        meaning = format_meaning(wanted)
        settings = self._recorded.settings(CHAT)
        return wanted if any(formats_agree(meaning, each.meaning.response_format) for each in settings) else None

    # -- tools --------------------------------------------------------------------------------------------------

    def _prepare_chat_with_tools(  # noqa: PLR0917 - as the framework has it
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        messages = list(chat_history or [])
        if user_msg is not None:
            messages.append(ChatMessage(role="user", content=user_msg) if isinstance(user_msg, str) else user_msg)
        specs = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        is_open = kwargs.get("tool_choice") is None  # programs of LlamaIndex give a `None` where nobody chose
        if is_open and tool_required and specs and self._recorded.was_forced(CHAT, specs) is not False:
            kwargs["tool_choice"] = "required"
        return {"messages": messages, **({"tools": specs} if specs else {}), **kwargs}

    def _validate_chat_with_tools_response(
        self,
        response: ChatResponse,
        tools: Sequence[BaseTool],
        allow_parallel_tool_calls: bool = False,
        **kwargs: Any,
    ) -> ChatResponse:
        """Keep only the first tool call, if parallel calls weren't requested and the recorded class did so."""
        blocks = response.message.blocks
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        if len(calls) > 1 and not allow_parallel_tool_calls and self._asked_for_one:
            response.message.blocks = [*(block for block in blocks if block not in calls), calls[0]]
        return response

    @property
    def _asked_for_one(self) -> bool:
        """True if the recorded LLM has a setting for parallel tool calls: without one, it takes a single call."""
        return any("parallel_tool_calls" in setting.params for setting in self._recorded.settings(CHAT))

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Return the tool calls of an answer.

        Raises:
            ConfigurationError: If only the LLM that was recorded can read them.
            ValueError: If there are none, and one is required.
        """
        calls = [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=_kwargs(block))
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ] or [*filter(None, map(_selected, response.message.additional_kwargs.get("tool_calls") or ()))]
        if not calls and error_on_no_tool_call:
            raise ValueError(f"expected at least one tool call, found {len(calls)}")
        return calls


def _selected(call: Any) -> ToolSelection | None:
    """Return a tool call that an LLM kept in `additional_kwargs`, as an object or a dict, in the form of its provider.

    Return `None` for one that is streamed, and has no name yet. Raises `ConfigurationError` if it has none of the usual
    names: an agent would end without the call.
    """
    function = field_of(call, "function") or call
    name = field_of(function, "name") or field_of(function, "tool_name")
    if name is None and not {"function", "name"}.isdisjoint(function if isinstance(function, dict) else dir(function)):
        return None
    if not isinstance(name, str):
        raise ConfigurationError(
            f"the recorded answer has a tool call whose form only its own LLM knows: {call!r}\n"
            "  use that LLM in a session: use_cassette(...)"
        )
    given = (field_of(function, key) for key in ("arguments", "args", "input", "tool_kwargs", "parameters"))
    arguments: Any = next((each for each in given if each is not None), {})
    tool_id = field_of(call, "id") or field_of(call, "toolUseId") or name  # Ollama's calls have no other id
    return ToolSelection(tool_id=tool_id, tool_name=name, tool_kwargs=_read(arguments))


def _kwargs(block: ToolCallBlock) -> dict[str, Any]:
    return _read(block.tool_kwargs)


def _read(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a tool call, which may be an unfinished text of JSON."""
    if not isinstance(arguments, str):
        return arguments if isinstance(arguments, dict) else {}
    try:
        read = parse_partial_json(arguments)
    except (ValueError, json.JSONDecodeError):
        return {}
    return read if isinstance(read, dict) else {}


async def _as_async(answers: ChatResponseGen) -> ChatResponseAsyncGen:
    for answer in answers:
        yield answer
